"""Which partitions a broker leads and follows, and how that changes."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.appending import until_replicated
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import elections
from kmini.broker.controller.topology import Topic
from kmini.broker.replication.partition import Partition
from kmini.protocol.errors import (
    InconsistentTopicId,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kmini.protocol.topics import TopicPartition
from support.broker.lone_broker import OTHER, T0, append, shared_partition, start_alone


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await start_alone(str(tmp_path))
    yield broker
    await broker.stop()


class Listener:
    """Notes every change of leadership."""

    def __init__(self) -> None:
        self.events: list[tuple[str, TopicPartition]] = []

    def became_leader(self, partition: Partition) -> None:
        self.events.append(("leads", partition.topic_partition))

    def resigned(self, topic_partition: TopicPartition) -> None:
        self.events.append(("resigned", topic_partition))


def elect(broker: BrokerServer, leader: int) -> None:
    topic = broker.controller.topics["t"]
    state = topic.partitions[0]
    changed = state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)
    broker.controller.change_partitions({(topic.id, 0): changed})


async def test_leadership_moves_with_the_controller_and_the_listeners_learn_of_it(broker: BrokerServer) -> None:
    manager, listener = broker.replica_manager, Listener()
    manager.add_listener(listener)
    led = shared_partition(broker)
    assert manager.leader_of(T0) is led
    assert led.is_served
    elect(broker, OTHER)
    assert T0 in manager.fetcher_manager.followed
    assert T0 not in manager.partitions
    elect(broker, 1)
    assert T0 not in manager.fetcher_manager.followed
    assert not led.is_served, "a new leader epoch is another partition object"
    assert listener.events == [("leads", T0), ("resigned", T0), ("leads", T0)]


async def test_what_is_no_longer_led_or_followed_says_so(broker: BrokerServer) -> None:
    manager = broker.replica_manager
    led = shared_partition(broker)
    elect(broker, OTHER)
    followed = manager.fetcher_manager.followed[T0]
    assert (led.is_served, followed.is_served) == (False, True)
    elect(broker, 1)
    assert not followed.is_served
    again = manager.leader_of(T0)
    manager.drop(T0)
    assert not again.is_served


@pytest.mark.parametrize("end", ["resign", "lead_nothing"])
async def test_a_broker_that_leads_nothing_serves_no_partition_that_was_looked_up(
    broker: BrokerServer, end: str
) -> None:
    led = shared_partition(broker)
    getattr(broker.replica_manager, end)()
    assert not led.is_served
    assert not broker.replica_manager.partitions


async def test_a_change_of_the_isr_keeps_the_leader_and_its_epoch(broker: BrokerServer) -> None:
    led, listener = shared_partition(broker), Listener()
    broker.replica_manager.add_listener(listener)
    broker.controller.change_partitions({(led.log.topic_id, 0): led.state._replace(isr=(1,))})
    assert broker.replica_manager.leader_of(T0) is led
    assert (led.state.isr, listener.events) == ((1,), [])


async def test_a_partition_that_is_led_elsewhere_or_does_not_exist_is_refused(broker: BrokerServer) -> None:
    led, manager = shared_partition(broker), broker.replica_manager
    elect(broker, OTHER)
    for check in (lambda: manager.leader_of(T0), lambda: manager.check_is_led_here(led)):
        with pytest.raises(NotLeaderOrFollower):
            check()
    manager.check_partition_exists(T0)
    for missing in (TopicPartition("t", 1), TopicPartition("t", -1), TopicPartition("u", 0)):
        with pytest.raises(UnknownTopicOrPartition):
            manager.leader_of(missing)


async def test_a_topic_is_known_by_its_id(broker: BrokerServer) -> None:
    led = shared_partition(broker)
    assert broker.replica_manager.topic_name(led.log.topic_id) == "t"
    with pytest.raises(UnknownTopicId):
        broker.replica_manager.topic_name(bytes(range(16)))


async def test_a_replica_that_moves_to_another_broker_is_dropped_here(broker: BrokerServer) -> None:
    led, manager = shared_partition(broker), broker.replica_manager
    moved = led.state._replace(replicas=(OTHER,), isr=(OTHER,), leader=OTHER, leader_epoch=led.leader_epoch + 1)
    broker.controller.change_partitions({(led.log.topic_id, 0): moved})
    assert manager.logs.get(T0) is None
    assert T0 not in manager.partitions
    assert T0 not in manager.fetcher_manager.followed


async def test_a_folder_of_another_topic_of_that_name_is_not_served(broker: BrokerServer) -> None:
    led = shared_partition(broker)
    with pytest.raises(InconsistentTopicId):
        broker.replica_manager.host(T0, bytes(range(16)), led.log.config, led.state)


async def test_a_broker_that_is_cut_off_learns_of_no_change_until_it_catches_up(broker: BrokerServer) -> None:
    led = shared_partition(broker)
    broker.peers.is_cut_off = True
    elect(broker, OTHER)
    assert broker.replica_manager.leader_of(T0) is led
    broker.peers.is_cut_off = False
    broker.replica_manager.catch_up()
    assert T0 not in broker.replica_manager.partitions


@pytest.mark.parametrize("was_live", [True, False])
async def test_a_leader_that_was_dead_serves_no_consumer_before_the_new_leader_tells_its_log_start(
    broker: BrokerServer, was_live: bool
) -> None:
    """Cut off, it may have missed DeleteRecords (KIP-107), and would show the deleted records again."""
    append(broker, shared_partition(broker))
    broker.peers.is_cut_off = True
    elect(broker, OTHER)
    if not was_live:
        elections.leave(broker.controller, broker.node_id)
    broker.peers.is_cut_off = False
    if was_live:
        broker.replica_manager.catch_up()
    else:
        broker.come_back()
    assert broker.replica_manager.fetcher_manager.followed[T0].knows_log_start is was_live


async def test_a_follower_that_was_dead_serves_no_consumer_before_its_leader_tells_its_log_start(
    broker: BrokerServer,
) -> None:
    append(broker, shared_partition(broker))
    elect(broker, OTHER)
    followed = broker.replica_manager.fetcher_manager.followed
    assert followed[T0].knows_log_start, "it has led until now"
    broker.peers.is_cut_off = True
    elections.leave(broker.controller, broker.node_id)
    broker.peers.is_cut_off = False
    broker.come_back()
    assert not followed[T0].knows_log_start


async def test_a_request_that_waits_for_replicas_ends_when_the_broker_resigns(broker: BrokerServer) -> None:
    led = shared_partition(broker)
    append(broker, led)
    waiting = asyncio.ensure_future(until_replicated(broker.replica_manager, led, 0, 60_000))
    await asyncio.sleep(0)
    broker.replica_manager.resign()
    with pytest.raises(NotLeaderOrFollower):
        await asyncio.wait_for(waiting, 30)
    assert broker.replica_manager.partitions == {}


async def test_settings_of_a_topic_are_put_in_force_in_its_logs(broker: BrokerServer) -> None:
    led = shared_partition(broker)
    topic: Topic = broker.controller.topics["t"]._replace(configs={"retention.ms": "7"})
    broker.replica_manager.update_topic_config(topic)
    assert led.log.config.retention_ms == 7


async def test_a_rolled_segment_is_deleted_by_retention(broker: BrokerServer) -> None:
    led = shared_partition(broker, retention_ms="1000")
    append(broker, led, 2)
    led.follower_fetched(OTHER, 2, 0)
    broker.replica_manager.roll(led)
    assert not broker.replica_manager.retain(led), "its records are young"
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(1_001)
    assert broker.replica_manager.retain(led)
    assert (led.log.log_start_offset, led.log.log_end_offset) == (2, 2)


@pytest.mark.sockets
async def test_a_partition_takes_less_than_4_kib_of_memory_after_a_start(tmp_path: Path) -> None:
    """With one record, and without what the system keeps for its file: 2.9 KiB on Python 3.11."""
    counts, taken = (1, 201), []
    for count in counts:
        broker = await start_alone(str(tmp_path / str(count)))
        topic = broker.controller.new_topic("many", [(1,)] * count, {})
        broker.controller.create_topics([topic])
        for number in range(count):
            broker.replica_manager.partition_changed(topic, number)
            append(broker, broker.replica_manager.partitions[TopicPartition("many", number)])
        await broker.stop()
    tracemalloc.start()
    try:
        for count in counts:
            before, _ = tracemalloc.get_traced_memory()
            broker = await start_alone(str(tmp_path / str(count)))
            gc.collect()
            taken.append(tracemalloc.get_traced_memory()[0] - before)
            await broker.stop()
    finally:
        tracemalloc.stop()
    assert (taken[1] - taken[0]) / (counts[1] - counts[0]) < 4096
