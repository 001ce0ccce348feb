"""The loops over records: checking them, finding a timestamp, making tuples of them.

One source in Cython's pure-Python mode. Where a C compiler was, it is compiled, checks a record in some 15 ns, and lets other threads
run meanwhile; where none was, the same file runs interpreted at about a microsecond a record. (`cython` is a real import only then.)

A block is the records of a batch without its header, decompressed. `RecordWalker` takes it in pieces, because a compressed block is
never held whole just to be checked.
"""

from __future__ import annotations

import cython

# Why a walk ended before the last record, for C; `REASONS` has the words.
_BAD_LENGTH = cython.declare(cython.int, 1)
_BAD_VARINT = cython.declare(cython.int, 2)
_BAD_KEY = cython.declare(cython.int, 3)
_BAD_VALUE = cython.declare(cython.int, 4)
_BAD_HEADERS = cython.declare(cython.int, 5)
_BAD_SIZE = cython.declare(cython.int, 6)

REASONS = {
    _BAD_LENGTH: "its length is negative or too short for a record",
    _BAD_VARINT: "one of its numbers is cut off or too long",
    _BAD_KEY: "its key is longer than the record",
    _BAD_VALUE: "its value is longer than the record",
    _BAD_HEADERS: "its headers are malformed",
    _BAD_SIZE: "its fields do not fill its length exactly",
}

_SMALLEST_RECORD = cython.declare(cython.longlong, 6)
"""Attributes, two deltas, two lengths and a header count, a byte each."""

_32_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_64_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
"""What C has by itself and Python has not: numbers that end."""


