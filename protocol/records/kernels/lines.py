# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The kernel of producers that read files: lines of text into blocks of records.

The command that produces loads it. `index_lines` finds the lines of a text, with their keys, values and partitions;
`encode_lines` appends those of one partition to a block, in the memory that the caller gives.

A row of the index describes a line, 8 bytes each: where the key begins, its length, where the value begins, its length,
and the partition. A length of -1 is null; a partition of -1 is a line without a separator, which is no record.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import LONGEST_NUMBERS
from .numbers import MASK_32, Bytes, Room, number_size, write_number

if cython.compiled:
    from cython.cimports.libc.string import memchr, memcmp, memcpy

ROW = 5
"""Numbers in a row of the index."""
NO_RECORD = -1
"""The partition of a line that has no separator."""

_ROW = cython.declare(cython.Py_ssize_t, 5)
_NO_RECORD = cython.declare(cython.longlong, -1)
_NEWLINE = cython.declare(cython.int, 10)

_SEED = cython.declare(cython.ulonglong, 0x9747B28C)
_FACTOR = cython.declare(cython.ulonglong, 0x5BD1E995)


def index_lines(
    text: cython.const[cython.uchar][::1],
    separator: bytes,
    null_marker: bytes | None,
    partitions: cython.longlong,
    keyless: cython.longlong,
    rows: cython.longlong[::1],
) -> int:
    """Fill rows for the lines of `text`, each of which ends with a newline; return how many lines there are.

    `rows` has room for all of them. With a separator (else it is empty) a line is key, separator and value. A key or
    value that is `null_marker` is null. A key belongs to the partition that Kafka's own producer chooses among
    `partitions`, if they are several; all other lines belong to the partition `keyless`.
    """
    data: Bytes = cython.address(text[0]) if cython.compiled else text
    size: cython.Py_ssize_t = len(text)
    between: Bytes = separator
    between_size: cython.Py_ssize_t = len(separator)
    marker: Bytes = null_marker if null_marker is not None else b""
    marker_size: cython.Py_ssize_t = -1 if null_marker is None else len(null_marker)
    start: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t
    split: cython.Py_ssize_t
    row: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    while start < size:
        end = _find_newline(data, start, size)
        rows[row] = start
        rows[row + 1] = -1
        rows[row + 2] = start
        rows[row + 4] = keyless
        if between_size > 0:
            split = _find(data, start, end, between, between_size)
            if split < 0:
                rows[row + 4] = _NO_RECORD
            else:
                rows[row + 2] = split + between_size
                if not _is(data, start, split - start, marker, marker_size):
                    rows[row + 1] = split - start
                    if partitions > 1:
                        rows[row + 4] = (_murmur2(data, start, split - start) & 0x7FFFFFFF) % partitions
        rows[row + 3] = end - rows[row + 2]
        if _is(data, rows[row + 2], rows[row + 3], marker, marker_size):
            rows[row + 3] = -1
        row += _ROW
        count += 1
        start = end + 1
    return count


