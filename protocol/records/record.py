"""A record, and the batches that records come in, decoded."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import InvalidRecord
from .batch import HEADER_SIZE, BatchHeader, iter_batches
from .compression import Buffer, Codec, decompress, decompress_chunks
from .load_kernel import REASONS, RecordReader, RecordWalker

DEFAULT_LIMIT = 64 * 1024 * 1024
"""Bytes that a batch may be after decompression where nobody says otherwise."""

Header = tuple[str, "bytes | None"]


class Record(NamedTuple):
    """What a producer sent, where it went, and when."""

    offset: int
    timestamp: int
    """Milliseconds since the epoch; -1 if it has none."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone: on a compacted topic it deletes its key."""
    headers: tuple[Header, ...] = ()


class RecordFacts(NamedTuple):
    """What checking the records of a batch has found out."""

    record_count: int
    null_keys: int
    is_sequential: bool
    """Whether the offset deltas are 0, 1, 2, …"""
    min_timestamp: int
    max_timestamp: int
    max_timestamp_delta: int
    """The offset delta of the first record with the largest timestamp."""


def decode_records(
    buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DEFAULT_LIMIT
) -> list[Record]:
    """The records of one batch. Raises InvalidRecord or CorruptMessage; the checksum is the caller's affair."""
    block = decompress(header.codec, records_of(buffer, position, header), limit)
    walker = RecordWalker(header.record_count, header.base_timestamp)
    _end_walk(walker, len(block) - walker.feed(block))
    append_time = header.max_timestamp if header.is_log_append_time else None
    make = Record._make
    return list(
        RecordReader(block).records(make, header.record_count, header.base_offset, header.base_timestamp, append_time)
    )


def decode_all(buffer: Buffer, *, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """The records of every whole batch in `buffer`, control records left out."""
    return [
        record
        for position, header in iter_batches(buffer)
        if not header.is_control
        for record in decode_records(buffer, position, header, limit=limit)
    ]


def check_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DEFAULT_LIMIT) -> RecordFacts:
    """Walk the records of one batch without keeping them; `limit` bounds a single record.

    Raises InvalidRecord, saying which record is none, and CorruptMessage for what cannot be decompressed.
    """
    walker = RecordWalker(header.record_count, header.base_timestamp)
    block = records_of(buffer, position, header)
    if header.codec == Codec.NONE:
        left = len(block) - walker.feed(block)
    else:
        left = _walk_chunks(walker, header.codec, block, limit)
    _end_walk(walker, left)
    return RecordFacts(
        walker.walked,
        walker.null_keys,
        bool(walker.is_sequential),
        walker.min_timestamp,
        walker.max_timestamp,
        walker.max_timestamp_delta,
    )


def first_record_since(
    buffer: Buffer, position: int, header: BatchHeader, timestamp: int, offset: int, *, limit: int = DEFAULT_LIMIT
) -> tuple[int, int] | None:
    """Timestamp and offset of the first record from `offset` on with a timestamp of at least `timestamp`; None if there is none."""
    if header.is_log_append_time:
        timestamp = timestamp if header.max_timestamp < timestamp else -(1 << 63)
    block = decompress(header.codec, records_of(buffer, position, header), limit)
    walker = RecordWalker(header.record_count, header.base_timestamp)
    _end_walk(walker, len(block) - walker.feed(block))
    found = RecordReader(block).find(header.record_count, header.base_timestamp, timestamp, offset - header.base_offset)
    if found is None:
        return None
    found_timestamp, delta = found
    return (header.max_timestamp if header.is_log_append_time else found_timestamp), header.base_offset + delta


def records_of(buffer: Buffer, position: int, header: BatchHeader) -> memoryview:
    """What follows the header of a batch."""
    return memoryview(buffer)[position + HEADER_SIZE : position + header.size]


def _walk_chunks(walker: RecordWalker, codec: int, block: memoryview, limit: int) -> int:
    """Walk a compressed block as it is decompressed; return how many bytes no record has claimed."""
    rest = bytearray()
    for chunk in decompress_chunks(codec, block):
        rest += chunk
        if len(rest) < walker.bytes_needed:
            continue
        del rest[: walker.feed(rest)]
        if walker.bytes_needed > limit:
            raise InvalidRecord(f"record {walker.walked} has {walker.bytes_needed} bytes, more than {limit}")
        if walker.error or (rest and walker.walked == walker.record_count):
            break  # whatever follows, the batch is refused
    return len(rest)


def _end_walk(walker: RecordWalker, left: int) -> None:
    """Raise InvalidRecord unless the walk met all records that the header claims, and nothing behind them."""
    if walker.error:
        raise InvalidRecord(f"record {walker.walked} is malformed: {REASONS[walker.error]}")
    if walker.walked < walker.record_count:
        raise InvalidRecord(f"the batch claims {walker.record_count} records and holds {walker.walked} whole ones")
    if left:
        raise InvalidRecord(f"{left} bytes follow the last record")
