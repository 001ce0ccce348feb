"""The partitions of a coordinator's topic: which one stores a key, and which broker coordinates it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import java_hash, partition_for
from kmini.broker.groups.group_store import GroupStore
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    KafkaStorageError,
    NotCoordinator,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition

StartBroker = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.fixture
def store(broker: BrokerServer) -> GroupStore:
    return broker.groups.store


@pytest.mark.parametrize(
    ("group_id", "hashed", "partition"),
    [
        ("my-group", -1906497762, 12),
        ("console-consumer-1", 35782224, 24),
        ("tx-1", 3572520, 20),
        ("polygenelubricants", -2147483648, 0),
        ("", 0, 0),
        ("\N{GRINNING FACE}", 1772899, 49),  # two UTF-16 units, as in Java
    ],
)
def test_a_group_belongs_to_the_partition_that_kafka_gives_it(group_id: str, hashed: int, partition: int) -> None:
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_a_name_that_no_record_has_room_for_is_not_hashed() -> None:
    assert partition_for("x" * 0x7FFF, 50) == abs(java_hash("x" * 0x7FFF)) % 50 != 0
    assert partition_for("x" * 50_000_000, 50) == 0


async def test_the_topic_is_created_when_a_coordinator_is_looked_up(start_broker: StartBroker) -> None:
    broker = await start_broker(offsets_topic_num_partitions=5, offsets_topic_segment_bytes=1 << 20)
    assert broker.groups.store.coordinator_of("g") == broker.node_id
    topic = broker.controller.topics[CONSUMER_OFFSETS]
    assert len(topic.partitions) == 5
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(1 << 20),
    }
    config = broker.replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, 0)].log.config
    assert config.is_compacted
    assert not config.is_deletable
    broker.groups.store.coordinator_of("g")


async def test_it_has_eight_partitions_and_as_many_replicas_as_there_are_brokers(store: GroupStore) -> None:
    topic = store._replica_manager.controller.topics[CONSUMER_OFFSETS]
    assert (len(topic.partitions), topic.replication_factor) == (8, 1)


async def test_without_the_topic_no_group_is_coordinated(start_broker: StartBroker) -> None:
    broker = await start_broker()
    with pytest.raises(NotCoordinator):
        broker.groups.store.check("g")


async def test_a_partition_with_another_leader_has_another_coordinator(store: GroupStore) -> None:
    del store._replica_manager.partitions[TopicPartition(CONSUMER_OFFSETS, store.partition_of("g"))]
    with pytest.raises(NotCoordinator):
        store.check("g")


async def test_without_a_topic_that_can_be_created_the_coordinator_is_not_available(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await start_broker()

    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaStorageError("the disk is full")

    monkeypatch.setattr(topics, "create_missing", refuse)
    with pytest.raises(CoordinatorNotAvailable, match="the disk is full"):
        broker.groups.store.coordinator_of("g")
