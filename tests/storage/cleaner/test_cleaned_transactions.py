"""Which control batches and aborted data a pass drops (KIP-98, KIP-534)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.cleaner.cleanable_log import Limits

Bench = Any


DAY_MS = 86_400_000


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


SMALL = Limits(buffer_bytes=100)


pytestmark = pytest.mark.usefixtures("sieve")


class TestTransactions:
    def test_aborted_data_goes_at_once_and_its_marker_later(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put(("a", "undone"), **PRODUCER, base_sequence=0, transactional=True)
        bench.end_transaction(7, abort=True)
        report = bench.clean()
        assert bench.pairs() == [(0, "a", "1")]
        assert (report.aborted_records, bench.markers(), bench.horizons()) == (1, [2], {})
        assert [entry.last_offset for entry in bench.log.aborted_transactions(0, 3)] == [2]

        bench.log.producers.expire(2 * DAY_MS)
        bench.put(("z", "1"))
        bench.clean()
        assert bench.horizons() == {}  # the emptied batch of its data counts as data; it goes with this pass
        bench.put(("z", "2"))
        bench.clean()
        assert bench.horizons() == {2: 1_000 + DAY_MS}
        assert bench.log.aborted_transactions(0, 3) == []
        bench.now_ms += DAY_MS
        bench.put(("z", "3"))
        assert bench.clean().removed_markers == 1
        assert bench.markers() == []
        assert bench.pairs() == [(0, "a", "1"), (5, "z", "3")]

    def test_the_marker_may_lie_in_a_segment_that_is_not_cleaned(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.put(("a", "undone"), **PRODUCER, base_sequence=0, transactional=True)
        bench.roll()
        bench.end_transaction(7, abort=True)
        bench.clean(roll=False)
        assert bench.pairs() == [(0, "a", "1")]

    def test_an_abort_in_the_clean_part_of_a_segment_does_not_affect_later_transactions(self, bench: Bench) -> None:
        """Where a map was too small, or records were deleted, the dirty part begins within a segment, which is read
        from about there on."""
        bench.put(("a", "1"), ("b", "1"))
        bench.put(("x", "1"), **PRODUCER, base_sequence=0, transactional=True)
        bench.end_transaction(7, abort=True)
        for number in range(4):
            bench.put((f"{number}", "x" * 50))
        first_dirty = bench.log.log_end_offset
        bench.put(("a", "2"), **PRODUCER, base_sequence=1, transactional=True)
        bench.end_transaction(7, abort=False)
        bench.checkpoint = first_dirty
        bench.clean()
        assert [offset for offset, key, _ in bench.pairs() if key == "a"] == [first_dirty]

    def test_undecided_transactions_are_not_cleaned(self, bench: Bench) -> None:
        bench.put(("a", "1"))
        bench.roll()
        bench.put(("a", "2"), **PRODUCER, base_sequence=0, transactional=True)
        bench.roll()
        bench.put(("a", "3"))
        bench.clean()
        assert bench.checkpoint == 1
        assert [offset for offset, _, _ in bench.pairs()] == [0, 1, 2]

    def test_a_commit_marker_stays_while_there_is_data(self, bench: Bench) -> None:
        bench.put(("a", "1"), **PRODUCER, base_sequence=0, transactional=True)
        bench.end_transaction(7, abort=False)
        bench.put(("z", "1"))
        bench.clean()
        assert (bench.markers(), bench.horizons()) == ([1], {})
        bench.log.producers.expire(2 * DAY_MS)
        bench.put(("a", "2"))
        bench.clean()
        assert bench.horizons() == {}
        bench.put(("y", "2"))
        bench.clean()
        assert bench.horizons() == {1: 1_000 + DAY_MS}
        bench.now_ms += DAY_MS
        bench.clean()
        assert bench.markers() == []

    def test_transactions_are_followed_across_groups(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(segment_bytes=160)
        bench.put(("a", "1"), **PRODUCER, base_sequence=0, transactional=True)
        bench.put(("b", "1"))
        bench.put(("c", "1"))
        bench.end_transaction(7, abort=True)
        report = bench.clean()
        assert report.segments_after > 1
        assert bench.pairs() == [(1, "b", "1"), (2, "c", "1")]
        assert bench.markers() == [3]
        assert [entry.first_offset for entry in bench.log.aborted_transactions(0, 4)] == [0]
