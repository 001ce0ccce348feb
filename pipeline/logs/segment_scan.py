"""Scan a segment file into Arrow batches: records of every magic and codec, and damage as rows.

The scan reads only, needs no Spark, and its memory does not grow with the file: one chunk of it, or one batch if that
is larger, and one Arrow batch. Records of aborted transactions are left out: `readable_range.py` finds these, and
`protocol/records/kernels/hidden_batches.py` their batches.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from ...protocol.errors import CorruptMessage, InvalidRecord
from ...protocol.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    batch_size,
    read_header,
    records_of,
)
from ...protocol.records.batch_records import iter_records
from ...protocol.records.compression import Buffer, decompress_at_once, decompress_chunks
from ...protocol.records.kernels.records import encode_records
from ...protocol.records.layout import REASONS
from ...protocol.records.record import BATCH_FACTOR
from ...storage import filenames
from ...storage.indexes.transaction_index import AbortedTransaction
from ...storage.inspect.dump_log import MAX_RECORD_BYTES
from .arrow_columns import COLUMNS, ArrowColumns
from .segment_bytes import SegmentBytes
from .segment_splits import BatchStart
from .segment_walk import next_batch

__all__ = ["COLUMNS", "MAX_DATA_BYTES", "MAX_ROWS", "ScanEnd", "scan_segment"]

MAX_ROWS = 1 << 16
MAX_DATA_BYTES = 8 << 20
"""Most bytes in an Arrow batch of keys, of values, of header names, and of header values. One record may have more."""

_END = (1 << 63) - 1
_MAX_DELTA = (1 << 31) - 1
_OFFSET_BYTES = 8


class ScanEnd(NamedTuple):
    """The end of a scan."""

    next_offset: int
    """Offset after the last whole batch."""
    position: int
    """Position in the file: its end, the end of the split, or the begin of the first batch beyond `end_offset`."""


def scan_segment(
    segment: str | os.PathLike[str] | SegmentBytes,
    *,
    columns: Sequence[str] = tuple(COLUMNS),
    start_offset: int = 0,
    end_offset: int | None = None,
    include_control: bool = True,
    aborted: Iterable[AbortedTransaction] = (),
    first: BatchStart | None = None,
    following: BatchStart | None = None,
    max_rows: int = MAX_ROWS,
    max_data_bytes: int = MAX_DATA_BYTES,
) -> Generator[pa.RecordBatch, None, ScanEnd]:
    """Yield the records with offsets from `start_offset` to below `end_offset` in the order of the file, with these
    columns of `COLUMNS` (see arrow_columns.py). Columns that are not requested cost nothing.

    Control records are skipped unless they are included; records of `aborted` transactions are skipped. Damage is a row
    with an `error`, and the scan goes on behind it. The scan ends at the first batch beyond `end_offset`.

    For a split of the segment the scan begins with the batch `first`, and ends before the batch `following`, whose
    offset is then `end_offset`: a batch before it with that offset or a later one is damage.

    Raises the errors of opening the file, and ValueError for a path that is not named like a segment and for an unknown
    column. An open file stays open. The generator returns a ScanEnd.
    """
    if not isinstance(segment, SegmentBytes):
        with SegmentBytes(segment) as file:
            return (
                yield from scan_segment(
                    file,
                    columns=columns,
                    start_offset=start_offset,
                    end_offset=end_offset,
                    include_control=include_control,
                    aborted=aborted,
                    first=first,
                    following=following,
                    max_rows=max_rows,
                    max_data_bytes=max_data_bytes,
                )
            )
    parsed = filenames.parse_segment_file(os.path.basename(segment.path))
    if parsed is None or parsed.kind != filenames.LOG:
        raise ValueError(f"{segment.path} is not named like a segment")
    if following is not None:
        end_offset = following.base_offset
    end_offset = _END if end_offset is None else end_offset
    arrow = ArrowColumns(
        columns,
        start_offset=start_offset,
        end_offset=end_offset,
        max_record_bytes=MAX_RECORD_BYTES,
        max_rows=max_rows,
        max_data_bytes=max_data_bytes,
    )
    scan = _Scan(segment, arrow, start_offset, end_offset, include_control, aborted)
    scan.position, scan.next_offset = first or (0, parsed.base_offset)
    scan.end_position = None if following is None else following.position
    try:
        yield from scan.batches()
    except OSError as error:
        yield from scan.rest()
        yield arrow.damage(scan.position, segment.size - scan.position, f"cannot be read: {error.strerror or error}")
    return ScanEnd(scan.next_offset, scan.position)


class _Scan:
    def __init__(
        self,
        file: SegmentBytes,
        arrow: ArrowColumns,
        start_offset: int,
        end_offset: int,
        include_control: bool,
        aborted: Iterable[AbortedTransaction],
    ) -> None:
        self.position = 0
        self.next_offset = 0
        self.end_position: int | None = None
        """Position of the next split; None if the scan ends by `end_offset`."""
        self._file = file
        self._arrow = arrow
        self._kernel = arrow.kernel
        self._start_offset = start_offset
        self._end_offset = end_offset
        found = sorted(aborted)
        self._kernel.hide(not include_control, *(array("q", (one[field] for one in found)) for field in range(3)))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows so far, if there are any."""
        if self._kernel.rows:
            yield self._arrow.take()

    def batches(self) -> Iterator[pa.RecordBatch]:
        kernel, file = self._kernel, self._file
        at_least = HEADER_SIZE
        while self.position < file.size and not self._is_done():
            buffer, start, end = file.chunk(self.position, at_least)
            kernel.next_offset = self.next_offset
            ended = kernel.fill_batches(buffer, start, end, self.position - start)
            self.position += ended - start
            self.next_offset = kernel.next_offset
            at_least = HEADER_SIZE
            if kernel.is_full:
                yield from self._make_room()
            elif self._is_done() or (kernel.is_at_end and self.end_position is None):
                break
            elif kernel.is_bad:
                header = read_header(buffer, ended)
                yield from self._damage(header.size, _at_fault(header, self._record_problem(header.record_count)))
                self.position += header.size
                self.next_offset = header.next_offset
            elif end - ended < (at_least := _needed(buffer, ended, end, file.size - self.position)):
                pass  # the chunk ends earlier than the batch
            else:
                at_least = HEADER_SIZE
                if self.position < file.size:
                    yield from self._other()
        yield from self.rest()

    def _is_done(self) -> bool:
        if self.end_position is None:
            return self.next_offset >= self._end_offset
        return self.position >= self.end_position

    def _other(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch that the kernel does not read."""
        found = next_batch(self._file, self.position, self.next_offset)
        header = found.header
        if header is None or found.problem:
            yield from self._damage(found.size, found.problem)
            self.position += found.size
            return
        if self.end_position is not None and header.base_offset >= self._end_offset:
            problem = f"offset {header.base_offset} comes before a batch from offset {self._end_offset}"
            yield from self._damage(found.size, problem)
            self.position += found.size
            return
        self.next_offset = header.next_offset
        is_wrapper = header.magic < MAGIC and header.codec  # its offset is that of its last record
        if header.base_offset >= self._end_offset and not is_wrapper:
            return
        if header.last_offset >= self._start_offset and not self._kernel.is_hidden(
            header.attributes, header.producer_id, header.base_offset
        ):
            batch = self._file.read(self.position, header.size)
            try:
                yield from self._records(header, batch)
            except (InvalidRecord, CorruptMessage) as error:
                yield from self._damage(header.size, _at_fault(header, error.message))
        self.position += header.size

    def _damage(self, size_bytes: int, problem: str) -> Iterator[pa.RecordBatch]:
        yield from self.rest()
        yield self._arrow.damage(self.position, size_bytes, problem)

    def _records(self, header: BatchHeader, batch: bytes) -> Iterator[pa.RecordBatch]:
        if header.magic == MAGIC:
            self._kernel.begin(header.record_count, self._note(header, header.base_offset, header.base_timestamp))
            yield from self._from_pieces(_decompressed(header, batch), header.record_count)
            return
        for records in iter_records(batch, 0, header, limit=MAX_RECORD_BYTES):
            first = records[0].offset
            deltas = [record.offset - first for record in records]
            if not -_MAX_DELTA <= min(deltas) <= max(deltas) <= _MAX_DELTA:
                raise InvalidRecord("its offsets are too far apart")
            self._kernel.begin(len(records), self._note(header, first, 0))
            yield from self._from_pieces([encode_records(records, deltas, 0)], len(records))

    def _note(self, header: BatchHeader, base_offset: int, base_timestamp: int) -> tuple[int, ...]:
        return (
            self.position,
            header.size,
            base_offset,
            header.attributes,
            base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.partition_leader_epoch,
            header.magic,
        )

    def _from_pieces(self, pieces: Iterable[Buffer], count: int) -> Iterator[pa.RecordBatch]:
        """Fill the rows of a batch from its pieces. Raises InvalidRecord for a malformed record."""
        kernel = self._kernel
        rest = bytearray()
        for chunk in pieces:
            piece: Buffer = chunk
            if rest:
                rest += chunk
                piece = rest
            ended = kernel.fill_records(piece, 0)
            while kernel.is_full:
                yield from self._make_room()
                ended = kernel.fill_records(piece, ended)
            if kernel.error or (ended < len(piece) and not kernel.left):
                raise InvalidRecord(self._record_problem(count))
            rest = bytearray(memoryview(piece)[ended:])
        if kernel.left or rest:
            raise InvalidRecord(self._record_problem(count))

    def _make_room(self) -> Iterator[pa.RecordBatch]:
        if self._kernel.rows:
            yield self._arrow.take()
        else:
            self._arrow.make_room()

    def _record_problem(self, count: int) -> str:
        kernel = self._kernel
        if kernel.error:
            return f"record {kernel.walked} is malformed: {REASONS[kernel.error]}"
        if not kernel.left:
            return f"something follows the last of {count} records"
        return f"the batch claims {count} records and holds {kernel.walked} whole ones"


def _needed(buffer: memoryview, position: int, end: int, left: int) -> int:
    """The number of bytes needed to read the batch at a position and the offset behind it, as far as known; at most
    `left`."""
    if end - position >= HEADER_SIZE and buffer[position + MAGIC_AT] == MAGIC:
        size = batch_size(buffer, position)
        if HEADER_SIZE <= size <= min(left, MAX_RECORD_BYTES):
            return min(size + _OFFSET_BYTES, left)
    return min(HEADER_SIZE, left)


def _decompressed(header: BatchHeader, batch: bytes) -> Iterable[Buffer]:
    """Decompress the records of a batch of magic 2, piece by piece. Raises InvalidRecord and CorruptMessage."""
    block = records_of(batch, 0, header)
    whole = decompress_at_once(header.codec, block, MAX_RECORD_BYTES)
    return decompress_chunks(header.codec, block, MAX_RECORD_BYTES * BATCH_FACTOR) if whole is None else (whole,)


def _at_fault(header: BatchHeader, problem: str) -> str:
    return f"the batch from offset {header.base_offset}: {problem}"
