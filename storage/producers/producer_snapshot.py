"""Producer snapshots: what is known of each producer, up to an offset, so that a restart need not replay the whole log.

`NN.snapshot` holds the state after every record below offset NN. It keeps only the LAST batch of each producer: after a
restart a repetition of the last batch is recognised, of the four before it no more. The file is checked with a CRC and
never needed: one that is damaged is removed, and an older one with more of the log to replay takes its place.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, decrement_sequence
from ...protocol.records.crc import crc32c
from ..filenames import PRODUCER_SNAPSHOT, parse_segment_file, segment_path
from ..filesystem import FileSystem

NO_OFFSET = -1
"""In place of an offset in a snapshot: no batch, or no open transaction."""

_VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")
"""The fields of one producer, as `entry_of` takes them."""


class SnapshotCorrupt(Exception):
    """The file is not a whole snapshot of the version we know."""


class CachedBatch(NamedTuple):
    """What is remembered of a batch, to recognise its repetition and to answer it as the first time."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    """The batch's largest timestamp: the log append time where the topic uses that."""

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


class ProducerEntry(NamedTuple):
    """What a partition knows of one producer id. Immutable: a change makes a new one."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_PRODUCER_EPOCH
    """Of the transaction coordinator that wrote the last marker: an older one is fenced."""
    last_timestamp: int = NO_TIMESTAMP
    """Record time, not arrival time, of the last batch or marker: what expiry goes by."""
    transaction_first_offset: int | None = None
    """Where the open transaction began in this partition; None when none is open."""
    batches: tuple[CachedBatch, ...] = ()
    """The last five of this epoch, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """The remembered batch that this one repeats: same epoch, first and last sequence."""
        if header.producer_epoch != self.epoch or header.base_sequence == self.last_sequence + 1:
            return None  # the second is the common case: the next batch
        last = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    body = bytearray(_COUNT.size)
    count = 0
    for entry in entries:
        last = entry.batches[-1] if entry.batches else CachedBatch(NO_SEQUENCE, NO_OFFSET, 0, -1)
        first_offset = entry.transaction_first_offset
        body += ENTRY.pack(
            entry.producer_id,
            entry.epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            NO_OFFSET if first_offset is None else first_offset,
        )
        count += 1
    _COUNT.pack_into(body, 0, count)
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """SnapshotCorrupt if version, checksum or length are not right."""
    header_size = _PREFIX.size + _COUNT.size
    if len(data) < header_size:
        raise SnapshotCorrupt(f"{len(data)} bytes are too few")
    version, crc = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise SnapshotCorrupt(f"version {version} is unknown")
    if crc != crc32c(memoryview(data)[_PREFIX.size :]):
        raise SnapshotCorrupt("the checksum does not match")
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    if count < 0 or len(data) != header_size + count * ENTRY.size:
        raise SnapshotCorrupt(f"{len(data)} bytes do not hold {count} entries")
    return [entry_of(*fields) for fields in ENTRY.iter_unpack(memoryview(data)[header_size:])]


def entry_of(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    """What the fields of an ENTRY say."""
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        None if transaction_first_offset < 0 else transaction_first_offset,
        (CachedBatch(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else (),
    )


def list_snapshots(filesystem: FileSystem, directory: str) -> list[int]:
    """The offsets of the snapshots in a partition's directory, ascending."""
    parsed = map(parse_segment_file, filesystem.list(directory))
    return sorted(file.base_offset for file in parsed if file and file.kind == PRODUCER_SNAPSHOT and not file.suffix)


def write_snapshot(filesystem: FileSystem, directory: str, offset: int, entries: Iterable[ProducerEntry]) -> str:
    """Write `<offset>.snapshot`; returns its path. Not synced: the caller does that with the segment, off the loop."""
    path = segment_path(directory, offset, PRODUCER_SNAPSHOT)
    with contextlib.closing(filesystem.open(path, create=True)) as file:
        if file.size:
            file.truncate(0)
        file.append(encode_snapshot(entries))
    return path


def remove_stray_snapshots(filesystem: FileSystem, directory: str, segment_base_offsets: Iterable[int]) -> None:
    """At load: remove the snapshots that belong to no segment, except the newest one if it lies beyond the last base.

    That one was written when the log was closed, at its end.
    """
    bases = set(segment_base_offsets)
    strays = [offset for offset in list_snapshots(filesystem, directory) if offset not in bases]
    if strays and (not bases or strays[-1] > max(bases)):
        strays.pop()
    for offset in strays:
        filesystem.remove(segment_path(directory, offset, PRODUCER_SNAPSHOT))
