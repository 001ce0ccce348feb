"""Convert flagged tombstones (KIP-87) to tombstones that Apache Kafka knows: the value becomes null, the headers stay.

To Kafka a flagged record with a value is an ordinary record. Its cleaner would keep the record, and clear the flag when
it rewrites the batch: the deletion would be undone. So the value is removed. Key, headers, offset and timestamp stay,
and so does the batch except for its size and checksum; its delete horizon stays too, so that Kafka continues the
retention.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.errors import CorruptMessage, InvalidRecord
from ..protocol.primitives import read_unsigned_varint, unsigned_varint
from ..protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, is_crc_valid, rewrite_header
from ..protocol.records.compression import Buffer, compress_chunks
from ..protocol.records.record import BATCH_FACTOR, DEFAULT_LIMIT
from ..protocol.records.tombstones import FLAG, NULL, marked_pieces
from ..storage.filesystem import File
from ..storage.log_file import read_batches

_LIMIT = DEFAULT_LIMIT * BATCH_FACTOR
_OTHERS = bytes(mark for mark in range(16) if not mark & FLAG or mark & NULL)
"""Marks of records that are not converted."""
_NULL = b"\x01"
"""The varint -1: the length of a null value."""


class Converted(NamedTuple):
    """A batch as Kafka gets it."""

    header: BatchHeader
    batch: Buffer
    values_dropped: int
    """Number of flagged records whose value was removed; 0: the batch is unchanged."""


def holds_flagged_values(log: File) -> bool:
    """Whether a segment holds records to convert. CorruptMessage, with file and position, for a damaged batch."""
    return any(_count(batch, header, f"{log.path} at position {at}") for at, header, batch in _whole_batches(log))


def converted(log: File) -> Iterator[Converted]:
    """Yield every batch of a segment, converted. Holds one batch and a decompressed piece of it. Raises
    CorruptMessage."""
    for position, header, batch in _whole_batches(log):
        place = f"{log.path} at position {position}"
        count = _count(batch, header, place)
        if not count:
            yield Converted(header, batch, 0)
            continue
        if not is_crc_valid(batch, 0, header):  # the new checksum must not hide damage
            raise CorruptMessage(f"{place}: the checksum of a batch is wrong")
        pieces = (without_values(piece, marks) for piece, marks in marked_pieces(batch, 0, header, _LIMIT))
        changed = bytearray(HEADER_SIZE)
        for piece in compress_chunks(header.codec, pieces):
            changed += piece
        header = rewrite_header(changed, 0, header._replace(batch_length=len(changed) - LOG_OVERHEAD))
        yield Converted(header, changed, count)


def without_values(piece: Buffer, marks: bytearray) -> bytes:
    """The records of a piece, whose marks are `marks`; flagged ones without value and attributes."""
    out = []
    run = at = 0
    for mark in marks:
        start = at
        length, body = _number(piece, at)
        at = body + length
        if mark & FLAG and not mark & NULL:
            out.append(piece[run:start])
            out.append(_tombstone(piece, body, at))
            run = at
    out.append(piece[run:at])
    return b"".join(out)


def _tombstone(piece: Buffer, body: int, end: int) -> bytes:
    """The record whose attributes are at `body`, with its length and a null value."""
    at = body + 1
    for _ in range(2):  # the deltas of timestamp, which may have 64 bits, and offset
        while piece[at] & 0x80:
            at += 1
        at += 1
    for _ in range(2):
        value_at = at
        length, at = _number(piece, at)  # of the key, then of the value
        at += max(length, 0)
    record = b"\0" + bytes(piece[body + 1 : value_at]) + _NULL + bytes(piece[at:end])
    return unsigned_varint(len(record) << 1) + record


def _number(piece: Buffer, at: int) -> tuple[int, int]:
    """The varint at `at`, and its end."""
    raw, at = read_unsigned_varint(piece, at)  # type: ignore[arg-type]
    return raw >> 1 ^ -(raw & 1), at


def _count(batch: Buffer, header: BatchHeader, place: str) -> int:
    """The number of flagged records with a value in a batch."""
    if header.magic < MAGIC or header.is_control or not header.record_count:
        return 0
    try:
        return sum(len(marks.translate(None, _OTHERS)) for _, marks in marked_pieces(batch, 0, header, _LIMIT))
    except (CorruptMessage, InvalidRecord) as error:
        raise CorruptMessage(f"{place}: {error}") from error


def _whole_batches(log: File) -> Iterator[tuple[int, BatchHeader, Buffer]]:
    """Yield position, header and bytes of every batch. CorruptMessage if the file does not end with a whole batch."""
    end = 0
    for position, header, batch in read_batches(log):
        end = position + header.size
        yield position, header, batch
    if end != log.size:
        raise CorruptMessage(f"{log.path} at position {end}: these bytes are no batch")
