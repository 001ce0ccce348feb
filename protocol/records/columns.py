# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Records into columns, laid out as Apache Arrow lays them out, for those who read whole logs.

A fourth kernel (see kernel.py, which says what a block of records is), loaded by who scans segments. Compiled it takes
some 50 ns for a record of 200 bytes, most of it for checksum and copy; the same source runs interpreted.

The caller gives the memory, a buffer for each part of each column that he wants (`Room`); what he does not give is not
written. Nothing is written beyond a buffer, whatever the records say: their lengths are checked against the end of the
record, the room left against them. What is no record is an error, and leaves no row.

*Plain* batches, those of magic 2 that are not compressed, are taken many at a time as they stand in the file, and their
checksums verified: `fill_batches`. It ends before the first one that is none, or that is damaged. Such a batch is the
caller's: he says what is in its header (`begin`) and passes its records on in pieces (`fill_records`).
"""

from __future__ import annotations

from array import array

import cython

if cython.compiled:
    from cython.cimports.crc_in_c import kmini_crc32c, kmini_crc_begin
    from cython.cimports.libc.string import memcpy
    from cython.cimports.varints import int32_at, int64_at, number, wrapping_sum
else:
    from .crc import crc32c
    from .varints import int32_at, int64_at, number, wrapping_sum

Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
"""Bytes to read: in C a pointer, which knows no size; interpreted a memoryview."""

_BAD_NUMBER = cython.declare(cython.int, 1)
_BAD_LENGTH = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_BAD_KEY = cython.declare(cython.int, 4)
_BAD_VALUE = cython.declare(cython.int, 5)
_BAD_HEADERS = cython.declare(cython.int, 6)
_BAD_SIZE = cython.declare(cython.int, 7)
"""Why something is no record: the keys of `kernel.REASONS`."""

_SMALLEST_RECORD = cython.declare(cython.longlong, 6)
_HEADER = cython.declare(cython.Py_ssize_t, 61)
_OVERHEAD = cython.declare(cython.longlong, 12)
_LOG_APPEND_TIME = cython.declare(cython.int, 0x08)
_TRANSACTIONAL = cython.declare(cython.int, 0x10)
_CONTROL = cython.declare(cython.int, 0x20)
_TOMBSTONE = cython.declare(cython.int, 0x20)
"""Of a record's attributes (KIP-87)."""
_32_BITS = cython.declare(cython.longlong, 0xFFFFFFFF)
_MOST = cython.declare(cython.longlong, 0x7FFFFFFF)
"""Bytes of a column, and headers: what its 32-bit offsets reach."""

NOTES = (
    "position",
    "size",
    "base_offset",
    "attributes",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "leader_epoch",
    "magic",
)
"""What is noted of a batch, 8 bytes each."""
_NOTES = cython.declare(cython.Py_ssize_t, 11)

PARTS = {
    "offset": 8,
    "timestamp": 8,
    "size": 4,
    "value_size": 4,
    "batch": 4,
    "tombstone": 0,
    "key_valid": 0,
    "key_ends": 4,
    "key": 1,
    "value_valid": 0,
    "value_ends": 4,
    "value": 1,
    "headers_valid": 0,
    "headers_ends": 4,
    "name_ends": 4,
    "name": 1,
    "content_valid": 0,
    "content_ends": 4,
    "content": 1,
    "notes": 8,
}
"""The parts of a `Room`, and bytes an entry: 0 stands for a bit. `*_ends` has one entry more than there are rows (or
headers), the first of them 0; `batch` is the number of the row's batch among the `notes`, which have one column of
`max_rows` entries after the other, in the order of NOTES."""

