"""The row of segments of a log: how they come, go and are replaced, and what their files are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmini.storage.segments import ANOTHER_SEGMENT

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

    def test_a_limit_in_a_later_segment_is_more_than_anyone_waits_for(self, bench: Bench) -> None:
        bench.fill(segments=1)
        bench.append("c")
        assert bench.log.bytes_between(0, 3) == ANOTHER_SEGMENT

    def test_a_limit_at_the_end_of_a_sealed_segment_is_not(self, bench: Bench, batch_size: Callable[..., int]) -> None:
        bench.append("a")
        bench.log.roll(bench.now_ms)
        bench.append("b")
        assert bench.log.bytes_between(0, 1) == batch_size("a")
