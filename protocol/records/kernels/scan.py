# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The one scan of a record: every kernel finds the fields of a record through it.

`next_record` looks at everything up to the value. The headers follow by `check_headers`, or one by one by
`begin_headers` and `next_header`; a kernel that needs none of them calls neither.
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
from .numbers import Bytes, read_number

RecordScan = cython.struct(
    error=cython.int,
    end=cython.Py_ssize_t,
    attributes_at=cython.Py_ssize_t,
    timestamp_delta=cython.longlong,
    after_timestamp=cython.Py_ssize_t,
    offset_delta=cython.longlong,
    key_at=cython.Py_ssize_t,
    key_length=cython.longlong,
    value_at=cython.Py_ssize_t,
    value_length=cython.longlong,
    count_at=cython.Py_ssize_t,
    headers_at=cython.Py_ssize_t,
    header_count=cython.longlong,
    name_at=cython.Py_ssize_t,
    name_length=cython.longlong,
    content_at=cython.Py_ssize_t,
    content_length=cython.longlong,
    name_bytes=cython.longlong,
    content_bytes=cython.longlong,
)
"""The findings of a scan. `…_at` and `end` are positions; the length of a null is negative.

`error` is 0, or why the record is none: a key of `layout.REASONS`. The header count is between `count_at` and
`headers_at`. `name_…` and `content_…` are of the last header, name and value; `name_bytes` and `content_bytes` of all.
"""

ScanPointer = cython.typedef(cython.pointer[RecordScan])


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def new_scan() -> RecordScan:
    return RecordScan(
        error=0,
        end=0,
        attributes_at=0,
        timestamp_delta=0,
        after_timestamp=0,
        offset_delta=0,
        key_at=0,
        key_length=0,
        value_at=0,
        value_length=0,
        count_at=0,
        headers_at=0,
        header_count=0,
        name_at=0,
        name_length=0,
        content_at=0,
        content_length=0,
        name_bytes=0,
        content_bytes=0,
    )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def next_record(
    scan: ScanPointer,
    data: Bytes,
    position: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    max_record_bytes: cython.longlong,
) -> cython.bint:
    """Look at the record at `position`; False if it does not end by `size`, or if there is an `error`."""
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t
    length: cython.longlong
    scan.error = 0
    length, at = read_number(data, position, size, VARINT_BITS)
    if at > size:
        if size - position >= 5:
            scan.error = BAD_NUMBER
        return False
    if length < SMALLEST_RECORD:
        scan.error = BAD_LENGTH
        return False
    if length > max_record_bytes:
        scan.error = TOO_LARGE
        return False
    if length > size - at:
        return False
    end = at + length
    scan.end = end
    scan.attributes_at = at
    length, at = read_number(data, at + 1, end, VARLONG_BITS)
    scan.timestamp_delta = length
    scan.after_timestamp = at
    length, at = read_number(data, at, end, VARINT_BITS)
    scan.offset_delta = length
    length, at = read_number(data, at, end, VARINT_BITS)
    if at > end:
        scan.error = BAD_NUMBER
        return False
    if length > end - at:
        scan.error = BAD_KEY
        return False
    scan.key_at = at
    scan.key_length = length
    if length > 0:
        at += length
    length, at = read_number(data, at, end, VARINT_BITS)
    if at > end:
        scan.error = BAD_NUMBER
        return False
    if length > end - at:
        scan.error = BAD_VALUE
        return False
    scan.value_at = at
    scan.value_length = length
    if length > 0:
        at += length
    scan.count_at = at
    return True


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def begin_headers(scan: ScanPointer, data: Bytes) -> cython.Py_ssize_t:
    """Read the header count; return where the headers begin, 0 at an error."""
    at: cython.Py_ssize_t
    count: cython.longlong
    count, at = read_number(data, scan.count_at, scan.end, VARINT_BITS)
    if at > scan.end:
        scan.error = BAD_NUMBER
        return 0
    if count < 0 or count > scan.end - at:
        scan.error = BAD_HEADERS
        return 0
    scan.header_count = count
    scan.headers_at = at
    return at


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def next_header(scan: ScanPointer, data: Bytes, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Look at the header at `at`; return where it ends, 0 at an error."""
    length: cython.longlong
    length, at = read_number(data, at, scan.end, VARINT_BITS)
    if at > scan.end:
        scan.error = BAD_NUMBER
        return 0
    if length < 0 or length > scan.end - at:
        scan.error = BAD_HEADERS
        return 0
    scan.name_at = at
    scan.name_length = length
    length, at = read_number(data, at + length, scan.end, VARINT_BITS)
    if at > scan.end:
        scan.error = BAD_NUMBER
        return 0
    if length > scan.end - at:
        scan.error = BAD_HEADERS
        return 0
    scan.content_at = at
    scan.content_length = length
    return at + length if length > 0 else at


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def end_headers(scan: ScanPointer, at: cython.Py_ssize_t) -> cython.bint:
    """Whether the record ends where its last header does; an error if not. `at` is not beyond the record."""
    # `!=` would tell the C compiler that both are equal afterwards. It then takes `at` for the record's end, and the
    # processor begins with the next record only once it has read all fields of this one: a fifth slower.
    if at < scan.end:
        scan.error = BAD_SIZE
        return False
    return True


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def check_headers(scan: ScanPointer, data: Bytes) -> cython.bint:
    """Look at all headers and at the record's end; False at an error."""
    at: cython.Py_ssize_t = begin_headers(scan, data)
    left: cython.longlong
    if at == 0:
        return False
    left = scan.header_count
    scan.name_bytes = 0
    scan.content_bytes = 0
    while left > 0:
        at = next_header(scan, data, at)
        if at == 0:
            return False
        scan.name_bytes += scan.name_length
        if scan.content_length > 0:
            scan.content_bytes += scan.content_length
        left -= 1
    return end_headers(scan, at)