def encode_lines(
    text: cython.const[cython.uchar][::1],
    rows: cython.longlong[::1],
    first: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    partition: cython.longlong,
    block: cython.uchar[::1],
    position: cython.Py_ssize_t,
    offset_delta: cython.longlong,
    timestamp_delta: cython.longlong,
    headers: bytes,
) -> tuple:
    """Append the records of `partition` among the rows from `first` up to `count` to the block, from `position` on.

    Their offset deltas begin with `offset_delta`; `headers` is the encoded end of each. Returns the first row that is
    not done, because the block has no room for it, the end of the block, and the next offset delta.
    """
    data: Bytes = cython.address(text[0]) if cython.compiled else text
    out: Room = cython.address(block[0]) if cython.compiled else block
    room: cython.Py_ssize_t = len(block)
    tail: Bytes = headers
    tail_size: cython.Py_ssize_t = len(headers)
    row: cython.Py_ssize_t
    key_size: cython.longlong
    value_size: cython.longlong
    length: cython.longlong
    number: cython.Py_ssize_t = first
    while number < count:
        row = number * _ROW
        if rows[row + 4] != partition:
            number += 1
            continue
        key_size = rows[row + 1]
        value_size = rows[row + 3]
        length = (
            1
            + number_size(timestamp_delta)
            + number_size(offset_delta)
            + number_size(key_size)
            + number_size(value_size)
        )
        length += (key_size if key_size > 0 else 0) + (value_size if value_size > 0 else 0) + tail_size
        if length + 5 > room - position:
            break
        position = write_number(out, position, length)
        out[position] = 0  # attributes
        position = write_number(out, position + 1, timestamp_delta)
        position = write_number(out, position, offset_delta)
        position = write_number(out, position, key_size)
        position = _append(out, position, data, rows[row], key_size)
        position = write_number(out, position, value_size)
        position = _append(out, position, data, rows[row + 2], value_size)
        position = _append(out, position, tail, 0, tail_size)
        offset_delta += 1
        number += 1
    return number, position, offset_delta


def room_for(rows: cython.longlong[::1], number: cython.Py_ssize_t, headers: bytes) -> int:
    """Bytes that are enough for the record of a row."""
    row: cython.Py_ssize_t = number * _ROW
    return max(rows[row + 1], 0) + max(rows[row + 3], 0) + len(headers) + LONGEST_NUMBERS


def murmur2(key: bytes) -> int:
    """The 32-bit MurmurHash2 with the seed that Kafka uses, as an unsigned number."""
    return _murmur2(key, 0, len(key))


@cython.cfunc
@cython.inline
def _find_newline(data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    if cython.compiled:
        found = cython.cast(Bytes, memchr(data + start, _NEWLINE, size - start))
        return found - data
    return data.index(_NEWLINE, start)


@cython.cfunc
@cython.inline
def _find(
    data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, needle: Bytes, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the needle is first between `start` and `end`; -1 if it is not there."""
    if not cython.compiled:
        return data.find(needle, start, end)
    last: cython.Py_ssize_t = end - size
    while start <= last:
        found = cython.cast(Bytes, memchr(data + start, needle[0], last - start + 1))
        if found == cython.NULL:
            return -1
        start = found - data
        if memcmp(found, needle, size) == 0:
            return start
        start += 1
    return -1


@cython.cfunc
@cython.inline
def _is(
    data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t, marker: Bytes, marker_size: cython.Py_ssize_t
) -> cython.bint:
    """Whether the bytes are the marker; a marker of size -1 equals none."""
    if size != marker_size:
        return False
    if cython.compiled:
        return memcmp(data + start, marker, size) == 0
    return data[start : start + size] == marker


@cython.cfunc
@cython.inline
def _append(
    out: Room, position: cython.Py_ssize_t, data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Copy bytes, none if their number is negative; return where they end."""
    if size <= 0:
        return position
    if cython.compiled:
        memcpy(out + position, data + start, size)
    else:
        out[position : position + size] = data[start : start + size]
    return position + size


@cython.cfunc
@cython.inline
def _murmur2(data: Bytes, start: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    state: cython.ulonglong = _SEED ^ size
    word: cython.ulonglong
    at: cython.Py_ssize_t = start
    whole: cython.Py_ssize_t = start + (size & ~3)
    while at < whole:
        word = _little_endian(data, at, 4) * _FACTOR & MASK_32
        word = (word ^ word >> 24) * _FACTOR & MASK_32
        state = state * _FACTOR & MASK_32 ^ word
        at += 4
    if at < start + size:
        state = (state ^ _little_endian(data, at, start + size - at)) * _FACTOR & MASK_32
    state = (state ^ state >> 13) * _FACTOR & MASK_32
    return state ^ state >> 15


@cython.cfunc
@cython.inline
def _little_endian(data: Bytes, at: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.ulonglong:
    result: cython.ulonglong = 0
    while size > 0:
        size -= 1
        result = result << 8 | data[at + size]
    return result
