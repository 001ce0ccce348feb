"""Deadlines and back-off, in real time (brokers are live, whatever a test does to log time)."""

from __future__ import annotations

import asyncio
import math
import time

FIRST_PAUSE_MS = 20
LONGEST_PAUSE_MS = 1_000
"""Milliseconds between two attempts, at first and at most."""


class Deadline:
    """The end of a wait. Made with the time from now in milliseconds; passed down in the place of time-outs."""

    __slots__ = ("_at",)

    def __init__(self, timeout_ms: float) -> None:
        self._at = time.monotonic() + timeout_ms / 1000

    @property
    def remaining_ms(self) -> int:
        """Milliseconds until the deadline, rounded up and never negative: a wait of this length ends after it."""
        return max(0, math.ceil((self._at - time.monotonic()) * 1000))

    @property
    def has_passed(self) -> bool:
        return time.monotonic() >= self._at


class Backoff:
    """Pauses between attempts: each twice as long as the one before, up to a second, and never beyond the deadline."""

    __slots__ = ("_deadline", "_pause_ms")

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._pause_ms = FIRST_PAUSE_MS

    async def pause(self) -> bool:
        """Wait; return whether there is time for another attempt."""
        await asyncio.sleep(min(self._pause_ms, self._deadline.remaining_ms) / 1000)
        self._pause_ms = min(self._pause_ms * 2, LONGEST_PAUSE_MS)
        return not self._deadline.has_passed
