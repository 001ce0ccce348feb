# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""The simple batches of a chunk of a log, one after the other, checked and decompressed.

A batch is *simple* if it is of magic 2, whole and not empty, and neither transactional nor a control batch. A
compressed one is simple if it is small, so that a BlockCodec decompresses it at once.

Where a BlockCodec can, it decompresses neighbouring batches in one call, with a separator between them. Each block ends
where as many records end as its batch has; if a separator is not there, the batches are decompressed one by one.
"""

from __future__ import annotations

from ... import cython_words as cython
from ..layout import (
    ATTRIBUTES_AT,
    BAD_CHECKSUM,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    RECORD_COUNT_AT,
    SMALLEST_MESSAGE,
    SMALLEST_RECORD,
    TRANSACTIONAL,
    VARINT_BITS,
)
from .checksum import batch_size, is_sound
from .numbers import Bytes, int32_at, read_number


@cython.final
@cython.cclass
class SimpleBatch:
    """The batch at hand: its size, and where its records are. For one chunk after the other, in one thread."""

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
    chunk: object
    """The chunk that `ahead` is of."""
    ahead: dict
    """By the position of a batch in the chunk, where its block begins and ends in `together`; None if it is not there
    and the batch has to be decompressed by itself."""
    together: bytearray

    def __init__(self) -> None:
        self.begin()
        self.size = self.start = self.end = 0
        self.chunk = None
        self.ahead = {}
        self.together = bytearray(0)

    @cython.cfunc
    def begin(self) -> object:
        """Forget the error of an earlier chunk."""
        self.error = self.codec = 0

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def find_plain(self, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.bint:
        """Whether the batch at `position` is simple and uncompressed and its checksum right."""
        self.size = _simple_size(data, position, size)
        if self.size == 0:
            return False
        self.codec = data[position + ATTRIBUTES_AT] & CODEC_MASK
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
    def decompress(
        self, chunk: object, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, codec: object
    ) -> cython.bint:
        """Whether the batch at `position`, which `find_plain` has refused, is simple and compressed and its checksum
        right. `codec`: a BlockCodec, or None."""
        view: cython.const[cython.uchar][::1]
        if self.size == 0 or self.codec == 0 or codec is None or self.error:
            return False
        if not is_sound(data, position, self.size):
            self.error = BAD_CHECKSUM
            return False
        if cython.compiled and codec.separator(self.codec):  # interpreted, to find the separators takes longer
            if chunk is not self.chunk or position not in self.ahead:
                self._decompress_ahead(chunk, data, position, size, codec)
            place = self.ahead[position]
            if place is not None:
                self.start, self.end = place
                view = self.together
                self.block = cython.address(view[0])
                return True
        piece: bytes = codec.decompress(self.codec, chunk[position + HEADER_SIZE : position + self.size])
        if piece is None:
            return False
        self.decompressed = piece
        self.block = piece
        self.start = 0
        self.end = len(piece)
        return True

    @cython.cfunc
    def _decompress_ahead(
        self, chunk: object, data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, codec: object
    ) -> object:
        """Decompress the batch at `position` and the simple ones behind it that have the same codec."""
        separator: bytes = codec.separator(self.codec)
        width: cython.Py_ssize_t = len(separator)
        batch: cython.Py_ssize_t
        blocks: list = []
        positions: list = [position]
        begin: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        used: cython.Py_ssize_t
        while len(blocks) < codec.MOST_TOGETHER:
            batch = _simple_size(data, position, size)
            if batch == 0 or batch - HEADER_SIZE > codec.MOST_STORED:
                break
            if data[position + ATTRIBUTES_AT] & CODEC_MASK != self.codec:
                break
            blocks.append(chunk[position + HEADER_SIZE : position + batch])
            positions.append(position)
            position += batch
        self.chunk = chunk
        self.ahead = dict.fromkeys(positions)
        if len(blocks) < 2:
            return
        if len(self.together) == 0:
            self.together = bytearray(codec.MOST_TOGETHER * (codec.most_bytes + width))
        used = codec.decompress_together(self.codec, blocks, self.together)
        view: cython.const[cython.uchar][::1] = self.together
        whole: Bytes = cython.address(view[0]) if cython.compiled else memoryview(self.together)
        found: dict = {}
        for at in positions[1:]:
            end = _end_of_records(whole, begin, used, int32_at(data, at + RECORD_COUNT_AT))
            if end == begin or (end < used and self.together[end : end + width] != separator):
                return
            if end - begin <= codec.most_bytes:
                found[at] = (begin, end)
            begin = end + width
        if begin - width == used:
            self.ahead.update(found)


def end_of_batches(chunk: cython.const[cython.uchar][::1]) -> int:
    """Where the whole batches end with which the chunk begins; the first that cannot be one ends them, too."""
    size: cython.Py_ssize_t = len(chunk)
    data: Bytes = cython.address(chunk[0]) if cython.compiled else memoryview(chunk)
    at: cython.Py_ssize_t = 0
    length: cython.longlong
    while size - at >= LOG_OVERHEAD + SMALLEST_MESSAGE:
        length = int32_at(data, at + LENGTH_AT)
        if length < SMALLEST_MESSAGE or length > size - at - LOG_OVERHEAD:
            break
        at += LOG_OVERHEAD + length
    return at


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def _simple_size(data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Bytes of the batch at `position`; 0 if it is not simple. It may be too large when it is decompressed."""
    found: cython.Py_ssize_t = batch_size(data, position, size)
    if found and (
        data[position + ATTRIBUTES_AT] & (TRANSACTIONAL | CONTROL) or int32_at(data, position + RECORD_COUNT_AT) <= 0
    ):
        return 0
    return found


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _end_of_records(
    data: Bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, count: cython.longlong
) -> cython.Py_ssize_t:
    """Where so many records end, by their lengths; where they begin, if they do not end by `size`."""
    start: cython.Py_ssize_t = position
    length: cython.longlong
    while count > 0:
        length, position = read_number(data, position, size, VARINT_BITS)
        if position > size or length < SMALLEST_RECORD or length > size - position:
            return start
        position += length
        count -= 1
    return position
