"""What batches say of their producers: at an append, and when a log is replayed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.producers.producer_replay import add_batch, prepare_append, replay, replay_batch, take_snapshot
from kmini.storage.producers.producer_state_manager import Origin, ProducerStateManager

Bench = Any


@pytest.fixture
def states(filesystem: MemoryFileSystem) -> ProducerStateManager:
    return ProducerStateManager(filesystem, "d")


def data_batch(offset: int, *, transactional: bool = False, **producer: int) -> bytearray:
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": offset, **producer}
    return build_batch([Record(offset, 1_000, None, b"v")], base_offset=offset, transactional=transactional, **fields)


def marker(offset: int, *, is_abort: bool) -> bytearray:
    return build_end_transaction_marker(
        EndTransactionMarker(is_abort=is_abort, coordinator_epoch=3),
        producer_id=7,
        producer_epoch=0,
        timestamp=1_000,
        base_offset=offset,
    )


def test_a_batch_without_a_producer_changes_no_producer(states: ProducerStateManager) -> None:
    batch = build_batch([Record(0, 1_000, None, b"v")])
    assert replay_batch(states, read_header(batch), batch) == []
    assert (len(states), states.end_offset) == (0, 1)


def test_a_batch_is_remembered_where_it_lies(states: ProducerStateManager) -> None:
    update = states.prepare(Origin.CLIENT)
    batch = data_batch(0)
    add_batch(update, read_header(batch), batch, 40)
    update.commit()
    entry = states.get(7)
    assert entry is not None
    assert entry.batches[-1].last_offset == 40


@pytest.mark.parametrize("origin", [Origin.CLIENT, Origin.COORDINATOR])
def test_a_batch_changes_its_producer_only_when_its_change_is_committed(
    states: ProducerStateManager, origin: Origin
) -> None:
    for sequence in range(2):  # the first one is checked in full, the second is plainly the next one
        batch = data_batch(sequence)
        known = states.get(7)
        change, duplicate = prepare_append(states, read_header(batch), batch, 40 + sequence, origin)
        assert change is not None
        assert duplicate is None
        assert states.get(7) == known
        assert not states.commit(change)
        entry = states.get(7)
        assert entry is not None
        assert entry.batches[-1].last_offset == 40 + sequence


def test_only_a_batch_that_a_client_repeats_is_a_duplicate(states: ProducerStateManager) -> None:
    batch = data_batch(0)
    header = read_header(batch)
    change, _ = prepare_append(states, header, batch, 40, Origin.CLIENT)
    assert change is not None
    states.commit(change)

    change, duplicate = prepare_append(states, header, batch, 41, Origin.CLIENT)
    assert change is None
    assert duplicate is not None
    assert duplicate.first_offset == 40
    change, duplicate = prepare_append(states, header, batch, 41, Origin.COORDINATOR)
    assert change is not None
    assert duplicate is None


def test_an_abort_is_due_to_the_transaction_index(states: ProducerStateManager) -> None:
    batch, end = data_batch(0, transactional=True), marker(1, is_abort=True)
    assert replay_batch(states, read_header(batch), batch) == []
    assert states.first_unstable_offset == 0
    (aborted,) = replay_batch(states, read_header(end), end)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 0, 1)


def test_a_commit_is_not_due_to_the_transaction_index(states: ProducerStateManager) -> None:
    for batch in (data_batch(0, transactional=True), marker(1, is_abort=False)):
        assert replay_batch(states, read_header(batch), batch) == []
    entry = states.get(7)
    assert entry is not None
    assert (entry.transaction_first_offset, entry.coordinator_epoch) == (None, 3)


def test_a_replay_begins_at_the_snapshot_and_ends_at_the_log_end(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    for sequence in range(4):
        bench.append("v", producer_id=7, producer_epoch=0, base_sequence=sequence)
        bench.log.roll(bench.now_ms)
    states = ProducerStateManager(bench.filesystem, bench.log.directory)
    states.end_offset = 2
    replay(states, bench.log.segments, 4)
    assert states.end_offset == 4
    entry = states.get(7)
    assert entry is not None
    assert [batch.last_offset for batch in entry.batches] == [2, 3]


def test_a_snapshot_that_has_no_room_is_logged_and_missing(
    filesystem: MemoryFileSystem, states: ProducerStateManager, caplog: pytest.LogCaptureFixture
) -> None:
    batch = data_batch(0)
    replay_batch(states, read_header(batch), batch)
    filesystem.faults = Faults(fail_at=1, operations={"create"})
    with caplog.at_level(logging.WARNING, "kmini.storage"):
        assert take_snapshot(states) is None
    assert "no producer snapshot at 1" in caplog.text
    assert take_snapshot(states) == "d/00000000000000000001.snapshot"
