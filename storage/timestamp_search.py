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


def segment_starts_before(
    segments: Segments, timestamp: int, log_start_offset: int, log_end_offset: int, now_ms: int
) -> list[int]:
    """Where the segments begin that were last written to at or before `timestamp`, and those before them; the newest
    first. The log end counts as a segment that is being written to now, unless the active one is empty and so begins
    there.

    That is what the first version of ListOffsets asks for, from before records had timestamps.
    """
    starts = [(max(segment.base_offset, log_start_offset), segment.modified_ms) for segment in segments]
    if segments.active.size:
        starts.append((log_end_offset, now_ms))
    while starts and starts[-1][1] > timestamp:
        starts.pop()
    return sorted((offset for offset, _ in starts), reverse=True)
