"""The records in flight of a share partition, beside a model that has every offset by itself (KIP-932).
`test_share_partition_manager.py` tests what becomes of records whose locks end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kmini.broker.share_fetch.share_partition import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    Acknowledgement,
    InFlight,
    Limits,
    RecordState,
    SharePartition,
)
from kmini.broker.share_state.share_partition_state import Run
from kmini.protocol.errors import InvalidRecordState, InvalidRequest

LIMIT = 3
LOCK_MS = 10
END = 40
MEMBERS = st.sampled_from(["m", "n"])
OFFSETS = st.integers(0, END)


def limits(now_ms: int, max_records: int = 10, *, whole_batches: bool = False) -> Limits:
    return Limits(max_records, 4, whole_batches, 25, LIMIT, now_ms + LOCK_MS)


class Window(RuleBasedStateMachine):
    """Members that acquire, acknowledge and lose records, as those of a broker do, changes stored or not."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.pending: list[list[InFlight]] = []

    @initialize(starts=st.lists(st.integers(1, 5), min_size=8, max_size=8))
    def begin(self, starts: list[int]) -> None:
        self.window = SharePartition(0, 0, [])
        self.deliveries: dict[int, int] = {}
        self.done: set[int] = set()
        self.batches: list[tuple[int, int]] = []
        first = 0
        for size in starts:
            self.batches.append((first, first + size - 1))
            first += size

    @rule(member=MEMBERS, max_records=st.integers(1, 12), whole=st.booleans())
    def acquire(self, member: str, max_records: int, whole: bool) -> None:
        if not self.window.can_acquire(25):
            return
        offset = self.window.next_fetch_offset
        readable = [batch for batch in self.batches if batch[1] >= offset]
        if not readable:
            return
        got = self.window.acquire(member, offset, readable, limits(self.now_ms, max_records, whole_batches=whole))
        assert got, "what can be acquired is"
        assert whole or sum(map(len, got)) <= max_records
        for record in got:
            for place in range(record.first, record.last + 1):
                assert place not in self.done, "nothing that is done comes again"
                self.deliveries[place] = self.deliveries.get(place, 0) + 1
                assert record.count == self.deliveries[place] <= LIMIT

    @rule(member=MEMBERS, first=OFFSETS, size=st.integers(1, 8), types=st.data(), is_stored=st.sampled_from([0, 1, 2]))
    def acknowledge(self, member: str, first: int, size: int, types: Any, is_stored: int) -> None:
        kinds = types.draw(
            st.one_of(
                st.lists(st.integers(0, 3), min_size=size, max_size=size),
                st.lists(st.integers(0, 3), min_size=1, max_size=1),
            )
        )
        before = self.states()
        try:
            change = self.window.acknowledge(member, [Acknowledgement(first, first + size - 1, kinds)], LIMIT, None)
        except (InvalidRecordState, InvalidRequest):
            assert self.states() == before
            return
        if is_stored == 2:
            self.pending.append(change)
        else:
            self.end(change, is_stored == 1)

    @rule(member=MEMBERS, is_stored=st.booleans())
    def session_ends(self, member: str, is_stored: bool) -> None:
        self.end(self.window.release(member, LIMIT), is_stored)

    @rule(is_stored=st.booleans())
    def storing_ends(self, is_stored: bool) -> None:
        if self.pending:
            self.end(self.pending.pop(0), is_stored)

    def end(self, change: list[InFlight], is_stored: bool) -> None:
        if is_stored:
            for record in change:
                if record.state.is_terminal:
                    self.done |= {*range(record.first, record.last + 1)}
            self.window.commit(change)
        else:
            self.window.roll_back(change)

    @rule(passed_ms=st.integers(1, LOCK_MS))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        for record in self.window.expire(self.now_ms, LIMIT):
            if record.state.is_terminal:
                self.done |= {*range(record.first, record.last + 1)}
        self.window.commit([])
        deadline_ms = self.window.next_deadline_ms
        assert deadline_ms is None or deadline_ms > self.now_ms

    @rule(offset=st.integers(0, 20))
    def records_are_deleted(self, offset: int) -> None:
        if offset <= self.window.end_offset:
            self.window.raise_start(offset)

    def states(self) -> dict[int, tuple[RecordState, str, bool]]:
        return {
            place: (record.state, record.member_id, record.before is not None)
            for record in self.window.records
            for place in range(record.first, record.last + 1)
        }

    @invariant()
    def the_window_is_in_order(self) -> None:
        window = self.window
        position = window.start_offset
        for record in window.records:
            assert record.first == position <= record.last
            assert (record.state is ACQUIRED) == bool(record.member_id)
            position = record.last + 1
        assert position == window.end_offset
        assert not window.records or not window.records[0].is_done, "the window begins at what is not done"
        being_stored = sum(len(record) for change in self.pending for record in change if record.state.is_terminal)
        done = sum(len(record) for record in window.records if record.is_done)
        assert window.complete_count == done + being_stored
        available = [record.first for record in window.records if record.is_available]
        assert window.next_fetch_offset == min(available, default=window.end_offset)


TestWindow = Window.TestCase


def test_gaps_of_a_stored_state_are_delivered_anew() -> None:
    window = SharePartition(0, 2, [Run(4, 5, ACKNOWLEDGED, 1), Run(8, 8, AVAILABLE, 1)])
    got = window.acquire("m", window.next_fetch_offset, [(0, 11)], limits(0))
    assert [(record.first, record.last, record.count) for record in got] == [
        (2, 3, 1),
        (6, 7, 1),
        (8, 8, 2),
        (9, 11, 1),
    ]


def test_offsets_that_are_not_in_the_log_any_more_are_acquired_with_the_next_records() -> None:
    window = SharePartition(0, 0, [])
    (record,) = window.acquire("m", 0, [(5, 6)], limits(0))
    assert (record.first, record.last) == (0, 6)


def test_archived_offsets_are_cut_out_of_what_was_acquired() -> None:
    window = SharePartition(0, 0, [])
    left = window.archive(window.acquire("m", 0, [(0, 9)], limits(0)), 3, 5)
    assert [(record.first, record.last) for record in left] == [(0, 2), (6, 9)]
    assert [record.state for record in window.records] == [ACQUIRED, ARCHIVED, ACQUIRED]


def test_a_batch_before_all_records_in_flight_is_refused_and_one_below_the_window_is_not() -> None:
    window = SharePartition(0, 4, [Run(6, 7, AVAILABLE, 1)])
    with pytest.raises(InvalidRecordState):
        window.acknowledge("m", [Acknowledgement(4, 5, [1])], LIMIT, None)
    assert window.acknowledge("m", [Acknowledgement(0, 3, [1])], LIMIT, None) == []


def test_what_is_done_is_counted_with_all_changes_that_are_being_stored_until_they_are_taken_back() -> None:
    window = SharePartition(0, 0, [])
    for member in ("m", "n"):
        window.acquire(member, window.next_fetch_offset, [(0, 4), (5, 9)], limits(0, 5))
    first = window.acknowledge("m", [Acknowledgement(0, 4, [1])], LIMIT, None)
    second = window.acknowledge("n", [Acknowledgement(5, 9, [1])], LIMIT, None)
    assert window.complete_count == 10
    window.roll_back(first)
    assert window.complete_count == 5
    window.commit(second)
    assert window.complete_count == 5
