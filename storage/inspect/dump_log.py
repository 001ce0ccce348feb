"""Dump `NN.log`: every batch, on request every record, and the damage in either.

Damage does not end the dump. If a batch's size does not lead to the next batch, the dump searches for the next place
with a plausible header and the right checksum. (The search does not find messages of magic 0 or 1.)
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, Protocol
from zlib import crc32

from ...protocol.errors import CorruptMessage, InvalidRecord
from ...protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    BatchHeader,
    read_header,
)
from ...protocol.records.batch_records import check_records, decode_records
from ...protocol.records.compression import Codec
from ...protocol.records.control import ControlType, control_type
from ...protocol.records.crc import crc32c
from ...protocol.records.old_formats.messages import SMALLEST, read_message_header
from ...protocol.records.tombstones import FLAG, marked_pieces
from .dump_report import Damage, Dump, File, Part, Source, Span, count, time_of

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""Bytes of a record that the dump decompresses, at most; it reports a larger one as damage."""

_ALL_ATTRIBUTES = 0x7F
_START = struct.Struct(">qi")
_COORDINATOR_EPOCH = struct.Struct(">hi")
_SEARCH_BYTES = 1 << 20


class Readable(Protocol):
    """A file to walk over, such as a `Source`."""

    @property
    def size(self) -> int: ...

    def read(self, position: int, length: int) -> bytes: ...


class Found(NamedTuple):
    """The part of a file at a position: a batch, or bytes that are none."""

    position: int
    size: int
    """Bytes up to the next part of the file."""
    header: BatchHeader | None
    """None for bytes from which the next batch cannot be told."""
    problem: str = ""
    """The damage; empty if there is none."""


def dump_log(source: Source, base_offset: int, *, records: bool = False) -> Dump:
    """Dump the segment's batches, each a line; with `records` their records too, each a line under its batch. Records
    with the tombstone flag (KIP-87) have the mark `tombstone`, whether or not their topic uses the flag."""
    yield File(source.path, f"segment from offset {base_offset}, {count(source.size, 'byte')}")
    for found in walk(source, base_offset):
        if found.header is not None:
            yield _batch(found.position, found.header)
            if not found.problem:
                yield from _dump_records(source, found.position, found.header, records)
        if found.problem:
            yield Damage(source.path, found.position, found.problem)


def walk(source: Readable, base_offset: int, *, position: int = 0, verify: bool = True) -> Iterator[Found]:
    """Yield every batch of a segment in order, and every range that is no batch, from `position` on. Without `verify`
    checksums are not checked."""
    next_offset = base_offset
    while position < source.size:
        found = look(source, position, next_offset, verify=verify)
        end = position + found.size
        if found.problem and (found.header is None or not _may_begin(source, end)):
            end = _find_batch(source, position + 1)
            where = "to the end of the file" if end == source.size else f"to the next batch, at {end}"
            problem = f"{found.problem}; skipped {count(end - position, 'byte')} {where}"
            found = found._replace(size=end - position, problem=problem)
        yield found
        if found.header is not None and not found.problem:
            next_offset = found.header.next_offset
        position = end


def next_offset_of(source: Source, base_offset: int) -> int:
    """Return the offset after the last whole batch."""
    next_offset = base_offset
    for found in walk(source, base_offset, verify=False):
        if found.header is not None and not found.problem:
            next_offset = found.header.next_offset
    return next_offset


def look(source: Readable, position: int, next_offset: int = 0, *, verify: bool = True) -> Found:
    """Return the part at a position. A batch there must not begin below `next_offset`."""
    left = source.size - position
    start = source.read(position, HEADER_SIZE)
    if left <= MAGIC_AT:
        return Found(position, left, None, f"a torn tail: {count(left, 'byte')} cannot hold a batch")
    offset, length = _START.unpack_from(start)
    size, magic = length + LOG_OVERHEAD, start[MAGIC_AT]
    if length < SMALLEST_MESSAGE:
        return Found(position, 0, None, f"a batch cannot have the length {length}")
    if magic > MAGIC:
        return Found(position, 0, None, f"there is no magic {magic}")
    if left >= size > MAX_RECORD_BYTES:
        return Found(position, 0, None, f"a batch of {size} bytes from offset {offset} is larger than any that is read")
    if size > left:
        return Found(position, 0, None, f"a batch of {size} bytes from offset {offset} is cut off after {left}")
    if size < (HEADER_SIZE if magic == MAGIC else LOG_OVERHEAD + SMALLEST[magic]):
        return Found(position, 0, None, f"a batch of {size} bytes has no room for its header")
    header = read_header(start) if magic == MAGIC else read_message_header(start)
    return Found(position, size, header, _what_is_wrong(source, position, header, next_offset, verify))


def _what_is_wrong(source: Readable, position: int, header: BatchHeader, next_offset: int, verify: bool) -> str:
    if verify:
        batch = memoryview(source.read(position, header.size))
        crc = crc32c(batch[21:]) if header.magic == MAGIC else crc32(batch[MAGIC_AT:])
        if crc != header.crc:
            return f"the CRC of the batch from offset {header.base_offset} is {crc:08x}, it says {header.crc:08x}"
    if header.base_offset < next_offset:
        return f"offset {header.base_offset} comes where {next_offset} or a later one must"
    if header.last_offset_delta < 0 or (header.record_count < 0 and header.magic == MAGIC):
        return f"a batch of {header.record_count} records cannot end {header.last_offset_delta} offsets after its first"
    return ""


