"""What of a log is clean, dirty, and late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.delete_horizons import delete_horizons
from kmini.storage.cleaner.dirtiness import assess, first_timestamp, must_roll, next_roll_ms

Bench = Any


def _row(bench: Bench, timestamps: list[int]) -> None:
    """A segment for each timestamp; all of one size."""
    for timestamp in timestamps:
        bench.put(("a", "1"), timestamp=timestamp)
        bench.roll()


class TestTheRatio:
    def test_what_cannot_be_cleaned_does_not_count(self, bench: Bench) -> None:
        _row(bench, [1, 2, 3, 4])
        for _ in range(20):
            bench.put(("a", "in the active segment"))
        bench.checkpoint = 1
        found = assess(bench.log, 1, bench.now_ms)
        assert (found.first_dirty_offset, found.end_offset, found.ratio) == (1, 4, 0.75)

    def test_an_empty_log_is_not_dirty(self, bench: Bench) -> None:
        assert assess(bench.log, None, 0).ratio == 0

    @pytest.mark.parametrize(("checkpoint", "first_dirty"), [(None, 2), (1, 2), (2, 2), (3, 3), (4, 4), (5, 2)])
    def test_a_checkpoint_outside_the_log_counts_for_nothing(
        self, bench: Bench, checkpoint: int | None, first_dirty: int
    ) -> None:
        _row(bench, [1, 2, 3, 4])
        bench.log.raise_log_start_offset(2)
        assert assess(bench.log, checkpoint, bench.now_ms).first_dirty_offset == first_dirty


class TestTheEnd:
    def test_what_is_not_on_all_replicas_is_not_cleaned(self, bench: Bench) -> None:
        _row(bench, [1, 2, 3])
        bench.log.high_watermark = 1
        assert assess(bench.log, None, bench.now_ms).end_offset == 1

    def test_nor_what_is_in_an_open_transaction(self, bench: Bench) -> None:
        _row(bench, [1])
        bench.put(("a", "1"), producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        bench.roll()
        _row(bench, [1])
        assert assess(bench.log, None, bench.now_ms).end_offset == 1

    @pytest.mark.parametrize(("now_ms", "end_offset"), [(150, 1), (199, 1), (201, 2), (1_000, 3)])
    def test_nor_what_is_younger_than_the_minimum_lag(
        self, make_cleaning_bench: Callable[..., Bench], now_ms: int, end_offset: int
    ) -> None:
        bench = make_cleaning_bench(min_compaction_lag_ms=100)
        _row(bench, [10, 100, 400])
        assert assess(bench.log, None, now_ms).end_offset == end_offset


class TestTheBound:
    @pytest.fixture
    def bench(self, make_cleaning_bench: Callable[..., Bench]) -> Bench:
        return make_cleaning_bench(max_compaction_lag_ms=100)

    @pytest.mark.parametrize(("now_ms", "late", "delay_ms"), [(110, 0, 0), (111, 1, 1), (130, 1, 20), (900, 2, 790)])
    def test_segments_are_late_by_their_first_record(self, bench: Bench, now_ms: int, late: int, delay_ms: int) -> None:
        _row(bench, [10, 50])
        found = assess(bench.log, None, now_ms)
        size = bench.log.segments.oldest.size
        assert (found.must_clean_bytes, found.delay_ms) == (late * size, delay_ms)
        assert found.must_clean_ratio == late / 2

    def test_what_is_clean_is_not_late(self, bench: Bench) -> None:
        _row(bench, [10, 50])
        assert assess(bench.log, 2, 900)[4:] == (0, 0)

    def test_what_suspends_the_bound_shows(self, bench: Bench) -> None:
        bench.put(("a", "1"), timestamp=10)
        assert assess(bench.log, None, 120)[4:] == (0, 10)

    def test_an_idle_active_segment_rolls(self, bench: Bench) -> None:
        assert next_roll_ms(bench.log) is None
        bench.put(("a", "1"), timestamp=10)
        assert next_roll_ms(bench.log) == 111
        assert not must_roll(bench.log, 110)
        assert must_roll(bench.log, 111)

    def test_by_its_age_where_records_have_no_timestamps(self, bench: Bench) -> None:
        bench.put(("a", "1"), timestamp=-1)
        assert next_roll_ms(bench.log) == 1_101
        assert not must_roll(bench.log, 1_100)
        assert must_roll(bench.log, 1_101)


class TestTheFirstTimestamp:
    def test_is_not_the_largest_of_the_batch(self, bench: Bench) -> None:
        bench.append(build_batch([Record(0, 30, b"a", b""), Record(0, 90, b"b", b"")]))
        assert first_timestamp(bench.log.segments.active) == 30

    @pytest.mark.parametrize("codec", [0, 1])
    def test_is_no_delete_horizon(self, bench: Bench, codec: int) -> None:
        bench.put(("a", None), ("b", "1"), timestamp=30, codec=codec)
        bench.clean()
        assert bench.horizons()
        assert first_timestamp(bench.log.segments.oldest) == 30
        assert delete_horizons([bench.log.segments.oldest]) == [1_000 + 86_400_000]

    def test_nothing_has_none(self, bench: Bench) -> None:
        assert first_timestamp(bench.log.segments.active) == -1
        assert delete_horizons([bench.log.segments.active]) == []
