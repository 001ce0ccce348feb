# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The loops over records: one believes nothing, the others make tuples of records and records of tuples.

Cython's pure-Python mode. Where a C compiler was, this is compiled, checks a record in some 20 ns, and lets other
threads run meanwhile; where none was, the same source runs interpreted, about a hundred times slower, and `cython` is
the module `cython_words` then: running kmini never needs Cython.

All work on a *block*: the records of a batch, decompressed, without the batch's header. A record in it is

| field            | type          | |
|------------------|---------------|-|
| length           | varint        | of what follows |
| attributes       | 1 byte        | nothing here asks for them (flagging.py does) |
| timestamp delta  | varlong       | from the batch's base timestamp |
| offset delta     | varint        | from its base offset |
| key              | varint, bytes | the length is negative for null |
| value            | varint, bytes | likewise |
| header count     | varint        | and for each header a name and a value, both like the key; the name is never null |

Varints have at most 5 bytes and make 32 bits, varlongs at most 10 and 64; both are zig-zag.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.varints import append_number, number, wrapping_sum
else:
    from .varints import append_number, number, wrapping_sum

Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
"""The bytes of a block: in C a pointer to them, which knows no size; interpreted whatever the caller gave."""

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
"""Bytes that take longer to walk than getting the interpreter's lock back may take."""

_32_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_64_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LATEST = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
_EARLIEST = cython.declare(cython.longlong, -1 - _LATEST)
"""Where C's numbers end by themselves, and Python's do not."""


