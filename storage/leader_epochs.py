"""The start offset of each leader epoch of a partition: replicas find by them where they diverge (KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1
"""Answers of OffsetsForLeaderEpoch that say that an epoch is not known."""


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Sorted (epoch, start offset) entries, both strictly increasing. In memory; the next flush writes the file.

    Only `assign` adds entries: at an append that carries a new epoch, and when this broker becomes leader. Truncation
    from either end removes them. Every method that may change entries returns whether it did: then
    `leader-epoch-checkpoint` must be written from `entries`. (Apache Kafka: LeaderEpochFileCache.)
    """

    __slots__ = ("_entries", "latest_epoch")

    _entries: tuple[EpochEntry, ...]
    latest_epoch: int
    """-1 if none is known."""

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries = ()
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __repr__(self) -> str:
        return f"LeaderEpochs({[tuple(entry) for entry in self.entries]})"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        """Immutable, replaced as a whole, so that a thread may write it."""
        return self._entries

    @entries.setter
    def entries(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest_epoch = entries[-1].epoch if entries else UNDEFINED_EPOCH

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self.entries[-1] if self.entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Let `epoch` begin at `start_offset`, and remove the entries that contradict it.

        No effect if `epoch` is the latest one and began at or before that offset.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"negative leader epoch or start offset: {epoch}, {start_offset}")
        latest = self.latest_entry
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        kept = self.entries
        while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
            kept = kept[:-1]
        self.entries = (*kept, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Remove the epochs that began at `end_offset`, where the log ends now, or later."""
        kept = self.entries[: bisect_left(self.entries, end_offset, key=_start_offset)]
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """Let the epoch that holds `start_offset`, where the log starts now, begin there; remove those before it."""
        count = bisect_right(self.entries, start_offset, key=_start_offset)
        if not count or (count == 1 and self.entries[0].start_offset == start_offset):
            return False
        self.entries = (EpochEntry(self.entries[count - 1].epoch, start_offset), *self.entries[count:])
        return True

    def clear(self) -> bool:
        """Remove all entries: the log was emptied, or its format has no epochs."""
        changed = bool(self.entries)
        self.entries = ()
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of `epoch`: the answer of OffsetsForLeaderEpoch.

        | requested                      | answer                                                          |
        |--------------------------------|-----------------------------------------------------------------|
        | -1                             | (-1, -1)                                                        |
        | the latest                     | (it, log end offset)                                            |
        | one above all entries          | (-1, -1)                                                        |
        | one below all entries          | (it, start of the first)                                        |
        | any other                      | (greatest known at or below it, start of the next one above it) |
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        above = bisect_right(self.entries, epoch, key=_epoch)
        if above == len(self.entries):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        known = self.entries[above - 1].epoch if above else epoch
        return known, self.entries[above].start_offset


def _epoch(entry: EpochEntry) -> int:
    return entry.epoch


def _start_offset(entry: EpochEntry) -> int:
    return entry.start_offset
