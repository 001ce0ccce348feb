"""From a timestamp to the first record a consumer should read (ListOffsets).

The index and the batch headers lead to a batch, on the loop; the record within it is found in any thread, because that
may mean to decompress.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.records.batch import BatchHeader
from ..protocol.records.batch_records import first_record_since
from .log import PartitionLog


class TimestampedOffset(NamedTuple):
    """A record, as ListOffsets names it."""

    timestamp: int
    offset: int
    leader_epoch: int
    """-1 if the batch has none."""


class StoredBatch(NamedTuple):
    """A batch as read from a log. Any thread may use it, whatever becomes of the log."""

    header: BatchHeader
    data: bytes

    def first_since(self, timestamp: int, offset: int, max_decompressed_bytes: int) -> TimestampedOffset | None:
        """Return the first record at or beyond `offset` with a timestamp at or after `timestamp`; None if there is
        none.

        Raises InvalidRecord or CorruptMessage if the batch cannot be decoded within the limit.
        """
        found = first_record_since(self.data, 0, self.header, timestamp, offset, limit=max_decompressed_bytes)
        return None if found is None else TimestampedOffset(*found, self.header.partition_leader_epoch)


def batches_since(log: PartitionLog, timestamp: int) -> Iterator[StoredBatch]:
    """Yield the batches that may hold the first record at or after `timestamp`, in order; reads each when asked for it.

    KafkaStorageError if the disk refuses.
    """
    with log.disk_errors():
        for segment in log.segments.since(log.log_start_offset):
            if segment.largest_timestamp < timestamp:
                continue
            for position, header in segment.headers_since(timestamp, log.log_start_offset):
                yield StoredBatch(header, segment.log.read_at(position, header.size))


def newest_batch(log: PartitionLog) -> StoredBatch | None:
    """Return the first batch with the largest timestamp; None if no batch has one. As in Kafka it may lie below the log
    start offset. KafkaStorageError if the disk refuses."""
    with log.disk_errors():
        newest = max(log.segments, key=lambda segment: segment.max_timestamp)
        if newest.max_timestamp < 0:
            return None
        for position, header in newest.headers_since(newest.max_timestamp, newest.base_offset):
            return StoredBatch(header, newest.log.read_at(position, header.size))
        return None


def segment_starts_before(log: PartitionLog, timestamp: int, now_ms: int) -> list[int]:
    """Return where segments begin that were last written to at or before `timestamp`, the newest first: the answer of
    the first version of ListOffsets, from before records had timestamps.

    The log end offset counts as a segment that is being written to now, unless the active segment is empty and so
    begins there. No offset is below the log start offset. KafkaStorageError if the disk refuses.
    """
    with log.disk_errors():
        starts = [(max(segment.base_offset, log.log_start_offset), segment.modified_ms) for segment in log.segments]
    if log.segments.active.size:
        starts.append((log.log_end_offset, now_ms))
    while starts and starts[-1][1] > timestamp:
        starts.pop()
    return sorted((offset for offset, _ in starts), reverse=True)
