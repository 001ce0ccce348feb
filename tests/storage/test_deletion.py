"""The order of a deletion: log start offset in memory, checkpoint, files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.errors import KafkaStorageError, OffsetOutOfRange
from kmini.storage.deletion import delete_records_below, without_checkpoint
from kmini.storage.filesystem.faults import CHANGES, Faults
from kmini.storage.retention import apply_retention, next_retention_ms

Bench = Any
MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    """Three segments: offsets 0 and 1, 2 and 3, 4 and 5."""
    bench = make_bench(retention_ms=-1)
    bench.fill(3)
    return bench


def bases(bench: Bench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


def test_the_files_go_after_the_checkpoint_and_the_offset_rises_before_it(bench: Bench) -> None:
    seen = []

    def after_checkpoint(delete_files: Callable[[], object]) -> None:
        seen.append((bench.log.log_start_offset, bases(bench)))
        delete_files()
        seen.append((bench.log.log_start_offset, bases(bench)))

    assert delete_records_below(bench.log, 4, after_checkpoint)
    assert seen == [(4, [0, 2, 4, 6]), (4, [4, 6])]


def test_files_stay_while_the_checkpoint_is_not_written_and_the_next_retention_takes_them(bench: Bench) -> None:
    delete_records_below(bench.log, 4, lambda delete_files: None)
    assert bases(bench) == [0, 2, 4, 6]
    assert next_retention_ms(bench.log) == 0
    assert apply_retention(bench.log, bench.now_ms) == 2
    assert bases(bench) == [4, 6]
    assert bench.log.log_start_offset == 4


def test_a_checkpoint_that_fails_costs_no_file(bench: Bench) -> None:
    def fails(delete_files: Callable[[], object]) -> None:
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        delete_records_below(bench.log, 4, fails)
    assert bases(bench) == [0, 2, 4, 6]


def test_a_deletion_that_is_repeated_after_a_failed_checkpoint_writes_it_and_deletes_the_files(bench: Bench) -> None:
    delete_records_below(bench.log, 4, lambda delete_files: None)
    checkpoints = []

    def after_checkpoint(delete_files: Callable[[], object]) -> None:
        checkpoints.append(bench.log.log_start_offset)
        delete_files()

    assert not delete_records_below(bench.log, 4, after_checkpoint)
    assert checkpoints == [4]
    assert bases(bench) == [4, 6]


def test_an_offset_above_the_high_watermark_changes_nothing(bench: Bench) -> None:
    asked: list[object] = []
    with pytest.raises(OffsetOutOfRange):
        delete_records_below(bench.log, 7, asked.append)
    assert asked == []
    assert (bench.log.log_start_offset, bases(bench)) == (0, [0, 2, 4, 6])


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


def test_a_log_that_cannot_roll_keeps_its_files_and_says_so(make_bench: MakeBench) -> None:
    bench = make_bench(retention_ms=-1)
    bench.append("0", "1")
    bench.filesystem.faults = Faults(fail_at=1, operations=CHANGES)
    with pytest.raises(KafkaStorageError):
        delete_records_below(bench.log, 2, without_checkpoint)
    assert (bench.log.log_start_offset, bases(bench)) == (2, [0])
