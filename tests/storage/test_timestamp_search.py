"""From a timestamp to a record, in batches and in messages of old formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.segment import Segment
from kmini.storage.timestamp_search import segment_starts_before

Bench = Any


class TestTimestamps:
    def test_the_first_record_at_or_after_a_timestamp(self, bench: Bench) -> None:
        for timestamp in (100, 300, 200, 400):
            bench.append("x", timestamp=timestamp, leader_epoch=2)
        assert bench.offset_for_timestamp(0) == (100, 0, 2)
        assert bench.offset_for_timestamp(100) == (100, 0, 2)
        assert bench.offset_for_timestamp(101) == (300, 1, 2)
        assert bench.offset_for_timestamp(301) == (400, 3, 2)
        assert bench.offset_for_timestamp(401) is None

    def test_it_is_found_across_segments_and_index_entries(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(index_interval_bytes=150, segment_bytes=700)
        for number in range(60):
            bench.append("x", timestamp=1_000 + 10 * number)
        for number in range(60):
            assert bench.offset_for_timestamp(1_000 + 10 * number - 5)[:2] == (1_000 + 10 * number, number)

    def test_records_below_the_log_start_are_not_found(self, bench: Bench) -> None:
        bench.append("a", "b", timestamp=100)
        bench.append("c", timestamp=50)
        bench.log.raise_log_start_offset(1)
        assert bench.offset_for_timestamp(1)[:2] == (100, 1)
        bench.log.raise_log_start_offset(2)
        assert bench.offset_for_timestamp(1)[:2] == (50, 2)

    def test_with_log_append_time_the_first_record_of_the_batch_counts(self, bench: Bench) -> None:
        bench.append("a", "b", timestamp=5, log_append_time_ms=900)
        assert bench.offset_for_timestamp(900)[:2] == (900, 0)

    def test_the_largest_timestamp_of_all(self, bench: Bench) -> None:
        assert bench.max_timestamp_offset() is None
        for timestamp in (100, 300, 200):
            bench.append("x", "y", timestamp=timestamp)
        bench.log.roll(bench.now_ms)
        bench.append("z", timestamp=300)
        assert bench.max_timestamp_offset()[:2] == (300, 2)

    def test_the_largest_timestamp_may_lie_below_the_log_start(self, bench: Bench) -> None:
        bench.append("a", timestamp=300)
        bench.append("b", timestamp=200)
        bench.log.raise_log_start_offset(1)
        assert bench.max_timestamp_offset()[:2] == (300, 0)

    def test_a_log_without_timestamps_has_no_largest(self, bench: Bench) -> None:
        bench.append("a", timestamp=-1)
        assert bench.max_timestamp_offset() is None


class TestWhereSegmentsBegin:
    """What ListOffsets version 0 asks for."""

    def test_by_the_time_they_were_written_to(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        bench.fill(3)
        bench.append("active")
        monkeypatch.setattr(Segment, "modified_ms", property(lambda segment: 100 + 50 * segment.base_offset))

        def before(timestamp: int) -> list[int]:
            return segment_starts_before(bench.log, timestamp, 500)

        assert before(2**62) == before(500) == [7, 6, 4, 2, 0]
        assert before(499) == [6, 4, 2, 0]
        assert before(299) == [2, 0]
        assert before(100) == [0]
        assert before(99) == before(-7) == []
        bench.log.raise_log_start_offset(1)
        assert before(299) == [2, 1]

    def test_an_empty_active_segment_is_the_log_end(self, bench: Bench) -> None:
        bench.fill(1)
        assert segment_starts_before(bench.log, 2**62, 500) == [2, 0]
