"""Offsets that transactions commit: pending until the marker of the transaction is written."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import AppendedBatch, Producer
from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.group import Committer
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.groups.transactional_offsets import TransactionalOffsets
from kmini.broker.transactions.markers import Marker
from kmini.protocol.errors import IllegalGeneration
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition
from support.broker.stored_groups import OFFSET, PARTITION, held, stored_groups

PRODUCER = Producer(5, 0)
REPLICATED = cast(AppendedBatch, SimpleNamespace(is_replicated=True))


@pytest.fixture
def offsets(broker: BrokerServer) -> TransactionalOffsets:
    return broker.coordination.transactional_offsets


async def commit(
    offsets: TransactionalOffsets, store: GroupStore, offset: int = 42, producer: Producer = PRODUCER
) -> Any:
    """Commit an offset of group g in a transaction; returns the group."""
    changes = store.changes("g")
    changes.set(PARTITION, OFFSET._replace(offset=offset))
    group = offsets._coordinator.group_for_commit(Committer("", None, -1, None), changes)
    await offsets.commit(group, changes, producer)
    return group


@pytest.mark.parametrize("is_commit", [True, False])
async def test_pending_offsets_are_committed_or_dropped_with_the_marker(
    offsets: TransactionalOffsets, store: GroupStore, is_commit: bool
) -> None:
    group = await commit(offsets, store)
    assert (held(group.offsets), group.offsets.is_pending(PARTITION)) == ({}, True)
    offsets.end(store.partition_of("g"), PRODUCER.producer_id, REPLICATED, is_commit=is_commit)
    assert (held(group.offsets), group.offsets.is_pending(PARTITION)) == ({PARTITION: 42} if is_commit else {}, False)


async def test_the_marker_of_another_producer_or_partition_decides_nothing(
    offsets: TransactionalOffsets, store: GroupStore
) -> None:
    group = await commit(offsets, store)
    number = store.partition_of("g")
    offsets.end(number, PRODUCER.producer_id + 1, REPLICATED, is_commit=True)
    offsets.end(number + 1, PRODUCER.producer_id, REPLICATED, is_commit=True)
    assert (held(group.offsets), group.offsets.is_pending(PARTITION)) == ({}, True)


async def test_of_two_transactions_the_offset_written_last_counts(
    offsets: TransactionalOffsets, store: GroupStore
) -> None:
    group = await commit(offsets, store, 1)
    await commit(offsets, store, 2, Producer(6, 0))
    number = store.partition_of("g")
    offsets.end(number, 6, REPLICATED, is_commit=True)
    offsets.end(number, 5, REPLICATED, is_commit=True)
    assert held(group.offsets) == {PARTITION: 2}


async def test_committed_offsets_are_shown_once_the_marker_is_replicated(
    offsets: TransactionalOffsets, store: GroupStore
) -> None:
    group = await commit(offsets, store)
    waiting: list[Any] = []
    batch = cast(AppendedBatch, SimpleNamespace(is_replicated=False, when_replicated=waiting.append))
    offsets.end(store.partition_of("g"), PRODUCER.producer_id, batch, is_commit=True)
    assert group.offsets.shown(PARTITION) is None
    for callback in waiting:
        callback()
    assert group.offsets.shown(PARTITION).offset == 42


async def test_a_generation_needs_a_group(broker: BrokerServer, store: GroupStore) -> None:
    with pytest.raises(IllegalGeneration):
        broker.groups.group_for_commit(Committer("m", None, 1, None), store.changes("g"))


async def test_unloading_a_partition_forgets_its_pending_offsets(
    offsets: TransactionalOffsets, store: GroupStore
) -> None:
    group = await commit(offsets, store)
    offsets.unload(store.partition_of("g"))
    offsets.end(store.partition_of("g"), PRODUCER.producer_id, REPLICATED, is_commit=True)
    assert held(group.offsets) == {}


async def test_unloading_another_partition_leaves_them(offsets: TransactionalOffsets, store: GroupStore) -> None:
    group = await commit(offsets, store)
    number = store.partition_of("g")
    offsets.unload(number + 1)
    offsets.end(number, PRODUCER.producer_id, REPLICATED, is_commit=True)
    assert held(group.offsets) == {PARTITION: 42}


ONLY_PARTITION = TopicPartition(CONSUMER_OFFSETS, 0)
Key = tuple[str, TopicPartition]
"""A group, and a partition that it reads."""
KEYS = [(group_id, TopicPartition(*place)) for group_id in ("g", "h") for place in (("a", 0), ("a", 1), ("b", 1))]


class Offsets(SimpleNamespace):
    """What must hold of committed offsets, by the rule alone: of a key's decided records the last one counts."""

    def __init__(self) -> None:
        super().__init__(decided={}, undecided=[])

    def decide(self, key: Key, number: int, offset: int | None) -> None:
        self.decided[key] = max(self.decided.get(key, (-1, None)), (number, offset))
        if offset is None:  # it takes the earlier records of open transactions with it
            self.undecided = [one for one in self.undecided if one[1] != key]

    def end(self, producer: Producer, *, is_commit: bool) -> None:
        ended = [one for one in self.undecided if one[0] == producer]
        self.undecided = [one for one in self.undecided if one[0] != producer]
        for _, key, number in ended:
            if is_commit:
                self.decide(key, number, number)

    def state(self) -> tuple[dict[Key, int], set[Key]]:
        """The committed offsets, and the keys with pending ones."""
        held = {key: offset for key, (_, offset) in self.decided.items() if offset is not None}
        return held, {key for _, key, _ in self.undecided}


