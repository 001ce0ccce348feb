"""Expiry of offsets and groups, and what the deletion of topics leaves of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.groups import offset_expiry
from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import GroupState
from kmini.broker.groups.committed_offsets import CommittedOffset
from kmini.broker.groups.group import Committer
from kmini.broker.groups.offset_expiry import expired, next_expiry_ms
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.errors import NotCoordinator
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.broker.stored_groups import stored_groups

StartBroker = Callable[..., Awaitable[BrokerServer]]

MINUTE_MS = 60_000
RETENTION_MS = 10
NOW_MS = 1000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    """One that keeps offsets for 10 minutes, looks every minute, and whose clock can be moved."""
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.retention.minutes": "10",
        "offsets.retention.check.interval.ms": str(MINUTE_MS),
    }
    broker = await BrokerServer.start(BrokerConfig.parse(properties), str(tmp_path), clock=MovableClock())
    topics.create_missing(broker, CONSUMER_OFFSETS)
    yield broker
    await broker.stop()


async def commit(
    broker: BrokerServer, group_id: str, *places: tuple[str, int], expires_in_ms: int | None = None
) -> ClassicGroup:
    changes = broker.groups.store.changes(group_id)
    group = broker.groups.group_for_commit(Committer("", None, -1, 9), changes)
    now_ms = broker.clock.now_ms()
    for topic, partition in places:
        expires_ms = None if expires_in_ms is None else now_ms + expires_in_ms
        changes.set(TopicPartition(topic, partition), CommittedOffset(1, -1, "", now_ms, expires_ms))
    await broker.groups.commit(group, changes)
    return group


async def advance(broker: BrokerServer, minutes: float) -> None:
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(int(minutes * MINUTE_MS))


def on_disk(broker: BrokerServer) -> dict[str, set[tuple[str, int]]]:
    return {name: {*group.offsets} for name, group in stored_groups(broker.groups.store).items()}


async def test_offsets_of_a_simple_consumer_expire_one_by_one_and_then_the_group(broker: BrokerServer) -> None:
    group = await commit(broker, "g", ("a", 0))
    await advance(broker, 5)
    await commit(broker, "g", ("a", 1))
    await advance(broker, 4.9)
    assert {*group.offsets} == {("a", 0), ("a", 1)}
    await advance(broker, 1.2)
    assert {*group.offsets} == {("a", 1)}
    assert on_disk(broker) == {"g": {("a", 1)}}
    await advance(broker, 5)
    assert broker.groups.groups == {}
    assert on_disk(broker) == {}


async def test_an_offset_may_bring_its_own_time_of_expiry(broker: BrokerServer) -> None:
    await commit(broker, "short", ("a", 0), expires_in_ms=MINUTE_MS)
    await commit(broker, "long", ("a", 0), expires_in_ms=60 * MINUTE_MS)
    await advance(broker, 2.1)
    assert set(broker.groups.groups) == {"long"}
    await advance(broker, 30)
    assert set(on_disk(broker)) == {"long"}


async def test_a_group_for_which_nothing_is_written_leaves_no_trace(broker: BrokerServer) -> None:
    changes = broker.groups.store.changes("g")
    await broker.groups.commit(broker.groups.group_for_commit(Committer("", None, -1, 9), changes), changes)
    assert broker.groups.groups == {}


async def test_an_offset_that_cannot_be_removed_is_tried_again(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await commit(broker, "g", ("a", 0))

    def refuse(*_: Any) -> None:
        raise NotCoordinator("for now")

    with monkeypatch.context() as patched:
        patched.setattr(broker.groups.store.topic, "partition_of", refuse)
        await advance(broker, 12)
    assert {*broker.groups.groups["g"].offsets} == {*group.offsets} == {("a", 0)}
    await advance(broker, 1)
    assert broker.groups.groups == {}


# --- expiry, by the kind of group


class Subscribed(ClassicGroup):
    """A group whose members subscribe to what a test says."""

    topics: set[str] | None

    def subscribed_topics(self) -> set[str] | None:
        return self.topics


def a_group(
    state: GroupState,
    protocol_type: str | None,
    *,
    since_ms: int | None = NOW_MS - RETENTION_MS,
    subscribed: set[str] | None = None,
) -> ClassicGroup:
    """With an offset that is old, one that is not, and one each that says itself whether it is over."""
    group = Subscribed("g", since_ms)
    group.state, group.protocol_type, group.topics = state, protocol_type, subscribed
    times = {
        "old": CommittedOffset(1, -1, "", NOW_MS - RETENTION_MS),
        "new": CommittedOffset(1, -1, "", NOW_MS - RETENTION_MS + 1),
        "over": CommittedOffset(1, -1, "", NOW_MS, NOW_MS),
        "lasts": CommittedOffset(1, -1, "", 0, NOW_MS + 1),
    }
    for topic, committed in times.items():
        group.offsets.set(TopicPartition(topic, 0), committed)
    return group


@pytest.mark.parametrize(
    ("group", "gone"),
    [
        (a_group(GroupState.EMPTY, None), {"old", "over"}),
        (a_group(GroupState.EMPTY, "consumer", subscribed=set()), {"old", "new", "over"}),
        (a_group(GroupState.EMPTY, "consumer", subscribed=set(), since_ms=NOW_MS - RETENTION_MS + 1), {"over"}),
        (a_group(GroupState.EMPTY, "consumer", subscribed=set(), since_ms=None), {"old", "over"}),
        (a_group(GroupState.EMPTY, "connect"), {"old", "new", "over"}),
        (a_group(GroupState.STABLE, "consumer", subscribed=set()), {"old", "over"}),
        (a_group(GroupState.STABLE, "consumer", subscribed={"old"}), {"over"}),
        (a_group(GroupState.STABLE, "consumer", subscribed=None), set()),
        (a_group(GroupState.STABLE, "connect"), set()),
        (a_group(GroupState.PREPARING_REBALANCE, "consumer", subscribed=set()), set()),
        (a_group(GroupState.COMPLETING_REBALANCE, "consumer", subscribed=set()), set()),
    ],
)
def test_what_expires(group: Any, gone: set[str]) -> None:
    assert {topic for (topic, _), _ in expired(group, NOW_MS, RETENTION_MS)} == gone


def test_nothing_expires_that_a_transaction_is_about_to_replace() -> None:
    group = a_group(GroupState.EMPTY, None)
    group.offsets.add_pending(1, TopicPartition("old", 0), CommittedOffset(2, -1, "", NOW_MS))
    assert {topic for (topic, _), _ in expired(group, NOW_MS, RETENTION_MS)} == {"over"}


@pytest.mark.parametrize(
    ("group", "due_ms"),
    [
        (a_group(GroupState.EMPTY, None), NOW_MS),
        (a_group(GroupState.EMPTY, "consumer", subscribed=set(), since_ms=NOW_MS - 3), NOW_MS),
        (a_group(GroupState.STABLE, "consumer", subscribed={"old"}), NOW_MS),
        (ClassicGroup("empty", NOW_MS), 0),
    ],
)
def test_nothing_expires_before_the_time_that_is_told(group: Any, due_ms: int) -> None:
    coordinator: Any = SimpleNamespace(groups={"g": group})
    assert next_expiry_ms(coordinator, RETENTION_MS) == due_ms
    assert not list(expired(group, due_ms - 1, RETENTION_MS))


def test_without_groups_nothing_ever_expires() -> None:
    assert next_expiry_ms(SimpleNamespace(groups={}), RETENTION_MS) is None  # type: ignore[arg-type]


async def test_a_month_without_a_commit_is_looked_at_once(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The periodic task skips what can have no effect, and begins again with the next commit."""
    looks = 0
    expire = offset_expiry.expire

    async def counted(*arguments: Any) -> None:
        nonlocal looks
        looks += 1
        await expire(*arguments)

    monkeypatch.setattr("kmini.broker.groups.group_coordinator.expire", counted)
    await advance(broker, 30 * 24 * 60)
    assert looks == 1
    await commit(broker, "g", ("a", 0))
    await advance(broker, 9.9)
    assert looks == 2
    await advance(broker, 30 * 24 * 60)
    assert broker.groups.groups == {}


