"""The last records of a topic, cut to what a page can show (`records` gives all of them whole), and its tombstones."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kmini.control.json_types import WrongValue
from kmini.protocol.records.batch import BatchHeader, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Buffer
from kmini.protocol.records.record import Header
from kmini.testkit.contents import PAGE_RECORDS, Isolation, Record, RecordState, shown

if TYPE_CHECKING:
    from kmini.storage.log import PartitionLog
    from kmini.testkit.operations import Operations

MOST_BYTES = 64 * 1024
"""Bytes of a key, of a value and of a header's value that are shown unless more are asked for."""
MOST_READ_BYTES = 8 * 1024 * 1024
"""Bytes of a log in which tombstones are looked for."""
READ_BYTES = 64 * 1024
"""Bytes read from a log between two turns of the loop."""
MOST_BATCHES = 400
"""Batches with tombstones that are told."""
MOST_SEARCHED = 100_000
"""Offsets of a log, the last ones, that are searched for a key or a text: what is not there costs no more."""
PAUSE_RECORDS = 500
"""Records after which others of the loop's tasks run."""


class ShownRecord(NamedTuple):
    """A record, its key and value perhaps cut."""

    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch; -1 without a timestamp."""
    key: bytes | None
    key_bytes: int
    """The size of the whole key; -1 for null."""
    value: bytes | None
    value_bytes: int
    """The size of the whole value; -1 for null."""
    headers: tuple[Header, ...]
    state: RecordState
    """As `Record.state`."""


class TombstoneBatch(NamedTuple):
    """A batch of a log that has tombstones, or a delete horizon."""

    base_offset: int
    last_offset: int
    tombstones: int
    """Records with a null value in it."""
    horizon_ms: int | None
    """The time from which on its tombstones, or its transaction marker, may be removed (KIP-534); None before a pass of
    the log cleaner has given it one."""


class Tombstones(NamedTuple):
    """Where tombstones are in the log of a partition."""

    from_offset: int
    """The part of the log from this offset to the high watermark was looked at."""
    tombstone_count: int
    """Tombstones in that part."""
    batches: tuple[TombstoneBatch, ...]
    """The last batches with tombstones or a horizon, by offset."""


class TopicView:
    """The records of a topic as a page shows them. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, topic: str) -> None:
        self._operations = operations
        self._topic = topic

    async def latest(
        self,
        partition: int | None = None,
        *,
        count: int = 50,
        before: int | None = None,
        key: bytes | None = None,
        containing: str | None = None,
        isolation: Isolation = "uncommitted",
        most_bytes: int = MOST_BYTES,
    ) -> list[ShownRecord]:
        """The last `count` records of a partition, or of all that have a leader by their timestamps, the newest first.

        With `before` they end before this offset, and `partition` must be given. With `key` only records of this key
        count, and with `containing` those that have the text in their key, their value or a header's value, its letters
        A to Z in any case; either is sought in the last 100,000 offsets of each partition. With `isolation` the records
        that it hides do not count. Keys and values are cut after `most_bytes`; 0 cuts nothing. Raises
        LeaderNotAvailable, and ValueError for `before` without a partition.
        """
        if before is not None and partition is None:
            raise ValueError(f"before={before}: say of which partition")
        if not 1 <= count <= PAGE_RECORDS:
            raise WrongValue(f"count={count}: must be 1 to {PAGE_RECORDS}; …/records has pages", "/count")
        if partition is None:
            self._operations.known_topic(self._topic)
            logs = self._operations.logs(self._topic)
        else:
            logs = [self._operations.leader_of(self._topic, partition)[1].log]
        logs.sort(key=_largest_timestamp, reverse=True)
        search = _Search(key, None if containing is None else containing.encode().lower())
        found: list[ShownRecord] = []
        for log in logs:
            if len(found) >= count and _largest_timestamp(log) < found[count - 1].timestamp:
                break
            end = log.high_watermark if before is None else min(before, log.high_watermark)
            found += await _last_of(log, end, count, search, isolation, most_bytes)
            found.sort(key=lambda one: (one.timestamp, one.partition, one.offset), reverse=True)
        if partition is not None:
            found.sort(key=lambda one: one.offset, reverse=True)
        return found[:count]

    async def tombstones(self, partition: int = 0) -> Tombstones:
        """The tombstones of a partition and their delete horizons, in the last `MOST_READ_BYTES` of its log. Raises
        LeaderNotAvailable."""
        log = self._operations.leader_of(self._topic, partition)[1].log
        start = offset = _last_part(log)
        end = log.high_watermark
        count, found = 0, deque[TombstoneBatch](maxlen=MOST_BATCHES)
        while offset < end and (piece := log.read(offset, READ_BYTES, limit_offset=end)):
            for position, header in iter_batches(piece):
                offset = header.next_offset
                nulls = 0 if header.is_control else _nulls(piece, position, header)
                count += nulls
                if nulls or header.has_delete_horizon:
                    horizon_ms = header.base_timestamp if header.has_delete_horizon else None
                    found.append(TombstoneBatch(header.base_offset, header.last_offset, nulls, horizon_ms))
            await asyncio.sleep(0)
        return Tombstones(start, count, tuple(found))


