# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""CRC-32C for kernels, and the batches whose checksum is right.

Compiled it is in C (crc_in_c.pxd): the package crc32c holds the interpreter's lock, and the event loop would wait for
that while batch after batch is cleaned.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import CHECKED_FROM, CRC_AT, HEADER_SIZE, LENGTH_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT
from .numbers import MASK_32, Bytes, int32_at

if cython.compiled:
    from cython.cimports.crc_in_c import kmini_crc32c, kmini_crc_begin
else:
    from ..crc import crc32c


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def checksum_of(data: Bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.longlong:
    """The checksum of the bytes from `start` to `end`."""
    if cython.compiled:
        return kmini_crc32c(data + start, end - start)
    else:
        return crc32c(data[start:end])


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def is_sound(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
    """Whether the checksum of the batch at `position` is right."""
    stored: cython.longlong = int32_at(data, position + CRC_AT) & MASK_32
    return checksum_of(data, position + CHECKED_FROM, position + size) == stored


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def batch_size(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Bytes of the batch of magic 2 at `position`; 0 if it has another magic, or does not end by `size`."""
    length: cython.longlong
    if size - position < HEADER_SIZE or data[position + MAGIC_AT] != MAGIC:
        return 0
    length = int32_at(data, position + LENGTH_AT) + LOG_OVERHEAD
    return length if HEADER_SIZE <= length <= size - position else 0


if cython.compiled:
    kmini_crc_begin()
