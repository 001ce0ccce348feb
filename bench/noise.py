"""How noisy the machine is: a fixed piece of work, timed again and again while a benchmark runs."""

from __future__ import annotations

import statistics
import time
import zlib

WORK = bytes(range(256)) * 4096
"""1 MiB."""
REPETITIONS = 20
SLOW = 1.25
"""A run of the work that took so many times as long as the fastest one was disturbed."""
DISTURBED_SHARE = 0.2
"""The share of disturbed runs above which figures are not to be trusted."""


class Noise:
    """Call `sample` between the measurements, and `sentence` after them."""

    def __init__(self) -> None:
        self._times_ms: list[float] = []

    def sample(self) -> None:
        """Do the work once, some milliseconds of one core, and note how long it took."""
        began = time.perf_counter()
        for _ in range(REPETITIONS):
            zlib.crc32(WORK)
        self._times_ms.append((time.perf_counter() - began) * 1000)

    @property
    def is_too_much(self) -> bool:
        disturbed = sum(time_ms > SLOW * min(self._times_ms) for time_ms in self._times_ms)
        return disturbed > DISTURBED_SHARE * len(self._times_ms)

    def sentence(self) -> str:
        """What the samples say about the figures that were measured between them."""
        times = self._times_ms
        median, low, high = statistics.median(times), min(times), max(times)
        told = f"A fixed piece of work took {median:.1f} ms ({low:.1f}–{high:.1f})"
        if self.is_too_much:
            return f"**The machine was too noisy for these figures.** {told} between the rounds. Run it again."
        return f"{told} between the rounds, so the machine was quiet enough."
