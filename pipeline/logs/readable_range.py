"""The part of a partition's log that a consumer may read, found from the log's files.

A consumer that reads uncommitted data ends at the high watermark. A consumer with `read_committed` ends at the last
stable offset, the begin of the first open transaction, and skips the records of aborted transactions (KIP-98). A broker
has both in memory. Here they come from the transaction indexes of flushed segments, and, after the recovery point,
where an index may lag, from the markers themselves, beginning with the newest producer snapshot before it.

A broker may be running, so a result counts only if the same segments are there afterwards.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.errors import CorruptMessage, InvalidRecord
from ...protocol.records.control import parse_end_transaction_marker
from ...storage.filenames import LOG, PRODUCER_SNAPSHOT, TRANSACTION_INDEX, segment_path
from ...storage.filesystem import FileSystem, OsFileSystem
from ...storage.indexes.index_file import CorruptIndex
from ...storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from ...storage.inspect.dump_log import look
from ...storage.producers.producer_snapshot import (
    SnapshotCorrupt,
    decode_snapshot,
    list_snapshots,
)
from .log_dir import PartitionFolder, SegmentFile, list_segments
from .segment_bytes import SegmentBytes
from .segment_walk import next_batch

_TRIES = 20
_END = (1 << 63) - 1


class LogChanged(Exception):
    """The segments of a log kept changing while it was read."""


class ReadableRange(NamedTuple):
    """The part of a log that a consumer may read."""

    start_offset: int
    end_offset: int | None
    """None without a checkpointed high watermark: everything may be read."""
    segments: tuple[SegmentFile, ...]
    """The live segments that may hold readable records."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """Aborted transactions, whose records are skipped."""
    problems: tuple[str, ...] = ()
    """Reasons why the range ends early."""


def readable_range(folder: PartitionFolder, *, committed: bool, end_offset: int | None = None) -> ReadableRange:
    """Find the part of a log that a consumer may read, with read_committed if `committed`, and below `end_offset` if it
    is given.

    FileNotFoundError if the folder is gone, LogChanged if its segments keep changing.
    """
    filesystem = OsFileSystem()
    for _ in range(_TRIES):
        before = _identities(folder.path)
        folder = folder._replace(segments=list_segments(folder.path))
        try:
            found = _range_of(filesystem, folder, committed)
        except FileNotFoundError:
            if not os.path.isdir(folder.path):
                raise
            continue
        if _identities(folder.path) == before:
            break
    else:
        raise LogChanged(f"{folder.path}: its segments change all the time; try again when less is cleaned")
    if end_offset is not None:
        found = found._replace(end_offset=end_offset if found.end_offset is None else min(end_offset, found.end_offset))
    return found._replace(segments=tuple(_within(found.segments, found.start_offset, found.end_offset)))


def aborted_within(
    aborted: Iterable[AbortedTransaction], start_offset: int, end_offset: int | None
) -> list[AbortedTransaction]:
    """The transactions that may have records from `start_offset` to below `end_offset`."""
    end = _END if end_offset is None else end_offset
    return [one for one in aborted if one.last_offset >= start_offset and one.first_offset < end]


def _range_of(filesystem: FileSystem, folder: PartitionFolder, committed: bool) -> ReadableRange:
    segments = folder.live_segments
    start = max(folder.log_start_offset, segments[0].base_offset) if segments else folder.log_start_offset
    found = ReadableRange(start, folder.high_watermark, segments)
    if not committed or not segments:
        return found
    end = _END if folder.high_watermark is None else folder.high_watermark
    aborted: list[AbortedTransaction] = []
    unknown: int | None = None
    for segment in segments:
        segment_end = end if segment.end_offset is None else segment.end_offset
        if unknown is None and min(segment_end, end) <= folder.recovery_point:
            entries = _indexed(filesystem, folder.path, segment.base_offset)
            if entries is not None:
                aborted += entries
                continue
        unknown = segment.base_offset if unknown is None else unknown
    scan = _TransactionScan(min(end if unknown is None else unknown, end), end)
    scan.begin(filesystem, folder.path)
    for segment in segments if scan.since < end else ():  # a closed log has a snapshot at its end
        if segment.end_offset is None or segment.end_offset > scan.since:
            scan.follow(segment)
    stable = min([end, *scan.open.values()])
    problems = []
    if stable < end and (damaged := [at for at in scan.damage if at[0] >= stable]):
        where = ", ".join(f"{path} at byte {position}" for _, path, position in damaged[:3])
        problems.append(
            f"{folder.path}: a transaction is open since offset {stable}; its end may be in a damaged batch ({where}). "
            "Nothing is read from there on"
        )
    return found._replace(
        end_offset=None if stable == _END else stable,
        aborted=tuple({one.last_offset: one for one in sorted(aborted + scan.aborted)}.values()),
        problems=tuple(problems),
    )


class _TransactionScan:
    """Reads the transactions of a log from its batches, as a starting broker does."""

    def __init__(self, since: int, end_offset: int) -> None:
        """`since`: the offset from which every marker must be read."""
        self.since = since
        self.open: dict[int, int] = {}
        """Producer id -> the first offset of its open transaction."""
        self.aborted: list[AbortedTransaction] = []
        self.damage: list[tuple[int, str, int]] = []
        """Damaged batches: lowest possible offset, file, position."""
        self._end_offset = end_offset

    def begin(self, filesystem: FileSystem, folder: str) -> None:
        """Load the newest producer snapshot at or before `since`; without one, begin at the start of the log."""
        for offset in reversed(list_snapshots(filesystem, folder)):
            if offset > self.since:
                continue
            try:
                entries = decode_snapshot(filesystem.read(segment_path(folder, offset, PRODUCER_SNAPSHOT)))
            except (SnapshotCorrupt, FileNotFoundError):
                continue
            self.since = offset
            self.open = {
                entry.producer_id: entry.transaction_first_offset
                for entry in entries
                if entry.transaction_first_offset is not None
            }
            return
        self.since = 0

    def follow(self, segment: SegmentFile) -> None:
        with SegmentBytes(segment.path) as file:
            position, next_offset = 0, segment.base_offset
            while position < file.size:
                found = next_batch(file, position, next_offset, verify=False)
                position += found.size
                header = found.header
                if header is None or found.problem:
                    self.damage.append((next_offset, segment.path, found.position))
                    continue
                if header.base_offset >= self._end_offset:
                    return
                next_offset = header.next_offset
                if not header.is_transactional or header.last_offset < self.since or not header.record_count:
                    continue  # the cleaner leaves an empty batch of a transaction that has ended
                if look(file, found.position).problem:
                    self.damage.append((header.base_offset, segment.path, found.position))
                elif not header.is_control:
                    self.open.setdefault(header.producer_id, header.base_offset)
                else:
                    self._end(file.read(found.position, header.size), header.producer_id, header.base_offset)

    def _end(self, batch: bytes, producer_id: int, offset: int) -> None:
        try:
            marker = parse_end_transaction_marker(batch)
        except (InvalidRecord, CorruptMessage):
            return  # reported where the records are read
        first = self.open.pop(producer_id, None) if marker is not None else None
        if first is not None and marker is not None and marker.is_abort:
            self.aborted.append(AbortedTransaction(producer_id, first, offset, offset))


def _indexed(filesystem: FileSystem, folder: str, base_offset: int) -> list[AbortedTransaction] | None:
    """The entries of a segment's transaction index; None if it is damaged."""
    index = TransactionIndex(filesystem, segment_path(folder, base_offset, TRANSACTION_INDEX), base_offset)
    try:
        return index.entries()
    except CorruptIndex:
        return None


def _within(segments: Iterable[SegmentFile], start: int, end: int | None) -> Iterable[SegmentFile]:
    for segment in segments:
        is_behind = segment.end_offset is not None and segment.end_offset <= start
        if not is_behind and (end is None or segment.base_offset < end):
            yield segment


def _identities(folder: str) -> dict[str, int]:
    """The names and inodes of the live segments."""
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries if entry.name.endswith(LOG)}
