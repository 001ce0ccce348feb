"""The segment that a pass writes: `.cleaned` files, which are worthless after a crash, until it is complete."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...protocol.records.batch import BatchHeader
from ...protocol.records.load_kernel import load_sieve
from ..filenames import CLEANED
from ..filesystem import Buffer, FileSystem
from ..indexes.transaction_index import AbortedTransaction
from ..log_config import LogConfig
from ..segment import Segment

NOTE: int = load_sieve().NOTE
"""Numbers in a note, by which a sieve describes a batch: position, size, last offset, largest timestamp."""


_WRITEBACK_BYTES = 8 * 1024 * 1024
"""Bytes after which the system is told to begin writing, so that the sync in `finish` has little left to write."""


class CleanedGroup(NamedTuple):
    """A cleaned segment, and the neighbouring segments that it replaces. It has the base offset of the first of
    them."""

    sources: Sequence[Segment]
    segment: Segment


class CleanedSegment:
    """Collects batches, writes them a buffer at a time, and indexes each. Every method raises OSError if the disk
    refuses."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        buffer_bytes: int,
    ) -> None:
        self._filesystem = filesystem
        self._buffer_bytes = buffer_bytes
        self._pending = bytearray()
        self._notes: list[tuple[int, int, int, int]] = []
        self._set_out = 0
        """The system has been told to write the bytes before this position. Only raised."""
        self._segment = Segment(filesystem, directory, base_offset, config, now_ms, create=True, suffix=CLEANED)

    @property
    def size(self) -> int:
        return self._segment.size + len(self._pending)

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Append a batch whose checksum is right."""
        self._notes.append((len(self._pending), header.size, header.last_offset, header.max_timestamp))
        self._pending += batch
        self._write_if_large()

    def append_sifted(self, batches: memoryview, notes: array[int], count: int) -> None:
        """Append the batches that a sieve has kept, with `count` notes about them."""
        used = notes[: count * NOTE]
        starts: Sequence[int]
        starts, sizes, last_offsets, max_timestamps = (used[field::NOTE] for field in range(NOTE))
        if len(batches) * 4 >= self._buffer_bytes:  # nearly a full buffer
            self._write()
            self._append(batches, zip(starts, sizes, last_offsets, max_timestamps, strict=True))
            return
        pending = len(self._pending)
        starts = [pending + at for at in starts]
        self._notes += zip(starts, sizes, last_offsets, max_timestamps, strict=True)
        self._pending += batches
        self._write_if_large()

    def add_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        for transaction in transactions:
            self._segment.transaction_index.append(transaction)

    def _write_if_large(self) -> None:
        if len(self._pending) >= self._buffer_bytes:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self._append(self._pending, self._notes)
            self._pending = bytearray()
            self._notes = []

    def _append(self, batches: Buffer, notes: Iterable[tuple[int, int, int, int]]) -> None:
        self._segment.append_noted(batches, notes)
        size = self._segment.size
        if size - self._set_out >= _WRITEBACK_BYTES:
            self._segment.log.drop_behind(self._set_out, size)
            self._set_out = size

    def finish(self, modified_ms: int) -> Segment:
        """Write the rest, close the indexes and sync everything; return the sealed segment.

        Its files get the modification time of the files it replaces: retention counts from it where records have no
        timestamps.
        """
        self._write()
        segment = self._segment
        segment.seal()
        segment.write_indexes()
        segment.log.sync()
        segment.sync_indexes()
        segment.indexes_are_on_disk = True
        self._filesystem.set_modified_ms(segment.log.path, modified_ms)
        return segment

    def discard(self) -> None:
        """Remove the files written so far."""
        discard(self._filesystem, self._segment)


def discard(filesystem: FileSystem, segment: Segment) -> None:
    """Remove the files of a segment that is not swapped in. The next start removes files that this cannot remove."""
    paths = [segment.log.path, segment.offset_index.path, segment.time_index.path, segment.transaction_index.path]
    with contextlib.suppress(ValueError):
        segment.close()
    for path in paths:
        with contextlib.suppress(OSError):
            filesystem.remove(path)
