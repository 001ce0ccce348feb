"""The four codecs, and how far their input is believed: not at all.

What a header claims about sizes reserves nothing. Decompression goes in chunks, so that a batch can be validated without ever being held
whole, and stops where a limit is passed. Everything here may run in any thread; the libraries release the GIL.

| codec  | written                                       | also read                                  |
|--------|-----------------------------------------------|--------------------------------------------|
| gzip   | one member                                    |                                            |
| snappy | xerial's framing, blocks of 32 KiB            | raw snappy, xerial blocks of any size      |
| lz4    | one frame, independent blocks of 64 KiB       | any LZ4 frame                              |
| zstd   | one frame                                     |                                            |
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Union

from ..errors import CorruptMessage, InvalidRecord

Buffer = Union[bytes, bytearray, memoryview]


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


CHUNK_BYTES = 256 * 1024
"""Decompressed bytes at a time."""

DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_SIZE = struct.Struct(">i")

_SNAPPY_RATIO = 24
"""No snappy element expands further: a copy of 3 bytes gives 64 at most. A larger claim is a lie."""

_ZSTD_WINDOW = 1 << 27
"""The largest window that zstd's ordinary levels use; a frame that asks for more is refused."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`data` as the codec stores it; `level` None means Kafka's default. Raises ValueError for an unknown codec."""
    codec = Codec(codec)
    if level is None:
        level = DEFAULT_LEVELS.get(codec, 0)
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        compressor = zlib.compressobj(level, wbits=31)
        return compressor.compress(data) + compressor.flush()
    if codec is Codec.SNAPPY:
        return b"".join(_xerial_blocks(memoryview(data)))
    if codec is Codec.LZ4:
        import lz4.frame

        framed: bytes = lz4.frame.compress(
            data, compression_level=level, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
        )
        return framed
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


def decompress(codec: int, data: Buffer, limit: int) -> Buffer:
    """All of `data`, decompressed. Raises InvalidRecord beyond `limit` bytes, CorruptMessage for what the codec cannot read."""
    if codec == Codec.NONE:
        return data
    whole = bytearray()
    for chunk in decompress_chunks(codec, data):
        if len(whole) + len(chunk) > limit:
            raise InvalidRecord(f"the batch holds more than {limit} bytes after decompression")
        whole += chunk
    return whole


def decompress_chunks(codec: int, data: Buffer) -> Iterator[Buffer]:
    """`data` decompressed, some hundred KiB at a time, for who needs no more at once. Raises CorruptMessage."""
    try:
        chunks = _DECOMPRESSORS[codec]
    except KeyError:
        raise CorruptMessage(f"there is no codec {codec}") from None
    try:
        yield from chunks(memoryview(data))
    except CorruptMessage:
        raise
    except Exception as error:  # each library has exceptions of its own
        raise CorruptMessage(f"the records are no {Codec(codec).name.lower()} data: {error}") from error


def _gzip_chunks(data: memoryview) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(wbits=31)
    yield from _drain_zlib(decompressor, data)
    if not decompressor.eof:
        raise CorruptMessage("the gzip data ends early")


def _drain_zlib(decompressor: Any, data: Buffer) -> Iterator[bytes]:
    while data and not decompressor.eof:
        chunk = decompressor.decompress(data, CHUNK_BYTES)
        data = decompressor.unconsumed_tail
        if chunk:
            yield chunk


def _lz4_chunks(data: memoryview) -> Iterator[bytes]:
    import lz4.frame

    decompressor = lz4.frame.LZ4FrameDecompressor()
    chunk = decompressor.decompress(data, max_length=CHUNK_BYTES)
    while chunk or not decompressor.eof:
        if chunk:
            yield chunk
        elif decompressor.needs_input:
            raise CorruptMessage("the lz4 data ends early")
        if decompressor.eof:
            return
        chunk = decompressor.decompress(b"", max_length=CHUNK_BYTES)


def _zstd_chunks(data: memoryview) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
    # Input in slices: a block of 4 bytes may stand for 128 KiB, and this library gives back all that a call decodes.
    for begin in range(0, len(data), _ZSTD_SLICE):
        chunk = decompressor.decompress(data[begin : begin + _ZSTD_SLICE])
        if chunk:
            yield chunk
        if decompressor.eof:
            return
    raise CorruptMessage("the zstd data ends early")


_ZSTD_SLICE = 256
"""Bytes of zstd input at a time: at most 8 MiB of output, ordinarily about a KiB."""


def _snappy_chunks(data: memoryview) -> Iterator[Buffer]:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _raw_snappy(data)
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _SIZE.size:
            raise CorruptMessage("the snappy data ends within the size of a block")
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if not 0 <= size <= len(data) - position:
            raise CorruptMessage(f"a snappy block of {size} bytes is announced, {len(data) - position} are left")
        yield _raw_snappy(data[position : position + size])
        position += size


def _raw_snappy(block: memoryview) -> Buffer:
    import cramjam

    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > _SNAPPY_RATIO * len(block):
        raise CorruptMessage(f"{len(block)} bytes of snappy data cannot become {claimed}")
    return memoryview(cramjam.snappy.decompress_raw(block, output_len=claimed))


def _xerial_blocks(data: memoryview) -> Iterator[bytes]:
    import cramjam

    yield _XERIAL_HEADER
    for begin in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[begin : begin + _XERIAL_BLOCK]))
        yield _SIZE.pack(len(block))
        yield block


def _plain_chunks(data: memoryview) -> Iterator[Buffer]:
    yield data


_DECOMPRESSORS = {
    Codec.NONE: _plain_chunks,
    Codec.GZIP: _gzip_chunks,
    Codec.SNAPPY: _snappy_chunks,
    Codec.LZ4: _lz4_chunks,
    Codec.ZSTD: _zstd_chunks,
}
