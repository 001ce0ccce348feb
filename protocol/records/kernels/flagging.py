# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel of the tombstone flag (KIP-87): what each record of a block says about itself, and records made to say it.

The first log whose topic has the flag loads it. Compiled it takes some 10 ns for a record.

Every record gets a *mark*, the sum of what is true of it:

| mark | |
|-----:|-|
|    1 | its value is null |
|    2 | bit 5 of its attributes is set |
|    4 | it has a header `kmini.tombstone` |
|    8 | that header says no: its value is 0, or false in any case, or a byte of zero |

Bytes that are no record are a ValueError, never an access beyond the piece.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import (
    MARK_DENIED,
    MARK_FLAG,
    MARK_HEADER,
    MARK_NULL,
    SMALLEST_STORED_RECORD,
    TOMBSTONE_BIT,
    TOMBSTONE_HEADER,
    TOMBSTONE_HEADER_SIZE,
)
from .numbers import LARGEST, WORTH_RELEASING, Bytes, Room, copy, number_size, write_number
from .scan import RecordScan, ScanPointer, begin_headers, check_headers, end_headers, new_scan, next_header, next_record

NAME = TOMBSTONE_HEADER.encode()
"""Of the header that says the same as the bit."""

ADDED = cython.declare(cython.Py_ssize_t, 22)
"""The most by which a record grows: a header of 17 bytes, and another byte in the number of headers and four in the
length."""


