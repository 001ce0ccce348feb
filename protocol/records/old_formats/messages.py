"""Messages of magic 0 and 1, the formats before record batches. Old clients send them, old logs hold them.

| at   | size  | field      | |
|------|------:|------------|-|
| 0    |     8 | offset     | |
| 8    |     4 | size       | of what follows |
| 12   |     4 | CRC-32     | of everything from byte 16 on; that of zlib, not the one of batches |
| 16   |     1 | magic      | 0 or 1 |
| 17   |     1 | attributes | codec (3 bits; zstd is not among them); magic 1: log append time (bit 3) |
| 18   |     8 | timestamp  | magic 1 only (KIP-32) |
| then | 4 + n | key        | a negative length is null |
| then | 4 + n | value      | likewise |

A *message set* is messages one after the other. A message whose attributes name a codec is a *wrapper*: its value is a
compressed message set. Its offset is that of the last message in it; its timestamp is the largest of theirs, or with
log append time that of them all. With magic 0 the messages in it have their own offsets. With magic 1 they have them
relative to the first (KIP-31), but for wrappers of offset 0, which come from producers. Wrappers do not nest.

What stands in a log for a batch is a message, wrapper or not, and `read_message_header` makes a `BatchHeader` of it. So
a walk over batches meets messages too, and `batch_records` reads either.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from zlib import crc32

from ...errors import CorruptMessage, InvalidRecord
from ..compression import Buffer, Codec, compress_chunks, decompress_chunks
from ..layout import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SMALLEST_MESSAGE,
    BatchHeader,
)
from ..record import BATCH_FACTOR, Record, RecordFacts
from .lz4_checksum import with_right_checksum, with_wrong_checksum

SMALLEST = (14, 22)
"""Bytes behind the overhead of the smallest message of magic 0, and of magic 1."""

UNKNOWN_COUNT = -1
"""The record count in the header of a wrapper: its messages are not counted before they are read."""

MAX_MESSAGES = 1 << 17
"""In one wrapper; beyond is InvalidRecord. It bounds the time that a few bytes can cost: these loops are not compiled.
The most that any client has ever put into a set by default are 10,000."""

_START = struct.Struct(">qiIBB")
_OFFSET_AND_SIZE = struct.Struct(">qi")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_CHECKED_FROM = 16
_TIMESTAMP_AT = 18
_ATTRIBUTES = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME)
"""The attributes in use, by magic."""


def read_message_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The message at `position`, of magic 0 or 1, as the header of a batch.

    It has no producer and no leader epoch. A wrapper says neither where its messages begin nor how many they are: its
    base offset is the last one too, its record count -1. CorruptMessage for a size that no message of its magic has;
    struct.error if the buffer ends within what is read, the first 26 bytes at most.
    """
    offset, length, crc, magic, attributes = _START.unpack_from(buffer, position)
    if length < SMALLEST[magic]:
        raise CorruptMessage(f"a message of magic {magic} cannot have a length of {length} bytes")
    attributes &= _ATTRIBUTES[magic]
    timestamp = _TIMESTAMP.unpack_from(buffer, position + _TIMESTAMP_AT)[0] if magic else NO_TIMESTAMP
    return BatchHeader(
        base_offset=offset,
        batch_length=length,
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=UNKNOWN_COUNT if attributes & CODEC_MASK else 1,
    )


# Reading


def messages_as_sent(
    buffer: Buffer, position: int, header: BatchHeader, limit: int, batch_limit: int, *, is_strict: bool = False
) -> Iterator[list[Record]]:
    """The message at `position`, or those in it, some at a time; of magic 1 with offsets as they are in the wrapper.

    Raises InvalidRecord for what is no message, for a wrapper in a wrapper and an empty one, and for more in a wrapper
    than `limit` bytes in a message, `batch_limit` bytes or MAX_MESSAGES. CorruptMessage for what cannot be decompressed
    or has a size that no message has. `is_strict`, for what a producer sends, asks for one magic (InvalidRecord) and
    right checksums (CorruptMessage) inside too.
    """
    message = memoryview(buffer)[position : position + header.size]
    if not header.attributes & CODEC_MASK:
        yield [_record(message, 0, len(message), header.magic, header.base_offset, header)]
        return
    count = 0
    for messages in _parse(_decompressed(message, header, batch_limit), header, limit, is_strict):
        count += len(messages)
        if count > MAX_MESSAGES:
            raise InvalidRecord(f"a wrapper holds more than {MAX_MESSAGES} messages")
        yield messages
    if not count:
        raise InvalidRecord("a wrapper holds no message")


