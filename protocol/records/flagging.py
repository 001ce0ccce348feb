# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The loops of the tombstone flag (KIP-87): what each record of a block says about itself, and records made to say it.

A third kernel (see kernel.py, which says what a block of records is), loaded by the first log whose topic has the flag.
Compiled it takes some 10 ns for a record; the same source runs interpreted.

Every record gets a *mark*, the sum of what is true of it:

| mark | |
|-----:|-|
|    1 | its value is null |
|    2 | bit 5 of its attributes is set |
|    4 | it has a header `kmini.tombstone` |
|    8 | that header says no: its value is 0, or false in any case, or a byte of zero |

What is no record is a ValueError, never an access beyond the piece. What a RecordWalker found no error in is fine.
"""

from __future__ import annotations

import cython

if cython.compiled:
    from cython.cimports.varints import number, number_size, write_number
else:
    from .varints import number, number_size, write_number

Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Room = cython.typedef(cython.pointer[cython.uchar])
"""Bytes to read, bytes to write: in C pointers, which know no sizes; interpreted memoryviews."""

NAME = b"kmini.tombstone"
"""Of the header that says the same as the bit."""

NULL = 1
FLAG = 2
HEADER = 4
DENIED = 8

_NULL = cython.declare(cython.int, 1)
_FLAG = cython.declare(cython.int, 2)
_HEADER = cython.declare(cython.int, 4)
_DENIED = cython.declare(cython.int, 8)

_BIT = cython.declare(cython.int, 0x20)
_SMALLEST_RECORD = cython.declare(cython.longlong, 6)
"""Attributes, two deltas, two lengths and a header count, a byte each."""
_SMALLEST_STORED = cython.declare(cython.Py_ssize_t, 7)
"""With its length."""
_ADDED = cython.declare(cython.Py_ssize_t, 22)
"""The most by which a record grows: a header of 17 bytes, and another byte in the number of headers and four in the
length."""
_WORTH_RELEASING = cython.declare(cython.Py_ssize_t, 32 * 1024)


@cython.final
@cython.cclass
class _Scan:
    """One record: where in the bytes its parts are, and its mark."""

    end: cython.Py_ssize_t
    attributes_at: cython.Py_ssize_t
    count_at: cython.Py_ssize_t
    """Where the number of headers is…"""
    headers_at: cython.Py_ssize_t
    """…and where it ends."""
    header_count: cython.longlong
    mark: cython.int
    is_bad: cython.bint
    name: cython.const[cython.uchar][::1]

    def __init__(self) -> None:
        self.name = NAME
        self.is_bad = False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _next(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Look at the record at `position`; False if it is not all there, or is none: then it `is_bad`."""
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        length: cython.longlong
        left: cython.longlong
        length, at = number(data, position, size, 35)
        if at > size:
            self.is_bad = size - position >= 5
            return False
        if length < _SMALLEST_RECORD:
            self.is_bad = True
            return False
        if length > size - at:
            return False
        end = at + length
        self.end = end
        self.is_bad = True  # unless it turns out well
        self.attributes_at = at
        self.mark = _FLAG if data[at] & _BIT else 0
        length, at = number(data, at + 1, end, 70)
        length, at = number(data, at, end, 35)
        length, at = number(data, at, end, 35)  # of the key
        if at > end or length > end - at:
            return False
        if length > 0:
            at += length
        length, at = number(data, at, end, 35)  # of the value
        if at > end or length > end - at:
            return False
        if length < 0:
            self.mark |= _NULL
        else:
            at += length
        self.count_at = at
        left, at = number(data, at, end, 35)
        self.headers_at = at
        self.header_count = left
        if at > end or left < 0:
            return False
        while left > 0:
            left -= 1
            at = self._header(data, at, end)
            if at > end:
                return False
        self.is_bad = at != end
        return not self.is_bad

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _header(self, data: Bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Look at the header at `at`; return where it ends: behind `end` if it is none."""
        length: cython.longlong
        name_at: cython.Py_ssize_t
        name_length: cython.longlong
        name_length, at = number(data, at, end, 35)
        if at > end or name_length < 0 or name_length > end - at:
            return end + 1
        name_at = at
        at += name_length
        length, at = number(data, at, end, 35)
        if at > end or length > end - at:
            return end + 1
        if name_length == 15 and self._is_name(data, name_at):
            self.mark |= _HEADER
            if _says_no(data, at, length):
                self.mark |= _DENIED
        return at + length if length > 0 else at

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _is_name(self, data: Bytes, at: cython.Py_ssize_t) -> cython.bint:
        number: cython.Py_ssize_t = 0
        while number < 15 and data[at + number] == self.name[number]:
            number += 1
        return number == 15

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _mark_all(self, data: Bytes, size: cython.Py_ssize_t, marks: cython.uchar[::1]) -> cython.Py_ssize_t:
        """Write the marks of all whole records; return how many they are. `end` is where the last one ends."""
        count: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t = 0
        while self._next(data, position, size):
            marks[count] = self.mark
            count += 1
            position = self.end
        self.end = position
        return count

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _flag_all(
        self,
        data: Bytes,
        size: cython.Py_ssize_t,
        marks: cython.const[cython.uchar][::1],
        count: cython.Py_ssize_t,
        out: Room,
    ) -> cython.Py_ssize_t:
        """Write the records that there are marks of, as they should be; return where they end, -1 for fewer."""
        number: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        run: cython.Py_ssize_t = 0
        used: cython.Py_ssize_t = 0
        for number in range(count):
            if not self._next(data, position, size):
                return -1
            if _needs_both(marks[number]):
                used = _copy(data, run, position, out, used)
                if marks[number] & _HEADER:
                    used = _copy(data, position, self.attributes_at + 1, out, used)
                    out[used - 1] = data[self.attributes_at] | _BIT
                    run = self.attributes_at + 1
                else:
                    used = self._write_with_header(data, out, used)
                    run = self.end
            position = self.end
        return _copy(data, run, position, out, used)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _write_with_header(self, data: Bytes, out: Room, used: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The record with the bit and one more header."""
        number: cython.Py_ssize_t
        growth: cython.Py_ssize_t = number_size(self.header_count + 1) - (self.headers_at - self.count_at) + 17
        used = write_number(out, used, self.end - self.attributes_at + growth)
        out[used] = data[self.attributes_at] | _BIT
        used = _copy(data, self.attributes_at + 1, self.count_at, out, used + 1)
        used = write_number(out, used, self.header_count + 1)
        used = _copy(data, self.headers_at, self.end, out, used)
        used = write_number(out, used, 15)
        for number in range(15):
            out[used + number] = self.name[number]
        out[used + 15] = 0
        return used + 16


def marks_of(piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
    """Where the last whole record in `piece` ends, which begins with a record, and a mark for each of them."""
    size: cython.Py_ssize_t = len(piece)
    marks: bytearray = bytearray(size // _SMALLEST_STORED + 1)
    room: cython.uchar[::1] = marks
    count: cython.Py_ssize_t
    if size == 0:
        return 0, bytearray()
    scan = _Scan()
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    if size < _WORTH_RELEASING:
        count = scan._mark_all(data, size, room)
    else:
        with cython.nogil:
            count = scan._mark_all(data, size, room)
    if scan.is_bad:
        raise ValueError(f"record {count} is malformed")
    return scan.end, marks[:count]


def flagged(piece: cython.const[cython.uchar][::1], marks: bytearray) -> memoryview:
    """The records of `piece` that the marks are of. Those with any of the first three have both the bit and a header
    now: one with an empty value, behind the others, where there was none."""
    size: cython.Py_ssize_t = len(piece)
    count: cython.Py_ssize_t = len(marks)
    used: cython.Py_ssize_t
    if size == 0:
        return memoryview(b"")
    scan = _Scan()
    given: cython.const[cython.uchar][::1] = marks if cython.compiled else bytes(marks)
    out: bytearray = bytearray(size + _without_header(given, count) * _ADDED)
    view: cython.uchar[::1] = out
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    room: Room = cython.address(view[0]) if cython.compiled else memoryview(out)
    with cython.nogil:
        used = scan._flag_all(data, size, given, count, room)
    if used < 0:
        raise ValueError("there are fewer records than marks")
    return memoryview(out)[:used]


def cleared(piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
    """Where the last whole record in `piece` ends, and these records with no attribute set."""
    size: cython.Py_ssize_t = len(piece)
    position: cython.Py_ssize_t = 0
    out: bytearray = bytearray(piece)
    if size == 0:
        return 0, out
    scan = _Scan()
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    while scan._next(data, position, size):
        if data[scan.attributes_at]:
            out[scan.attributes_at] = 0
        position = scan.end
    if scan.is_bad:
        raise ValueError("a record is malformed")
    del out[position:]
    return position, out


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _says_no(data: Bytes, at: cython.Py_ssize_t, length: cython.longlong) -> cython.bint:
    if length == 1:
        return data[at] == 0 or data[at] == 0x30
    return (
        length == 5
        and data[at] | 0x20 == 0x66
        and data[at + 1] | 0x20 == 0x61
        and data[at + 2] | 0x20 == 0x6C
        and data[at + 3] | 0x20 == 0x73
        and data[at + 4] | 0x20 == 0x65
    )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _needs_both(mark: cython.int) -> cython.bint:
    """Whether a record with this mark is a tombstone and does not say so by bit and header."""
    return mark & 7 != 0 and mark & 6 != 6


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _without_header(marks: cython.const[cython.uchar][::1], count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    number: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    for number in range(count):
        found += _needs_both(marks[number]) and not marks[number] & _HEADER
    return found


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _copy(
    data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, out: Room, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy bytes to `out`; return where they end there."""
    count: cython.Py_ssize_t = end - start
    number: cython.Py_ssize_t
    if cython.compiled:
        for number in range(count):
            out[at + number] = data[start + number]
    else:
        out[at : at + count] = data[start:end]
    return at + count
