"""Which leader epoch began at which offset of a partition: how replicas find out where they part (KIP-101, KIP-279)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    """Sorted (epoch, start offset) entries, both strictly increasing. In memory; the log's owner keeps the file.

    Raised by `assign` alone: at an append that carries a new epoch, and when this broker becomes leader. Lowered by
    truncation from either end. Every method that changes something returns whether it did: then the checkpoint
    `leader-epoch-checkpoint` must be written from `entries`.
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[int, int]] = ()) -> None:
        self.entries: tuple[EpochEntry, ...] = ()
        """Immutable, replaced as a whole: may be handed to a thread that writes it."""
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)

    def __repr__(self) -> str:
        return f"LeaderEpochs({[tuple(entry) for entry in self.entries]})"

    @property
    def latest_epoch(self) -> int:
        """-1 when none is known."""
        return self.entries[-1].epoch if self.entries else UNDEFINED_EPOCH

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self.entries[-1] if self.entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`; entries that contradict it go.

        No effect if it is the latest epoch already and began at or before that offset.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"no leader epoch begins so: epoch {epoch}, offset {start_offset}")
        latest = self.latest_entry
        if latest is not None and epoch == latest.epoch and start_offset >= latest.start_offset:
            return False
        kept = self.entries
        while kept and (kept[-1].epoch >= epoch or kept[-1].start_offset >= start_offset):
            kept = kept[:-1]
        self.entries = (*kept, EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """The log now ends at `end_offset`: epochs that began there or later never did."""
        kept = self.entries[: bisect_left(self.entries, end_offset, key=_start_offset)]
        changed = len(kept) < len(self.entries)
        self.entries = kept
        return changed

    def truncate_from_start(self, start_offset: int) -> bool:
        """The log now starts at `start_offset`: the epoch that holds it begins there, those before it are forgotten."""
        count = bisect_right(self.entries, start_offset, key=_start_offset)
        if not count or (count == 1 and self.entries[0].start_offset == start_offset):
            return False
        self.entries = (EpochEntry(self.entries[count - 1].epoch, start_offset), *self.entries[count:])
        return True

    def clear(self) -> bool:
        """Forget everything: the log was emptied, or written in a format that knows no epochs."""
        changed = bool(self.entries)
        self.entries = ()
        return changed

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Where `epoch` ended, as (epoch, end offset): the question of OffsetsForLeaderEpoch.

        | asked for                      | answer                                                          |
        |--------------------------------|-----------------------------------------------------------------|
        | -1                             | (-1, -1)                                                        |
        | the latest                     | (it, log end offset)                                            |
        | one beyond all we know         | (-1, -1)                                                        |
        | one before all we know         | (it, start of the first)                                        |
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
