"""Replay of a partition of an internal topic: every record in the order of the log, in short steps.

A step holds the loop for a fraction of a millisecond, unless one batch holds tens of thousands of records. Between
steps the log may be compacted, so each chunk is looked up by the offset at which the previous one ended.

The coordinators know the meaning of keys and values: `groups/group_loader.py`, `transactions/transaction_store.py`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from ...protocol.errors import KafkaError
from ...protocol.records.batch import HEADER_SIZE, MAGIC, BatchHeader
from ...protocol.records.batch_records import decode_records
from ...protocol.records.compression import Codec
from ...protocol.records.kernels.records import RecordReader
from ...protocol.records.record import Record
from ...storage.log import PartitionLog
from ...storage.log_file import Snapshot, read_batches
from ...storage.segment import Segment

log = logging.getLogger("kmini.internal_topics")

RECORDS_A_STEP = 256
"""Records of one step, after which other work may have the loop."""

_CHUNK_BYTES = 1 << 18
"""Bytes of a segment that are read at a time."""


class CorruptRecord(ValueError):
    """A record that does not match its key type or its version."""


class Replay(Protocol):
    """Receives the records of a partition, in the order of the log."""

    def add(self, key: bytes, record: Record) -> None:
        """Take a committed record; a tombstone has no value. Raises CorruptRecord."""

    def add_pending(self, producer_id: int, key: bytes, record: Record) -> None:
        """Take a record of an open transaction, which counts once `decide` commits it. Raises CorruptRecord."""

    def decide(self, producer_id: int, *, is_commit: bool) -> None:
        """Take the marker that ends the transaction of a producer."""


class LastValues:
    """A `Replay` that keeps the last value of every key, for a topic without transactions."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def add(self, key: bytes, record: Record) -> None:
        if record.value is None:
            self.values.pop(key, None)
        else:
            self.values[key] = record.value

    def add_pending(self, producer_id: int, key: bytes, record: Record) -> None:
        raise CorruptRecord("no transaction writes to this topic")

    def decide(self, producer_id: int, *, is_commit: bool) -> None:
        """Ignore the marker: no record is pending."""


def last_values(partition_log: PartitionLog) -> dict[bytes, bytes]:
    """Read the last value of every key of a partition that no transaction writes to. Blocks; unreadable records are
    logged and skipped."""
    latest = LastValues()
    deque(replayed(partition_log, latest), maxlen=0)
    return latest.values


def replayed(partition_log: PartitionLog, replay: Replay) -> Iterator[None]:
    """Give `replay` the records of the partition, in steps. Unreadable ones are logged and left out."""
    start = partition_log.log_start_offset
    for header, batch in stored_batches(partition_log):
        try:
            if header.is_control:
                _decide(replay, header, batch)
                continue
            records = stored_records(header, batch)
        except (KafkaError, ValueError) as error:
            log.error("%s: the batch at %d is left out: %s", partition_log.topic_partition, header.base_offset, error)
            continue
        for count, record in enumerate(records, 1):
            if record.key is None or record.offset < start:
                continue
            try:
                if header.is_transactional:
                    replay.add_pending(header.producer_id, record.key, record)
                else:
                    replay.add(record.key, record)
            except CorruptRecord as error:
                log.error("%s: the record at %d is left out: %s", partition_log.topic_partition, record.offset, error)
            if count % RECORDS_A_STEP == 0:
                yield
        yield


def _decide(replay: Replay, header: BatchHeader, batch: memoryview) -> None:
    from ...protocol.records.control import parse_end_transaction_marker  # transactions are rare

    marker = parse_end_transaction_marker(batch)
    if marker is not None:
        replay.decide(header.producer_id, is_commit=not marker.is_abort)


def stored_batches(partition_log: PartitionLog) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of a partition, from its start. Segments may be replaced meanwhile. Blocks while it reads a chunk. An
    unreadable rest of a segment is logged, and the next segment follows."""
    offset, segments = partition_log.log_start_offset, partition_log.segments
    while True:
        segment = next(segments.since(offset))
        is_at_end = True
        try:
            for header, batch in _chunk(segment, segment.position_of(offset)):
                offset, is_at_end = header.next_offset, False
                yield header, batch
        except (KafkaError, OSError) as error:
            log.error("%s cannot be read to its end: %s", partition_log.topic_partition, error)
            is_at_end = True
        if is_at_end:
            following = next((one for one in segments if one.base_offset > segment.base_offset), None)
            if following is None:
                return
            offset = max(offset, following.base_offset)


def _chunk(segment: Segment, position: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of the next bytes of a segment: at least one, unless the segment ends."""
    length = _CHUNK_BYTES
    while position < segment.size:
        found = False
        for _, header, batch in read_batches(Snapshot(segment.log.path, segment.log.read_at(position, length))):
            found = True
            yield header, batch
        if found or position + length >= segment.size:
            return
        length *= 4  # the first batch is larger


def stored_records(header: BatchHeader, batch: memoryview) -> list[Record]:
    """The records of a batch. Raises ValueError or KafkaError.

    Most batches are the coordinator's own, uncompressed and with one record: the fast path.
    """
    if header.magic == MAGIC and header.codec == Codec.NONE and not header.is_log_append_time:
        reader = RecordReader(batch[HEADER_SIZE:])
        records: list[Record] = reader.records(
            Record._make, header.record_count, header.base_offset, header.base_timestamp, None
        )
        return records
    return decode_records(batch, 0, header)
