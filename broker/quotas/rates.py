"""Rates as Apache Kafka measures them for quotas: over samples (`Rate`), and by a bucket of tokens (`TokenBucket`).
`Sensors` keeps a bounded number of them.

Times are milliseconds of liveness. What is counted is in a unit of its own: bytes, percent, partitions, connections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MOST_MS = (1 << 31) - 1
"""The longest time that an answer can tell."""

IDLE_MS = 3_600_000
"""Milliseconds after which what is not used any more is forgotten, as in Kafka."""

MAX_SENSORS = 10_000
"""Rates of one kind that are kept; a further one takes the place of that which was not used for the longest time.
Kafka keeps any number."""


class Windows(NamedTuple):
    """The samples of a quota: how many are kept, and how long each of them lasts."""

    number: int
    length_ms: int


def rounded(time_ms: float) -> int:
    """A time in whole milliseconds, as Java's `Math.round` rounds it."""
    return min(math.floor(time_ms + 0.5), MOST_MS)


class _Sample:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.restart(now_ms)

    def restart(self, now_ms: int) -> None:
        self.value = 0.0
        self.began_ms = self.last_ms = now_ms


class Rate:
    """How much there was in a second, over the last windows.

    There are samples of one window more than is measured, because the oldest one may reach into the measured time. At
    least all windows but one count as over, so a client may use in a moment what it may use in ten seconds.
    """

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Count `value`; a negative one takes back what was counted."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.began_ms >= self._windows.length_ms:
            sample = self._next(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _next(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].restart(now_ms)
        return self._samples[self._current]

    def per_second(self, now_ms: int) -> float:
        """The rate."""
        window_ms = self.window_ms(now_ms)  # which lets old samples go
        return sum(sample.value for sample in self._samples) / (window_ms / 1000)

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured."""
        number, length_ms = self._windows
        for sample in self._samples:
            if now_ms - sample.last_ms >= number * length_ms:
                sample.restart(now_ms)
        began_ms = min((sample.began_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - began_ms
        missing = max(number - 1 - elapsed_ms // length_ms, 0)
        return max(elapsed_ms + missing * length_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may come until the rate is `bound` again; 0 while it is not above that."""
        rate = self.per_second(now_ms)
        if rate <= bound:
            return 0
        return rounded((rate - bound) / bound * self.window_ms(now_ms))

    def bounded_throttle_ms(self, bound: float, now_ms: int) -> int:
        """The same, but no more than one window: that of time and of connections, as in Apache Kafka."""
        return min(self.throttle_ms(bound, now_ms), self._windows.length_ms)


class TokenBucket:
    """Tokens that come at a rate, up to those of all windows together. Any number may be taken while it is not below
    zero (KIP-599)."""

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf  # full, whatever the rate
        self._at_ms = 0

    def _refill(self, bound: float, now_ms: int) -> float:
        most = self._windows.number * self._windows.length_ms / 1000 * bound
        self._tokens = min(most, self._tokens + bound * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms
        return self._tokens

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take tokens, where `bound` come in a second."""
        self._tokens = self._refill(bound, now_ms) - value

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long it takes until there are no less than zero; 0 if so."""
        tokens = self._refill(bound, now_ms)
        return 0 if tokens >= 0 else rounded(-tokens / bound * 1000)


class Sensors(Generic[T]):
    """The rates of one kind of quotas."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: dict[Hashable, tuple[T, int]] = {}
        """Each with the time of its last use, least recently used first."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, sharers: Hashable, now_ms: int) -> T:
        """The rate of the clients that share a quota; a new one, if there is none."""
        found = self._kept.pop(sharers, None)
        if found is None:
            self._make_room(now_ms)
            sensor = self._make()
        else:
            sensor = found[0]
        self._kept[sharers] = sensor, now_ms
        return sensor

    def _make_room(self, now_ms: int) -> None:
        while self._kept:
            oldest, (_, used_ms) = next(iter(self._kept.items()))
            if now_ms - used_ms < IDLE_MS and len(self._kept) < MAX_SENSORS:
                return
            del self._kept[oldest]
