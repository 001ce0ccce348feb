# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel of readers of whole logs: records into columns, laid out as Apache Arrow lays them out.

A scan of segments loads it. Compiled it takes some 50 ns for a record of 200 bytes, most of it for checksum and copy.

The caller gives the memory, a buffer for each part (`column_parts`) of each column that it wants; the kernel leaves the
other columns out. Nothing is written beyond a buffer, whatever the records say: their lengths are checked against the
end of the record, the room left against them. Bytes that are no record are an error, and leave no row.

`fill_batches` takes *plain* batches, those of magic 2 that are not compressed, many at a time as they stand in the
file, and verifies their checksums. It ends before a batch that is not plain, or that is damaged. The caller then says
what is in the header of that batch (`begin`) and passes its records on in pieces (`fill_records`).
"""

from __future__ import annotations

from array import array

from ... import cython_words as cython
from ..layout import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    TOMBSTONE_BIT,
)
from .checksum import batch_size, is_sound
from .column_kinds import BinaryColumn, BitColumn, IntColumn, LongColumn
from .column_parts import NOTES, PARTS, check_room, headers_in
from .hidden_batches import HiddenBatches
from .numbers import LARGEST, Bytes, int16_at, int32_at, int64_at, wrapping_sum
from .scan import RecordScan, ScanPointer, check_headers, new_scan, next_header, next_record

__all__ = ["NOTES", "PARTS", "RecordColumns"]

# Which of the NOTES says what.
POSITION = cython.declare(cython.Py_ssize_t, NOTES.index("position"))
SIZE = cython.declare(cython.Py_ssize_t, NOTES.index("size"))
BASE_OFFSET = cython.declare(cython.Py_ssize_t, NOTES.index("base_offset"))
ATTRIBUTES = cython.declare(cython.Py_ssize_t, NOTES.index("attributes"))
BASE_TIMESTAMP = cython.declare(cython.Py_ssize_t, NOTES.index("base_timestamp"))
MAX_TIMESTAMP = cython.declare(cython.Py_ssize_t, NOTES.index("max_timestamp"))
PRODUCER_ID = cython.declare(cython.Py_ssize_t, NOTES.index("producer_id"))
PRODUCER_EPOCH = cython.declare(cython.Py_ssize_t, NOTES.index("producer_epoch"))
BASE_SEQUENCE = cython.declare(cython.Py_ssize_t, NOTES.index("base_sequence"))
LEADER_EPOCH = cython.declare(cython.Py_ssize_t, NOTES.index("leader_epoch"))
NOTED_MAGIC = cython.declare(cython.Py_ssize_t, NOTES.index("magic"))
NOTE_COUNT = cython.declare(cython.Py_ssize_t, len(NOTES))

WIDEST_GAP = cython.declare(cython.longlong, 0x7FFFFFFF)
"""Offsets that compaction may have left out before the last one of a batch: what its 32-bit deltas reach."""


@cython.final
@cython.cclass
class RecordColumns:
    """Rows for records, in memory that the caller gives; see the module's text."""

    rows = cython.declare(cython.longlong, visibility="readonly")
    """In the room so far."""
    headers = cython.declare(cython.longlong, visibility="readonly")
    """Of these rows."""
    batches = cython.declare(cython.longlong, visibility="readonly")
    """Noted so far."""
    is_full = cython.declare(cython.bint, visibility="readonly")
    """The last call ended for want of room."""
    is_at_end = cython.declare(cython.bint, visibility="readonly")
    """The last call ended before a batch that begins at or beyond `end_offset`."""
    is_bad = cython.declare(cython.bint, visibility="readonly")
    """The last call of `fill_batches` ended at a batch whose checksum is right and whose records are not what it says:
    there is an `error`, records are `left`, or something follows them. Those before are in the room."""
    next_offset = cython.declare(cython.longlong, visibility="public")
    """The lowest that the next plain batch may begin with."""

    # Of the batch at hand.
    walked = cython.declare(cython.longlong, visibility="readonly")
    """Records met."""
    left = cython.declare(cython.longlong, visibility="readonly")
    """Records still to come, as the header claims."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why record number `walked` is none: a key of `layout.REASONS`."""

    offset: LongColumn
    timestamp: LongColumn
    size: IntColumn
    value_size: IntColumn
    tombstone: BitColumn
    batch: IntColumn
    notes: LongColumn
    key: BinaryColumn
    value: BinaryColumn
    headers_valid: BitColumn
    headers_ends: IntColumn
    name: BinaryColumn
    content: BinaryColumn
    max_rows: cython.longlong
    max_headers: cython.longlong

    refused: RecordScan
    """The record for which there was no room."""
    max_record_bytes: cython.longlong
    first_offset: cython.longlong
    end_offset: cython.longlong
    hidden: HiddenBatches

    partly: cython.Py_ssize_t
    """Bytes of the batch at which `fill_batches` has ended, for want of room, that have rows; 0 if none."""
    note: cython.longlong[::1]
    is_noted: cython.bint
    base_offset: cython.longlong
    base_timestamp: cython.longlong
    append_time: cython.longlong
    has_append_time: cython.bint
    is_control: cython.bint

    def __init__(self, first_offset: int, end_offset: int, max_record_bytes: int) -> None:
        """Records at offsets below `first_offset` or from `end_offset` on get no row."""
        self.first_offset = first_offset
        self.end_offset = end_offset
        self.max_record_bytes = max_record_bytes
        self.refused = new_scan()
        self.next_offset = 0
        self.note = array("q", bytes(8 * NOTE_COUNT))
        self.left = self.walked = self.error = 0
        self.base_offset = self.base_timestamp = self.append_time = 0
        self.is_noted = self.has_append_time = self.is_control = self.is_bad = False
        self.partly = 0
        self.offset, self.timestamp, self.notes = LongColumn(), LongColumn(), LongColumn()
        self.size, self.value_size, self.batch, self.headers_ends = IntColumn(), IntColumn(), IntColumn(), IntColumn()
        self.tombstone, self.headers_valid = BitColumn(), BitColumn()
        self.key, self.value, self.name, self.content = BinaryColumn(), BinaryColumn(), BinaryColumn(), BinaryColumn()
        self.hide(False, array("q"), array("q"), array("q"))
        self.give({}, 0)

    def hide(
        self,
        control: bool,
        producer_ids: cython.longlong[::1],
        first_offsets: cython.longlong[::1],
        last_offsets: cython.longlong[::1],
    ) -> None:
        """Give no rows to the batches that `HiddenBatches` says."""
        self.hidden = HiddenBatches(control, producer_ids, first_offsets, last_offsets)

    def is_hidden(self, attributes: int, producer_id: int, base_offset: int) -> bool:
        """Whether `hide` leaves out the records of this batch."""
        return self.hidden.has(attributes, producer_id, base_offset)

    def give(self, room: dict, max_rows: int) -> None:
        """Go on with no rows, in new memory: a writable buffer for each of the PARTS that are wanted.

        ValueError if one is too small for `max_rows`, too large for 32-bit offsets, or without one that it needs.
        """
        check_room(room, max_rows)
        self.max_rows = max_rows
        self.max_headers = headers_in(room) if "name_ends" in room else LARGEST
        self.offset.give(room, "offset")
        self.timestamp.give(room, "timestamp")
        self.size.give(room, "size")
        self.value_size.give(room, "value_size")
        self.tombstone.give(room, "tombstone")
        self.batch.give(room, "batch")
        self.notes.give(room, "notes")
        self.key.give(room, "key")
        self.value.give(room, "value")
        self.headers_valid.give(room, "headers_valid")
        self.headers_ends.give(room, "headers_ends")
        self.name.give(room, "name")
        self.content.give(room, "content")
        self.headers_ends.put(0, 0)
        self.rows = self.headers = self.batches = 0
        self.is_full = self.is_at_end = self.is_noted = False

    def used(self) -> dict:
        """Bytes of the data of each binary column so far."""
        return {
            "key": self.key.used,
            "value": self.value.used,
            "name": self.name.used,
            "content": self.content.used,
        }

    def needed(self) -> dict:
        """The room that the record needs that did not fit: bytes of each binary column, and a number of headers.

        Valid while `is_full`.
        """
        return {
            "key": self.refused.key_length,
            "value": self.refused.value_length,
            "name": self.refused.name_bytes,
            "content": self.refused.content_bytes,
            "headers": self.refused.header_count,
        }

    def begin(self, record_count: int, note: tuple) -> None:
        """Begin a batch whose records come in pieces; `note` is what NOTES says of it."""
        for number in range(NOTE_COUNT):
            self.note[number] = note[number]
        self._begin(record_count)

    def fill_records(self, piece: cython.const[cython.uchar][::1], position: cython.Py_ssize_t) -> int:
        """Take the records in `piece` from `position` on; return where the last one taken ends.

        Ends early before a record that is not all there, for which there is no room, or that is none, and behind the
        last one that the batch may have.
        """
        size: cython.Py_ssize_t = len(piece)
        data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
        self.is_full = False
        with cython.nogil:
            position = self._fill(data, position, size)
        return position

    def fill_batches(
        self,
        chunk: cython.const[cython.uchar][::1],
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        chunk_position: cython.longlong,
    ) -> int:
        """Take the plain batches in `chunk` from `position` to at most `end`; return where the last one ends.

        `chunk_position` is where in the file the chunk begins. A batch that is not all there is not plain, nor is one
        whose offsets are not in order with those before and behind it. When `is_full`, part of the batch at which it
        ended may be in the room: the next call must begin with the same batch, in new room, and goes on within it.
        """
        data: Bytes = cython.address(chunk[0]) if cython.compiled else memoryview(chunk)
        if end > len(chunk):
            raise ValueError("the chunk ends earlier")
        self.is_full = self.is_at_end = self.is_bad = False
        with cython.nogil:
            position = self._fill_batches(data, position, end, chunk_position)
        return position

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill_batches(
        self,
        data: Bytes,
        position: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        chunk_position: cython.longlong,
    ) -> cython.Py_ssize_t:
        size: cython.Py_ssize_t
        base: cython.longlong
        last: cython.longlong
        filled: cython.Py_ssize_t
        while True:
            size = batch_size(data, position, end)
            if size == 0 or data[position + ATTRIBUTES_AT] & CODEC_MASK:
                break
            base = int64_at(data, position)
            last = wrapping_sum(base, int32_at(data, position + LAST_OFFSET_DELTA_AT))
            if int32_at(data, position + RECORD_COUNT_AT) < 0 or last < base or base < self.next_offset:
                break
            if base > self.next_offset and not _is_in_line(data, position + size, end, self.next_offset, last):
                break
            if base >= self.end_offset:
                self.is_at_end = True
                break
            if self.partly == 0:
                if not is_sound(data, position, size):
                    break
                self._note(data, position, size, chunk_position)
                if self.hidden.has(self.note[ATTRIBUTES], self.note[PRODUCER_ID], base) or last < self.first_offset:
                    position += size
                    self.next_offset = wrapping_sum(last, 1)
                    continue
                self._begin(int32_at(data, position + RECORD_COUNT_AT))
                self.partly = HEADER_SIZE
            filled = self._fill(data, position + self.partly, position + size)
            if self.is_full:
                self.partly = filled - position
                break
            self.partly = 0
            if self.error or self.left or filled != position + size:
                self.is_bad = True
                break
            position += size
            self.next_offset = wrapping_sum(last, 1)
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _note(
        self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, chunk_position: cython.longlong
    ) -> cython.void:
        """Keep what NOTES says of the batch of magic 2 at `position`."""
        self.note[POSITION] = chunk_position + position
        self.note[SIZE] = size
        self.note[BASE_OFFSET] = int64_at(data, position)
        self.note[ATTRIBUTES] = int16_at(data, position + ATTRIBUTES_AT - 1) & 0xFFFF
        self.note[BASE_TIMESTAMP] = int64_at(data, position + BASE_TIMESTAMP_AT)
        self.note[MAX_TIMESTAMP] = int64_at(data, position + MAX_TIMESTAMP_AT)
        self.note[PRODUCER_ID] = int64_at(data, position + PRODUCER_ID_AT)
        self.note[PRODUCER_EPOCH] = int16_at(data, position + PRODUCER_EPOCH_AT)
        self.note[BASE_SEQUENCE] = int32_at(data, position + BASE_SEQUENCE_AT)
        self.note[LEADER_EPOCH] = int32_at(data, position + LEADER_EPOCH_AT)
        self.note[NOTED_MAGIC] = MAGIC

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _begin(self, record_count: cython.longlong) -> cython.void:
        self.left = record_count
        self.walked = self.error = 0
        self.is_noted = False
        self.base_offset = self.note[BASE_OFFSET]
        self.base_timestamp = self.note[BASE_TIMESTAMP]
        self.append_time = self.note[MAX_TIMESTAMP]
        self.has_append_time = self.note[ATTRIBUTES] & LOG_APPEND_TIME != 0
        self.is_control = self.note[ATTRIBUTES] & CONTROL != 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Give rows to the records from `position` on; return where the last one taken ends."""
        offset: cython.longlong
        found: RecordScan = new_scan()
        scan: ScanPointer = cython.address(found)
        while self.left > 0:
            if not (next_record(scan, data, position, size, self.max_record_bytes) and check_headers(scan, data)):
                self.error = scan.error
                break
            offset = wrapping_sum(self.base_offset, scan.offset_delta)
            if self.first_offset <= offset < self.end_offset:
                if not self._has_room(scan):
                    self.refused = found
                    self.is_full = True
                    break
                self._put_row(scan, data, position, offset)
            self.left -= 1
            self.walked += 1
            position = scan.end
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _has_room(self, scan: ScanPointer) -> cython.bint:
        """Whether the record that was scanned fits."""
        return (
            self.rows < self.max_rows
            and self.key.has_room(scan.key_length)
            and self.value.has_room(scan.value_length)
            and self.name.has_room(scan.name_bytes)
            and self.content.has_room(scan.content_bytes)
            and scan.header_count <= self.max_headers - self.headers
        )

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put_row(
        self, scan: ScanPointer, data: Bytes, position: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.void:
        """Put down the record at `position`, which was scanned and has room."""
        row: cython.longlong = self.rows
        self.offset.put(row, offset)
        self.timestamp.put(
            row,
            self.append_time if self.has_append_time else wrapping_sum(self.base_timestamp, scan.timestamp_delta),
        )
        self.size.put(row, scan.end - position)
        self.value_size.put(row, scan.value_length)
        self.tombstone.put(
            row,
            not self.is_control and (scan.value_length < 0 or data[scan.attributes_at] & TOMBSTONE_BIT != 0),
        )
        if self.batch.values:
            self._put_batch(row)
        self.key.put(row, data, scan.key_at, scan.key_length)
        self.value.put(row, data, scan.value_at, scan.value_length)
        if self.headers_ends.values:
            self._put_headers(row, scan, data)
        self.rows += 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put_batch(self, row: cython.longlong) -> cython.void:
        """Put down which batch the row is of; note the batch with its first row."""
        number: cython.Py_ssize_t
        if not self.is_noted:
            for number in range(NOTE_COUNT):
                self.notes.put(number * self.max_rows + self.batches, self.note[number])
            self.is_noted = True
            self.batches += 1
        self.batch.put(row, self.batches - 1)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put_headers(self, row: cython.longlong, scan: ScanPointer, data: Bytes) -> cython.void:
        """Put down the headers of a record, which were checked and have room."""
        at: cython.Py_ssize_t = scan.headers_at
        left: cython.longlong = scan.header_count
        self.headers_valid.put(row, left > 0)
        while left > 0:
            at = next_header(scan, data, at)
            self.name.put(self.headers, data, scan.name_at, scan.name_length)
            self.content.put(self.headers, data, scan.content_at, scan.content_length)
            self.headers += 1
            left -= 1
        self.headers_ends.put(row + 1, self.headers)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_in_line(
    data: Bytes,
    following: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    next_offset: cython.longlong,
    last_offset: cython.longlong,
) -> cython.bint:
    """Whether the offsets of a batch behind a gap are plausible: no checksum covers them, but the batch that is
    `following` must begin behind them."""
    return last_offset - next_offset <= WIDEST_GAP and end - following >= 8 and int64_at(data, following) > last_offset