# --- deletion of topics


async def test_the_offsets_of_a_deleted_topic_are_forgotten_and_no_others(broker: BrokerServer) -> None:
    for name in ("a", "b"):
        topics.create(broker, name, partitions=2)
    for number in range(20):
        await commit(broker, f"g{number}", ("a", 0), ("a", 1), ("b", 0))
    topics.delete(broker, "a")
    await broker.groups.writes_done()  # so many groups may take more than one turn of the loop
    assert all({*group.offsets} == {("b", 0)} for group in broker.groups.groups.values())
    assert on_disk(broker) == {f"g{number}": {("b", 0)} for number in range(20)}


async def test_the_offsets_of_a_new_topic_of_that_name_stay(broker: BrokerServer) -> None:
    old = topics.create(broker, "a").id
    group = await commit(broker, "g", ("a", 0))
    changes = broker.groups.store.changes("g")
    changes.set(TopicPartition("a", 1), CommittedOffset(1, -1, "", broker.clock.now_ms(), topic_id=bytes(range(16))))
    changes.set(TopicPartition("a", 2), CommittedOffset(1, -1, "", broker.clock.now_ms(), topic_id=old))
    await broker.groups.commit(group, changes)
    topics.delete(broker, "a")
    assert on_disk(broker) == {"g": {("a", 1)}}


