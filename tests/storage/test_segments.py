"""The row of segments of a log: how they come, go and are replaced, and what their files are called. `test_segment.py`
tests when the active one has to roll."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.filenames import SWAP
from kmini.storage.filesystem.faults import Faults
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.segments import ANOTHER_SEGMENT, rename_segment

Bench = Any


class TestWaitingForBytes:
    def test_bytes_of_whole_batches_are_counted(self, bench: Bench, batch_size: Callable[..., int]) -> None:
        for value in "abc":
            bench.append(value)
        size = batch_size("a")
        assert bench.log.bytes_between(0, 3) == 3 * size
        assert bench.log.bytes_between(1, 2) == size
        assert bench.log.bytes_between(2, 2) == 0
        assert bench.log.bytes_between(3, 3) == 0

    def test_a_limit_in_a_later_segment_satisfies_any_min_bytes(self, bench: Bench) -> None:
        bench.fill(segments=1)
        bench.append("c")
        assert bench.log.bytes_between(0, 3) == ANOTHER_SEGMENT

    def test_a_limit_at_the_end_of_a_sealed_segment_is_counted(
        self, bench: Bench, batch_size: Callable[..., int]
    ) -> None:
        bench.append("a")
        bench.log.roll(bench.now_ms)
        bench.append("b")
        assert bench.log.bytes_between(0, 1) == batch_size("a")


def bases(bench: Bench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


class TestFinding:
    @pytest.mark.parametrize(("offset", "first"), [(0, 0), (1, 0), (2, 2), (5, 4), (6, 6), (99, 6)])
    def test_the_segment_that_holds_an_offset_comes_first(self, bench: Bench, offset: int, first: int) -> None:
        bench.fill(3)
        assert next(bench.log.segments.since(offset)).base_offset == first

    @pytest.mark.parametrize(("start", "count"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (6, 3), (99, 3)])
    def test_a_segment_lies_below_the_log_start_as_a_whole_or_not_at_all(
        self, bench: Bench, start: int, count: int
    ) -> None:
        bench.fill(3)
        assert bench.log.segments.count_below(start) == count

    def test_only_the_active_segment_is_known_to_have_no_aborted_transaction(self, bench: Bench) -> None:
        bench.fill(1)
        segments = bench.log.segments
        base = segments.active.base_offset
        assert segments.may_have_aborted(base - 1)
        assert not segments.may_have_aborted(base)
        segments.active.transaction_index.append(AbortedTransaction(7, base, base, base))
        assert segments.may_have_aborted(base)


class TestGoing:
    def test_the_files_of_deleted_segments_wait_under_marked_names(self, bench: Bench) -> None:
        bench.fill(2)
        gone = bench.log.segments.oldest
        bench.log.segments.delete_oldest(1, 500)
        assert bases(bench) == [2, 4]
        assert gone.is_deleted
        assert gone.log.path.endswith("00000000000000000000.log.deleted")
        assert bench.environment.deletions.next_due_ms == 500
        bench.environment.deletions.delete_due(500)
        assert not [name for name in bench.files() if name.startswith("00000000000000000000")]

    def test_a_file_that_cannot_be_renamed_is_deleted_under_its_own_name(self, bench: Bench) -> None:
        bench.fill(1)
        bench.filesystem.faults = Faults(fail_at=1, operations={"rename"})
        bench.log.segments.delete_oldest(1, 0)
        assert "00000000000000000000.log" in bench.files()
        bench.environment.deletions.delete_due(0)
        assert "00000000000000000000.log" not in bench.files()

    def test_the_last_one_that_stays_is_the_active_one(self, bench: Bench) -> None:
        bench.fill(3)
        bench.log.segments.delete_newest(2, 0)
        assert bases(bench) == [0, 2]
        assert bench.log.segments.active.base_offset == 2

    def test_restarting_leaves_one_empty_segment(self, bench: Bench) -> None:
        bench.fill(2)
        bench.log.segments.restart_at(50, bench.config, 0, 0)
        assert bases(bench) == [50]
        assert bench.log.segments.size_bytes == 0


class TestNames:
    def test_all_files_of_a_segment_get_the_suffix_and_lose_it(self, bench: Bench) -> None:
        bench.fill(1)
        bench.run_background()
        segment = bench.log.segments.oldest
        rename_segment(bench.filesystem, segment, SWAP)
        swapped = bench.files(SWAP)
        assert [name.partition(".")[2] for name in swapped] == ["index.swap", "log.swap", "timeindex.swap"]
        rename_segment(bench.filesystem, segment, "")
        assert bench.files(SWAP) == []
        assert segment.log.path.endswith("00000000000000000000.log")

    def test_the_log_is_renamed_first(self, bench: Bench) -> None:
        bench.fill(1)
        bench.run_background()
        bench.filesystem.faults = Faults(fail_at=2, operations={"rename"})
        with pytest.raises(OSError):
            rename_segment(bench.filesystem, bench.log.segments.oldest, SWAP)
        assert bench.files(SWAP) == ["00000000000000000000.log.swap"]