def first_offset_in(header: BatchHeader, last_in_wrapper: int) -> int:
    """The number to add to the offsets in a wrapper, given the last of them. Raises InvalidRecord."""
    if header.magic == 0 or not header.codec or header.base_offset == 0:
        return 0
    if header.base_offset < last_in_wrapper:
        raise InvalidRecord(f"a wrapper of offset {header.base_offset} cannot end with message {last_in_wrapper}")
    return header.base_offset - last_in_wrapper


def iter_messages(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> Iterator[list[Record]]:
    """The records of the message at `position`, some at a time. Raises what `messages_as_sent` and `first_offset_in`
    raise.

    Wrappers of magic 1 are decompressed twice: only their last message tells the offset of the first.
    """
    first = 0
    if header.magic and header.codec:
        for messages in messages_as_sent(buffer, position, header, limit, limit * BATCH_FACTOR):
            last = messages[-1].offset
        first = first_offset_in(header, last)
    for messages in messages_as_sent(buffer, position, header, limit, limit * BATCH_FACTOR):
        yield _moved(messages, first)


def decode_message(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> list[Record]:
    """All records of the message at `position`; raises as `iter_messages` does. `limit` is that of all together."""
    records = list(chain.from_iterable(messages_as_sent(buffer, position, header, limit, limit)))
    return _moved(records, first_offset_in(header, records[-1].offset))


def check_message(buffer: Buffer, position: int, header: BatchHeader, *, limit: int) -> RecordFacts:
    """The facts of `batch_records.check_records` for a message. Raises as `iter_messages` does."""
    count = null_keys = last = 0
    is_sequential = True
    oldest = newest = newest_delta = -1
    for messages in iter_messages(buffer, position, header, limit=limit):
        for offset, timestamp, key, _, _ in messages:
            null_keys += key is None
            is_sequential = is_sequential and (not count or offset == last + 1)
            last = offset
            if not count or timestamp > newest:
                newest, newest_delta = timestamp, offset - header.base_offset
            if timestamp != NO_TIMESTAMP and (oldest == NO_TIMESTAMP or timestamp < oldest):
                oldest = timestamp
            count += 1
    return RecordFacts(count, null_keys, is_sequential, oldest, newest, newest_delta)


def first_message_since(
    buffer: Buffer, position: int, header: BatchHeader, timestamp: int, offset: int, *, limit: int
) -> tuple[int, int] | None:
    """The result of `batch_records.first_record_since` for a message. Raises as `iter_messages` does."""
    if header.max_timestamp < timestamp:
        return None
    for messages in iter_messages(buffer, position, header, limit=limit):
        for record in messages:
            if record.timestamp >= timestamp and record.offset >= offset:
                return record.timestamp, record.offset
    return None


def _moved(records: list[Record], by: int) -> list[Record]:
    if not by:
        return records
    return [Record(offset + by, timestamp, key, value) for offset, timestamp, key, value, _ in records]


def _decompressed(message: memoryview, header: BatchHeader, limit: int) -> Iterator[Buffer]:
    if header.codec == Codec.ZSTD:
        raise InvalidRecord(f"messages of magic {header.magic} are not compressed with zstd")
    _, at = _field(message, _fields_at(header.magic), len(message))
    start, end = _field(message, at, len(message))
    if start is None:
        raise InvalidRecord("a wrapper has no value")
    block: Buffer = message[start:end]
    if header.magic == 0 and header.codec == Codec.LZ4:
        block = with_right_checksum(block)
    return decompress_chunks(header.codec, block, limit)


def _parse(chunks: Iterable[Buffer], wrapper: BatchHeader, limit: int, is_strict: bool) -> Iterator[list[Record]]:
    """The messages of a set that comes in chunks. One that is not all there is the end, as in Kafka."""
    rest = bytearray()
    needed = LOG_OVERHEAD  # bytes of it, for a step forward
    for chunk in chunks:
        rest += chunk
        if len(rest) < needed:
            continue
        block = bytes(rest)
        messages: list[Record] = []
        position = 0
        needed = LOG_OVERHEAD
        while len(block) - position >= LOG_OVERHEAD:
            offset, length = _OFFSET_AND_SIZE.unpack_from(block, position)
            if length < SMALLEST_MESSAGE:
                raise CorruptMessage(f"a message cannot have a length of {length} bytes")
            if length > limit:
                raise InvalidRecord(f"a message has more than {limit} bytes, decompressed")
            end = position + LOG_OVERHEAD + length
            if end > len(block):
                needed = end - position
                break
            messages.append(_inner(block, position, end, offset, wrapper, is_strict))
            position = end
        rest = bytearray(block[position:])
        if messages:
            yield messages


def _inner(block: Buffer, position: int, end: int, offset: int, wrapper: BatchHeader, is_strict: bool) -> Record:
    _, _, crc, magic, attributes = _START.unpack_from(block, position)
    if attributes & CODEC_MASK:
        raise InvalidRecord("there is a wrapper in a wrapper")
    if magic > 1 or (is_strict and magic != wrapper.magic):
        raise InvalidRecord(f"there is a message of magic {magic} in a wrapper of magic {wrapper.magic}")
    if is_strict and crc32(memoryview(block)[position + _CHECKED_FROM : end]) != crc:
        raise CorruptMessage(f"the checksum does not match message {offset} in its wrapper")
    return _record(block, position, end, magic, offset, wrapper)


def _record(block: Buffer, position: int, end: int, magic: int, offset: int, outer: BatchHeader) -> Record:
    timestamp = NO_TIMESTAMP
    at = position + _fields_at(magic)
    if at > end:
        raise InvalidRecord(f"a message of magic {magic} is too short")
    if magic:
        (timestamp,) = _TIMESTAMP.unpack_from(block, position + _TIMESTAMP_AT)
        if outer.attributes & LOG_APPEND_TIME:
            timestamp = outer.max_timestamp
    start, at = _field(block, at, end)
    key = None if start is None else bytes(block[start:at])
    start, at = _field(block, at, end)
    return Record(offset, timestamp, key, None if start is None else bytes(block[start:at]))


def _fields_at(magic: int) -> int:
    """Where a message has its key, and behind it its value."""
    return _TIMESTAMP_AT + _TIMESTAMP.size if magic else _TIMESTAMP_AT


def _field(block: Buffer, at: int, end: int) -> tuple[int | None, int]:
    """Where the key or value at `at` begins (None for null), and where it ends."""
    if at + _LENGTH.size > end:
        raise InvalidRecord("a message ends before its value")
    (length,) = _LENGTH.unpack_from(block, at)
    at += _LENGTH.size
    if length < 0:
        return None, at
    if length > end - at:
        raise InvalidRecord("the key or value of a message is longer than the message")
    return at, at + length


# Building


def build_messages(records: Iterable[Record], magic: int, *, log_append_time_ms: int | None = None) -> bytearray:
    """A set of these records, uncompressed, with the offsets that they have. Headers are lost, and with magic 0
    timestamps; negative ones other than -1, which no message has, become -1.
    """
    built = bytearray()
    attributes = LOG_APPEND_TIME if magic and log_append_time_ms is not None else 0
    for offset, timestamp, key, value, _ in records:
        if log_append_time_ms is not None:
            timestamp = log_append_time_ms
        _append_message(built, magic, offset, attributes, timestamp, key, value)
    return built


def build_wrapper(
    chunks: Iterable[Sequence[Record]],
    magic: int,
    codec: int,
    *,
    log_append_time_ms: int | None = None,
) -> bytes:
    """The wrapper around records that come some at a time, at least one; not more of them are held at once.

    Its offset is that of the last one. Raises ValueError for zstd, which messages do not have.
    """
    if codec == Codec.ZSTD:
        raise ValueError("messages are not compressed with zstd")
    first: int | None = None
    last = 0
    newest = NO_TIMESTAMP

    def sets() -> Iterator[Buffer]:
        nonlocal first, last, newest
        for records in chunks:
            if records:
                first = records[0].offset if first is None else first
                last = records[-1].offset
                newest = max(newest, max(record.timestamp for record in records))
                inner = _moved(list(records), -first) if magic else records
                yield build_messages(inner, magic, log_append_time_ms=log_append_time_ms)

    value = b"".join(compress_chunks(codec, sets()))
    if first is None:
        raise ValueError("a wrapper is built of at least one record")
    if magic == 0 and codec == Codec.LZ4:
        value = with_wrong_checksum(value)
    attributes = codec | (LOG_APPEND_TIME if magic and log_append_time_ms is not None else 0)
    timestamp = newest if log_append_time_ms is None else log_append_time_ms
    wrapper = bytearray()
    _append_message(wrapper, magic, last, attributes, timestamp, None, value)
    return bytes(wrapper)


def _append_message(
    out: bytearray,
    magic: int,
    offset: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    start = bytes((magic, attributes))
    if magic:
        start += _TIMESTAMP.pack(max(timestamp, NO_TIMESTAMP))
    pieces = (start, _size_of(key), key or b"", _size_of(value), value or b"")
    crc = size = 0
    for piece in pieces:  # not joined first, because a value may be large
        crc = crc32(piece, crc)
        size += len(piece)
    out += _OFFSET_AND_SIZE.pack(offset, size + _CRC.size)
    out += _CRC.pack(crc)
    for piece in pieces:
        out += piece


def _size_of(field: bytes | None) -> bytes:
    return _LENGTH.pack(-1 if field is None else len(field))
