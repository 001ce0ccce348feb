# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""A record that comes in pieces, cut anywhere, as decompressed chunks cut it.

It finds in the pieces what the scan finds in a whole record, with the same reasons to refuse it. It keeps nothing of a
piece but the number at hand, so a record takes no memory however large it is.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import (
    BAD_HEADERS,
    BAD_KEY,
    BAD_LENGTH,
    BAD_NUMBER,
    BAD_SIZE,
    BAD_VALUE,
    SMALLEST_RECORD,
    TOO_LARGE,
    VARINT_BITS,
    VARLONG_BITS,
)
from .numbers import MASK_32, MASK_64, Bytes

# What comes next in the record: numbers, most of which say how many bytes to skip before the one after them.
AT_LENGTH = cython.declare(cython.int, 0)
AT_TIMESTAMP = cython.declare(cython.int, 1)
AT_OFFSET = cython.declare(cython.int, 2)
AT_KEY = cython.declare(cython.int, 3)
AT_VALUE = cython.declare(cython.int, 4)
AT_HEADER_COUNT = cython.declare(cython.int, 5)
AT_HEADER_NAME = cython.declare(cython.int, 6)
AT_HEADER_VALUE = cython.declare(cython.int, 7)


CutRecord = cython.struct(
    is_open=cython.bint,
    error=cython.int,
    timestamp_delta=cython.longlong,
    offset_delta=cython.longlong,
    key_length=cython.longlong,
    field=cython.int,
    raw=cython.ulonglong,
    shift=cython.int,
    skip=cython.longlong,
    left=cython.longlong,
    headers_left=cython.longlong,
)
"""A record between its pieces. `is_open`: it has begun and not ended yet. `raw` and `shift` are the bits of the number
at hand and how many they are, `skip` the bytes of a key, value or header still to come before the next number, `left`
the bytes of the record still to come."""

CutPointer = cython.typedef(cython.pointer[CutRecord])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def new_cut(is_open: cython.bint) -> CutRecord:
    """A record that begins, or none."""
    return CutRecord(
        is_open=is_open,
        error=0,
        timestamp_delta=0,
        offset_delta=0,
        key_length=0,
        field=0,
        raw=0,
        shift=0,
        skip=0,
        left=0,
        headers_left=0,
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def feed_cut(
    cut: CutPointer,
    data: Bytes,
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    max_record_bytes: cython.longlong,
) -> cython.Py_ssize_t:
    """Go on with the record at `position`; return where that ends: at the record's end, at `size`, or at an error.

    Afterwards the record is open still, or there is an `error`, or it has ended.
    """
    end: cython.longlong = position + cut.left
    byte: cython.ulonglong
    while cut.error == 0:
        if cut.skip > size - position:
            cut.skip -= size - position
            position = size
            break
        position += cut.skip
        cut.skip = 0
        if cut.field == AT_HEADER_NAME and cut.headers_left == 0:
            cut.is_open = False
            if position != end:
                cut.error = BAD_SIZE
            break
        if cut.field != AT_LENGTH and position >= end:
            cut.error = BAD_NUMBER
            break
        if position >= size:
            break
        byte = data[position]
        position += 1
        cut.raw |= (byte & 0x7F) << cut.shift
        cut.shift += 7
        if byte < 0x80:
            end = _take_number(cut, position, end, max_record_bytes)
        elif cut.shift >= (VARLONG_BITS if cut.field == AT_TIMESTAMP else VARINT_BITS):
            cut.error = BAD_NUMBER
    cut.left = end - position
    return position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_number(
    cut: CutPointer, position: cython.longlong, end: cython.longlong, max_record_bytes: cython.longlong
) -> cython.longlong:
    """Note the number that has ended at `position`; return where the record ends."""
    raw: cython.ulonglong = cut.raw & (MASK_64 if cut.field == AT_TIMESTAMP else MASK_32)
    value: cython.longlong = raw >> 1 ^ -(raw & 1)
    cut.raw = 0
    cut.shift = 0
    if cut.field == AT_LENGTH:
        if value < SMALLEST_RECORD:
            cut.error = BAD_LENGTH
        elif value > max_record_bytes:
            cut.error = TOO_LARGE
        cut.skip = 1  # the attributes
        cut.field = AT_TIMESTAMP
        return position + value
    if cut.field == AT_TIMESTAMP:
        cut.timestamp_delta = value
    elif cut.field == AT_OFFSET:
        cut.offset_delta = value
    elif cut.field == AT_HEADER_COUNT:
        if value < 0 or value > end - position:
            cut.error = BAD_HEADERS
        cut.headers_left = value
    else:
        _take_length(cut, value, end - position)
    cut.field = AT_HEADER_NAME if cut.field == AT_HEADER_VALUE else cut.field + 1
    return end


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_length(cut: CutPointer, length: cython.longlong, left: cython.longlong) -> cython.void:
    """Note the length of a key, a value, or the name or value of a header; `left` bytes of the record follow it."""
    if cut.field == AT_KEY:
        cut.key_length = length
        if length > left:
            cut.error = BAD_KEY
    elif cut.field == AT_VALUE:
        if length > left:
            cut.error = BAD_VALUE
    elif length > left or (cut.field == AT_HEADER_NAME and length < 0):
        cut.error = BAD_HEADERS
    if cut.field == AT_HEADER_VALUE:
        cut.headers_left -= 1
    cut.skip = length if length > 0 else 0
