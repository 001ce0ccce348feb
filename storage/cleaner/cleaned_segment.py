"""The segment that a pass writes: `.cleaned` files, which are worthless after a crash, until it is complete."""

from __future__ import annotations

import contextlib
from array import array
from collections.abc import Sequence
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


_PIECE_BYTES = 64 * 1024
"""Bytes of which every write but the last one is a multiple: the system finds memory for them in fewer, larger parts,
which takes it a quarter less time than for writes that begin and end within pages."""

_WRITEBACK_BYTES = 8 * 1024 * 1024
"""Bytes after which the system is told to begin writing, so that the sync in `finish` has little left to write."""


class CleanedGroup(NamedTuple):
    """A cleaned segment, and the neighbouring segments that it replaces. It has the base offset of the first of
    them."""

    sources: Sequence[Segment]
    segment: Segment


class CleanedSegment:
    """Collects batches, indexes each, and writes them in large pieces. Every method raises OSError if the disk
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
        self._piece_bytes = min(_PIECE_BYTES, buffer_bytes)
        self._room = memoryview(bytearray(buffer_bytes))
        self._pending = 0
        """The first bytes of the room that follow those of the file. A write leaves less than a piece."""
        self._set_out = 0
        """The system has been told to write the bytes before this position. Only raised."""
        self._segment = Segment(filesystem, directory, base_offset, config, now_ms, create=True, suffix=CLEANED)

    @property
    def size(self) -> int:
        return self._segment.size + self._pending

    def append(self, batch: Buffer, header: BatchHeader) -> None:
        """Append a batch whose checksum is right."""
        note = (0,), (header.size,), (header.last_offset,), (header.max_timestamp,)
        self._segment.note_batches(self.size, note)
        if self._pending + len(batch) <= len(self._room):
            self._keep(memoryview(batch))
        else:
            self._write_pieces(memoryview(batch))

    def append_sifted(self, batches: memoryview, notes: array[int], count: int) -> None:
        """Append the batches that a sieve has kept, with `count` notes about them."""
        used = notes[: count * NOTE]
        self._segment.note_batches(self.size, (used[field::NOTE] for field in range(NOTE)))
        self._write_pieces(batches)

    def add_aborted(self, transactions: Sequence[AbortedTransaction]) -> None:
        for transaction in transactions:
            self._segment.transaction_index.append(transaction)

    def _write_pieces(self, batches: memoryview) -> None:
        """Append whole pieces of what is pending and `batches` to the file; the rest is pending."""
        size = self._pending + len(batches)
        rest_at = size - size % self._piece_bytes - self._pending
        if rest_at >= 0:
            self._write(self._room[: self._pending], batches[:rest_at])
            self._pending = 0
            batches = batches[rest_at:]
        self._keep(batches)

    def _keep(self, batches: memoryview) -> None:
        end = self._pending + len(batches)
        self._room[self._pending : end] = batches
        self._pending = end

    def _write(self, *buffers: Buffer) -> None:
        log = self._segment.log
        log.append(*buffers)
        if log.size - self._set_out >= _WRITEBACK_BYTES:
            log.drop_behind(self._set_out, log.size)
            self._set_out = log.size

    def finish(self, modified_ms: int) -> Segment:
        """Write the rest, close the indexes and sync everything; return the sealed segment.

        Its files get the modification time of the files it replaces: retention counts from it where records have no
        timestamps.
        """
        if self._pending:
            self._write(self._room[: self._pending])
            self._pending = 0
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
