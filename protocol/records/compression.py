"""The four codecs, with limits on what their input may decompress to.

Sizes in headers reserve no memory. Decompression goes chunk by chunk, so a check of a batch never holds it as a whole,
and ends at a limit. All functions may run in any thread; the libraries release the interpreter's lock.

| codec  | written                              | read                                       |
|--------|--------------------------------------|--------------------------------------------|
| gzip   | one member                           | one member                                 |
| snappy | xerial's framing, 32 KiB a block     | that, with blocks of any size; raw snappy  |
| lz4    | one frame, independent 64 KiB blocks | one frame of any kind                      |
| zstd   | one frame                            | one frame                                  |

Bytes behind the end of a member or frame are refused.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from typing import Any, TypeAlias

from ..errors import CorruptMessage, InvalidRecord

Buffer: TypeAlias = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


DEFAULT_LEVELS = {Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}
"""Kafka's default levels. Snappy has none."""

_LZ4_FAST = 0
"""The level of lz4 that Kafka's default, 9, stands for: the fast compressor, which has no levels. All other levels,
lower ones too, are those of the thorough compressor, which takes four times as long."""

_LZ4_HEADER = bytes.fromhex("04224d18604082")
"""The header of a frame as Kafka's producers write it: independent blocks of 64 KiB, no checksums, no size."""
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31
"""This bit of a block's size says that the block is stored uncompressed."""
_LZ4_END = bytes(4)

CHUNK_BYTES = 64 * 1024
"""Decompressed bytes of a chunk at most."""

_SLICE_BYTES = 16 * 1024
"""Compressed bytes given to a library at a time: some copy all the rest of their input with every chunk."""

_HELD_BYTES = 32 * 1024 * 1024
"""Bytes that a codec may hold at once: in a block of snappy, or in the window of a zstd frame with an extraordinary
one. Such a frame reserves its window, but only decompressed bytes take memory."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_BLOCK_SIZE = struct.Struct(">i")

_SNAPPY_RATIO = 22
"""Bytes that a byte of snappy can become at most: its best copy makes 64 bytes of 3."""

_ZSTD_MAX_WINDOW_LOG = 27
_ZSTD_ORDINARY_WINDOW = 8 * 1024 * 1024
"""Bytes of the window of levels up to 19."""


# Writing


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress `data`; a `level` of None is Kafka's default. Raises ValueError for an unknown codec."""
    if codec == Codec.LZ4:
        import lz4.frame

        if 0 < len(data) <= _LZ4_BLOCK_BYTES and level in (None, DEFAULT_LEVELS[Codec.LZ4]):
            return _lz4_frame_of_one_block(data)
        whole: bytes = lz4.frame.compress(data, store_size=False, **_lz4_settings(level))
        return whole
    return b"".join(compress_chunks(codec, (data,), level))


def _lz4_frame_of_one_block(data: Buffer) -> bytes:
    """Compress 1 to _LZ4_BLOCK_BYTES bytes. The module lz4.frame prepares a context for each frame, which takes as
    long as compressing a small batch."""
    import lz4.block

    block: Buffer = lz4.block.compress(data, store_size=False)
    size = len(block)
    if size >= len(data):
        block, size = data, len(data) | _LZ4_STORED
    return b"".join((_LZ4_HEADER, size.to_bytes(4, "little"), block, _LZ4_END))


def compress_chunks(codec: int, chunks: Iterable[Buffer], level: int | None = None) -> Iterator[Buffer]:
    """Compress pieces to pieces, as `compress` does at once."""
    codec = Codec(codec)
    if codec is Codec.NONE:
        return iter(chunks)
    if codec is Codec.SNAPPY:
        return _xerial_blocks(chunks)
    return _compressed_by(_compressor(codec, DEFAULT_LEVELS[codec] if level is None else level), chunks)


def _compressor(codec: Codec, level: int) -> Any:
    if codec is Codec.GZIP:
        return zlib.compressobj(level, wbits=31)
    if codec is Codec.ZSTD:
        return _zstd().ZstdCompressor(level=level)
    import lz4.frame

    return _Lz4Compressor(lz4.frame.LZ4FrameCompressor(**_lz4_settings(level)))


@cache
def _lz4_settings(level: int | None) -> dict[str, Any]:
    import lz4.frame

    if level is None or level == DEFAULT_LEVELS[Codec.LZ4]:
        level = _LZ4_FAST
    return {"compression_level": level, "block_size": lz4.frame.BLOCKSIZE_MAX64KB, "block_linked": False}


class _Lz4Compressor:
    """An lz4 compressor that begins its frame by itself, as those of the other codecs do."""

    def __init__(self, compressor: Any) -> None:
        self._compressor = compressor
        self._header: bytes = compressor.begin()

    def compress(self, data: Buffer) -> bytes:
        header, self._header = self._header, b""
        compressed: bytes = self._compressor.compress(data)
        return header + compressed

    def flush(self) -> bytes:
        end: bytes = self._compressor.flush()
        return self._header + end


