"""The part of a log that a pass may clean, as it was captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.storage.cleaner.cleanable_log import CleanableLog
from kmini.storage.cleaner.dirtiness import assess, capture

Bench = Any
MakeBench = Callable[..., Bench]


@pytest.fixture
def bench(make_cleaning_bench: MakeBench) -> Bench:
    """Four sealed segments of one record each, and an empty active one."""
    bench = make_cleaning_bench()
    for key in "abcd":
        bench.put((key, "1"))
        bench.roll()
    return bench


def captured(bench: Bench, checkpoint: int | None = None) -> CleanableLog:
    return capture(bench.log, assess(bench.log, checkpoint, bench.now_ms))


def bases(segments: Any) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_the_active_segment_is_not_cleanable(bench: Bench) -> None:
    log = captured(bench)
    assert (bases(log.segments), bases(log.later_segments)) == ([0, 1, 2, 3], [4])
    assert (log.first_dirty_offset, log.end_offset) == (0, 4)


@pytest.mark.parametrize(("checkpoint", "dirty"), [(None, [0, 1, 2, 3]), (2, [2, 3]), (4, [])])
def test_segments_from_the_first_dirty_offset_on_are_dirty(
    bench: Bench, checkpoint: int | None, dirty: list[int]
) -> None:
    assert bases(captured(bench, checkpoint).dirty_segments) == dirty


def test_it_stays_as_it_was_whatever_the_log_does(bench: Bench) -> None:
    log = captured(bench)
    bench.put(("e", "1"))
    bench.roll()
    assert (bases(log.segments), log.end_offset) == ([0, 1, 2, 3], 4)


def test_without_segments_there_are_no_aborted_transactions(bench: Bench) -> None:
    assert captured(bench).aborted_transactions([]) == []
