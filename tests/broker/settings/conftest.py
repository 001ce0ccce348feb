"""Brokers and clusters on a clock that can be moved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.settings.broker_config import BrokerConfig
from support.broker.clusters import Clusters
from support.broker.settings_at_work import Bench, Start, StartCluster, Three


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """A maker of brokers on a clock that can be moved, each instead of the one before; underscores stand for dots."""
    started: list[BrokerServer] = []

    async def start(**settings: object) -> BrokerServer:
        if started:
            await started.pop().stop()
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
        broker = await BrokerServer.start(config, str(tmp_path), clock=MovableClock())
        started.append(broker)
        return broker

    yield start
    for broker in started:
        await broker.stop()


@pytest.fixture(params=["as the topic's", "as the broker's"])
async def bench(request: pytest.FixtureRequest, start: Start) -> Bench:
    broker = await start()
    topics.create(broker, "t")
    return Bench(broker, is_default=request.param == "as the broker's")


@pytest.fixture
async def start_cluster(clusters: Clusters) -> StartCluster:
    """A maker of clusters, each instead of the one before; underscores stand for dots."""

    async def start_cluster(partitions: int = 1, **settings: object) -> Three:
        await clusters.stop_all()
        cluster = await clusters.start(3, clock=MovableClock(), **settings)
        topics.create(cluster.brokers[1], "t", partitions=partitions, replication_factor=3)
        return Three(cluster)

    return start_cluster
