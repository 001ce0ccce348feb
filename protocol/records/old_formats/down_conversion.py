"""Batches made into messages of magic 0 or 1, for clients that read nothing newer.

What a format does not have is lost: headers in both, timestamps in magic 0. Offsets and codecs stay. Control batches
are left out: clients of that age do not know of transactions, and read aborted records as any others. They know
tombstones by their null values: on request explicit ones (KIP-87) get one here.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from ...errors import CorruptMessage, KafkaError, MessageTooLarge, UnsupportedCompressionType
from ..batch import HEADER_SIZE, BatchHeader, iter_batches
from ..batch_records import iter_records
from ..compression import Buffer, Codec
from .messages import build_messages, build_wrapper

MAX_RECORDS = 1 << 20
"""Records of one batch at most; so many take some seconds."""
_ENOUGH_RECORDS = 1 << 17
"""Records behind which no other batch is converted."""
_MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Bytes of a record of a compressed batch at most; the conversion holds several copies of it."""

_BEYOND_OFFSETS = 1 << 62
_CUT_OFF = b"\xff" * 8 + HEADER_SIZE.to_bytes(4, "big")
"""The start of a message; Apache Kafka fills answers with it that became shorter than their announced size."""


class Converted(NamedTuple):
    """Converted messages, and the offset behind them."""

    records: bytes
    next_offset: int
    """The offset behind the last batch that was converted whole, or has no records for this client."""


def down_convert(
    batches: Buffer, magic: int, offset: int, *, limit: int, without_flagged_values: bool = False
) -> Converted:
    """The whole batches in `batches`, from the one that holds `offset` on, as messages of `magic` or less.

    No more of them than fit into as many bytes as `batches` has, but one if there is one; the last message may be cut
    off. What is below `offset` is left out where nothing is compressed. Ends before a batch that cannot be converted,
    and raises if that is the first: UnsupportedCompressionType for zstd, MessageTooLarge for more than MAX_RECORDS, and
    what `iter_records` raises. `without_flagged_values`: for topics with the tombstone flag.
    """
    converted = bytearray()
    next_offset = offset
    records = 0
    for position, header in iter_batches(batches):
        if not header.is_control:
            if converted and records > _ENOUGH_RECORDS:
                break
            try:
                messages = _converted(batches, position, header, magic, offset, limit, without_flagged_values)
            except KafkaError:
                if converted:
                    break
                raise
            room = len(batches) - len(converted)
            if converted and len(messages) > room:
                converted += messages[: room if header.codec == Codec.NONE else 0]
                break
            converted += messages
            records += header.record_count
        next_offset = header.next_offset
    return Converted(bytes(converted), next_offset)


def sign_of_a_larger_batch(max_bytes: int) -> bytes:
    """The start of a batch, which tells a client that the next one has more than `max_bytes`. The client asks for more
    bytes, or gives up, and does not wait for ever. (From Fetch version 3 on the batch is sent whole.)"""
    return _CUT_OFF[:max_bytes] if max_bytes > 0 else b""


def _converted(
    batches: Buffer,
    position: int,
    header: BatchHeader,
    magic: int,
    offset: int,
    limit: int,
    without_flagged_values: bool,
) -> Buffer:
    if header.codec == Codec.ZSTD:
        raise UnsupportedCompressionType("messages are not compressed with zstd, as this batch is")
    if header.magic <= magic:
        return memoryview(batches)[position : position + header.size]
    if not 0 <= header.base_offset < _BEYOND_OFFSETS:
        raise CorruptMessage(f"no record has offset {header.base_offset}")
    if header.record_count > MAX_RECORDS:
        raise MessageTooLarge(f"{header.record_count} records in a batch are too many to convert")
    append_time = header.max_timestamp if header.is_log_append_time else None
    records = iter_records(
        batches,
        position,
        header,
        limit=min(limit, _MAX_RECORD_BYTES),
        without_flagged_values=without_flagged_values,
    )
    if header.codec != Codec.NONE:
        first = next((some for some in records if some), None)
        if first is None:
            return b""
        return build_wrapper(chain([first], records), magic, header.codec, log_append_time_ms=append_time)
    messages = bytearray()
    for some in records:
        wanted = [record for record in some if record.offset >= offset]
        messages += build_messages(wanted, magic, log_append_time_ms=append_time)
    return messages
