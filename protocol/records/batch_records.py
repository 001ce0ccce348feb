"""The records of a batch: checking them, finding some, decoding them. `record` says what limits mean.

Checking and finding hold none of the decompressed bytes, whatever their size; `iter_records` holds a record until it is
complete; `decode_records` holds everything, so there the limit is the batch's. An uncompressed batch has no limit.

`old_formats.messages` reads messages of magic 0 and 1 under the same limits. It is imported when one is met: few
processes ever meet one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Protocol

from ..errors import InvalidRecord
from .batch import iter_batches, records_of
from .compression import Buffer, decompress_chunks
from .kernels.records import RecordReader, RecordWalker
from .layout import CODEC_MASK, MAGIC, REASONS, BatchHeader
from .record import BATCH_FACTOR, DEFAULT_LIMIT, Record, RecordFacts, SuspectRecord

_EARLIEST = -(1 << 63)
"""The smallest timestamp that 64 bits hold, in ms."""


class WalkedRecords(Protocol):
    """A walker that has walked over all records of a batch; see `RecordFacts`."""

    walked: int
    null_keys: int
    is_sequential: bool
    min_timestamp: int
    max_timestamp: int
    max_timestamp_delta: int

    def is_timely(self, now_ms: int, before_max_ms: int, after_max_ms: int) -> bool:
        """Whether each timestamp, where a record has one, is at most so long before `now_ms` or after it."""


def check_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DEFAULT_LIMIT) -> RecordFacts:
    """Walk the records of one batch; InvalidRecord if they are not what the header claims, saying which is at fault.

    CorruptMessage for what cannot be decompressed. The checksum is the caller's affair.
    """
    if header.magic < MAGIC:
        from .old_formats.messages import check_message

        return check_message(buffer, position, header, limit=limit)
    walker = walked_records(buffer, position, header, limit)
    return RecordFacts(
        walker.walked,
        walker.null_keys,
        walker.is_sequential,
        walker.min_timestamp,
        walker.max_timestamp,
        walker.max_timestamp_delta,
    )


def walked_records(buffer: Buffer, position: int, header: BatchHeader, limit: int = DEFAULT_LIMIT) -> WalkedRecords:
    """Check as `check_records` does, a batch of magic 2, and return the walker, which has the same findings."""
    walker, chunks = _walk(buffer, position, header, limit, limit * BATCH_FACTOR)
    for chunk in chunks:
        _feed(walker, chunk)
    _require_end(walker)
    return walker  # type: ignore[no-any-return]


def suspect_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    earliest: int,
    latest: int,
    null_keys: bool,
    limit: int = DEFAULT_LIMIT,
) -> Iterator[SuspectRecord]:
    """The records whose own timestamp is not within `earliest`..`latest`, or whose key is null if that is asked.

    Raises what `check_records` raises, for the records so far.
    """
    walker, chunks = _walk(buffer, position, header, limit, limit * BATCH_FACTOR)
    walker.stop_at(before=_in_64_bits(earliest), since=_in_64_bits(latest + 1), null_keys=null_keys)
    for _ in _stops(walker, chunks):
        if (walker.key_is_null and null_keys) or not earliest <= walker.timestamp <= latest:
            yield SuspectRecord(walker.walked - 1, walker.timestamp, walker.key_is_null)


def first_record_since(
    buffer: Buffer, position: int, header: BatchHeader, timestamp: int, offset: int, *, limit: int = DEFAULT_LIMIT
) -> tuple[int, int] | None:
    """Timestamp and offset of the batch's first record from `offset` on that is not older than `timestamp`, or None.

    Raises what `check_records` raises, for the records up to that one.
    """
    if header.magic < MAGIC:
        from .old_formats.messages import first_message_since

        return first_message_since(buffer, position, header, timestamp, offset, limit=limit)
    if header.is_log_append_time:
        if header.max_timestamp < timestamp:
            return None
        timestamp = _EARLIEST
    walker, chunks = _walk(buffer, position, header, limit, limit * BATCH_FACTOR)
    walker.stop_at(since=timestamp, from_delta=offset - header.base_offset)
    for _ in _stops(walker, chunks):
        found = header.max_timestamp if header.is_log_append_time else walker.timestamp
        return found, header.base_offset + walker.offset_delta
    return None


def iter_records(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    *,
    limit: int = DEFAULT_LIMIT,
    without_flagged_values: bool = False,
) -> Iterator[list[Record]]:
    """The records of one batch in order, some at a time: those that end in the same chunk of decompressed bytes.

    Raises what `check_records` raises, when it comes to it: what was given before is as it was. On request the value of
    an explicit tombstone (KIP-87) is null.
    """
    if header.magic < MAGIC:
        from .old_formats.messages import iter_messages

        return iter_messages(buffer, position, header, limit=limit)
    return _decoded(buffer, position, header, limit, limit * BATCH_FACTOR, without_flagged_values)


def decode_records(buffer: Buffer, position: int, header: BatchHeader, *, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """The records of one batch. Raises what `check_records` raises."""
    if header.magic < MAGIC:
        from .old_formats.messages import decode_message

        return decode_message(buffer, position, header, limit=limit)
    return list(chain.from_iterable(_decoded(buffer, position, header, limit, limit)))


def decode_all(buffer: Buffer, *, limit: int = DEFAULT_LIMIT) -> list[Record]:
    """The records of every whole batch in `buffer`, control records left out."""
    return [
        record
        for position, header in iter_batches(buffer)
        if not header.is_control
        for record in decode_records(buffer, position, header, limit=limit)
    ]


def _decoded(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    limit: int,
    batch_limit: int,
    without_flagged_values: bool = False,
) -> Iterator[list[Record]]:
    append_time = header.max_timestamp if header.is_log_append_time else None
    walker, chunks = _walk(buffer, position, header, limit, batch_limit)
    rest = bytearray()
    decoded = 0
    for chunk in chunks:
        _feed(walker, chunk)
        piece = chunk
        if rest:
            rest += chunk
            piece = rest
        whole = walker.walked - decoded
        if whole:
            reader = RecordReader(piece)
            records = reader.records(Record._make, whole, header.base_offset, header.base_timestamp, append_time)
            if without_flagged_values:
                from . import tombstones

                records = tombstones.without_flagged_values(records, tombstones.marks_of(piece)[1])
            yield records
            decoded += whole
            rest = bytearray(memoryview(piece)[reader.position :])
        elif not rest:
            rest = bytearray(chunk)
    _require_end(walker)


def _walk(
    buffer: Buffer, position: int, header: BatchHeader, limit: int, batch_limit: int
) -> tuple[Any, Iterable[Buffer]]:
    """A walker for the records of a batch, and the chunks to feed it."""
    block = records_of(buffer, position, header)
    if not header.attributes & CODEC_MASK:
        return RecordWalker(header.record_count, header.base_timestamp, len(block)), (block,)
    walker = RecordWalker(header.record_count, header.base_timestamp, limit)
    return walker, decompress_chunks(header.codec, block, batch_limit)


def _feed(walker: Any, chunk: Buffer) -> int:
    """Let the walker walk; return how many bytes it took: all, unless it has stopped. InvalidRecord at an error."""
    walked: int = walker.feed(chunk)
    if walker.error:
        raise InvalidRecord(f"record {walker.walked} is malformed: {REASONS[walker.error]}")
    if walked < len(chunk) and not walker.has_stopped:
        raise InvalidRecord(f"something follows the last of {walker.record_count} records")
    return walked


def _stops(walker: Any, chunks: Iterable[Buffer]) -> Iterator[None]:
    """Feed the walker all chunks; yield whenever it has stopped. Raises InvalidRecord."""
    for chunk in chunks:
        rest = memoryview(chunk)[_feed(walker, chunk) :]
        while walker.has_stopped:
            yield
            rest = rest[_feed(walker, rest) :]
    _require_end(walker)


def _require_end(walker: Any) -> None:
    """Raise InvalidRecord unless as many whole records were met as are claimed."""
    if walker.walked != walker.record_count:
        raise InvalidRecord(f"the batch claims {walker.record_count} records and holds {walker.walked} whole ones")


def _in_64_bits(timestamp: int) -> int:
    return min(max(timestamp, _EARLIEST), -1 - _EARLIEST)
