"""Offsets that transactions commit: pending until the marker of the transaction is written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.coordinators.coordinator_topic import AppendedBatch, Producer
from kmini.broker.groups.group import Committer
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.groups.transactional_offsets import TransactionalOffsets
from kmini.protocol.errors import IllegalGeneration
from support.broker.stored_groups import OFFSET, PARTITION, held

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
