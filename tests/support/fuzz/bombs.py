"""Record batches of some hundred KiB that decompress to very much. Making them holds no more than sending them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import zstandard

from kmini.protocol.records.batch import HEADER_SIZE, LOG_APPEND_TIME, MAGIC, BatchHeader, rewrite_header
from kmini.protocol.records.compression import Codec

MIB = 1 << 20
ZEROS = bytes(MIB)
GZIP_HEADER = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"


def gzip_of(prefix: bytes, zeros: int, suffix: bytes) -> bytes:
    """`zeros` MiB of zeros between two pieces; every MiB of them is the same deflate block, made once."""
    compressor = zlib.compressobj(9, wbits=-15)
    start = compressor.compress(prefix) + compressor.flush(zlib.Z_FULL_FLUSH)
    middle = compressor.compress(ZEROS) + compressor.flush(zlib.Z_FULL_FLUSH)
    end = compressor.compress(suffix) + compressor.flush()
    checksum = zlib.crc32(prefix)
    for _ in range(zeros):
        checksum = zlib.crc32(ZEROS, checksum)
    size = len(prefix) + zeros * MIB + len(suffix) & 0xFFFFFFFF
    trailer = struct.pack("<II", zlib.crc32(suffix, checksum), size)
    return GZIP_HEADER + start + middle * zeros + end + trailer


def zstd_of(prefix: bytes, zeros: int, suffix: bytes) -> bytes:
    return zstd_stream([prefix, *[ZEROS] * zeros, suffix])


def zstd_stream(pieces: list[bytes]) -> bytes:
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    return b"".join([compressor.compress(piece) for piece in pieces] + [compressor.flush()])


def batch(codec: Codec, block: bytes, records: int, timestamp: int, **fields: Any) -> bytearray:
    """A batch around a compressed block, which claims this many records."""
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_SIZE - 12 + len(block),
        partition_leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=records - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=records,
    )
    made = bytearray(HEADER_SIZE) + block
    rewrite_header(made, 0, header._replace(**fields))
    return made


def varint(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    return bytes((*encoded, raw))


def around(value_bytes: int, offset_delta: int = 0, timestamp_delta: int = 0) -> tuple[bytes, bytes]:
    """What stands before and behind the value of a record of that size, without key or headers."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + b"\x01" + varint(value_bytes)
    return varint(len(body) + value_bytes + 1) + body, b"\0"


TINY = b"\x0c\0\0\0\x01\x01\0"
"""A record of seven bytes: no key, no value, offset delta 0."""


def zeros_in_gzip(timestamp: int) -> bytearray:
    """900 MiB of zeros: no record at all."""
    return batch(Codec.GZIP, gzip_of(b"", 900, b""), 1, timestamp)


def zeros_in_zstd(timestamp: int) -> bytearray:
    """1,900 MiB of zeros: no record at all."""
    return batch(Codec.ZSTD, zstd_of(b"", 1_900, b""), 1, timestamp)


def one_record_in_gzip(timestamp: int) -> bytearray:
    """One valid record of 900 MiB."""
    before, behind = around(900 * MIB)
    return batch(Codec.GZIP, gzip_of(before, 900, behind), 1, timestamp)


def one_record_in_zstd(timestamp: int) -> bytearray:
    """One valid record of 1,900 MiB."""
    before, behind = around(1_900 * MIB)
    return batch(Codec.ZSTD, zstd_of(before, 1_900, behind), 1, timestamp)


def largest_record(timestamp: int) -> bytearray:
    """One valid record of 60 MiB: allowed, and stored."""
    before, behind = around(60 * MIB)
    return batch(Codec.ZSTD, zstd_of(before, 60, behind), 1, timestamp)


def largest_records(timestamp: int) -> bytearray:
    """Fifteen valid records of 60 MiB each, in order: allowed, and stored. Only the last is not from 1970."""
    timestamps = [0] * 14 + [timestamp]
    return batch(Codec.ZSTD, _large(range(15), timestamps), 15, 0, max_timestamp=timestamp)


def largest_records_out_of_order(timestamp: int) -> bytearray:
    """Fifteen valid records of 60 MiB each, whose offset deltas the broker would have to put right."""
    return batch(Codec.ZSTD, _large([0] * 15, [0] * 15), 15, timestamp)