def _compressed_by(compressor: Any, chunks: Iterable[Buffer]) -> Iterator[bytes]:
    for chunk in chunks:
        yield compressor.compress(chunk)
    yield compressor.flush()


def _xerial_blocks(chunks: Iterable[Buffer]) -> Iterator[bytes]:
    import cramjam

    yield _XERIAL_HEADER
    for chunk in chunks:
        view = memoryview(chunk)
        for start in range(0, len(view), _XERIAL_BLOCK):
            block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
            yield _BLOCK_SIZE.pack(len(block))
            yield block


# Reading


def decompress(codec: int, data: Buffer, limit: int) -> Buffer:
    """Decompress all of `data`; uncompressed data is returned itself. Raises as `decompress_chunks` does."""
    if codec == Codec.NONE:
        return data
    whole = bytearray()
    for chunk in decompress_chunks(codec, data, limit):
        whole += chunk
    return whole


class BlockCodec:
    """Compresses and decompresses small batches, in one thread. It keeps the contexts that a library lets it reuse.

    A context of libzstd for decompression takes longer to make than a small batch takes to decompress, where a virtual
    machine emulates the instruction that asks for the processor's features. The module zstd makes one for each frame,
    so blocks of zstd go in one call to cramjam, which takes several frames.
    """

    MOST_TOGETHER = 16
    """Blocks that `decompress_together` takes at most."""
    MOST_STORED = _SLICE_BYTES
    """Compressed bytes of a block that is small."""

    def __init__(self, limit: int, separator: bytes = b"") -> None:
        """`limit`: as with `decompress_chunks`. `separator`: random bytes, which no block contains. Without it
        blocks are decompressed one by one."""
        self._limit = limit
        self.most_bytes = min(limit, CHUNK_BYTES)
        """Decompressed bytes of a block that is small."""
        self._zstd: Any = None
        self._lz4: Any = None
        self._separator = separator
        self._separating_frame = b""

    def separator(self, codec: int) -> bytes:
        """The bytes between blocks that were decompressed together; none if this codec decompresses them one by one."""
        return self._separator if codec == Codec.ZSTD else b""

    def decompress_together(self, codec: int, blocks: Sequence[bytes], room: bytearray) -> int:
        """Decompress blocks into `room`, with the separator between them; return the bytes of all.

        0 if one of them is no whole frame, or if the room does not suffice.
        """
        import cramjam

        zstd = _zstd()
        if not self._separating_frame:
            self._separating_frame = zstd.compress(self._separator)
        try:
            if any(zstd.get_frame_size(block) != len(block) for block in blocks):
                return 0
            return int(cramjam.zstd.decompress_into(self._separating_frame.join(blocks), room))
        except Exception:  # each library has exceptions of its own
            return 0

    def decompress(self, codec: int, data: Buffer) -> bytes | None:
        """As `decompress_at_once` does."""
        if codec != Codec.LZ4 or len(data) > self.MOST_STORED:
            return decompress_at_once(codec, data, self._limit)
        import lz4.frame

        context, self._lz4 = self._lz4, None  # to be forgotten if it fails within a frame
        if context is None:
            context = lz4.frame.create_decompression_context()
        try:
            whole, taken, is_all = lz4.frame.decompress_chunk(context, data, max_length=self.most_bytes)
        except Exception:  # the library's own: RuntimeError, MemoryError
            return None
        if not is_all:
            return None
        self._lz4 = context  # at a frame's end it is as new
        return whole if taken == len(data) and whole else None

    def compress(self, codec: int, data: Buffer) -> bytes:
        """As `compress` does."""
        if codec != Codec.ZSTD:
            return compress(codec, data)
        compressor, self._zstd = self._zstd, None  # to be forgotten if it fails within a frame
        if compressor is None:
            compressor = _compressor(Codec.ZSTD, DEFAULT_LEVELS[Codec.ZSTD])
        whole: bytes = compressor.compress(data) + compressor.flush()
        self._zstd = compressor
        return whole


def decompress_at_once(codec: int, data: Buffer, limit: int) -> bytes | None:
    """Decompress a small batch in one call; None if `decompress_chunks` has to do it. For callers with many small
    batches."""
    if codec not in (Codec.LZ4, Codec.ZSTD) or len(data) > _SLICE_BYTES:
        return None
    decompressor = _lz4_decompressor() if codec == Codec.LZ4 else _zstd_decompressor()
    try:
        whole: bytes = decompressor.decompress(data, max_length=CHUNK_BYTES)
    except Exception:  # each library has exceptions of its own
        return None
    is_all = decompressor.eof and not decompressor.unused_data
    return whole if is_all and 0 < len(whole) <= limit else None


