"""Groups and transactions go on when the broker that coordinates them dies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker import topics
from kmini.broker.cluster import Cluster
from kmini.broker.config import BrokerConfig
from kmini.client import Client
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    configs = [BrokerConfig.parse({**settings, "node.id": str(node_id)}) for node_id in (1, 2, 3)]
    cluster = Cluster(configs, str(tmp_path), is_temporary=True)
    await cluster.start()
    yield cluster
    await cluster.stop()


def coordinator(cluster: Cluster, group: str) -> int:
    number = next(iter(cluster.brokers.values())).groups.store.partition_of(group)
    return cluster.state(TopicPartition(CONSUMER_OFFSETS, number)).leader


async def test_committed_offsets_are_there_when_another_broker_coordinates(cluster: Cluster) -> None:
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    partition = TopicPartition("t", 0)
    async with Client(",".join(broker.address for broker in cluster.brokers.values())) as ours:
        for offset in range(3):
            await ours.commit_offsets("readers", {partition: offset})
            first = coordinator(cluster, "readers")
            await cluster.kill(first)
            assert coordinator(cluster, "readers") != first
            assert (await ours.committed_offsets("readers"))[partition].offset == offset
            await cluster.restart(first)
    shape = cluster.controller.topics[CONSUMER_OFFSETS]
    assert shape.replication_factor == 3
