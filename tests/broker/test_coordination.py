"""A broker coordinates what is stored in the partitions that it leads, until it resigns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import GroupIdNotFound
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from support.broker.stored_groups import append_offsets, loaded_offsets

OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)


@pytest.fixture
async def broker(start_broker: Callable[..., Awaitable[BrokerServer]]) -> BrokerServer:
    """A broker with ten committed offsets in its partition of `__consumer_offsets`, which its coordinator lacks."""
    broker = await start_broker(offsets_topic_num_partitions=1, transaction_state_log_num_partitions=1)
    for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
        topics.create_missing(broker, name)
    await broker.coordination.loading.idle()
    append_offsets(broker.replica_manager.partitions[OFFSETS], range(10))
    return broker


async def test_a_broker_that_becomes_leader_loads_the_partition(broker: BrokerServer) -> None:
    broker.coordination.became_leader(broker.replica_manager.partitions[OFFSETS])
    await broker.coordination.loading.idle()
    assert len(loaded_offsets(broker)) == 10


async def test_a_broker_that_leads_no_more_unloads_the_partition(broker: BrokerServer) -> None:
    broker.coordination.became_leader(broker.replica_manager.partitions[OFFSETS])
    broker.coordination.resigned(OFFSETS)
    await broker.coordination.loading.idle()
    with pytest.raises(GroupIdNotFound):
        broker.groups.find("g")


async def test_a_broker_that_resigned_loads_nothing_until_it_starts_again(broker: BrokerServer) -> None:
    broker.coordination.became_leader(broker.replica_manager.partitions[OFFSETS])
    broker.coordination.resign()
    broker.coordination.became_leader(broker.replica_manager.partitions[OFFSETS])
    await broker.coordination.loading.idle()
    with pytest.raises(GroupIdNotFound):
        broker.groups.find("g")
    broker.coordination.start()
    await broker.coordination.loading.idle()
    assert len(loaded_offsets(broker)) == 10


async def test_a_partition_of_another_topic_loads_nothing(broker: BrokerServer) -> None:
    topics.create(broker, "t")
    broker.coordination.became_leader(broker.replica_manager.partitions[TopicPartition("t", 0)])
    await broker.coordination.loading.idle()
    with pytest.raises(GroupIdNotFound):
        broker.groups.find("g")


async def test_a_broker_that_stores_no_group_and_no_transaction_makes_no_coordinator(
    start_broker: Callable[..., Awaitable[BrokerServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def note(coordinator: object, *_: object, **__: object) -> None:
        made.append(type(coordinator).__name__)

    monkeypatch.setattr("kmini.broker.groups.group_coordinator.GroupCoordinator.__init__", note)
    monkeypatch.setattr("kmini.broker.transactions.transaction_coordinator.TransactionCoordinator.__init__", note)
    broker = await start_broker()
    topics.create(broker, "t")
    topics.delete(broker, "t")
    broker.resign()
    await broker.stop()
    assert made == []


async def test_the_coordinators_and_what_they_share_are_those_of_one_broker(broker: BrokerServer) -> None:
    services, coordination = broker.services, broker.coordination
    assert services.groups is broker.groups is coordination.groups
    assert services.transactions is broker.transactions is coordination.transactions
    assert services.marker_writer is broker.marker_writer is coordination.marker_writer
    assert services.transactional_offsets is coordination.transactional_offsets
