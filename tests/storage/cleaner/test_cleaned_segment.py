"""The segments that a pass writes: their sizes, indexes, times and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.cleaner.cleanable_log import CleaningAborted, Limits
from kmini.storage.log_config import LogConfig

Bench = Any


DAY_MS = 86_400_000


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


SMALL = Limits(buffer_bytes=100)


pytestmark = pytest.mark.usefixtures("sieve")


class TestSegments:
    def test_small_ones_become_one(self, bench: Bench) -> None:
        for number in range(5):
            bench.put((f"{number}", "1"))
            bench.roll()
        report = bench.clean()
        assert (report.segments_before, report.segments_after) == (5, 1)
        assert bench.base_offsets() == [0, 5]

    def test_none_becomes_larger_than_allowed(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(segment_bytes=300)
        for number in range(30):
            bench.put((f"{number}", "1"))
        bench.clean()
        bench.put(("0", "2"))
        bench.clean()
        assert all(segment.size <= 300 for segment in bench.log.segments)
        assert [key for _, key, _ in bench.pairs()] == [f"{n}" for n in range(1, 30)] + ["0"]

    def test_indexes_find_what_is_left(self, make_cleaning_bench: Callable[..., Bench]) -> None:
        bench = make_cleaning_bench(index_interval_bytes=200)
        for number in range(60):
            bench.put((f"{number % 40}", "x" * 20), timestamp=1_000 + number)
        bench.clean()
        segment = bench.log.segments.oldest
        assert len(segment.offset_index) > 5
        for offset in range(60):
            located = segment.locate(offset)
            expected = max(offset, 20)
            assert segment.log.read_at(located[0], 8) == expected.to_bytes(8, "big")
        assert segment.max_timestamp == 1_059
        bench.close()
        bench.reopen(is_clean=True)
        assert bench.read_all() == list(range(20, 60))

    def test_indexes_longer_than_the_setting_do_not_end_the_pass(
        self, make_cleaning_bench: Callable[..., Bench]
    ) -> None:
        """Apache Kafka gives such a log up."""
        bench = make_cleaning_bench()
        for number in range(50):
            bench.put((f"{number}", "x" * 50), timestamp=1_000 + number)
        bench.put(("0", "new"))
        assert bench.log.segments.active.time_index.size_bytes > 100
        bench.log.config = LogConfig(cleanup_policy=("compact",), index_interval_bytes=100, segment_index_bytes=100)
        bench.clean()
        first, _ = bench.log.segments
        assert 0 < first.offset_index.size_bytes <= 100
        assert 0 < first.time_index.size_bytes <= 100
        assert bench.read_all() == [*range(1, 51)]

    def test_they_are_as_old_as_what_they_were_made_from(self, bench: Bench) -> None:
        bench.put(("a", "1"), timestamp=-1)
        bench.filesystem.now_ms = 55_000
        bench.roll()
        modified = bench.log.segments.oldest.modified_ms
        bench.filesystem.now_ms = 77_000
        bench.clean()
        assert bench.log.segments.oldest.modified_ms == modified

    def test_snapshots_of_segments_that_are_gone_go_too(self, bench: Bench) -> None:
        for sequence in range(4):
            bench.put((f"{sequence}", "1"), **PRODUCER, base_sequence=sequence)
            bench.roll()
        assert len(bench.files(".snapshot")) == 4
        bench.clean()
        assert bench.files(".snapshot") == ["00000000000000000004.snapshot"]

    def test_nothing_is_left_of_a_pass_that_is_stopped(self, bench: Bench) -> None:
        class Stop:
            def on_bytes(self, count: int) -> None:
                nonlocal left
                left -= 1
                if not left:
                    raise CleaningAborted

        for number in range(20):
            bench.put((f"{number % 3}", "1"))
        bench.roll()
        before, files = bench.batches(), bench.files()
        for stop_at in (1, 2, 3):  # when mapping, reading, writing
            left = stop_at
            with pytest.raises(CleaningAborted):
                bench.clean(watch=Stop())
            assert (bench.batches(), bench.files()) == (before, files)