def state_of(groups: Mapping[str, Any]) -> tuple[dict[Key, int], set[Key]]:
    """The same of groups in memory, or as a new coordinator loads them."""
    by_group: dict[str, CommittedOffsets] = {group_id: group.offsets for group_id, group in groups.items()}
    return (
        {(group_id, at): offset for group_id, one in by_group.items() for at, offset in held(one).items()},
        {(group_id, at) for group_id, one in by_group.items() for at in one.pending_partitions()},
    )


async def load_anew(broker: BrokerServer) -> None:
    """As after a restart."""
    offsets = broker.coordination.transactional_offsets
    deque(broker.groups.unload(0), maxlen=0)
    offsets.unload(0)
    deque(broker.groups.load(broker.replica_manager.partitions[ONLY_PARTITION], offsets.group_loaded), maxlen=0)


@pytest.mark.parametrize("seed", range(5))
async def test_loaded_offsets_are_the_live_ones_after_any_commits_removals_and_markers(
    start_broker: Callable[..., Awaitable[BrokerServer]], seed: int
) -> None:
    """The offset of each record is its number here, so that an offset that goes back is seen."""
    rng = random.Random(seed)
    broker = await start_broker(offsets_topic_num_partitions=1)
    topics.create_missing(broker, CONSUMER_OFFSETS)
    model, groups, store = Offsets(), broker.groups, broker.groups.store
    producers = [Producer(number, 0) for number in (5, 6, 7)]
    for number in range(150):
        key, producer, is_commit = rng.choice(KEYS), rng.choice(producers), rng.random() < 0.7
        group_id, partition = key
        changes = store.changes(group_id)
        changes.set(partition, OFFSET._replace(offset=number))
        step = rng.choices(("transaction", "commit", "removal", "marker", "restart"), (8, 3, 1, 4, 1))[0]
        if step == "transaction":
            group = groups.group_for_commit(Committer("", None, -1, None), changes)
            await broker.coordination.transactional_offsets.commit(group, changes, producer)
            model.undecided = [one for one in model.undecided if one[:2] != (producer, key)]
            model.undecided.append((producer, key, number))
        elif step == "commit":
            group = groups.group_for_commit(Committer("", None, -1, None), changes)
            await groups.commit(group, changes)
            model.decide(key, number, number)
        elif step == "removal" and group_id in groups.groups:
            removal = store.changes(group_id)
            removal.remove(partition)
            await store.write_offsets(removal, groups.groups[group_id].offsets)
            model.decide(key, number, None)
        elif step == "marker":
            assert await broker.marker_writer.write(Marker(producer, is_commit, 0), [ONLY_PARTITION])
            model.end(producer, is_commit=is_commit)
        elif step == "restart":
            await load_anew(broker)
        live, loaded = state_of(dict(groups.groups.items())), state_of(stored_groups(store))
        assert live == loaded == model.state(), f"after {step} {number}"