def _large(offset_deltas: Sequence[int], timestamp_deltas: Sequence[int]) -> bytes:
    pieces = []
    for offset_delta, timestamp_delta in zip(offset_deltas, timestamp_deltas, strict=True):
        before, behind = around(60 * MIB, offset_delta, timestamp_delta)
        pieces += [before, *[ZEROS] * 60, behind]
    return zstd_stream(pieces)


def tiny_records(timestamp: int) -> bytearray:
    """A hundred and twenty million valid records, all with the same offset."""
    piece = TINY * 150_000
    return batch(Codec.ZSTD, zstd_stream([piece] * 800), 120_000_000, timestamp)


def tiny_records_without_timestamp(timestamp: int) -> bytearray:
    """As many without a timestamp: what is known of the batch as a whole does not settle whether each is fine."""
    piece = TINY * 150_000
    return batch(Codec.ZSTD, zstd_stream([piece] * 800), 120_000_000, -1)


def tiny_records_with_a_stamp(timestamp: int) -> bytearray:
    """As many in a batch that claims log append time, which a broker gives, and so one timestamp for all."""
    piece = TINY * 150_000
    block = zstd_stream([piece] * 800)
    return batch(Codec.ZSTD, block, 120_000_000, timestamp, attributes=Codec.ZSTD | LOG_APPEND_TIME)


def tiny_records_in_snappy(timestamp: int) -> bytearray:
    """Three million valid records in a single block of snappy."""
    import cramjam

    count = 3_000_000
    return batch(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TINY * count)), count, -1)


def zstd_with_a_large_window(timestamp: int) -> bytearray:
    """A valid record of 30 MiB in a frame that may refer back 128 MiB, so that so much would have to be held."""
    before, behind = around(30 * MIB)
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    pieces = [before, *[ZEROS] * 30, behind]
    block = b"".join([compressor.compress(piece) for piece in pieces] + [compressor.flush()])
    return batch(Codec.ZSTD, block, 1, timestamp)


# Messages of magic 0 and 1


def wrapper(value: bytes, offset: int, magic: int = 1) -> bytearray:
    """A wrapper around messages in gzip."""
    content = struct.pack(">BB", magic, Codec.GZIP) + (struct.pack(">q", 0) if magic else b"")
    content += struct.pack(">ii", -1, len(value)) + value
    return bytearray(struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content)


def before_zeros(mebibytes: int, offset: int, timestamp: int) -> bytes:
    """What stands before the value of a message of that size, without a key."""
    fields = struct.pack(">BBqii", 1, 0, timestamp, -1, mebibytes * MIB)
    checksum = zlib.crc32(fields)
    for _ in range(mebibytes):
        checksum = zlib.crc32(ZEROS, checksum)
    return struct.pack(">qiI", offset, 4 + len(fields) + mebibytes * MIB, checksum) + fields


def one_message_in_a_wrapper(timestamp: int) -> bytearray:
    """One valid message of 900 MiB."""
    return wrapper(gzip_of(before_zeros(900, 0, timestamp), 900, b""), 0)


def largest_messages(timestamp: int) -> bytearray:
    """Ten valid messages of 7 MiB each: allowed, and stored."""
    compressor = zlib.compressobj(6, wbits=31)
    pieces = [piece for n in range(10) for piece in (before_zeros(7, n, timestamp), *[ZEROS] * 7)]
    return wrapper(b"".join([compressor.compress(piece) for piece in pieces] + [compressor.flush()]), 9)


def tiny_messages(timestamp: int) -> bytearray:
    """A million valid messages with nothing in them."""
    fields = struct.pack(">BBii", 0, 0, -1, -1)
    message = struct.pack(">qiI", 0, 4 + len(fields), zlib.crc32(fields)) + fields
    compressor = zlib.compressobj(6, wbits=31)
    return wrapper(compressor.compress(message * 1_000_000) + compressor.flush(), 0, magic=0)


def largest_records_in_gzip(timestamp: int) -> bytearray:
    """Ten valid records of 7 MiB each, which an old reader would have converted."""
    compressor = zlib.compressobj(6, wbits=31)
    pieces = []
    for number in range(10):
        before, behind = around(7 * MIB, number)
        pieces += [before, *[ZEROS] * 7, behind]
    block = b"".join([compressor.compress(piece) for piece in pieces] + [compressor.flush()])
    return batch(Codec.GZIP, block, 10, timestamp)
