"""What parts of a log were found to be, in numbers that can be added up in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .report import RecordTotals

MATCHES = 20
"""Copies of a key that are named, of each file."""

SUPERSEDED, DELETED, ABORTED = "superseded", "deleted", "aborted"
"""Why a value is dead: its key has a later value; a later tombstone; its transaction was aborted."""
TOMBSTONE, MARKER = "tombstone", "marker"
"""What has a delete horizon (KIP-534)."""
BINS = 72
"""Of a histogram over times: bin n holds what is from 2^(n/2) - 1 to below 2^((n+1)/2) - 1 seconds."""


def bins_of(durations_ms: Any) -> Any:
    """The numbers of the bins of these durations; what is negative is in bin 0."""
    seconds = np.maximum(durations_ms, 0) / 1000.0
    return np.minimum((2 * np.log2(seconds + 1)).astype(np.int64), BINS - 1)


def bin_start_s(number: float) -> float:
    """Where a bin begins, in seconds."""
    return float(2 ** (number / 2) - 1)


class Example(NamedTuple):
    """A record that was found; the first in order is the oldest."""

    since_ms: int
    """When it died, or its delete horizon."""
    file: int
    offset: int
    written_ms: int


class Match(NamedTuple):
    """A record with one of the keys that were asked for."""

    key: int
    """Its number among the keys."""
    file: int
    offset: int
    position: int
    """Of its batch in the file."""
    written_ms: int
    is_tombstone: bool
    value_bytes: int
    """-1 if it has no value."""
    horizon_ms: int
    """Its delete horizon; -1 if it has none."""


class Damage(NamedTuple):
    """A part of a file that could not be read as records."""

    file: int
    position: int
    size_bytes: int
    problem: str
    key_numbers: tuple[int, ...] = ()
    """Keys whose bytes are in it."""


def oldest_of(since_ms: Any, file: Any, offset: Any, written_ms: Any) -> Example:
    """The first of some records, at least one, whose columns these are."""
    first = np.flatnonzero(since_ms == since_ms.min())
    columns = (since_ms[first], file[first], offset[first], written_ms[first])
    return min(Example(*each) for each in zip(*(column.tolist() for column in columns), strict=True))


def zeros() -> Any:
    return np.zeros(BINS, np.int64)


@dataclass(kw_only=True)
class Tally(RecordTotals):
    """What the audit found in some files or buckets of one log. Only visible records count, no control records."""

    records: int = 0
    """Of all kinds, control records too, that were read."""
    bytes_read: int = 0
    """Of files."""
    live_bytes: int = 0
    """Of the log's visible records, as they stand."""
    uncompacted: Any = field(default_factory=zeros)
    """Bytes of records in the dirty part, by their age."""
    dead: Any = field(default_factory=zeros)
    """Bytes of dead records, by the time since their death."""
    left_records: int = 0
    """Records in files that are no part of the log."""
    late: Counter[str] = field(default_factory=Counter)
    """Records past a bound or horizon, by kind."""
    late_bytes: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, Example] = field(default_factory=dict)
    """Of the late ones, by kind."""
    orphans: Counter[int] = field(default_factory=Counter)
    """By file that is no part of the log: values that the log has not, and no later record of their keys either."""
    oldest_dead: Example | None = None
    """The value that has been dead for longest, late or not."""
    matches: list[Match] = field(default_factory=list)
    match_counts: Counter[tuple[int, int, bool]] = field(default_factory=Counter)
    """By key, file, and whether it deletes the key."""
    damages: list[Damage] = field(default_factory=list)
    """Not all of them, if there are many."""
    damage_counts: Counter[int] = field(default_factory=Counter)
    """All, by file."""
    unread: list[tuple[int, str]] = field(default_factory=list)
    """Files that could not be read at all, and why."""

    def note_late(self, kind: str, count: int, size_bytes: int, oldest: Example) -> None:
        self.late[kind] += count
        self.late_bytes[kind] += size_bytes
        self.oldest[kind] = min(oldest, self.oldest.get(kind, oldest))

    def note_dead(self, oldest: Example) -> None:
        """The value among some dead ones that has been dead for longest."""
        self.oldest_dead = min(oldest, self.oldest_dead or oldest)

    def add(self, other: Tally) -> None:
        """Add the tally of another part of the same log."""
        self.add_totals(other)
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for kind, example in other.oldest.items():
            self.oldest[kind] = min(example, self.oldest.get(kind, example))
        if other.oldest_dead is not None:
            self.note_dead(other.oldest_dead)
        for name in ("late", "late_bytes", "orphans", "match_counts", "damage_counts"):
            getattr(self, name).update(getattr(other, name))

    def sort(self) -> None:
        """Bring what was added up in no order into that of the files."""
        self.matches.sort(key=lambda match: (match.file, match.offset))
        self.damages.sort()
        self.unread.sort()


_SUMS = ("records", "bytes_read", "live_bytes", "uncompacted", "dead", "left_records", "matches", "damages", "unread")
"""Fields of `Tally` that are added up with `+`, beside those of `RecordTotals`."""
