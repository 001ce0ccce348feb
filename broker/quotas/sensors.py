"""What clients have used of their quotas: a bounded number of rates, of which those without use are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

IDLE_MS = 3_600_000
"""Milliseconds after which what is not used any more is forgotten, as in Kafka."""

MAX_SENSORS = 10_000
"""Rates of one kind that are kept; a further one takes the place of that which was not used for the longest time.
Kafka keeps any number."""


class Sensors(Generic[T]):
    """The rates of one kind of quotas."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._kept: dict[Hashable, tuple[T, int]] = {}
        """Each with the time of its last use, least recently used first."""

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, sharers: Hashable, now_ms: int) -> T:
        """The rate of those who share a quota; a new one, if there is none."""
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
