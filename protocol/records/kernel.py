# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The two loops over records: one believes nothing, the other makes tuples.

Cython's pure-Python mode. Where a C compiler was, this is compiled and lets other threads run while it walks; where none was,
the same source runs interpreted, some hundred times slower. (`cython` is a real import only then.)

Both work on a *block*: the records of a batch, decompressed, without the batch's header. A record is

    length  attributes  timestamp delta  offset delta  key length  key  value length  value  header count  header…

where a header is a key length, key, value length, value; attributes are one byte that means nothing; and everything else that is not
a key or a value is a zig-zag varint of 32 bits (at most 5 bytes), the timestamp delta one of 64 (at most 10).
"""

from __future__ import annotations

import cython

# What comes next in a record: numbers, most of which say what has to be skipped before the one after them.
_LENGTH = cython.declare(cython.int, 0)
_TIMESTAMP = cython.declare(cython.int, 1)
_OFFSET = cython.declare(cython.int, 2)
_KEY = cython.declare(cython.int, 3)
_VALUE = cython.declare(cython.int, 4)
_HEADER_COUNT = cython.declare(cython.int, 5)
_HEADER_KEY = cython.declare(cython.int, 6)
_HEADER_VALUE = cython.declare(cython.int, 7)
_END = cython.declare(cython.int, 8)

# Why something is no record.
_BAD_NUMBER = cython.declare(cython.int, 1)
_BAD_LENGTH = cython.declare(cython.int, 2)
_TOO_LARGE = cython.declare(cython.int, 3)
_BAD_KEY = cython.declare(cython.int, 4)
_BAD_VALUE = cython.declare(cython.int, 5)
_BAD_HEADERS = cython.declare(cython.int, 6)
_BAD_SIZE = cython.declare(cython.int, 7)

REASONS = {
    _BAD_NUMBER: "one of its numbers has too many bytes",
    _BAD_LENGTH: "its length is negative or too short for a record",
    _TOO_LARGE: "it is larger than a record may be",
    _BAD_KEY: "its key is longer than the record",
    _BAD_VALUE: "its value is longer than the record",
    _BAD_HEADERS: "its headers are malformed",
    _BAD_SIZE: "its fields do not fill its length exactly",
}

_SMALLEST_RECORD = cython.declare(cython.longlong, 6)
"""Attributes, two deltas, two lengths and a header count, a byte each."""

_WORTH_RELEASING = cython.declare(cython.Py_ssize_t, 32 * 1024)
"""Bytes that take longer to walk than it may take to get the interpreter's lock back."""

_32_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_64_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
"""Where C's numbers end by themselves, and Python's do not."""