_TOGETHER = (
    ("key_valid", "key_ends", "key"),
    ("value_valid", "value_ends", "value"),
    ("headers_valid", "headers_ends", "name_ends", "name", "content_valid", "content_ends", "content"),
    ("batch", "notes"),
)


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
    key_bytes = cython.declare(cython.longlong, visibility="readonly")
    value_bytes = cython.declare(cython.longlong, visibility="readonly")
    name_bytes = cython.declare(cython.longlong, visibility="readonly")
    content_bytes = cython.declare(cython.longlong, visibility="readonly")
    """Used of the rooms."""
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
    """0, or why record number `walked` is none: a key of `kernel.REASONS`."""

    # Of the record for which there was no room.
    needed_key = cython.declare(cython.longlong, visibility="readonly")
    needed_value = cython.declare(cython.longlong, visibility="readonly")
    needed_names = cython.declare(cython.longlong, visibility="readonly")
    needed_contents = cython.declare(cython.longlong, visibility="readonly")
    needed_headers = cython.declare(cython.longlong, visibility="readonly")

    first_offset: cython.longlong
    end_offset: cython.longlong
    max_record_bytes: cython.longlong
    max_rows: cython.longlong
    max_headers: cython.longlong
    key_room: cython.longlong
    value_room: cython.longlong
    name_room: cython.longlong
    content_room: cython.longlong

    has_offset: cython.bint
    has_timestamp: cython.bint
    has_size: cython.bint
    has_value_size: cython.bint
    has_batch: cython.bint
    has_tombstone: cython.bint
    has_key: cython.bint
    has_value: cython.bint
    has_headers: cython.bint

    offset: cython.longlong[::1]
    timestamp: cython.longlong[::1]
    size: cython.int[::1]
    value_size: cython.int[::1]
    batch: cython.int[::1]
    tombstone: cython.uchar[::1]
    key_valid: cython.uchar[::1]
    key_ends: cython.int[::1]
    key: cython.uchar[::1]
    value_valid: cython.uchar[::1]
    value_ends: cython.int[::1]
    value: cython.uchar[::1]
    headers_valid: cython.uchar[::1]
    headers_ends: cython.int[::1]
    name_ends: cython.int[::1]
    name: cython.uchar[::1]
    content_valid: cython.uchar[::1]
    content_ends: cython.int[::1]
    content: cython.uchar[::1]
    notes: cython.longlong[::1]

    hides_control: cython.bint
    aborted_ids: cython.longlong[::1]
    aborted_firsts: cython.longlong[::1]
    aborted_lasts: cython.longlong[::1]
    aborted_count: cython.Py_ssize_t

    partly: cython.Py_ssize_t
    """How much of the batch at which `fill_batches` has ended, for want of room, has rows; 0 if none."""
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
        self.next_offset = 0
        self.note = array("q", bytes(8 * 11))
        self.left = self.walked = self.error = 0
        self.base_offset = self.base_timestamp = self.append_time = 0
        self.is_noted = self.has_append_time = self.is_control = False
        self.needed_key = self.needed_value = self.needed_names = self.needed_contents = self.needed_headers = 0
        self.is_bad = False
        self.partly = 0
        self.hide(False, array("q"), array("q"), array("q"))
        self.give({}, 0)

    def hide(
        self,
        control: bool,
        producer_ids: cython.longlong[::1],
        first_offsets: cython.longlong[::1],
        last_offsets: cython.longlong[::1],
    ) -> None:
        """Give no rows to control records, if that is asked, and to the records of aborted transactions: each is all of
        a producer's transactional batches from a first offset to a last one. In the order of ids, and of offsets;
        those of one producer do not overlap."""
        if not len(producer_ids) == len(first_offsets) == len(last_offsets):
            raise ValueError("as many ids as offsets are needed")
        self.hides_control = control
        self.aborted_count = len(producer_ids)
        self.aborted_ids = producer_ids
        self.aborted_firsts = first_offsets
        self.aborted_lasts = last_offsets

    def is_hidden(self, attributes: int, producer_id: int, base_offset: int) -> bool:
        """Whether a batch is one of those."""
        return self._is_hidden(attributes, producer_id, base_offset)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _is_hidden(
        self, attributes: cython.int, producer_id: cython.longlong, base_offset: cython.longlong
    ) -> cython.bint:
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.aborted_count
        middle: cython.Py_ssize_t
        if attributes & _CONTROL:
            return self.hides_control
        if not attributes & _TRANSACTIONAL:
            return False
        while low < high:  # to the first one that begins behind the batch
            middle = (low + high) >> 1
            if self.aborted_ids[middle] < producer_id or (
                self.aborted_ids[middle] == producer_id and self.aborted_firsts[middle] <= base_offset
            ):
                low = middle + 1
            else:
                high = middle
        return low > 0 and self.aborted_ids[low - 1] == producer_id and base_offset <= self.aborted_lasts[low - 1]

    def give(self, room: dict, max_rows: int) -> None:
        """Go on with no rows, in new memory: a writable buffer for each of the PARTS that are wanted.

        ValueError if one is too small for `max_rows`, too large for 32-bit offsets, or without one that it needs.
        """
        for parts in _TOGETHER:
            if 0 < sum(part in room for part in parts) < len(parts):
                raise ValueError(f"{', '.join(parts)} go together")
        if not 0 <= max_rows <= _MOST >> 1:
            raise ValueError(f"there cannot be {max_rows} rows")
        max_headers = len(memoryview(room["name_ends"]).cast("B")) // 4 - 1 if "name_ends" in room else 0
        for part, view in room.items():
            size = len(memoryview(view).cast("B"))
            entries = max_headers if part in ("name_ends", "content_ends", "content_valid") else max_rows
            needed = PARTS[part] * entries if PARTS[part] else entries + 7 >> 3
            if part.endswith("_ends"):
                needed += 4
            if part == "notes":
                needed *= _NOTES
            if PARTS[part] == 1:
                needed = 0
            if size < needed or max_headers < 0:
                raise ValueError(f"{size} bytes are too few for {part}")
            if PARTS[part] == 1 and size > _MOST:
                raise ValueError(f"{size} bytes are too many for {part}")
        self.max_rows = max_rows
        self.max_headers = max_headers
        self.offset = _view(room, "offset", "q")
        self.timestamp = _view(room, "timestamp", "q")
        self.size = _view(room, "size", "i")
        self.value_size = _view(room, "value_size", "i")
        self.batch = _view(room, "batch", "i")
        self.notes = _view(room, "notes", "q")
        self.tombstone = _view(room, "tombstone", "B")
        self.key_valid = _view(room, "key_valid", "B")
        self.key_ends = _view(room, "key_ends", "i")
        self.key = _view(room, "key", "B")
        self.value_valid = _view(room, "value_valid", "B")
        self.value_ends = _view(room, "value_ends", "i")
        self.value = _view(room, "value", "B")
        self.headers_valid = _view(room, "headers_valid", "B")
        self.headers_ends = _view(room, "headers_ends", "i")
        self.name_ends = _view(room, "name_ends", "i")
        self.name = _view(room, "name", "B")
        self.content_valid = _view(room, "content_valid", "B")
        self.content_ends = _view(room, "content_ends", "i")
        self.content = _view(room, "content", "B")
        self.has_offset = "offset" in room
        self.has_timestamp = "timestamp" in room
        self.has_size = "size" in room
        self.has_value_size = "value_size" in room
        self.has_batch = "batch" in room
        self.has_tombstone = "tombstone" in room
        self.has_key = "key" in room
        self.has_value = "value" in room
        self.has_headers = "name" in room
        self.key_room = len(self.key)
        self.value_room = len(self.value)
        self.name_room = len(self.name)
        self.content_room = len(self.content)
        if self.has_key:
            self.key_ends[0] = 0
        if self.has_value:
            self.value_ends[0] = 0
        if self.has_headers:
            self.headers_ends[0] = self.name_ends[0] = self.content_ends[0] = 0
        self.rows = self.headers = self.batches = 0
        self.key_bytes = self.value_bytes = self.name_bytes = self.content_bytes = 0
        self.is_full = self.is_at_end = self.is_noted = False

    def begin(self, record_count: int, note: tuple) -> None:
        """A batch begins whose records come in pieces; `note` is what NOTES says of it."""
        for number_of_note in range(11):
            self.note[number_of_note] = note[number_of_note]
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
        size: cython.longlong
        count: cython.longlong
        base: cython.longlong
        last: cython.longlong
        filled: cython.Py_ssize_t
        while end - position >= _HEADER:
            size = int32_at(data, position + 8) + _OVERHEAD
            count = int32_at(data, position + 57)
            base = int64_at(data, position)
            last = wrapping_sum(base, int32_at(data, position + 23))
            if data[position + 16] != 2 or data[position + 22] & 7 or count < 0 or last < base:
                break
            if size < _HEADER or size > end - position or base < self.next_offset:
                break
            if base > self.next_offset and not _is_in_line(data, position + size, end, self.next_offset, last):
                break
            if base >= self.end_offset:
                self.is_at_end = True
                break
            if self.partly == 0:
                if not _is_sound(data, position, size):
                    break
                self._note(data, position, chunk_position)
                if self._is_hidden(self.note[3], self.note[6], base) or last < self.first_offset:
                    position += size
                    self.next_offset = wrapping_sum(last, 1)
                    continue
                self._begin(count)
                self.partly = _HEADER
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
    def _note(self, data: Bytes, position: cython.Py_ssize_t, chunk_position: cython.longlong) -> cython.void:
        """Keep what NOTES says of the batch of magic 2 at `position`."""
        self.note[0] = chunk_position + position
        self.note[1] = int32_at(data, position + 8) + _OVERHEAD
        self.note[2] = int64_at(data, position)
        self.note[3] = int32_at(data, position + 19) & 0xFFFF
        self.note[4] = int64_at(data, position + 27)
        self.note[5] = int64_at(data, position + 35)
        self.note[6] = int64_at(data, position + 43)
        self.note[7] = int32_at(data, position + 49)
        self.note[7] = (self.note[7] & 0xFFFF ^ 0x8000) - 0x8000
        self.note[8] = int32_at(data, position + 53)
        self.note[9] = int32_at(data, position + 12)
        self.note[10] = 2

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _begin(self, record_count: cython.longlong) -> cython.void:
        self.left = record_count
        self.walked = self.error = 0
        self.is_noted = False
        self.base_offset = self.note[2]
        self.base_timestamp = self.note[4]
        self.append_time = self.note[5]
        self.has_append_time = self.note[3] & _LOG_APPEND_TIME != 0
        self.is_control = self.note[3] & _CONTROL != 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fill(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        length: cython.longlong
        attributes: cython.int
        timestamp: cython.longlong
        offset: cython.longlong
        key_at: cython.Py_ssize_t
        key_length: cython.longlong
        value_at: cython.Py_ssize_t
        value_length: cython.longlong
        headers_at: cython.Py_ssize_t
        header_count: cython.longlong
        headers: cython.longlong
        names: cython.longlong
        contents: cython.longlong
        while self.left > 0:
            length, at = number(data, position, size, 35)
            if at > size:
                if size - position >= 5:
                    self.error = _BAD_NUMBER
                break
            if length < _SMALLEST_RECORD:
                self.error = _BAD_LENGTH
                break
            if length > self.max_record_bytes:
                self.error = _TOO_LARGE
                break
            if length > size - at:
                break
            end = at + length
            attributes = data[at]
            timestamp, at = number(data, at + 1, end, 70)
            offset, at = number(data, at, end, 35)
            key_length, at = number(data, at, end, 35)
            if at > end:
                self.error = _BAD_NUMBER
                break
            if key_length > end - at:
                self.error = _BAD_KEY
                break
            key_at = at
            if key_length > 0:
                at += key_length
            value_length, at = number(data, at, end, 35)
            if at > end or value_length > end - at:
                self.error = _BAD_VALUE
                break
            value_at = at
            if value_length > 0:
                at += value_length
            header_count, at = number(data, at, end, 35)
            if at > end or header_count < 0 or header_count > end - at:
                self.error = _BAD_HEADERS
                break
            headers_at = at
            headers = header_count
            names = contents = 0
            while headers > 0:
                length, at = number(data, at, end, 35)
                if at > end or length < 0 or length > end - at:
                    break
                names += length
                length, at = number(data, at + length, end, 35)
                if at > end or length > end - at:
                    break
                if length > 0:
                    contents += length
                    at += length
                headers -= 1
            if headers > 0:
                self.error = _BAD_HEADERS
                break
            if at != end:
                self.error = _BAD_SIZE
                break
            offset = wrapping_sum(self.base_offset, offset)
            if self.first_offset <= offset < self.end_offset:
                if not self._has_room(key_length, value_length, header_count, names, contents):
                    self.is_full = True
                    break
                timestamp = self.append_time if self.has_append_time else wrapping_sum(self.base_timestamp, timestamp)
                if self.has_offset:
                    self.offset[self.rows] = offset
                if self.has_timestamp:
                    self.timestamp[self.rows] = timestamp
                if self.has_size:
                    self.size[self.rows] = end - position
                if self.has_value_size:
                    self.value_size[self.rows] = value_length
                if self.has_tombstone:
                    _put_bit(
                        self.tombstone,
                        self.rows,
                        not self.is_control and (value_length < 0 or attributes & _TOMBSTONE != 0),
                    )
                if self.has_batch:
                    self._note_batch()
                if self.has_key:
                    _put_bit(self.key_valid, self.rows, key_length >= 0)
                    self.key_bytes = _copy(data, key_at, key_length, self.key, self.key_bytes)
                    self.key_ends[self.rows + 1] = self.key_bytes
                if self.has_value:
                    _put_bit(self.value_valid, self.rows, value_length >= 0)
                    self.value_bytes = _copy(data, value_at, value_length, self.value, self.value_bytes)
                    self.value_ends[self.rows + 1] = self.value_bytes
                if self.has_headers:
                    self._put_headers(data, headers_at, end, header_count)
                self.rows += 1
            self.left -= 1
            self.walked += 1
            position = end
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _has_room(
        self,
        key_length: cython.longlong,
        value_length: cython.longlong,
        headers: cython.longlong,
        names: cython.longlong,
        contents: cython.longlong,
    ) -> cython.bint:
        if (
            self.rows < self.max_rows
            and (not self.has_key or key_length <= self.key_room - self.key_bytes)
            and (not self.has_value or value_length <= self.value_room - self.value_bytes)
            and (
                not self.has_headers
                or (
                    names <= self.name_room - self.name_bytes
                    and contents <= self.content_room - self.content_bytes
                    and headers <= self.max_headers - self.headers
                )
            )
        ):
            return True
        self.needed_key = key_length
        self.needed_value = value_length
        self.needed_names = names
        self.needed_contents = contents
        self.needed_headers = headers
        return False

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _note_batch(self) -> cython.void:
        """Say which batch the row is of; note the batch with its first row."""
        number_of_note: cython.Py_ssize_t
        if not self.is_noted:
            for number_of_note in range(_NOTES):
                self.notes[number_of_note * self.max_rows + self.batches] = self.note[number_of_note]
            self.is_noted = True
            self.batches += 1
        self.batch[self.rows] = self.batches - 1

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _put_headers(
        self, data: Bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.longlong
    ) -> cython.void:
        """Put down the headers of a record, which have been looked at and have room."""
        length: cython.longlong
        _put_bit(self.headers_valid, self.rows, count > 0)
        while count > 0:
            length, at = number(data, at, end, 35)
            self.name_bytes = _copy(data, at, length, self.name, self.name_bytes)
            length, at = number(data, at + length, end, 35)
            self.content_bytes = _copy(data, at, length, self.content, self.content_bytes)
            _put_bit(self.content_valid, self.headers, length >= 0)
            if length > 0:
                at += length
            self.headers += 1
            self.name_ends[self.headers] = self.name_bytes
            self.content_ends[self.headers] = self.content_bytes
            count -= 1
        self.headers_ends[self.rows + 1] = self.headers


def _view(room: dict, part: str, kind: str) -> memoryview:
    return memoryview(room.get(part, bytearray())).cast("B").cast(kind)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _put_bit(bits: cython.uchar[::1], index: cython.longlong, bit: cython.bint) -> cython.void:
    """Set or clear a bit, whatever it was; those behind it in its byte may be lost."""
    at: cython.longlong = index >> 3
    place: cython.int = index & 7
    if place == 0:
        bits[at] = 1 if bit else 0
    else:
        bits[at] = bits[at] & ((1 << place) - 1) | (1 if bit else 0) << place


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _copy(
    data: Bytes, start: cython.Py_ssize_t, length: cython.longlong, out: cython.uchar[::1], at: cython.longlong
) -> cython.longlong:
    """Copy bytes to `out`, none if `length` is negative; return where they end there."""
    if length <= 0:
        return at
    if cython.compiled:
        memcpy(cython.address(out[at]), data + start, length)
    else:
        out[at : at + length] = data[start : start + length]
    return at + length


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
    """Whether a batch that does not begin with the next offset may nevertheless have its own, as far as the one that is
    `following` shows it: no checksum covers offsets."""
    return last_offset - next_offset <= _MOST and end - following >= 8 and int64_at(data, following) > last_offset


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_sound(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the checksum of this batch is right."""
    stored: cython.longlong = int32_at(data, position + 17) & _32_BITS
    if cython.compiled:
        return kmini_crc32c(data + position + 21, size - 21) == stored
    else:
        return crc32c(data[position + 21 : position + size]) == stored


if cython.compiled:
    kmini_crc_begin()