@cython.final
@cython.cclass
class RecordWalker:
    """Walks the records of one batch and gathers what a broker must know before it believes them.

    `feed` it the block in pieces, cut anywhere: nothing of a piece is kept, so checking takes no memory, however large
    a record is. The facts are complete once `walked` is `record_count`, and mean nothing once there is an `error`.
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
    """Of the records that have one: -1 is none."""
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp_delta = cython.declare(cython.longlong, visibility="readonly")
    """The offset delta of the first record with the largest timestamp."""

    has_stopped = cython.declare(cython.bint, visibility="readonly")
    """Whether the last `feed` ended behind a record that it was to stop at. That record is:"""
    timestamp = cython.declare(cython.longlong, visibility="readonly")
    offset_delta = cython.declare(cython.longlong, visibility="readonly")
    key_is_null = cython.declare(cython.bint, visibility="readonly")

    base_timestamp: cython.longlong
    max_record_bytes: cython.longlong
    stops: cython.bint
    stop_before: cython.longlong
    stop_since: cython.longlong
    stop_at_null_keys: cython.bint
    stop_from: cython.longlong

    # Where the pieces so far have ended: in which number, of what, in which record.
    raw: cython.ulonglong
    shift: cython.int
    field: cython.int
    skip: cython.longlong
    left: cython.longlong
    headers: cython.longlong

    def __init__(self, record_count: int, base_timestamp: int, max_record_bytes: int) -> None:
        self.record_count = record_count
        self.base_timestamp = base_timestamp
        self.max_record_bytes = max_record_bytes
        self.walked = self.error = self.null_keys = 0
        self.is_sequential = True
        self.min_timestamp = self.max_timestamp = self.max_timestamp_delta = -1
        self.has_stopped = self.stops = self.key_is_null = False
        self.timestamp = self.offset_delta = -1
        self.raw = self.shift = self.skip = self.left = self.headers = 0
        self.field = 0

    def stop_at(
        self, *, before: int = _EARLIEST, since: int = _LATEST, null_keys: bool = False, from_delta: int = _EARLIEST
    ) -> None:
        """Let `feed` end at every record with a timestamp < `before` or >= `since`, or without a key if that is asked.

        Records below an offset delta of `from_delta` are passed by.
        """
        self.stops = True
        self.stop_before = before
        self.stop_since = since
        self.stop_at_null_keys = null_keys
        self.stop_from = from_delta

    def feed(self, piece: cython.const[cython.uchar][::1]) -> int:
        """Walk the next bytes of the block; return how many of them were walked.

        All of them, unless there is an error, a record to stop at, or something behind the last record.
        """
        size: cython.Py_ssize_t = len(piece)
        walked: cython.Py_ssize_t
        if not cython.compiled:
            return self._walk(memoryview(piece), size)
        if size < _WORTH_RELEASING:
            return self._walk(cython.address(piece[0]), size)
        with cython.nogil:
            walked = self._walk(cython.address(piece[0]), size)
        return walked

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _walk(self, data: Bytes, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
        # What comes next in a record: numbers, most of which say how much to skip before the one after them.
        LENGTH: cython.int = 0
        TIMESTAMP: cython.int = 1
        OFFSET: cython.int = 2
        KEY: cython.int = 3
        VALUE: cython.int = 4
        HEADER_COUNT: cython.int = 5
        HEADER_NAME: cython.int = 6
        HEADER_VALUE: cython.int = 7
        END: cython.int = 8

        position: cython.Py_ssize_t = 0
        raw: cython.ulonglong = self.raw
        shift: cython.int = self.shift
        field: cython.int = self.field
        skip: cython.longlong = self.skip
        end: cython.longlong = self.left  # of the record, counted from the start of this piece
        byte: cython.ulonglong
        value: cython.longlong
        error: cython.int = self.error
        goes_on: cython.bint = self.walked < self.record_count
        self.has_stopped = False
        while goes_on and error == 0:
            if skip > 0:
                if skip > size - position:
                    skip -= size - position
                    position = size
                    break
                position += skip
                skip = 0
                if field == END:
                    field = LENGTH
                    goes_on = self._note_record()
                    continue
            if position >= size:
                break
            byte = data[position]
            position += 1
            if byte >= 0x80 or shift > 0:  # not the only byte of its number
                raw |= (byte & 0x7F) << shift
                shift += 7
                if byte >= 0x80:
                    if shift >= (70 if field == TIMESTAMP else 35):
                        error = _BAD_NUMBER
                    continue
                raw &= _64_BITS if field == TIMESTAMP else _32_BITS
                value = raw >> 1 ^ -(raw & 1)
                raw = 0
                shift = 0
            else:
                value = byte >> 1 ^ -(byte & 1)

            if field == LENGTH:
                end = position + value
                skip = 1  # attributes
                field = TIMESTAMP
                if value < _SMALLEST_RECORD:
                    error = _BAD_LENGTH
                elif value > self.max_record_bytes:
                    error = _TOO_LARGE
                continue
            if field == TIMESTAMP:
                self.timestamp = wrapping_sum(self.base_timestamp, value)
                field = OFFSET
            elif field == OFFSET:
                self.offset_delta = value
                field = KEY
            elif field == KEY:
                self.key_is_null = value < 0
                if value > end - position:
                    error = _BAD_KEY
                skip = value
                field = VALUE
            elif field == VALUE:
                if value > end - position:
                    error = _BAD_VALUE
                skip = value
                field = HEADER_COUNT
            elif field == HEADER_COUNT:
                if value < 0 or value > end - position:
                    error = _BAD_HEADERS
                self.headers = value
                field = HEADER_NAME
            elif field == HEADER_NAME:
                if value < 0 or value > end - position:
                    error = _BAD_HEADERS
                skip = value
                field = HEADER_VALUE
            elif field == HEADER_VALUE:
                if value > end - position:
                    error = _BAD_HEADERS
                skip = value
                self.headers -= 1
                field = HEADER_NAME

            if error == 0 and position > end:
                error = _BAD_SIZE
            elif error == 0 and field == HEADER_NAME and self.headers == 0:
                if position + (skip if skip > 0 else 0) != end:
                    error = _BAD_SIZE
                elif skip > 0:
                    field = END
                else:
                    field = LENGTH
                    goes_on = self._note_record()
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
    def _note_record(self) -> cython.bint:
        """Add the record that has just ended to the facts; return whether to go on behind it."""
        timestamp: cython.longlong = self.timestamp
        if self.walked == 0 or timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.max_timestamp_delta = self.offset_delta
        if timestamp != -1 and (timestamp < self.min_timestamp or self.min_timestamp == -1):
            self.min_timestamp = timestamp
        if self.offset_delta != self.walked:
            self.is_sequential = False
        if self.key_is_null:
            self.null_keys += 1
        self.walked += 1
        if self.stops and self.offset_delta >= self.stop_from:
            self.has_stopped = (
                timestamp < self.stop_before
                or timestamp >= self.stop_since
                or (self.stop_at_null_keys and self.key_is_null)
            )
        return self.walked < self.record_count and not self.has_stopped


@cython.final
@cython.cclass
class RecordReader:
    """Makes tuples of the records of a block, or of a piece of one that begins with a record.

    It expects what a RecordWalker found no error in; ValueError where it meets something else.
    """

    position = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """Where the next record begins."""
    block: cython.const[cython.uchar][::1]

    def __init__(self, block: cython.const[cython.uchar][::1]) -> None:
        self.block = block if cython.compiled else bytes(block)
        self.position = 0

    def records(
        self,
        make: object,
        count: cython.longlong,
        base_offset: cython.longlong,
        base_timestamp: cython.longlong,
        append_time: int | None,
    ) -> list:
        """`make((offset, timestamp, key, value, headers))` for each of the next `count` records.

        All bear `append_time` if it is given.
        """
        data: Bytes = cython.address(self.block[0]) if cython.compiled else self.block
        size: cython.Py_ssize_t = len(self.block)
        position: cython.Py_ssize_t = self.position
        length: cython.longlong
        timestamp_delta: cython.longlong
        offset_delta: cython.longlong
        header_count: cython.longlong
        result: list = []
        for _ in range(count):
            length, position = number(data, position, size, 35)
            timestamp_delta, position = number(data, position + 1, size, 70)
            offset_delta, position = number(data, position, size, 35)
            length, position = number(data, position, size, 35)
            key = _slice(data, position, size, length)
            if length > 0:
                position += length
            length, position = number(data, position, size, 35)
            value = _slice(data, position, size, length)
            if length > 0:
                position += length
            header_count, position = number(data, position, size, 35)
            headers: tuple = ()
            if header_count:
                headers, position = _headers(data, position, size, header_count)
            if position > size:
                raise ValueError("the block ends within a record")
            timestamp = wrapping_sum(base_timestamp, timestamp_delta) if append_time is None else append_time
            result.append(make((wrapping_sum(base_offset, offset_delta), timestamp, key, value, headers)))
        self.position = position
        return result


def encode_records(records: object, offset_deltas: object, base_timestamp: cython.longlong) -> bytearray:
    """The block of `records`, tuples as RecordReader makes them: each with the offset delta that is given beside it."""
    block: bytearray = bytearray()
    body: bytearray = bytearray()
    base: cython.ulonglong = base_timestamp
    timestamp: cython.longlong
    for record, offset_delta in zip(records, offset_deltas):  # noqa: B905
        _, timestamp, key, value, headers = record
        body.clear()
        body.append(0)  # attributes
        append_number(body, timestamp - base)
        append_number(body, offset_delta)
        _append_bytes(body, key)
        _append_bytes(body, value)
        if headers:
            append_number(body, len(headers))
            for name, content in headers:
                _append_bytes(body, name.encode())
                _append_bytes(body, content)
        else:
            body.append(0)
        append_number(block, len(body))
        block += body
    return block


@cython.cfunc
@cython.inline
def _slice(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, length: cython.longlong) -> object:
    if length < 0:
        return None
    if length > size - position:
        raise ValueError("the block ends within a record")
    return data[position : position + length]


@cython.cfunc
def _headers(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, count: cython.longlong) -> tuple:
    """The headers at `position`, and where they end."""
    length: cython.longlong
    headers: list = []
    while count > 0:
        count -= 1
        length, position = number(data, position, size, 35)
        if length < 0:
            raise ValueError("a header has no name")
        name = _slice(data, position, size, length).decode("utf-8", "replace")
        length, position = number(data, position + length, size, 35)
        headers.append((name, _slice(data, position, size, length)))
        if length > 0:
            position += length
    return tuple(headers), position


@cython.cfunc
@cython.inline
def _append_bytes(out: bytearray, content: object) -> object:
    if content is None:
        out.append(1)
    else:
        append_number(out, len(content))
        out += content