@cython.final
@cython.cclass
class RecordWalker:
    """Walks the records of one batch and gathers what a broker must know before it believes them.

    `feed` it the block in pieces, cut anywhere: nothing of a piece is kept, so checking takes no memory however large a record is.
    The facts are complete once `walked` is `record_count`, and mean nothing once there is an `error`.
    """

    record_count = cython.declare(cython.longlong, visibility="readonly")
    """How many records the header claims."""
    walked = cython.declare(cython.longlong, visibility="readonly")
    """How many were met so far."""
    error = cython.declare(cython.int, visibility="readonly")
    """0, or why record number `walked` is none: a key of REASONS."""
    null_keys = cython.declare(cython.longlong, visibility="readonly")
    is_sequential = cython.declare(cython.bint, visibility="readonly")
    """Whether the offset deltas are 0, 1, 2, …"""
    min_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp_delta = cython.declare(cython.longlong, visibility="readonly")
    """The offset delta of the first record with the largest timestamp."""
    found = cython.declare(cython.bint, visibility="readonly")
    found_timestamp = cython.declare(cython.longlong, visibility="readonly")
    found_delta = cython.declare(cython.longlong, visibility="readonly")
    """Timestamp and offset delta of the record that `seek` asked for."""

    base_timestamp: cython.longlong
    max_record_bytes: cython.longlong
    seeking: cython.bint
    sought_timestamp: cython.longlong
    sought_delta: cython.longlong

    # Where the pieces so far have ended: in which number, of what, in which record.
    raw: cython.ulonglong
    shift: cython.int
    field: cython.int
    skip: cython.longlong
    left: cython.longlong
    timestamp: cython.longlong
    delta: cython.longlong
    headers: cython.longlong

    def __init__(self, record_count: int, base_timestamp: int, max_record_bytes: int) -> None:
        self.record_count = record_count
        self.base_timestamp = base_timestamp
        self.max_record_bytes = max_record_bytes
        self.walked = self.error = self.null_keys = 0
        self.is_sequential = True
        self.min_timestamp = self.max_timestamp = self.max_timestamp_delta = -1
        self.seeking = self.found = False
        self.found_timestamp = self.found_delta = -1
        self.sought_timestamp = self.sought_delta = 0
        self.raw = self.shift = self.skip = self.left = self.timestamp = self.delta = self.headers = 0
        self.field = _LENGTH

    def seek(self, timestamp: int, offset_delta: int) -> None:
        """Walk no further than to the first record from `offset_delta` on with at least this timestamp."""
        self.sought_timestamp = timestamp
        self.sought_delta = offset_delta
        self.seeking = True

    def feed(self, piece: cython.const[cython.uchar][::1]) -> int:
        """Walk the next bytes of the block; return how many of them were records'.

        That is all of them, unless there was an error, the record sought was found, or they go on behind the last record.
        """
        used: cython.Py_ssize_t
        if not cython.compiled:
            return self._walk(memoryview(piece))
        if piece.shape[0] < _WORTH_RELEASING:
            return self._walk(piece)
        with cython.nogil:
            used = self._walk(piece)
        return used

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk(self, data: cython.const[cython.uchar][::1]) -> cython.Py_ssize_t:
        position: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = data.shape[0]
        raw: cython.ulonglong = self.raw
        shift: cython.int = self.shift
        field: cython.int = self.field
        skip: cython.longlong = self.skip
        end: cython.longlong = self.left  # of the record, counted from the start of this piece
        byte: cython.ulonglong
        value: cython.longlong
        error: cython.int = self.error
        while error == 0:
            if skip > 0:
                if skip > size - position:
                    skip -= size - position
                    position = size
                    break
                position += skip
                skip = 0
            if field == _END:
                self._note_record()
                field = _LENGTH
            if field == _LENGTH and (self.walked >= self.record_count or self.found):
                break

            # A number, perhaps begun in the piece before
            byte = 0x80
            while byte >= 0x80 and position < size and shift < 70:
                byte = data[position]
                position += 1
                raw |= (byte & 0x7F) << shift
                shift += 7
            if shift > 28:
                if shift > 35 and field != _TIMESTAMP or byte >= 0x80 and shift == 70:
                    error = _BAD_NUMBER
                    break
                raw &= _64_BITS if field == _TIMESTAMP else _32_BITS
            if byte >= 0x80:
                break
            value = (raw >> 1) ^ -(raw & 1)
            raw = 0
            shift = 0

            # What it means
            if field == _LENGTH:
                end = position + value
                skip = 1  # attributes
                field = _TIMESTAMP
                if value < _SMALLEST_RECORD:
                    error = _BAD_LENGTH
                elif value > self.max_record_bytes:
                    error = _TOO_LARGE
                continue
            if field == _TIMESTAMP:
                self.timestamp = value
                field = _OFFSET
            elif field == _OFFSET:
                self.delta = value
                field = _KEY
            elif field == _KEY:
                if value < 0:
                    self.null_keys += 1
                elif value > end - position:
                    error = _BAD_KEY
                else:
                    skip = value
                field = _VALUE
            elif field == _VALUE:
                if value > end - position:
                    error = _BAD_VALUE
                elif value > 0:
                    skip = value
                field = _HEADER_COUNT
            elif field == _HEADER_COUNT:
                if value < 0 or value > end - position:
                    error = _BAD_HEADERS
                self.headers = value
                field = _HEADER_KEY
            elif field == _HEADER_KEY:
                if value < 0 or value > end - position:
                    error = _BAD_HEADERS
                skip = value
                field = _HEADER_VALUE
            else:
                if value > end - position:
                    error = _BAD_HEADERS
                elif value > 0:
                    skip = value
                self.headers -= 1
                field = _HEADER_KEY
            if field == _HEADER_KEY and self.headers == 0 and error == 0:
                field = _END
                if position + skip != end:
                    error = _BAD_SIZE
            elif position + skip > end and error == 0:
                error = _BAD_SIZE
        self.raw = raw
        self.shift = shift
        self.field = field
        self.skip = skip
        self.left = end - position
        self.error = error
        return position

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _note_record(self) -> cython.void:
        """Add the record that has just ended to the facts."""
        timestamp: cython.longlong = _wrapping_add(self.base_timestamp, self.timestamp)
        if self.walked == 0:
            self.min_timestamp = timestamp
            self.max_timestamp = timestamp
            self.max_timestamp_delta = self.delta
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_delta = self.delta
        elif timestamp < self.min_timestamp:
            self.min_timestamp = timestamp
        if self.delta != self.walked:
            self.is_sequential = False
        if self.seeking and timestamp >= self.sought_timestamp and self.delta >= self.sought_delta:
            self.found = True
            self.found_timestamp = timestamp
            self.found_delta = self.delta
        self.walked += 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _wrapping_add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b in 64 bits, as Java adds."""
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b))
    return (a + b + (1 << 63)) % (1 << 64) - (1 << 63)


@cython.final
@cython.cclass
class RecordReader:
    """Makes tuples of the records of a block, or of a piece of one that begins and ends with whole records.

    It expects what a RecordWalker has found no error in, and raises ValueError where it meets something else.
    """

    position = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """Where the next record begins."""

    data: cython.const[cython.uchar][::1]
    size: cython.Py_ssize_t

    def __init__(self, block: cython.const[cython.uchar][::1]) -> None:
        self.data = block if cython.compiled else memoryview(block)
        self.size = self.data.shape[0]
        self.position = 0

    def records(
        self, make: object, count: int, base_offset: int, base_timestamp: int, append_time: int | None
    ) -> list:
        """`make((offset, timestamp, key, value, headers))` of the next `count` records; all have `append_time` if it is given."""
        number: cython.longlong
        total: cython.longlong = count
        first_offset: cython.longlong = base_offset
        first_timestamp: cython.longlong = base_timestamp
        header_count: cython.longlong
        result: list = []
        for number in range(total):
            self._number(35)  # the length
            self.position += 1  # attributes
            timestamp = _wrapping_add(first_timestamp, self._number(70))
            offset = first_offset + self._number(35)
            key = self._bytes()
            value = self._bytes()
            header_count = self._number(35)
            headers: tuple = self._headers(header_count) if header_count else ()
            result.append(make((offset, timestamp if append_time is None else append_time, key, value, headers)))
        return result

    @cython.cfunc
    def _headers(self, count: cython.longlong) -> tuple:
        headers: list = []
        number: cython.longlong
        for number in range(count):
            key: bytes = self._bytes()
            headers.append((key.decode("utf-8", "replace"), self._bytes()))
        return tuple(headers)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _number(self, bits: cython.int) -> cython.longlong:
        """The varint at `position`, of at most `bits` / 7 bytes."""
        data = self.data
        position: cython.Py_ssize_t = self.position
        raw: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            if position >= self.size or shift >= bits:
                raise ValueError("the block holds something that is no record")
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        self.position = position
        raw &= _64_BITS if bits == 70 else _32_BITS
        return (raw >> 1) ^ -(raw & 1)

    @cython.cfunc
    def _bytes(self) -> object:
        """The bytes at `position` with their length before them; None if that is negative."""
        length: cython.Py_ssize_t = self._number(35)
        start: cython.Py_ssize_t = self.position
        if length < 0:
            return None
        if length > self.size - start:
            raise ValueError("the block holds something that is no record")
        self.position = start + length
        if length == 0:
            return b""
        if cython.compiled:
            return cython.cast(cython.p_char, cython.address(self.data[start]))[:length]
        return bytes(self.data[start : start + length])
