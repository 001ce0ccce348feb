# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Numbers in records and headers, and the types that the kernels share."""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import VARINT_BITS

if cython.compiled:
    from cython.cimports.libc.string import memcpy

Bytes = cython.typedef(cython.pointer[cython.const[cython.uchar]])
Room = cython.typedef(cython.pointer[cython.uchar])
"""Bytes to read, bytes to write: in C pointers, which know no sizes; interpreted the buffers that the caller gives."""

MASK_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
MASK_64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
LARGEST = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)
SMALLEST = cython.declare(cython.longlong, -1 - LARGEST)
"""The largest and the smallest number of 64 bits."""
SIGN = cython.declare(cython.ulonglong, 0x8000000000000000)

WORTH_RELEASING = cython.declare(cython.Py_ssize_t, 32 * 1024)
"""Bytes of a piece from which on a kernel releases the interpreter's lock; getting it back takes longer than to walk
fewer bytes."""


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def read_number(
    data: Bytes, position: cython.Py_ssize_t, end: cython.Py_ssize_t, most_bits: cython.int
) -> tuple[cython.longlong, cython.Py_ssize_t]:
    """The number at `position`, and where it ends: beyond `end` if it has too many bytes or does not end by then.

    `most_bits` is VARINT_BITS or VARLONG_BITS.
    """
    raw: cython.ulonglong
    byte: cython.ulonglong
    shift: cython.int
    if position >= end:
        return 0, end + 1
    raw = data[position]
    position += 1
    if raw >= 0x80:
        byte = raw
        raw &= 0x7F
        shift = 7
        while byte >= 0x80:
            if position >= end or shift >= most_bits:
                return 0, end + 1
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
        raw &= MASK_32 if most_bits == VARINT_BITS else MASK_64
    return raw >> 1 ^ -(raw & 1), position


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def zigzag(value: cython.longlong) -> cython.ulonglong:
    """The bits that stand for a number: small where it is near 0."""
    raw: cython.ulonglong = value if cython.compiled else value & MASK_64
    raw = raw << 1 ^ -(raw >> 63)
    return raw if cython.compiled else raw & MASK_64


@cython.cfunc
@cython.inline
@cython.exceptval(-1)
def append_number(out: bytearray, value: cython.longlong) -> cython.int:
    """Write a number behind what is there."""
    raw: cython.ulonglong
    if not cython.compiled and 0 <= value < 0x40:  # most numbers of a record: they are spared a call
        out.append(value << 1)
        return 0
    raw = zigzag(value)
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def number_size(value: cython.longlong) -> cython.Py_ssize_t:
    """Bytes of a number."""
    raw: cython.ulonglong = zigzag(value)
    size: cython.Py_ssize_t = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def write_number(out: Room, position: cython.Py_ssize_t, value: cython.longlong) -> cython.Py_ssize_t:
    """Write a number at `position`; return where it ends."""
    raw: cython.ulonglong = zigzag(value)
    while raw >= 0x80:
        out[position] = raw & 0x7F | 0x80
        raw >>= 7
        position += 1
    out[position] = raw
    return position + 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def int16_at(data: Bytes, at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = data[at]
    return ((high ^ 0x80) - 0x80 << 8) + data[at + 1]


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def int32_at(data: Bytes, at: cython.Py_ssize_t) -> cython.longlong:
    high: cython.longlong = data[at]
    middle: cython.longlong = data[at + 1]
    return ((high ^ 0x80) - 0x80 << 24) + (middle << 16) + (data[at + 2] << 8) + data[at + 3]


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def int64_at(data: Bytes, at: cython.Py_ssize_t) -> cython.longlong:
    low: cython.longlong = int32_at(data, at + 4) & MASK_32
    return (int32_at(data, at) << 32) + low


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put_int32(out: Room, at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    out[at] = value >> 24 & 0xFF
    out[at + 1] = value >> 16 & 0xFF
    out[at + 2] = value >> 8 & 0xFF
    out[at + 3] = value & 0xFF


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put_int64(out: Room, at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    put_int32(out, at, value >> 32)
    put_int32(out, at + 4, value)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def wrapping_sum(a: cython.ulonglong, b: cython.ulonglong) -> cython.longlong:
    """a + b in 64 bits, as Java adds."""
    return a + b if cython.compiled else (a + b + SIGN & MASK_64) - SIGN


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def capped_sum(a: cython.longlong, b: cython.longlong) -> cython.longlong:
    """a + b, or the largest or the smallest number of 64 bits where the sum lies beyond it."""
    if b > 0 and a > LARGEST - b:
        return LARGEST
    if b < 0 and a < SMALLEST - b:
        return SMALLEST
    return a + b


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def copy(
    data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, out: Room, at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy bytes to `out`; return where they end there."""
    count: cython.Py_ssize_t = end - start
    if cython.compiled:
        memcpy(out + at, data + start, count)
    else:
        out[at : at + count] = data[start:end]
    return at + count


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def is_among(numbers: cython.longlong[::1], number: cython.longlong) -> cython.bint:
    """Whether the number is one of these, which are in order."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = len(numbers) if not cython.compiled else numbers.shape[0]
    middle: cython.Py_ssize_t
    while low < high:
        middle = (low + high) >> 1
        if numbers[middle] < number:
            low = middle + 1
        elif numbers[middle] > number:
            high = middle
        else:
            return True
    return False
