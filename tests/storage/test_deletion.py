"""The order of a deletion: log start offset in memory, checkpoint, files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    KafkaStorageError,
    OffsetOutOfRange,
)
from kmini.protocol.records.batch import read_header
from kmini.storage.deletion import delete_records_below, without_checkpoint
from kmini.storage.filesystem.faults import CHANGES, Faults
from kmini.storage.retention import apply_retention, next_retention_ms

Bench = Any
MakeBench = Callable[..., Bench]


@pytest.fixture
def three_segments(make_bench: MakeBench) -> Bench:
    """Three segments: offsets 0 and 1, 2 and 3, 4 and 5."""
    bench = make_bench(retention_ms=-1)
    bench.fill(3)
    return bench


def bases(bench: Bench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


def test_the_files_go_after_the_checkpoint_and_the_offset_rises_before_it(three_segments: Bench) -> None:
    seen = []

    def after_checkpoint(delete_files: Callable[[], object]) -> None:
        seen.append((three_segments.log.log_start_offset, bases(three_segments)))
        delete_files()
        seen.append((three_segments.log.log_start_offset, bases(three_segments)))

    assert delete_records_below(three_segments.log, 4, after_checkpoint)
    assert seen == [(4, [0, 2, 4, 6]), (4, [4, 6])]


def test_files_stay_until_the_checkpoint_is_written_or_retention_runs(
    three_segments: Bench,
) -> None:
    delete_records_below(three_segments.log, 4, lambda delete_files: None)
    assert bases(three_segments) == [0, 2, 4, 6]
    assert next_retention_ms(three_segments.log) == 0
    assert apply_retention(three_segments.log, three_segments.now_ms) == 2
    assert bases(three_segments) == [4, 6]
    assert three_segments.log.log_start_offset == 4


def test_a_checkpoint_that_fails_costs_no_file(three_segments: Bench) -> None:
    def fails(delete_files: Callable[[], object]) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        delete_records_below(three_segments.log, 4, fails)
    assert bases(three_segments) == [0, 2, 4, 6]


def test_a_deletion_that_is_repeated_after_a_failure_is_finished(
    three_segments: Bench,
) -> None:
    delete_records_below(three_segments.log, 4, lambda delete_files: None)
    checkpoints = []

    def after_checkpoint(delete_files: Callable[[], object]) -> None:
        checkpoints.append(three_segments.log.log_start_offset)
        delete_files()

    assert not delete_records_below(three_segments.log, 4, after_checkpoint)
    assert checkpoints == [4]
    assert bases(three_segments) == [4, 6]


def test_an_offset_above_the_high_watermark_changes_nothing(three_segments: Bench) -> None:
    asked: list[object] = []
    with pytest.raises(OffsetOutOfRange):
        delete_records_below(three_segments.log, 7, asked.append)
    assert asked == []
    assert (three_segments.log.log_start_offset, bases(three_segments)) == (0, [0, 2, 4, 6])


def test_retention_raises_the_log_start_offset_before_it_takes_the_files(
    make_bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(retention_ms=100)
    bench.fill(1)
    bench.append("2")
    bench.append("3")
    starts = []
    segments = type(bench.log.segments)
    delete_oldest = segments.delete_oldest

    def watched(self: Any, count: int, due_ms: int) -> None:
        starts.append(bench.log.log_start_offset)
        delete_oldest(self, count, due_ms)

    monkeypatch.setattr(segments, "delete_oldest", watched)
    assert apply_retention(bench.log, 10**15) == 2
    assert starts == [4]


def test_a_log_that_cannot_roll_keeps_its_files_and_raises(make_bench: MakeBench) -> None:
    bench = make_bench(retention_ms=-1)
    bench.append("0", "1")
    bench.filesystem.faults = Faults(fail_at=1, operations=CHANGES)
    with pytest.raises(KafkaStorageError):
        delete_records_below(bench.log, 2, without_checkpoint)
    assert (bench.log.log_start_offset, bases(bench)) == (2, [0])


class TestDeletingRecords:
    """What a DeleteRecords request does to a log (KIP-107, step 3)."""

    def test_segments_wholly_below_the_log_start_leave_the_log(self, bench: Bench) -> None:
        bench.fill(segments=3, records=2)
        bench.append("6")
        bench.log.raise_log_start_offset(5)
        assert bench.log.delete_segments_below_log_start() == 2
        assert bench.base_offsets() == [4, 6]
        assert bench.values() == ["value 5", "6"]

    def test_a_segment_that_straddles_the_log_start_stays(self, bench: Bench) -> None:
        bench.fill(segments=1, records=3)
        bench.log.raise_log_start_offset(2)
        assert bench.log.delete_segments_below_log_start() == 0

    def test_a_batch_that_straddles_the_log_start_is_read_whole(self, bench: Bench) -> None:
        bench.append("a", "b", "c")
        bench.log.raise_log_start_offset(2)
        assert read_header(bench.log.read(2, 1_000, limit_offset=3)).base_offset == 0

    def test_the_active_segment_goes_too_when_nothing_is_left(self, bench: Bench) -> None:
        bench.fill(segments=1, records=2)
        bench.append("c")
        bench.log.raise_log_start_offset(3)
        assert bench.log.delete_segments_below_log_start() == 2
        assert bench.base_offsets() == [3]
        assert bench.log.size_bytes == 0
        assert bench.append("d").first_offset == 3

    def test_deleting_again_does_nothing(self, bench: Bench) -> None:
        bench.append("a")
        bench.log.raise_log_start_offset(1)
        bench.log.delete_segments_below_log_start()
        assert bench.log.delete_segments_below_log_start() == 0

    def test_files_are_renamed_now_and_removed_after_the_delay(self, make_bench: Callable[..., Bench]) -> None:
        bench = make_bench(file_delete_delay_ms=500)
        bench.fill(segments=1)
        bench.run_background()
        bench.log.raise_log_start_offset(2)
        bench.log.delete_segments_below_log_start()
        gone = [f"00000000000000000000.{kind}.deleted" for kind in ("index", "log", "timeindex")]
        assert bench.files(".deleted") == gone
        bench.environment.deletions.delete_due(bench.now_ms + 499)
        assert bench.files(".deleted") == gone
        bench.environment.deletions.delete_due(bench.now_ms + 500)
        assert bench.files(".deleted") == []

    def test_a_snapshot_goes_with_its_segment(self, bench: Bench) -> None:
        bench.fill(segments=2)
        assert bench.files(".snapshot") == ["00000000000000000002.snapshot", "00000000000000000004.snapshot"]
        bench.log.raise_log_start_offset(4)
        bench.log.delete_segments_below_log_start()
        assert bench.files(".snapshot") == ["00000000000000000004.snapshot"]
