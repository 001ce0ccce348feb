"""Counts of the parts of a log, which can be added up in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .report import RecordTotals

MATCHES = 20
"""Most records of requested keys that the report names in one file."""

SUPERSEDED, DELETED, ABORTED = "superseded", "deleted", "aborted"
"""Reasons for a dead value: a later value of its key, a later tombstone, or an aborted transaction."""
TOMBSTONE, MARKER = "tombstone", "marker"
"""Kinds of records with a delete horizon (KIP-534)."""
BINS = 72
"""Number of bins of a histogram over times: bin n is from 2^(n/2) - 1 to below 2^((n+1)/2) - 1 seconds."""


def bins_of(durations_ms: Any) -> Any:
    """The bin of each duration; a negative duration is in bin 0."""
    seconds = np.maximum(durations_ms, 0) / 1000.0
    return np.minimum((2 * np.log2(seconds + 1)).astype(np.int64), BINS - 1)


def bin_start_s(number: float) -> float:
    """The begin of a bin, in seconds."""
    return float(2 ** (number / 2) - 1)


class Example(NamedTuple):
    """A record that was found. Examples are ordered: the smallest is the oldest."""

    since_ms: int
    """Time of its death, or its delete horizon, in ms since the epoch."""
    file: int
    offset: int
    written_ms: int


class Match(NamedTuple):
    """A record of a requested key."""

    key: int
    """Number among the requested keys."""
    file: int
    offset: int
    position: int
    """Position of its batch in the file."""
    written_ms: int
    is_tombstone: bool
    value_bytes: int
    """Bytes of the value; -1 without one."""
    horizon_ms: int
    """Delete horizon in ms since the epoch; -1 without one."""


class Damage(NamedTuple):
    """A part of a file that is unreadable."""

    file: int
    position: int
    size_bytes: int
    problem: str
    key_numbers: tuple[int, ...] = ()
    """Numbers of the requested keys whose bytes are in it."""


def oldest_of(since_ms: Any, file: Any, offset: Any, written_ms: Any) -> Example:
    """The oldest of some records, of which there is at least one. The arguments are their columns."""
    first = np.flatnonzero(since_ms == since_ms.min())
    columns = (since_ms[first], file[first], offset[first], written_ms[first])
    return min(Example(*each) for each in zip(*(column.tolist() for column in columns), strict=True))


def zeros() -> Any:
    return np.zeros(BINS, np.int64)


@dataclass(kw_only=True)
class Tally(RecordTotals):
    """The counts of some files or buckets of one log. Only visible records count, no control records."""

    records: int = 0
    """Number of records read, control records included."""
    bytes_read: int = 0
    """Bytes of files read."""
    live_bytes: int = 0
    """Bytes of the visible records of the log, decompressed."""
    uncompacted: Any = field(default_factory=zeros)
    """Bytes of records in the dirty part, by age."""
    dead: Any = field(default_factory=zeros)
    """Bytes of dead records, by the time since their death."""
    left_records: int = 0
    """Records in files that are no part of the log."""
    late: Counter[str] = field(default_factory=Counter)
    """Records past a bound or horizon, by kind."""
    late_bytes: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, Example] = field(default_factory=dict)
    """The oldest record past a bound or horizon, by kind."""
    orphans: Counter[int] = field(default_factory=Counter)
    """Values in files outside the log whose key has no later record in the log, by file."""
    oldest_dead: Example | None = None
    """The value that has been dead for longest, late or not."""
    matches: list[Match] = field(default_factory=list)
    match_counts: Counter[tuple[int, int, bool]] = field(default_factory=Counter)
    """Number of matches by key, file, and whether the record is a tombstone."""
    damages: list[Damage] = field(default_factory=list)
    """Damaged places; at most `MAX_DAMAGES` of each file."""
    damage_counts: Counter[int] = field(default_factory=Counter)
    """Number of damaged places by file."""
    unread: list[tuple[int, str]] = field(default_factory=list)
    """Unreadable files, each with its problem."""

    def note_late(self, kind: str, count: int, size_bytes: int, oldest: Example) -> None:
        self.late[kind] += count
        self.late_bytes[kind] += size_bytes
        self.oldest[kind] = min(oldest, self.oldest.get(kind, oldest))

    def note_dead(self, oldest: Example) -> None:
        """Note the oldest of some dead values."""
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
        """Sort by file and offset, after tallies were added in no order."""
        self.matches.sort(key=lambda match: (match.file, match.offset))
        self.damages.sort()
        self.unread.sort()


_SUMS = ("records", "bytes_read", "live_bytes", "uncompacted", "dead", "left_records", "matches", "damages", "unread")
"""Fields of `Tally` that are added up with `+`, beside those of `RecordTotals`."""
