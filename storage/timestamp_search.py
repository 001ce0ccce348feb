"""From a timestamp to the record a reader should begin with (ListOffsets).

Batches are found on the loop, by index and header; the record within a batch wherever decompressing may take its time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.records.batch import BatchHeader
from ..protocol.records.record import first_record_since
from .segments import Segments


class TimestampedOffset(NamedTuple):
    """A record, as ListOffsets names it."""

    timestamp: int
    offset: int
    leader_epoch: int
    """-1 if the batch has none."""


class StoredBatch(NamedTuple):
    """A batch as read from a log. Independent of the log from then on: use it in any thread."""

    header: BatchHeader
    data: bytes

    def first_since(self, timestamp: int, offset: int, max_decompressed_bytes: int) -> TimestampedOffset | None:
        """The first record at or beyond `offset` with a timestamp at or after `timestamp`; None if the batch has none.

        InvalidRecord or CorruptMessage if it cannot be decoded within the limit.
        """
        found = first_record_since(self.data, 0, self.header, timestamp, offset, limit=max_decompressed_bytes)
        return None if found is None else TimestampedOffset(*found, self.header.partition_leader_epoch)


def batches_since(segments: Segments, timestamp: int, log_start_offset: int) -> Iterator[StoredBatch]:
    """See PartitionLog.batches_since."""
    for segment in segments.since(log_start_offset):
        if segment.largest_timestamp < timestamp:
            continue
        for position, header in segment.headers_since(timestamp, log_start_offset):
            yield StoredBatch(header, segment.log.read_at(position, header.size))


def newest_batch(segments: Segments) -> StoredBatch | None:
    """See PartitionLog.newest_batch."""
    newest = max(segments, key=lambda segment: segment.max_timestamp)
    if newest.max_timestamp < 0:
        return None
    for position, header in newest.headers_since(newest.max_timestamp, newest.base_offset):
        return StoredBatch(header, newest.log.read_at(position, header.size))
    return None
