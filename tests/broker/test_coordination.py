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