def marks_of(piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
    """Where the last whole record in `piece` ends, which begins with a record, and a mark for each of them."""
    size: cython.Py_ssize_t = len(piece)
    marks: bytearray = bytearray(size // SMALLEST_STORED_RECORD + 1)
    room: cython.uchar[::1] = marks
    count: cython.Py_ssize_t
    end: cython.Py_ssize_t
    error: cython.int
    if size == 0:
        return 0, bytearray()
    name: Bytes = NAME
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    if size < WORTH_RELEASING:
        count, end, error = _mark_all(data, size, name, room)
    else:
        with cython.nogil:
            count, end, error = _mark_all(data, size, name, room)
    if error:
        raise ValueError(f"record {count} is malformed")
    return end, marks[:count]


def flagged(piece: cython.const[cython.uchar][::1], marks: bytearray) -> memoryview:
    """The records of `piece` that the marks are of. Each with any of the first three marks has both the bit and the
    header now: a header with an empty value, behind the others, where there was none."""
    size: cython.Py_ssize_t = len(piece)
    count: cython.Py_ssize_t = len(marks)
    used: cython.Py_ssize_t
    if size == 0:
        return memoryview(b"")
    given: cython.const[cython.uchar][::1] = marks if cython.compiled else bytes(marks)
    out: bytearray = bytearray(size + _without_header(given, count) * ADDED)
    view: cython.uchar[::1] = out
    name: Bytes = NAME
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    room: Room = cython.address(view[0]) if cython.compiled else memoryview(out)
    with cython.nogil:
        used = _flag_all(data, size, name, given, count, room)
    if used < 0:
        raise ValueError("there are fewer records than marks")
    return memoryview(out)[:used]


def cleared(piece: cython.const[cython.uchar][::1]) -> tuple[int, bytearray]:
    """Where the last whole record in `piece` ends, and these records with no attribute set."""
    size: cython.Py_ssize_t = len(piece)
    position: cython.Py_ssize_t = 0
    found: RecordScan = new_scan()
    scan: ScanPointer = cython.address(found)
    out: bytearray = bytearray(piece)
    if size == 0:
        return 0, out
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    while next_record(scan, data, position, size, LARGEST) and check_headers(scan, data):
        if data[scan.attributes_at]:
            out[scan.attributes_at] = 0
        position = scan.end
    if scan.error:
        raise ValueError("a record is malformed")
    del out[position:]
    return position, out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _mark_all(
    data: Bytes, size: cython.Py_ssize_t, name: Bytes, marks: cython.uchar[::1]
) -> tuple[cython.Py_ssize_t, cython.Py_ssize_t, cython.int]:
    """Write the marks of all whole records; return their number, where the last one ends, and the error behind it."""
    count: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = 0
    found: RecordScan = new_scan()
    scan: ScanPointer = cython.address(found)
    mark: cython.int
    while True:
        mark = _next_mark(scan, data, position, size, name)
        if mark < 0:
            break
        marks[count] = mark
        count += 1
        position = scan.end
    return count, position, scan.error


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _next_mark(
    scan: ScanPointer, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, name: Bytes
) -> cython.int:
    """The mark of the record at `position`; -1 if it does not end by `size`, or if the scan has an error."""
    at: cython.Py_ssize_t
    left: cython.longlong
    mark: cython.int = 0
    if not next_record(scan, data, position, size, LARGEST):
        return -1
    if scan.value_length < 0:
        mark = MARK_NULL
    if data[scan.attributes_at] & TOMBSTONE_BIT:
        mark |= MARK_FLAG
    at = begin_headers(scan, data)
    if at == 0:
        return -1
    left = scan.header_count
    while left > 0:
        at = next_header(scan, data, at)
        if at == 0:
            return -1
        if scan.name_length == TOMBSTONE_HEADER_SIZE and _is_same(data, scan.name_at, name, TOMBSTONE_HEADER_SIZE):
            mark |= MARK_HEADER
            if _says_no(data, scan.content_at, scan.content_length):
                mark |= MARK_DENIED
        left -= 1
    return mark if end_headers(scan, at) else -1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _is_same(data: Bytes, at: cython.Py_ssize_t, name: Bytes, size: cython.Py_ssize_t) -> cython.bint:
    number: cython.Py_ssize_t = 0
    while number < size and data[at + number] == name[number]:
        number += 1
    return number == size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _flag_all(
    data: Bytes,
    size: cython.Py_ssize_t,
    name: Bytes,
    marks: cython.const[cython.uchar][::1],
    count: cython.Py_ssize_t,
    out: Room,
) -> cython.Py_ssize_t:
    """Write the records that there are marks of, as they should be; return where they end, -1 for fewer."""
    number: cython.Py_ssize_t
    position: cython.Py_ssize_t = 0
    run: cython.Py_ssize_t = 0
    used: cython.Py_ssize_t = 0
    found: RecordScan = new_scan()
    scan: ScanPointer = cython.address(found)
    for number in range(count):
        if not next_record(scan, data, position, size, LARGEST) or not check_headers(scan, data):
            return -1
        if _needs_both(marks[number]):
            used = copy(data, run, position, out, used)
            if marks[number] & MARK_HEADER:
                used = copy(data, position, scan.attributes_at + 1, out, used)
                out[used - 1] = data[scan.attributes_at] | TOMBSTONE_BIT
                run = scan.attributes_at + 1
            else:
                used = _write_with_header(scan, data, name, out, used)
                run = scan.end
        position = scan.end
    return copy(data, run, position, out, used)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _write_with_header(
    scan: ScanPointer, data: Bytes, name: Bytes, out: Room, used: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The record with the bit and one more header."""
    count_growth: cython.Py_ssize_t = number_size(scan.header_count + 1) - (scan.headers_at - scan.count_at)
    header_size: cython.Py_ssize_t = TOMBSTONE_HEADER_SIZE + 2
    used = write_number(out, used, scan.end - scan.attributes_at + count_growth + header_size)
    out[used] = data[scan.attributes_at] | TOMBSTONE_BIT
    used = copy(data, scan.attributes_at + 1, scan.count_at, out, used + 1)
    used = write_number(out, used, scan.header_count + 1)
    used = copy(data, scan.headers_at, scan.end, out, used)
    used = write_number(out, used, TOMBSTONE_HEADER_SIZE)
    used = copy(name, 0, TOMBSTONE_HEADER_SIZE, out, used)
    out[used] = 0
    return used + 1


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
    return (
        mark & (MARK_NULL | MARK_FLAG | MARK_HEADER) != 0
        and mark & (MARK_FLAG | MARK_HEADER) != MARK_FLAG | MARK_HEADER
    )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _without_header(marks: cython.const[cython.uchar][::1], count: cython.Py_ssize_t) -> cython.Py_ssize_t:
    number: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    for number in range(count):
        found += _needs_both(marks[number]) and not marks[number] & MARK_HEADER
    return found
