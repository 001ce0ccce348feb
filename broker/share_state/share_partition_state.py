"""The state of one share partition, as its records make it (KIP-932). This module neither waits nor writes.

Batches are offsets of one state and delivery count, in order and without overlap. Where a batch is written over others,
the higher delivery count wins, then the state of the higher number; neighbours that are equal become one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.messages.read_share_group_state import StateBatch
from .persister import NO_OFFSET, NOT_COUNTED
from .share_group_state_records import ShareSnapshotValue, ShareUpdateValue


class Run(NamedTuple):
    """Offsets of one state."""

    first: int
    last: int
    state: int
    delivery_count: int
    """How many times they were delivered."""


def runs_of(batches: Iterable[StateBatch]) -> list[Run]:
    """The batches of a message or a record."""
    return [Run(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in batches]


def batches_of(runs: Iterable[Run]) -> list[StateBatch]:
    """The batches for a message or a record."""
    return [
        StateBatch(
            first_offset=run.first, last_offset=run.last, delivery_state=run.state, delivery_count=run.delivery_count
        )
        for run in runs
    ]


class SharePartitionState:
    """What the records of a share partition say."""

    __slots__ = (
        "create_timestamp_ms",
        "delivery_complete_count",
        "known_leader_epoch",
        "leader_epoch",
        "runs",
        "snapshot_epoch",
        "snapshot_offset",
        "start_offset",
        "state_epoch",
        "updates",
        "write_timestamp_ms",
    )

    def __init__(self, snapshot: ShareSnapshotValue, offset: int, former: SharePartitionState | None = None) -> None:
        """The state of a snapshot at an offset of its partition; `former` is the one whose place it takes."""
        self.snapshot_epoch: int = snapshot.snapshot_epoch
        self.state_epoch: int = snapshot.state_epoch
        self.leader_epoch: int = snapshot.leader_epoch
        self.known_leader_epoch: int = max(self.leader_epoch, 0 if former is None else former.known_leader_epoch)
        """The highest one: a state that begins anew has none of its own, and still fences former leaders."""
        self.start_offset: int = snapshot.start_offset
        self.delivery_complete_count: int = snapshot.delivery_complete_count
        self.create_timestamp_ms: int = snapshot.create_timestamp
        self.write_timestamp_ms: int = snapshot.write_timestamp
        self.runs = merged([], runs_of(snapshot.state_batches), snapshot.start_offset)
        self.updates = 0
        """Updates since the snapshot."""
        self.snapshot_offset = offset
        """Where the snapshot is in its partition: records below those of all states mean nothing any more."""

    def update(self, update: ShareUpdateValue) -> None:
        """Apply an update."""
        self.updates += 1
        self.leader_epoch = update.leader_epoch
        self.known_leader_epoch = max(self.known_leader_epoch, update.leader_epoch)
        if update.start_offset != NO_OFFSET:
            self.start_offset = update.start_offset
        if update.delivery_complete_count != NOT_COUNTED:
            self.delivery_complete_count = update.delivery_complete_count
        self.runs = merged(self.runs, runs_of(update.state_batches), self.start_offset)

    def copy(self) -> SharePartitionState:
        """The same state, to try an update on."""
        copy = object.__new__(SharePartitionState)
        for name in self.__slots__:
            setattr(copy, name, getattr(self, name))
        return copy

    def snapshot(self, now_ms: int) -> ShareSnapshotValue:
        """The next snapshot."""
        return ShareSnapshotValue(
            snapshot_epoch=self.snapshot_epoch + 1,
            state_epoch=self.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=self.start_offset,
            delivery_complete_count=self.delivery_complete_count,
            create_timestamp=self.create_timestamp_ms,
            write_timestamp=now_ms,
            state_batches=batches_of(self.runs),
        )


def merged(present: Sequence[Run], written: Iterable[Run], start_offset: int) -> list[Run]:
    """Batches with others written over them, without what is below the start offset. All of `present` are in order."""
    runs = [*present]
    for run in written:
        if run.first <= run.last:
            _write_over(runs, run)
    if start_offset != NO_OFFSET:
        kept = bisect_left(runs, start_offset, key=lambda run: run.last)
        del runs[:kept]
        if runs and runs[0].first < start_offset:
            runs[0] = runs[0]._replace(first=start_offset)
    return runs


def _write_over(runs: list[Run], new: Run) -> None:
    """Put one batch into others, which are in order."""
    begin = bisect_left(runs, new.first - 1, key=lambda run: run.last)
    end = begin
    while end < len(runs) and runs[end].first <= new.last + 1:
        end += 1
    pieces: list[Run] = []
    position = new.first
    for run in runs[begin:end]:
        if run.first < new.first:
            _join(pieces, run._replace(last=min(run.last, new.first - 1)))
        if position < run.first and position <= new.last:
            _join(pieces, new._replace(first=position, last=min(new.last, run.first - 1)))
        low, high = max(run.first, new.first), min(run.last, new.last)
        if low <= high:
            winner = max(run, new, key=lambda one: (one.delivery_count, one.state))
            _join(pieces, winner._replace(first=low, last=high))
        if run.last > new.last:
            _join(pieces, run._replace(first=max(run.first, new.last + 1)))
        position = max(position, run.last + 1)
    if position <= new.last:
        _join(pieces, new._replace(first=position))
    runs[begin:end] = pieces


def _join(pieces: list[Run], run: Run) -> None:
    """Append a batch, or let the last one grow by it."""
    if pieces and pieces[-1][2:] == run[2:] and pieces[-1].last + 1 == run.first:
        pieces[-1] = pieces[-1]._replace(last=run.last)
    else:
        pieces.append(run)
