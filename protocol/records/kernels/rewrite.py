# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The records of a batch that stay, with other timestamp deltas: what a new base timestamp of their batch needs."""

from __future__ import annotations

from ... import cython_words as cython
from .numbers import LARGEST, Bytes, append_number, wrapping_sum
from .scan import RecordScan, ScanPointer, new_scan, next_record


def rewrite(
    piece: cython.const[cython.uchar][::1], verdicts: bytearray, shift: cython.longlong, fixed_delta: int | None
) -> bytearray:
    """The records of `piece` that stay, with `shift` added to their timestamp deltas, or with one delta for all.

    `piece` and `verdicts` are as `select` has seen and given them.
    """
    size: cython.Py_ssize_t = len(piece)
    data: Bytes = cython.address(piece[0]) if cython.compiled else memoryview(piece)
    found: RecordScan = new_scan()
    scan: ScanPointer = cython.address(found)
    out: bytearray = bytearray()
    head: bytearray = bytearray()
    position: cython.Py_ssize_t = 0
    delta: cython.longlong
    for verdict in verdicts:
        next_record(scan, data, position, size, LARGEST)
        if verdict == 0:  # it stays
            if shift == 0 and fixed_delta is None:
                out += data[position : scan.end]
            else:
                delta = wrapping_sum(scan.timestamp_delta, shift) if fixed_delta is None else fixed_delta
                head.clear()
                head.append(data[scan.attributes_at])
                append_number(head, delta)
                append_number(out, len(head) + scan.end - scan.after_timestamp)
                out += head
                out += data[scan.after_timestamp : scan.end]
        position = scan.end
    return out
