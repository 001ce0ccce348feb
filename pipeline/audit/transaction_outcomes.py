"""How the transactions in a log ended, read off the log itself: no index is asked.

The next marker of its producer decides about a record. A cleaner keeps a marker as long as data of its transaction is
left (KIP-534), so there is one, or the transaction is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...storage.config_key import MAX_LONG

BEGUN, ABORTED, COMMITTED = 0, 1, 2


class Event(NamedTuple):
    """Something about a transaction, met on the way through a log."""

    kind: int
    """BEGUN: the first data of a producer since its last marker. ABORTED, COMMITTED: a marker."""
    producer_id: int
    offset: int
    timestamp: int


class EventsOfFile:
    """The events of one file, short: what has surely begun in it and was committed in it is left out."""

    def __init__(self) -> None:
        self._events: dict[int, Event] = {}
        self._begun: dict[int, int] = {}
        self._ended: set[int] = set()
        """Producers with a marker in this file: before the first one, a transaction may have begun in another."""
        self._count = 0

    def data(self, producer_id: int, offset: int, timestamp: int) -> None:
        if producer_id not in self._begun:
            self._begun[producer_id] = self._add(Event(BEGUN, producer_id, offset, timestamp))

    def marker(self, kind: int, producer_id: int, offset: int, timestamp: int) -> None:
        begun = self._begun.pop(producer_id, None)
        if kind == COMMITTED and begun is not None:
            del self._events[begun]
        if kind == ABORTED or producer_id not in self._ended:
            self._add(Event(kind, producer_id, offset, timestamp))
        self._ended.add(producer_id)

    def events(self) -> tuple[Event, ...]:
        return tuple(self._events.values())

    def _add(self, event: Event) -> int:
        self._count += 1
        self._events[self._count] = event
        return self._count


class Fates(NamedTuple):
    """The transactions of a log that did not commit: what was aborted, and what is open."""

    aborted: dict[int, tuple[Any, Any, Any]]
    """By producer: three arrays of as many numbers: the offset of the first record, that of the marker, and when the
    marker was written; in ascending order."""
    open: dict[int, int]
    """By producer: the offset of its first record that nothing was decided about."""

    @property
    def first_open_offset(self) -> int:
        """What is at or above it is not stable; 2^63 - 1 if all is."""
        return min(self.open.values(), default=MAX_LONG)

    def of(self, producer_ids: Any, offsets: Any) -> tuple[Any, Any]:
        """For transactional records: when each was aborted (2^63 - 1 if it was not), and whether it is undecided."""
        died = np.full(len(offsets), MAX_LONG, np.int64)
        is_open = np.zeros(len(offsets), bool)
        for producer_id in np.unique(producer_ids).tolist() if self.aborted or self.open else ():
            mine = np.flatnonzero(producer_ids == producer_id)
            at = offsets[mine]
            if producer_id in self.aborted:
                firsts, markers, timestamps = self.aborted[producer_id]
                number = np.searchsorted(markers, at)
                within = number < len(markers)
                within[within] = firsts[number[within]] <= at[within]
                died[mine[within]] = timestamps[number[within]]
            if producer_id in self.open:
                is_open[mine] = at >= self.open[producer_id]
        return died, is_open


def fates_of(events: Iterable[Event]) -> Fates:
    """From all events of a log, in the order of its files."""
    begun: dict[int, int] = {}
    aborted: dict[int, list[tuple[int, int, int]]] = {}
    for kind, producer_id, offset, timestamp in events:
        if kind == BEGUN:
            begun.setdefault(producer_id, offset)
            continue
        first = begun.pop(producer_id, None)
        if kind == ABORTED and first is not None:
            aborted.setdefault(producer_id, []).append((first, offset, timestamp))
    columns = {
        producer_id: tuple(np.array(column, np.int64) for column in zip(*rows, strict=True))
        for producer_id, rows in aborted.items()
    }
    return Fates(columns, begun)  # type: ignore[arg-type]


NO_FATES = Fates({}, {})