def decompress_chunks(codec: int, data: Buffer, limit: int) -> Iterator[Buffer]:
    """Decompress `data`, some ten KiB at a time; uncompressed data is one piece.

    Raises InvalidRecord instead of passing `limit` bytes in all, and CorruptMessage for what the codec cannot read.
    """
    data = memoryview(data)
    if codec == Codec.NONE:
        yield data
        return
    if codec not in _DECOMPRESSORS and codec != Codec.SNAPPY:
        raise CorruptMessage(f"there is no codec {codec}")
    codec = Codec(codec)
    if codec is Codec.ZSTD and _zstd_window(data) > _ZSTD_ORDINARY_WINDOW:
        limit = min(limit, _HELD_BYTES)
    total = 0
    try:
        for chunk in _snappy_chunks(data, limit) if codec is Codec.SNAPPY else _DECOMPRESSORS[codec](data):
            total += len(chunk)
            if total > limit:
                raise InvalidRecord(f"the records have more than {limit} bytes, decompressed")
            yield chunk
    except (CorruptMessage, InvalidRecord, MemoryError):
        raise
    except Exception as error:  # each library has exceptions of its own
        raise CorruptMessage(f"the records are no {codec.name.lower()} data: {error}") from error


def _gzip_chunks(data: memoryview) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(wbits=31)
    for piece in _slices(data):
        if decompressor.eof:
            raise CorruptMessage("something follows the gzip data")
        chunk = decompressor.decompress(piece, CHUNK_BYTES)
        while chunk:
            yield chunk
            chunk = decompressor.decompress(decompressor.unconsumed_tail, CHUNK_BYTES)
    _require_end(decompressor, "gzip")


def _lz4_chunks(data: memoryview) -> Iterator[bytes]:
    return _drain(_lz4_decompressor(), data, "lz4")


def _lz4_decompressor() -> Any:
    import lz4.frame

    return lz4.frame.LZ4FrameDecompressor()


def _zstd_chunks(data: memoryview) -> Iterator[bytes]:
    return _drain(_zstd_decompressor(), data, "zstd")


def _zstd_decompressor() -> Any:
    zstd = _zstd()
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_MAX_WINDOW_LOG})


def _drain(decompressor: Any, data: memoryview, name: str) -> Iterator[bytes]:
    for piece in _slices(data):
        if decompressor.eof:
            raise CorruptMessage(f"something follows the {name} data")
        chunk = decompressor.decompress(piece, max_length=CHUNK_BYTES)
        while chunk:
            yield chunk
            if decompressor.eof:
                break
            chunk = decompressor.decompress(b"", max_length=CHUNK_BYTES)
    _require_end(decompressor, name)


def _slices(data: memoryview) -> Iterator[memoryview]:
    return (data[start : start + _SLICE_BYTES] for start in range(0, len(data), _SLICE_BYTES))


def _require_end(decompressor: Any, name: str) -> None:
    """Raise CorruptMessage unless a decompressor has met the end of its data, without bytes behind it."""
    if not decompressor.eof:
        raise CorruptMessage(f"the {name} data ends early")
    if decompressor.unused_data:
        raise CorruptMessage(f"something follows the {name} data")


def _zstd() -> Any:
    """The zstd module of the standard library, or what stands in for it before Python 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _zstd_window(frame: memoryview) -> int:
    """Bytes of the window of a zstd frame (RFC 8878, 3.1.1.1); 0 if it cannot be read."""
    try:
        descriptor = frame[4]
        if not descriptor & 0x20:
            exponent, mantissa = frame[5] >> 3, frame[5] & 7
            return (1 << (10 + exponent)) * (8 + mantissa) // 8
    except IndexError:
        return 0
    start = 5 + (0, 1, 2, 4)[descriptor & 3]
    size = (1, 2, 4, 8)[descriptor >> 6]
    return int.from_bytes(frame[start : start + size], "little")


def _snappy_chunks(data: memoryview, limit: int) -> Iterator[Buffer]:
    """Decompress block by block, because a block has no pieces; each has at most `limit` bytes."""
    limit = min(limit, _HELD_BYTES)
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        yield _raw_snappy(data, limit)
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < _BLOCK_SIZE.size:
            raise CorruptMessage("the snappy data ends early")
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(data) - position:
            raise CorruptMessage(f"a snappy block of {size} bytes is announced, {len(data) - position} bytes are left")
        yield _raw_snappy(data[position : position + size], limit)
        position += size


def _raw_snappy(block: memoryview, limit: int) -> Buffer:
    import cramjam

    claimed = cramjam.snappy.decompress_raw_len(block)
    if claimed > _SNAPPY_RATIO * len(block):
        raise CorruptMessage(f"{len(block)} bytes of snappy data cannot become {claimed}")
    if claimed > limit:
        raise InvalidRecord(f"a snappy block has more than {limit} bytes, decompressed")
    return memoryview(cramjam.snappy.decompress_raw(block, output_len=claimed))


_DECOMPRESSORS = {
    Codec.GZIP: _gzip_chunks,
    Codec.LZ4: _lz4_chunks,
    Codec.ZSTD: _zstd_chunks,
}
