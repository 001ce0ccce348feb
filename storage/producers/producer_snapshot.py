"""Producer snapshots: the state of each producer at an offset, so that a restart need not replay the whole log.

`NN.snapshot` has the state after every record below offset NN. It has only the LAST batch of each producer: after a
restart a repetition of that batch is recognised, and one of the four before it is not. The file has a CRC. A damaged
one is removed; the next older one takes its place, and more of the log is replayed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from struct import Struct

from ...protocol.records.batch import NO_SEQUENCE
from ...protocol.records.crc import crc32c
from ..filenames import PRODUCER_SNAPSHOT, SegmentFile, parse_segment_file, segment_path
from ..filesystem import FileSystem
from .producer_entry import CachedBatch, ProducerEntry

NO_OFFSET = -1
"""In place of an offset in a snapshot: no batch, or no open transaction."""

_VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")
"""The fields of one producer in a snapshot: the arguments of `entry_of`."""


class SnapshotCorrupt(Exception):
    """The file is not a whole snapshot of version 1."""


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


_EMPTY = encode_snapshot(())


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Decode a snapshot. SnapshotCorrupt if version, checksum or length are wrong."""
    if data == _EMPTY:
        return []  # a start with thousands of partitions reads thousands of these
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
    """Return the producer of an ENTRY with these fields."""
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        timestamp,
        None if transaction_first_offset < 0 else transaction_first_offset,
        (CachedBatch(last_sequence, last_offset, offset_delta, timestamp),) if last_offset >= 0 else (),
    )


def list_snapshots(filesystem: FileSystem, directory: str) -> list[int]:
    """Return the offsets of the snapshots in a partition's directory, ascending."""
    return snapshots_among(filter(None, map(parse_segment_file, filesystem.list(directory))))


def snapshots_among(files: Iterable[SegmentFile]) -> list[int]:
    """Return the offsets of the snapshots among the files of a partition's directory, ascending."""
    return sorted(file.base_offset for file in files if file.kind == PRODUCER_SNAPSHOT and not file.suffix)


def write_snapshot(filesystem: FileSystem, directory: str, offset: int, entries: Iterable[ProducerEntry]) -> str:
    """Write `<offset>.snapshot`; return its path. The flush of the segment syncs it, off the loop."""
    path, data = segment_path(directory, offset, PRODUCER_SNAPSHOT), encode_snapshot(entries)
    with contextlib.closing(filesystem.open(path, create=True)) as file:
        if file.size == len(data) and file.read_at(0, len(data)) == data:
            return path  # recovery comes to the state that the last process has written
        if file.size:
            file.truncate(0)
        file.append(data)
    return path


def remove_stray_snapshots(
    filesystem: FileSystem, directory: str, snapshots: Sequence[int], segment_base_offsets: Iterable[int]
) -> list[int]:
    """Remove those of a log's `snapshots`, ascending, that belong to no segment; return the others. The newest one
    stays if it lies beyond the last base offset: closing the log wrote it, at the log end offset."""
    bases = set(segment_base_offsets)
    kept = [offset for offset in snapshots if offset in bases]
    if snapshots and (not bases or snapshots[-1] > max(bases)):
        kept.append(snapshots[-1])
    remove_snapshots(filesystem, directory, [offset for offset in snapshots if offset not in kept])
    return kept


def remove_snapshots(filesystem: FileSystem, directory: str, offsets: Iterable[int]) -> None:
    """Remove the snapshots at these offsets, as far as there are any."""
    for offset in offsets:
        with contextlib.suppress(FileNotFoundError):
            filesystem.remove(segment_path(directory, offset, PRODUCER_SNAPSHOT))
