"""Record batches of magic 2: a header of 61 bytes, and a block of records that may be compressed.

| at | size | field                | |
|---:|-----:|----------------------|-|
|  0 |    8 | base offset          | of the first record; given by the leader |
|  8 |    4 | batch length         | of what follows |
| 12 |    4 | partition leader epoch | set by the leader |
| 16 |    1 | magic                | 2 |
| 17 |    4 | CRC-32C              | of everything from byte 21 on |
| 21 |    2 | attributes           | codec (3 bits), log append time, transactional, control, delete horizon |
| 23 |    4 | last offset delta    | |
| 27 |    8 | base timestamp       | of the first record; with a delete horizon: the horizon (KIP-534) |
| 35 |    8 | max timestamp        | |
| 43 |   14 | producer id, epoch, base sequence | 8 + 2 + 4 |
| 57 |    4 | record count         | |

Base offset and leader epoch are outside the checksum, so a leader writes them in place.

In old logs and from old clients there may be messages of magic 0 and 1 instead (see legacy.py). `iter_batches` makes
headers of them too, and `is_crc_valid` knows their checksum. Nothing else here is for them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from ..errors import CorruptMessage
from .compression import Buffer, Codec, compress
from .crc import crc32c
from .load_kernel import encode_records

if TYPE_CHECKING:
    from .record import Record

MAGIC = 2
HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""What the batch length does not count: itself and the base offset."""

SMALLEST_MESSAGE = 14
"""The least that any magic has behind the overhead."""

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

MAX_SEQUENCE = 2**31 - 1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
LENGTH_AT = 8
MAGIC_AT = 16
ATTRIBUTES_AT = 22
"""Of the byte of the attributes that is used."""
CRC_AT = 17
CHECKED_FROM = 21


class BatchHeader(NamedTuple):
    """The header of a batch, as it stands. Of bytes that may be wrong: nothing is checked by reading it."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """Of the first record, or the delete horizon: record timestamps are deltas from it either way."""
    max_timestamp: int
    """With log append time it is the timestamp of every record."""
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    """0 in a batch that compaction emptied and kept for its producer's sequence; -1 in a wrapper of old messages."""

    @property
    def size(self) -> int:
        """Of the whole batch, in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """A number of `Codec`, or one that means nothing."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


def batch_size(buffer: Buffer, position: int = 0) -> int:
    """The size, in bytes, that the batch at `position` claims; struct.error if the buffer ends before it says so."""
    return int(_LENGTH.unpack_from(buffer, position + LENGTH_AT)[0]) + LOG_OVERHEAD


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`; struct.error if the buffer ends within it."""
    return BatchHeader._make(_HEADER.unpack_from(buffer, position))


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a batch that is not all there is the end, and no error.

    Raises CorruptMessage for a size that no batch can have, and for an unknown magic.
    Messages of magic 0 and 1 are met as well: `legacy.read_message_header` says what their headers are.
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
    """The offset behind the last batch that begins in `buffer`, which holds at least the header of one of magic 2.

    The last one may be cut off. Looks at nothing but sizes, so that it costs little.
    """
    position, size = 0, len(buffer)
    last = position
    while size - position >= HEADER_SIZE:
        last = position
        position += batch_size(buffer, position)
    return read_header(buffer, last).next_offset


def _message_reader() -> Callable[[Buffer, int], BatchHeader]:
    """What reads the headers of messages. Old clients and logs are rare, so few processes need it."""
    from .legacy import read_message_header

    return read_message_header


def is_crc_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the checksum of the batch at `position` is that of its bytes, all of which must be there."""
    if header.magic < MAGIC:
        return crc32(memoryview(buffer)[position + MAGIC_AT : position + header.size]) == header.crc
    return crc32c(memoryview(buffer)[position + CHECKED_FROM : position + header.size]) == header.crc


def assign_offsets(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write what a leader decides into the batch at `position`."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + LOG_OVERHEAD, leader_epoch)


def rewrite_header(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> BatchHeader:
    """Replace the header at `position` by `header`; return it with the checksum that was made anew."""
    return header._replace(crc=_write_header(buffer, position, header))


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
    if any(record.offset for record in records):
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
        max_timestamp=max(r.timestamp for r in records) if log_append_time_ms is None else log_append_time_ms,
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


def increment_sequence(sequence: int, count: int) -> int:
    """Sequences go from 0 to 2^31 - 1 and then begin again."""
    if sequence <= MAX_SEQUENCE - count:
        return sequence + count
    return count - (MAX_SEQUENCE - sequence) - 1


def decrement_sequence(sequence: int, count: int) -> int:
    return sequence - count if sequence >= count else MAX_SEQUENCE - (count - sequence) + 1
