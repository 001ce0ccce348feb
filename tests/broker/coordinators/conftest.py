"""A broker with one partition of each coordinator's topic, and clusters of coordinators."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.replication.partition import Partition
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from support.broker.cluster_coordinators import COMMIT_TIMEOUT_MS, Coordinators
from support.broker.clusters import Clusters

StartBroker = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        topics.create_missing(broker, name)
    return broker


@pytest.fixture
def partition(broker: BrokerServer) -> Partition:
    return broker.replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, 0)]


@pytest.fixture
async def start(clusters: Clusters) -> AsyncIterator[Callable[..., Any]]:
    """A maker of one cluster; settings are written with underscores for dots."""
    started: list[Coordinators] = []

    async def start(brokers: int = 2, **settings: object) -> Coordinators:
        properties = {
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "offsets.commit.timeout.ms": str(COMMIT_TIMEOUT_MS),
            "replica.fetch.wait.max.ms": "50",
            "group.initial.rebalance.delay.ms": "0",
            "auto.leader.rebalance.enable": "false",
        }
        clock = MovableClock()
        cluster = await clusters.start(brokers, properties, clock=clock, **settings)
        started.append(Coordinators(cluster, clock))
        await started[-1].begin()
        return started[-1]

    yield start
    for one in started:
        one.release()
        await clusters.stop(one.cluster)
        await one.end()
