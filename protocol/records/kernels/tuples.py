# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Records of a block as tuples, and tuples as the records of a block."""

from __future__ import annotations

from ... import cython_words as cython
from .numbers import LARGEST, Bytes, append_number, wrapping_sum
from .scan import RecordScan, ScanPointer, begin_headers, new_scan, next_header, next_record


@cython.final
@cython.cclass
class RecordReader:
    """Makes tuples of the records of a block, or of a piece of one that begins with a record.

    It expects records that a RecordWalker has passed, and raises ValueError where it meets something else.
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
        found: RecordScan = new_scan()
        scan: ScanPointer = cython.address(found)
        result: list = []
        for _ in range(count):
            if not next_record(scan, data, position, size, LARGEST):
                raise ValueError("the block ends within a record")
            key = data[scan.key_at : scan.key_at + scan.key_length] if scan.key_length >= 0 else None
            value = data[scan.value_at : scan.value_at + scan.value_length] if scan.value_length >= 0 else None
            headers = _headers(scan, data)
            timestamp = wrapping_sum(base_timestamp, scan.timestamp_delta) if append_time is None else append_time
            result.append(make((wrapping_sum(base_offset, scan.offset_delta), timestamp, key, value, headers)))
            position = scan.end
        self.position = position
        return result


@cython.cfunc
@cython.inline
def _headers(scan: ScanPointer, data: Bytes) -> tuple:
    """The headers of the record at hand."""
    at: cython.Py_ssize_t = begin_headers(scan, data)
    left: cython.longlong
    if not at:
        raise ValueError("its header count is malformed")
    if scan.header_count == 0:
        return ()
    left = scan.header_count
    headers: list = []
    while left > 0:
        left -= 1
        at = next_header(scan, data, at)
        if not at:
            raise ValueError("a header is malformed")
        name = data[scan.name_at : scan.name_at + scan.name_length].decode("utf-8", "replace")
        content = data[scan.content_at : scan.content_at + scan.content_length] if scan.content_length >= 0 else None
        headers.append((name, content))
    return tuple(headers)


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
def _append_bytes(out: bytearray, content: object) -> object:
    if content is None:
        out.append(1)
    else:
        append_number(out, len(content))
        out += content