@cython.cclass
class RecordWalker:
    """Walks the records of one batch and gathers what a broker must know before it believes them.

    `feed` it pieces of the block, each beginning with what it left of the one before; the facts are complete once
    `walked` is the number of records that the batch's header claims. `error` is 0, or why (see REASONS) record number `walked` is no record.
    """

    record_count = cython.declare(cython.longlong, visibility="readonly")
    """How many records the header claims."""
    walked = cython.declare(cython.longlong, visibility="readonly")
    error = cython.declare(cython.int, visibility="readonly")
    bytes_needed = cython.declare(cython.longlong, visibility="readonly")
    """The size of the record that was not all there; 0 if not even its length was."""
    null_keys = cython.declare(cython.longlong, visibility="readonly")
    is_sequential = cython.declare(cython.bint, visibility="readonly")
    """Whether the offset deltas were 0, 1, 2, … so far."""
    min_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp = cython.declare(cython.longlong, visibility="readonly")
    max_timestamp_delta = cython.declare(cython.longlong, visibility="readonly")
    """The offset delta of the first record with the largest timestamp."""
    base_timestamp: cython.longlong
    position: cython.Py_ssize_t

    def __init__(self, record_count: int, base_timestamp: int) -> None:
        self.record_count = record_count
        self.base_timestamp = base_timestamp
        self.walked = 0
        self.error = 0
        self.bytes_needed = 0
        self.null_keys = 0
        self.is_sequential = True
        self.min_timestamp = 0
        self.max_timestamp = 0
        self.max_timestamp_delta = 0
        self.position = 0

    def feed(self, block: cython.const[cython.uchar][::1]) -> int:
        """Walk the whole records in `block`; return how many bytes they took.

        Stops at the last record that is claimed, at an error, or at a record that is not all there: then `bytes_needed` says what
        the rest of the block and more must amount to.
        """
        if not cython.compiled:
            block = memoryview(block)
        consumed: cython.Py_ssize_t
        with cython.nogil:
            consumed = self._walk(block)
        return consumed

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _walk(self, data: cython.const[cython.uchar][::1]) -> cython.Py_ssize_t:
        size: cython.Py_ssize_t = data.shape[0]
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        length: cython.longlong
        timestamp: cython.longlong
        delta: cython.longlong
        key_length: cython.longlong
        count: cython.longlong
        self.bytes_needed = 0
        while self.walked < self.record_count:
            self.position = start
            length = self._varint(data, size)
            if self.position < 0:
                # Cut off by the end of the piece, or longer than five bytes.
                if size - start >= 5:
                    self.error = _BAD_VARINT
                return start
            if length < _SMALLEST_RECORD:
                self.error = _BAD_LENGTH
                return start
            if length > size - self.position:
                self.bytes_needed = length + self.position - start
                return start
            end = self.position + cython.cast(cython.Py_ssize_t, length)
            self.position += 1  # attributes: unused
            timestamp = self._varlong(data, end)
            if self.position < 0:
                self.error = _BAD_VARINT
                return start
            delta = self._varint(data, end)
            if self.position < 0:
                self.error = _BAD_VARINT
                return start
            key_length = self._skip_bytes(data, end)
            if self.position < 0:
                self.error = _BAD_KEY
                return start
            self._skip_bytes(data, end)
            if self.position < 0:
                self.error = _BAD_VALUE
                return start
            count = self._varint(data, end)
            if self.position < 0 or count < 0 or count > end - self.position:
                self.error = _BAD_HEADERS
                return start
            while count > 0:
                count -= 1
                if self._skip_bytes(data, end) < 0 or self.position < 0:
                    self.error = _BAD_HEADERS
                    return start
                self._skip_bytes(data, end)
                if self.position < 0:
                    self.error = _BAD_HEADERS
                    return start
            if self.position != end:
                self.error = _BAD_SIZE
                return start
            timestamp = _wrapping_add(self.base_timestamp, timestamp)
            if key_length < 0:
                self.null_keys += 1
            if delta != self.walked:
                self.is_sequential = False
            if self.walked == 0:
                self.min_timestamp = timestamp
                self.max_timestamp = timestamp
                self.max_timestamp_delta = delta
            elif timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
                self.max_timestamp_delta = delta
            elif timestamp < self.min_timestamp:
                self.min_timestamp = timestamp
            self.walked += 1
            start = end
        return start

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _varint(self, data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> cython.longlong:
        """The zig-zag varint (32 bits) at `position`, which moves behind it; to -1 if there is none."""
        raw: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong
        position: cython.Py_ssize_t = self.position
        while shift < 35:
            if position >= end:
                self.position = -1
                return 0
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                raw &= _32_BITS
                if raw & 1:
                    return -cython.cast(cython.longlong, raw >> 1) - 1
                return cython.cast(cython.longlong, raw >> 1)
            shift += 7
        self.position = -1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _varlong(self, data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> cython.longlong:
        """The zig-zag varlong (64 bits) at `position`, which moves behind it; to -1 if there is none."""
        raw: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong
        position: cython.Py_ssize_t = self.position
        while shift < 70:
            if position >= end:
                self.position = -1
                return 0
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                raw &= _64_BITS
                if raw & 1:
                    return -cython.cast(cython.longlong, raw >> 1) - 1
                return cython.cast(cython.longlong, raw >> 1)
            shift += 7
        self.position = -1
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _skip_bytes(self, data: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> cython.longlong:
        """Move over a length and its bytes; return the length, negative for null. `position` becomes -1 if they are not there."""
        length: cython.longlong = self._varint(data, end)
        if self.position >= 0 and length > 0:
            if length > end - self.position:
                self.position = -1
            else:
                self.position += cython.cast(cython.Py_ssize_t, length)
        return length


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _wrapping_add(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b in 64 bits, as Java adds."""
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.ulonglong, a) + cython.cast(cython.ulonglong, b))
    return (a + b + (1 << 63)) % (1 << 64) - (1 << 63)


@cython.cclass
class RecordReader:
    """Makes tuples of the records of a checked block."""

    data: cython.const[cython.uchar][::1]
    position: cython.Py_ssize_t

    def __init__(self, block: object) -> None:
        self.data = block if cython.compiled else memoryview(block)  # type: ignore[arg-type]
        self.position = 0

    def records(
        self, make: object, count: int, base_offset: int, base_timestamp: int, append_time: int | None
    ) -> list:
        """`make((offset, timestamp, key, value, headers))` for each record; all bear `append_time` if it is given.

        The block must have passed a RecordWalker: nothing is checked here.
        """
        walked: cython.longlong
        total: cython.longlong = count
        result: list = []
        for walked in range(total):
            self._number()  # its length
            self.position += 1
            timestamp = base_timestamp + self._number()
            if not -(1 << 63) <= timestamp < 1 << 63:
                timestamp = (timestamp + (1 << 63)) % (1 << 64) - (1 << 63)
            offset = base_offset + self._number()
            key = self._bytes()
            value = self._bytes()
            headers: tuple = ()
            header_count: cython.longlong = self._number()
            if header_count:
                headers = tuple([(self._text(), self._bytes()) for _ in range(header_count)])
            result.append(make((offset, timestamp if append_time is None else append_time, key, value, headers)))
        return result

    def find(self, count: int, base_timestamp: int, timestamp: int, offset_delta: int) -> tuple | None:
        """(timestamp, offset delta) of the first record from `offset_delta` on whose timestamp is at least `timestamp`."""
        walked: cython.longlong
        total: cython.longlong = count
        end: cython.Py_ssize_t
        length: cython.longlong
        delta: cython.longlong
        for walked in range(total):
            length = self._number()
            end = self.position + cython.cast(cython.Py_ssize_t, length)
            self.position += 1
            found: cython.longlong = _wrapping_add(base_timestamp, self._number())
            delta = self._number()
            if found >= timestamp and delta >= offset_delta:
                return found, delta
            self.position = end
        return None

    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _number(self) -> cython.longlong:
        raw: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            byte = self.data[self.position]
            self.position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        raw &= _64_BITS
        if raw & 1:
            return -cython.cast(cython.longlong, raw >> 1) - 1
        return cython.cast(cython.longlong, raw >> 1)

    @cython.cfunc
    @cython.boundscheck(False)
    @cython.wraparound(False)
    def _bytes(self) -> object:
        length: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, self._number())
        if length < 0:
            return None
        start: cython.Py_ssize_t = self.position
        self.position = start + length
        if length == 0:
            return b""
        if cython.compiled:
            return cython.cast(cython.p_char, cython.address(self.data[start]))[:length]
        return bytes(self.data[start : start + length])

    @cython.cfunc
    def _text(self) -> object:
        return self._bytes().decode("utf-8", "replace")  # type: ignore[attr-defined]
