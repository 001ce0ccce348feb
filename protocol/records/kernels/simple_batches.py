# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The simple batches of a chunk of a log, one after the other, checked and decompressed.

A batch is *simple* if it is of magic 2, whole and not empty, and neither transactional nor a control batch. A
compressed one is simple if it is small, so that a BlockCodec decompresses it at once.
"""

from __future__ import annotations

from ..layout import (
    ATTRIBUTES_AT,
    BAD_CHECKSUM,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    RECORD_COUNT_AT,
    TRANSACTIONAL,
)
from . import cython_words as cython
from .checksum import batch_size, is_sound
from .numbers import Bytes, int32_at


@cython.final
@cython.cclass
class SimpleBatch:
    """The batch at hand: its size, and where its records are."""

    error: cython.int
    """0, or BAD_CHECKSUM."""
    size: cython.Py_ssize_t
    """Bytes of the batch as it is stored; 0 if it is not simple."""
    codec: cython.int
    block: Bytes
    start: cython.Py_ssize_t
    end: cython.Py_ssize_t
    """The records are the bytes of `block` from `start` to `end`."""
    decompressed: object
    """The owner of `block` if the batch is compressed."""

    def __init__(self) -> None:
        self.error = self.codec = 0
        self.size = self.start = self.end = 0

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def find_plain(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Whether the batch at `position` is simple and uncompressed and its checksum right."""
        attributes: cython.int
        self.size = batch_size(data, position, size)
        if self.size == 0:
            return False
        attributes = data[position + ATTRIBUTES_AT]
        if attributes & (TRANSACTIONAL | CONTROL) or int32_at(data, position + RECORD_COUNT_AT) <= 0:
            self.size = 0
            return False
        self.codec = attributes & CODEC_MASK
        if self.codec:
            return False
        if not is_sound(data, position, self.size):
            self.error = BAD_CHECKSUM
            return False
        self.block = data
        self.start = position + HEADER_SIZE
        self.end = position + self.size
        return True

    @cython.cfunc
    def decompress(self, chunk: object, data: Bytes, position: cython.Py_ssize_t, codec: object) -> cython.bint:
        """Whether the batch at `position`, which `find_plain` has refused, is simple and compressed and its checksum
        right. `codec`: a BlockCodec, or None."""
        if self.size == 0 or self.codec == 0 or codec is None or self.error:
            return False
        if not is_sound(data, position, self.size):
            self.error = BAD_CHECKSUM
            return False
        piece: bytes = codec.decompress(self.codec, chunk[position + HEADER_SIZE : position + self.size])
        if piece is None:
            return False
        self.decompressed = piece
        self.block = piece
        self.start = 0
        self.end = len(piece)
        return True