async def test_an_offset_committed_while_others_expire_stays(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await commit(broker, "g", *(("a", partition) for partition in range(3)))
    gone = dict(expired(group, broker.clock.now_ms() + 20 * MINUTE_MS, RETENTION_MS))
    assert len(gone) == 3
    await commit(broker, "g", ("a", 1))
    monkeypatch.setattr(offset_expiry, "expired", lambda *_: iter([*gone.items()][:2]))
    await advance(broker, 1.1)
    assert on_disk(broker) == {"g": {("a", 1), ("a", 2)}}


async def test_a_topic_deleted_while_the_offsets_topic_is_being_deleted_leaves_no_error(
    broker: BrokerServer, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create(broker, "a")
    await commit(broker, "gone", ("a", 0))
    both = (broker.controller.topics[name] for name in (CONSUMER_OFFSETS, "a"))
    await asyncio.gather(*(topics.delete_all(broker, [topic]) for topic in both))
    assert broker.groups.groups == {}
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_offsets_that_expire_while_the_offsets_topic_is_being_deleted_leave_no_error(
    broker: BrokerServer, caplog: pytest.LogCaptureFixture
) -> None:
    await commit(broker, "gone", ("a", 0))
    broker.controller.delete_topics([broker.controller.topics[CONSUMER_OFFSETS]])  # and its partitions go later
    await advance(broker, 12)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_partition_of_the_offsets_topic_takes_its_groups_with_it_at_once(broker: BrokerServer) -> None:
    await commit(broker, "g", ("a", 0))
    number = broker.groups.store.partition_of("g")
    broker.replica_manager.drop(TopicPartition(CONSUMER_OFFSETS, number))
    assert broker.groups.groups == {}


async def test_without_the_topic_of_offsets_there_are_no_groups(broker: BrokerServer) -> None:
    await commit(broker, "g", ("a", 0))
    topics.delete(broker, CONSUMER_OFFSETS)
    assert broker.groups.groups == {}
    with pytest.raises(NotCoordinator):
        broker.groups.store.check("g")
    topics.create(broker, CONSUMER_OFFSETS, partitions=3)
    assert broker.groups.store.partition_of("my-group") == 1906497762 % 3
    assert on_disk(broker) == {}
    await commit(broker, "g", ("a", 0))
    assert on_disk(broker) == {"g": {("a", 0)}}
