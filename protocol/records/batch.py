"""Batches: their headers read, walked over and written in place, and batches built of records.

`layout` describes the header; this module reads and writes it. Two places beside this one do so, too, both in
`kernels/plain_batches.py`: `PlainBatches` reads the header of a batch that is stored as it was sent, and
`assign_offsets` writes what the leader assigns. `iter_batches` also makes headers of
messages of magic 0 and 1 (`old_formats.messages`), and `is_crc_valid` knows their checksum; nothing else here is for
them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING
from zlib import crc32

from ..errors import CorruptMessage
from .compression import Buffer, Codec, compress
from .crc import crc32c
from .kernels.records import assign_offsets, encode_records
from .layout import (
    ATTRIBUTES_AT,
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    CRC_AT,
    DELETE_HORIZON,
    HEADER_FORMAT,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_SEQUENCE,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SMALLEST_MESSAGE,
    TRANSACTIONAL,
    BatchHeader,
    decrement_sequence,
    increment_sequence,
)

if TYPE_CHECKING:
    from .record import Record

__all__ = [
    "ATTRIBUTES_AT",
    "CODEC_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LENGTH_AT",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "MAGIC",
    "MAGIC_AT",
    "MAX_SEQUENCE",
    "NO_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "SMALLEST_MESSAGE",
    "TRANSACTIONAL",
    "BatchHeader",
    "assign_offsets",
    "batch_of_block",
    "batch_size",
    "build_batch",
    "decrement_sequence",
    "end_offset_of",
    "increment_sequence",
    "is_crc_valid",
    "iter_batches",
    "read_header",
    "records_of",
    "rewrite_header",
]

_HEADER = struct.Struct(HEADER_FORMAT)
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")


def batch_size(buffer: Buffer, position: int = 0) -> int:
    """Bytes of the batch at `position`, as it claims; struct.error if the buffer ends before the length."""
    return int(_LENGTH.unpack_from(buffer, position + LENGTH_AT)[0]) + LOG_OVERHEAD


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; struct.error if the buffer ends within it."""
    return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))  # cheap (COSTS.md)


def records_of(buffer: Buffer, position: int, header: BatchHeader) -> memoryview:
    """The block of the batch at `position` as it is stored: a view of `buffer`."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return view[position + HEADER_SIZE : position + header.batch_length + LOG_OVERHEAD]


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; an incomplete batch is the end, and no error.

    Raises CorruptMessage for a size that no batch can have, and for an unknown magic.
    Messages of magic 0 and 1 are met as well: `old_formats.messages.read_message_header` says what their headers are.
    """
    read_message: Callable[[Buffer, int], BatchHeader] | None = None
    end = len(buffer)
    position = 0
    while end - position >= LOG_OVERHEAD:
        (length,) = _LENGTH.unpack_from(buffer, position + LENGTH_AT)
        if length < SMALLEST_MESSAGE:
            raise CorruptMessage(f"a batch cannot have a length of {length} bytes")
        size = length + LOG_OVERHEAD
        if end - position <= MAGIC_AT:
            return
        magic = buffer[position + MAGIC_AT]
        if magic > MAGIC:
            raise CorruptMessage(f"there is no magic {magic}")
        if size > end - position:
            return
        if magic < MAGIC:
            read_message = read_message or _message_reader()
            yield position, read_message(buffer, position)
        elif size < HEADER_SIZE:
            raise CorruptMessage(f"a batch of {size} bytes has no room for its header")
        else:
            yield position, read_header(buffer, position)
        position += size


def end_offset_of(buffer: Buffer) -> int:
    """The offset behind the last batch that begins in `buffer`, which holds at least one header of magic 2.

    The last batch may be cut off. Only sizes are read, so the call is cheap.
    """
    position, size = 0, len(buffer)
    last = position
    while size - position >= HEADER_SIZE:
        last = position
        position += batch_size(buffer, position)
    return read_header(buffer, last).next_offset


def _message_reader() -> Callable[[Buffer, int], BatchHeader]:
    """The function that reads headers of messages; imported late, because few processes meet old clients or logs."""
    from .old_formats.messages import read_message_header

    return read_message_header


def is_crc_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum of the batch at `position` is right. The batch must be whole."""
    if header.magic < MAGIC:
        return crc32(memoryview(buffer)[position + MAGIC_AT : position + header.size]) == header.crc
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return crc32c(view[position + CHECKED_FROM : position + header.batch_length + LOG_OVERHEAD]) == header.crc


def rewrite_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> BatchHeader:
    """Replace the header at `position` by `header` with a new checksum; return that header."""
    return header._replace(crc=_write_header(buffer, position, header))


_offset_of, _timestamp_of = attrgetter("offset"), attrgetter("timestamp")  # a quarter faster than a generator


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    codec: int = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """A batch of `records`, at least one.

    Where all their offsets are 0 they get consecutive ones from `base_offset` on. `last_offset` is for batches that
    lost their last records. With `delete_horizon_ms` that takes the place of the base timestamp (KIP-534), with
    `log_append_time_ms` that of every record's timestamp.
    """
    if not records:
        raise ValueError("a batch is built of at least one record")
    deltas: Sequence[int] = range(len(records))
    if any(map(_offset_of, records)):
        deltas = [record.offset - base_offset for record in records]
    base_timestamp = records[0].timestamp if delete_horizon_ms is None else delete_horizon_ms
    block: Buffer = encode_records(records, deltas, base_timestamp)
    if codec != Codec.NONE:
        block = compress(codec, block, level)
    attributes = int(codec)
    attributes |= LOG_APPEND_TIME if log_append_time_ms is not None else 0
    attributes |= TRANSACTIONAL if transactional else 0
    attributes |= CONTROL if control else 0
    attributes |= DELETE_HORIZON if delete_horizon_ms is not None else 0
    return _assembled(
        block,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        attributes=attributes,
        last_offset_delta=deltas[-1] if last_offset is None else last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(map(_timestamp_of, records)) if log_append_time_ms is None else log_append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )


def batch_of_block(
    block: Buffer, *, record_count: int, base_timestamp: int, max_timestamp: int, codec: int = Codec.NONE
) -> bytearray:
    """A batch of records that are encoded already, with the offset deltas 0, 1, 2, …; its base offset is 0."""
    if codec != Codec.NONE:
        block = compress(codec, block)
    return _assembled(
        block,
        base_offset=0,
        partition_leader_epoch=NO_LEADER_EPOCH,
        attributes=int(codec),
        last_offset_delta=record_count - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )


def _assembled(block: Buffer, **fields: int) -> bytearray:
    """Header and records of a batch; `fields` are those of the header that do not follow from the records' bytes."""
    batch = bytearray(HEADER_SIZE)
    batch += block
    header = BatchHeader(batch_length=len(batch) - LOG_OVERHEAD, magic=MAGIC, crc=0, **fields)
    _write_header(batch, 0, header)
    return batch


def _write_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> int:
    """Write `header` over the one at `position`, with the checksum that the batch then has; return that."""
    _HEADER.pack_into(buffer, position, *header)
    crc = crc32c(memoryview(buffer)[position + CHECKED_FROM : position + header.size])
    _CRC.pack_into(buffer, position + CRC_AT, crc)
    return crc
