"""The outcomes of the transactions in a log, read from the log itself without its indexes.

The next marker of its producer decides about a record. A cleaner keeps a marker while data of its transaction is left
(KIP-534), so a record without a marker belongs to an open transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ...storage.config_key import MAX_LONG

BEGUN, ABORTED, COMMITTED = 0, 1, 2


class Event(NamedTuple):
    """The begin or the end of a transaction."""

    kind: int
    """BEGUN: the first data of a producer since its last marker. ABORTED, COMMITTED: a marker."""
    producer_id: int
    offset: int
    timestamp: int


class EventsOfFile:
    """The events of one file, without the transactions that both begin and commit in it."""

    def __init__(self) -> None:
        self._events: dict[int, Event] = {}
        self._begun: dict[int, int] = {}
        self._ended: set[int] = set()
        """Producers with a marker in this file; the first one may end a transaction that began in another file."""
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


class TransactionOutcomes(NamedTuple):
    """The aborted and open transactions of a log."""

    aborted: dict[int, tuple[Any, Any, Any]]
    """By producer: three arrays of the same length, ascending: offset of the first record, offset of the marker, time
    of the marker."""
    open: dict[int, int]
    """By producer: the offset of the first record of its open transaction."""

    @property
    def first_open_offset(self) -> int:
        """The first offset that is not stable; 2^63 - 1 if all offsets are."""
        return min(self.open.values(), default=MAX_LONG)

    def of(self, producer_ids: Any, offsets: Any) -> tuple[Any, Any]:
        """For each transactional record: the time of its abort (2^63 - 1 if not aborted), and whether its transaction
        is open."""
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


def outcomes_of(events: Iterable[Event]) -> TransactionOutcomes:
    """Make the outcomes from all events of a log, in the order of its files."""
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
    return TransactionOutcomes(columns, begun)  # type: ignore[arg-type]


NO_TRANSACTIONS = TransactionOutcomes({}, {})