def _last_part(log: PartitionLog) -> int:
    """The offset at which the last segments begin that have `MOST_READ_BYTES` at most; the last one is always among
    them."""
    start, size = log.log_end_offset, 0
    for segment in reversed([*log.segments]):
        size += segment.size
        if size > MOST_READ_BYTES and segment is not log.segments.active:
            break
        start = segment.base_offset
    return max(start, log.log_start_offset)


def _nulls(piece: Buffer, position: int, header: BatchHeader) -> int:
    return sum(record.value is None for record in decode_records(piece, position, header))


class _Search(NamedTuple):
    """Which records are meant."""

    key: bytes | None
    text: bytes | None
    """In lower case."""

    @property
    def is_for_all(self) -> bool:
        return self.key is None and self.text is None

    def finds(self, record: Record) -> bool:
        if self.key is not None and record.key != self.key:
            return False
        parts = (record.key, record.value, *(value for _, value in record.headers))
        return self.text is None or any(part is not None and self.text in part.lower() for part in parts)


async def _last_of(
    log: PartitionLog, end: int, count: int, search: _Search, isolation: Isolation, most_bytes: int
) -> list[ShownRecord]:
    """The last records before `end`: of ever longer pieces of the log, until there are enough."""
    found: list[ShownRecord] = []
    length = count
    first = log.log_start_offset if search.is_for_all else max(log.log_start_offset, end - MOST_SEARCHED)
    while end > first and len(found) < count:
        start = max(end - length, first)
        piece = [*_shown(log, start, end, search, isolation, most_bytes)]
        found = piece[-(count - len(found)) :] + found
        end, length = start, min(length * 2, PAUSE_RECORDS)
        await asyncio.sleep(0)
    return found


def _shown(
    log: PartitionLog, start: int, end: int, search: _Search, isolation: Isolation, most_bytes: int
) -> Iterator[ShownRecord]:
    for record in shown(log, isolation, since=start):
        if record.offset >= end:
            return
        if search.finds(record):
            yield ShownRecord(
                log.topic_partition.partition,
                record.offset,
                record.timestamp,
                _cut(record.key, most_bytes),
                _size(record.key),
                _cut(record.value, most_bytes),
                _size(record.value),
                tuple((name, _cut(value, most_bytes)) for name, value in record.headers),
                record.state,
            )


def _cut(data: bytes | None, most: int) -> bytes | None:
    return data if data is None or most == 0 else data[:most]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _largest_timestamp(log: PartitionLog) -> int:
    return max((segment.largest_timestamp for segment in log.segments), default=-1)
