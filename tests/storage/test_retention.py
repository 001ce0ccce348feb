"""Retention: by log start offset, by size, by age."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import KafkaStorageError
from kmini.storage.filesystem.faults import Faults
from kmini.storage.retention import apply_retention, next_retention_ms

Bench = Any

DAY = 86_400_000
COMPACT = frozenset({"compact"})
BOTH = frozenset({"compact", "delete"})


class TestByAge:
    def test_segments_whose_newest_record_is_too_old_go(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        for timestamp in (10, 20, 30):
            bench.append("x", timestamp=timestamp)
            bench.log.roll(bench.now_ms)
        assert apply_retention(bench.log, 121) == 2
        assert bench.base_offsets() == [2, 3]
        assert bench.log.log_start_offset == 2

    def test_a_segment_is_kept_for_exactly_the_retention_time(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        bench.append("x", timestamp=10)
        assert apply_retention(bench.log, 110) == 0
        assert apply_retention(bench.log, 111) == 1

    @pytest.mark.parametrize("timestamps", [(10, 50), (50, 10), (20, 50, 10)])
    def test_the_newest_record_of_a_segment_counts_wherever_it_stands(
        self, make_bench: Callable[..., Bench], timestamps: tuple[int, ...]
    ) -> None:
        bench = make_bench(retention_ms=100)
        for timestamp in timestamps:
            bench.append("x", timestamp=timestamp)
        bench.log.roll(bench.now_ms)
        assert next_retention_ms(bench.log) == 151
        assert [apply_retention(bench.log, now_ms) for now_ms in (150, 151)] == [0, 1]

    def test_the_first_segment_that_must_stay_keeps_those_after_it(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        for timestamp in (10, 500, 10):
            bench.append("x", timestamp=timestamp)
            bench.log.roll(bench.now_ms)
        assert apply_retention(bench.log, 200) == 1

    def test_when_all_are_too_old_the_active_one_rolls_and_goes(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        bench.append("a", timestamp=10)
        bench.log.roll(bench.now_ms)
        bench.append("b", timestamp=20)
        assert apply_retention(bench.log, DAY) == 2
        assert bench.base_offsets() == [2]
        assert bench.log.log_start_offset == 2
        assert bench.append("c").first_offset == 2

    def test_an_empty_last_segment_never_goes(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=0)
        assert apply_retention(bench.log, DAY) == 0
        assert bench.base_offsets() == [0]

    def test_without_timestamps_the_files_time_counts(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        bench.filesystem.now_ms = 500
        bench.append("x", timestamp=-1)
        assert apply_retention(bench.log, 600) == 0
        assert apply_retention(bench.log, 601) == 1

    def test_minus_one_keeps_for_ever(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=-1)
        bench.append("x", timestamp=1)
        assert apply_retention(bench.log, 1_000 * DAY) == 0


class TestBySize:
    def test_the_oldest_go_while_the_log_stays_as_large_as_the_limit(
        self, make_bench: Callable[..., Bench], batch_size: Callable[..., int]
    ) -> None:
        size = 2 * batch_size("value 0")
        bench = make_bench(retention_bytes=2 * size)
        bench.fill(segments=5)
        assert apply_retention(bench.log, bench.now_ms) == 3
        assert bench.log.size_bytes == 2 * size

    def test_one_byte_more_keeps_another_segment(
        self, make_bench: Callable[..., Bench], batch_size: Callable[..., int]
    ) -> None:
        bench = make_bench(retention_bytes=4 * batch_size("value 0") + 1)
        bench.fill(segments=5)
        assert apply_retention(bench.log, bench.now_ms) == 2

    def test_a_log_below_the_limit_loses_nothing(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_bytes=10**6)
        bench.fill(segments=3)
        assert apply_retention(bench.log, bench.now_ms) == 0

    def test_nothing_kept_is_a_rolled_and_empty_log(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_bytes=0)
        bench.append("a")
        assert apply_retention(bench.log, bench.now_ms) == 1
        assert (bench.base_offsets(), bench.log.size_bytes) == ([1], 0)


class TestByLogStartOffset:
    @pytest.mark.parametrize("policy", [COMPACT, BOTH, frozenset(), frozenset({"delete"})])
    def test_segments_below_it_go_whatever_the_policy(self, make_bench: Callable[..., Bench], policy: object) -> None:
        bench = make_bench(cleanup_policy=policy)
        bench.fill(segments=3)
        bench.log.raise_log_start_offset(5)
        assert apply_retention(bench.log, bench.now_ms) == 2
        assert bench.base_offsets() == [4, 6]

    def test_the_active_segment_stays(self, bench: Bench) -> None:
        bench.append("a")
        bench.log.raise_log_start_offset(1)
        assert apply_retention(bench.log, bench.now_ms) == 0

    def test_what_it_frees_counts_for_the_size(
        self, make_bench: Callable[..., Bench], batch_size: Callable[..., int]
    ) -> None:
        bench = make_bench(retention_bytes=4 * batch_size("value 0"))
        bench.fill(segments=4)
        bench.log.raise_log_start_offset(4)
        assert apply_retention(bench.log, bench.now_ms) == 2


class TestWhenNext:
    """`next_retention_ms`: the broker does not look before."""

    def test_an_empty_log_never_loses_anything(self, make_bench: Callable[..., Bench]) -> None:
        assert next_retention_ms(make_bench(retention_ms=100).log) is None

    def test_it_is_when_the_oldest_segment_is_too_old_and_no_sooner(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=100)
        for timestamp in (10, 20):
            bench.append("x", timestamp=timestamp)
            bench.log.roll(bench.now_ms)
        for due_ms, left in ((111, [1, 2]), (121, [2])):
            assert next_retention_ms(bench.log) == due_ms
            assert apply_retention(bench.log, due_ms - 1) == 0
            assert apply_retention(bench.log, due_ms) == 1
            assert bench.base_offsets() == left
        assert next_retention_ms(bench.log) is None

    def test_what_is_too_much_or_below_the_start_is_due(self, make_bench: Callable[..., Bench]) -> None:
        large = make_bench(retention_bytes=0, retention_ms=-1)
        large.append("x")
        assert next_retention_ms(large.log) == 0
        bench = make_bench(retention_ms=-1)
        bench.fill(segments=3)
        assert next_retention_ms(bench.log) is None
        bench.log.raise_log_start_offset(bench.base_offsets()[1])
        assert next_retention_ms(bench.log) == 0

    def test_what_is_not_committed_or_only_compacted_is_not(self, make_bench: Callable[..., Bench]) -> None:
        compacted = make_bench(cleanup_policy=COMPACT, retention_ms=100)
        compacted.append("x", timestamp=10)
        assert next_retention_ms(compacted.log) is None
        bench = make_bench(retention_ms=100)
        bench.append("x", timestamp=10)
        bench.log.high_watermark = 0
        assert next_retention_ms(bench.log) is None


class TestWhatStays:
    @pytest.mark.parametrize("policy", [COMPACT, frozenset()])
    def test_age_and_size_are_for_topics_that_delete(self, make_bench: Callable[..., Bench], policy: object) -> None:
        bench = make_bench(cleanup_policy=policy, retention_ms=0, retention_bytes=0)
        bench.fill(segments=3)
        assert apply_retention(bench.log, 10 * DAY) == 0

    def test_what_is_not_below_the_high_watermark_stays(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=0)
        bench.fill(segments=1, records=2)
        bench.append("uncommitted", commit=False)
        bench.log.roll(bench.now_ms)
        bench.append("uncommitted", commit=False)
        assert apply_retention(bench.log, DAY) == 1
        assert bench.base_offsets() == [2, 3]
        assert bench.log.log_start_offset == bench.log.high_watermark == 2

    def test_a_disk_that_takes_no_new_segment_loses_nothing(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(retention_ms=0)
        bench.append("a")
        bench.filesystem.faults = Faults(fail_at=1, operations={"create"})
        with pytest.raises(KafkaStorageError):
            apply_retention(bench.log, DAY)
        assert bench.values() == ["a"]
