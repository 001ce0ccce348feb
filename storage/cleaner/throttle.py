"""`log.cleaner.io.max.bytes.per.second`: a limit on the bytes that all cleaner threads together read and write."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_CHECK_SECONDS = 0.3
"""Seconds between two checks of the rate."""


class Throttle:
    """Makes a thread sleep that finds the rate exceeded. For any thread."""

    def __init__(
        self,
        bytes_per_second: float,
        *,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        """May be changed at any time."""
        self._seconds = seconds
        self._sleep = sleep
        self._lock = threading.Lock()
        self._since = seconds()
        self._count = 0

    def on_bytes(self, count: int) -> None:
        """Count bytes that were read or written. May sleep."""
        with self._lock:
            self._count += count
            elapsed = self._seconds() - self._since
            if elapsed < _CHECK_SECONDS:
                return
            pause = self._count / self.bytes_per_second - elapsed if self.bytes_per_second > 0 else 0.0
            if pause > 0:
                self._sleep(pause)
            self._since = self._seconds()
            self._count = 0