def _may_begin(source: Readable, position: int) -> bool:
    """Whether a batch may begin here, by its header, or the file ends here."""
    return position == source.size or look(source, position, 0, verify=False).header is not None


def _find_batch(source: Readable, position: int) -> int:
    """Return where the next batch with a right checksum begins; the end of the file if there is none."""
    while position < source.size:
        block = source.read(position, _SEARCH_BYTES + HEADER_SIZE)
        at = block.find(MAGIC, MAGIC_AT)
        while MAGIC_AT <= at < _SEARCH_BYTES + MAGIC_AT:
            begin = at - MAGIC_AT
            if _is_plausible(block[begin : begin + HEADER_SIZE]) and not look(source, position + begin, 0).problem:
                return position + begin
            at = block.find(MAGIC, at + 1)
        position += _SEARCH_BYTES
    return source.size


def _is_plausible(start: bytes) -> bool:
    """Whether these may be the first bytes of a batch, before the dear question of its checksum."""
    if len(start) < HEADER_SIZE:
        return False
    header = read_header(start)
    return not header.attributes & ~_ALL_ATTRIBUTES and header.last_offset_delta >= 0 and header.record_count >= 0


# --- batches and records as parts


def _batch(position: int, header: BatchHeader) -> Part:
    if header.magic < MAGIC:
        return _message(position, header)
    fields: dict[str, object] = {
        "position": position,
        "offsets": Span(header.base_offset, header.last_offset),
        "records": header.record_count,
        "size": header.size,
        "codec": _codec_name(header.codec),
        _clock(header): time_of(header.max_timestamp),
        "leader_epoch": header.partition_leader_epoch,
    }
    if header.producer_id >= 0:
        fields |= {"producer": header.producer_id, "epoch": header.producer_epoch}
        if header.base_sequence >= 0:
            fields["sequence"] = Span(header.base_sequence, header.last_sequence)
    if header.has_delete_horizon:
        fields["delete_horizon"] = time_of(header.base_timestamp)
    if header.is_transactional:
        fields["transactional"] = True
    if header.is_control:
        fields["control"] = True
    return Part("batch", {**fields, "crc": f"{header.crc:08x}"})


def _message(position: int, header: BatchHeader) -> Part:
    """A message of magic 0 or 1; a wrapper has the offset of its last message."""
    fields: dict[str, object] = {
        "position": position,
        "offset": header.last_offset,
        "magic": header.magic,
        "size": header.size,
        "codec": _codec_name(header.codec),
    }
    if header.magic:
        fields[_clock(header)] = time_of(header.max_timestamp)
    return Part("message", {**fields, "crc": f"{header.crc:08x}"})


def _clock(header: BatchHeader) -> str:
    return "append_time" if header.is_log_append_time else "create_time"


def _codec_name(codec: int) -> str:
    return Codec(codec).name.lower() if codec in Codec.__members__.values() else f"unknown({codec})"


def _dump_records(source: Source, position: int, header: BatchHeader, wanted: bool) -> Dump:
    """The records of a batch if they are wanted, or if they are the broker's own; else only what is wrong with them."""
    batch = source.read(position, header.size)
    try:
        if not wanted and not header.is_control:
            check_records(batch, 0, header, limit=MAX_RECORD_BYTES)
            return
        flags = iter(_flags(batch, header))
        for record in decode_records(batch, 0, header, limit=MAX_RECORD_BYTES):
            is_flagged = next(flags, 0) & FLAG
            if header.is_control:
                yield Part("control", {"offset": record.offset, **_control(record.key, record.value)}, depth=2)
                continue
            fields: dict[str, object] = {"offset": record.offset, "time": time_of(record.timestamp)}
            fields |= {"key": record.key, "value": record.value}
            if is_flagged:
                fields["tombstone"] = True
            if record.headers:
                fields["headers"] = record.headers
            yield Part("record", fields, depth=2)
    except (InvalidRecord, CorruptMessage) as error:
        yield Damage(source.path, position, f"the batch from offset {header.base_offset}: {error.message}")


def _flags(batch: bytes, header: BatchHeader) -> Iterator[int]:
    """The mark of each record (tombstones.py), where the format has any."""
    if header.magic == MAGIC:
        for _, marks in marked_pieces(batch, 0, header, MAX_RECORD_BYTES):
            yield from marks


def _control(key: bytes | None, value: bytes | None) -> dict[str, object]:
    kind = control_type(key)
    name = ControlType(kind).name if kind in ControlType.__members__.values() else f"unknown({kind})"
    if kind in (ControlType.ABORT, ControlType.COMMIT) and value is not None and len(value) >= _COORDINATOR_EPOCH.size:
        return {"type": name, "coordinator_epoch": _COORDINATOR_EPOCH.unpack_from(value)[1]}
    return {"type": name}
