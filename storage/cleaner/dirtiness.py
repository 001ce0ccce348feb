"""How dirty a log is: what of it can be cleaned, what must be, and since when.

    log start          first dirty                  end           active segment
        |   clean bytes     |   cleanable bytes      |   too young, undecided    |
    ----+-------------------+------------------------+---------------------------+---->  offsets

Everything goes by whole segments. *Dirty ratio*: cleanable bytes by clean and cleanable bytes; what is not cleanable
yet does not count. *Must-clean ratio* (KIP-354): the same with only those cleanable segments whose first record is
older than `max.compaction.lag.ms`.

Never cleanable: the active segment; what is at or above the last stable offset; with `min.compaction.lag.ms`, what
comes after the first segment with a record younger than that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.records.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader
from ...protocol.records.batch_records import iter_records
from ...protocol.records.record import TOMBSTONE_BIT
from ..config_key import MAX_LONG
from ..log import PartitionLog
from ..segment import Segment
from .cleanable_log import CleanableLog, ProducerTail


class Dirtiness(NamedTuple):
    """Of one log at one time."""

    first_dirty_offset: int
    end_offset: int
    """Where cleaning would end: the base offset of the first segment that cannot be cleaned."""
    clean_bytes: int
    cleanable_bytes: int
    must_clean_bytes: int
    delay_ms: int
    """For how long a record has been waiting longer than `max.compaction.lag.ms` allows; 0 if none has. Also of
    segments that cannot be cleaned: what holds up the bound shows here."""

    @property
    def ratio(self) -> float:
        return self._share(self.cleanable_bytes)

    @property
    def must_clean_ratio(self) -> float:
        return self._share(self.must_clean_bytes)

    def _share(self, count: int) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return count / total if total else 0.0


def first_dirty_offset(log: PartitionLog, checkpoint: int | None) -> int:
    """Where the dirty part begins: at the checkpoint, or at the log start where there is none or it cannot be right."""
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def assess(log: PartitionLog, checkpoint: int | None, now_ms: int) -> Dirtiness:
    """OSError if the disk refuses to say how old a file is, CorruptMessage if a segment begins with no batch."""
    first_dirty = first_dirty_offset(log, checkpoint)
    end_offset = _end_offset(log, first_dirty, now_ms)
    clean = cleanable = must_clean = 0
    earliest = MAX_LONG
    max_lag_ms = log.config.max_compaction_lag_ms
    for segment in log.segments:
        is_dirty = segment.next_offset > first_dirty
        is_cleanable = segment.base_offset < end_offset
        is_late = False
        if is_dirty and max_lag_ms < MAX_LONG and segment.size:
            first = first_timestamp(segment)
            if first != NO_TIMESTAMP:
                earliest = min(earliest, first)
                is_late = now_ms - first > max_lag_ms
        if is_cleanable:
            clean += 0 if is_dirty else segment.size
            cleanable += segment.size if is_dirty else 0
            must_clean += segment.size if is_late else 0
    delay_ms = max(now_ms - earliest - max_lag_ms, 0) if earliest < MAX_LONG else 0
    return Dirtiness(first_dirty, end_offset, clean, cleanable, must_clean, delay_ms)


def _end_offset(log: PartitionLog, first_dirty: int, now_ms: int) -> int:
    stable = log.last_stable_offset
    min_lag_ms = log.config.min_compaction_lag_ms
    following = iter([*log.segments][1:])
    for segment in log.segments:
        upper_bound = next(following, None)
        if (
            upper_bound is None
            or upper_bound.base_offset > stable
            or (
                min_lag_ms > 0 and segment.next_offset > first_dirty and segment.largest_timestamp > now_ms - min_lag_ms
            )
        ):
            return segment.base_offset
    raise AssertionError("a log has an active segment")


def capture(log: PartitionLog, dirtiness: Dirtiness) -> CleanableLog:
    """What a pass must know of the log, as it is now; the pass may then run in another thread."""
    segments = [segment for segment in log.segments if segment.base_offset < dirtiness.end_offset]
    return CleanableLog(
        filesystem=log.environment.filesystem,
        directory=log.directory,
        config=log.config,
        segments=segments,
        later_segments=[*log.segments][len(segments) :],
        first_dirty_offset=dirtiness.first_dirty_offset,
        end_offset=max(dirtiness.end_offset, dirtiness.first_dirty_offset),
        producers={
            entry.producer_id: ProducerTail(entry.batches[-1].last_offset if entry.batches else None, entry.epoch)
            for entry in log.producers.entries()
        },
        tombstone_bit=TOMBSTONE_BIT if log.config.kmini_tombstone_flag_enable else 0,
    )


def must_roll(log: PartitionLog, now_ms: int) -> bool:
    """Whether the active segment of this compacted log has been open longer than KIP-354 allows, appends or not: its
    first record is older than `segment.ms` or `max.compaction.lag.ms`. Without a timestamp the age of the segment
    counts."""
    active = log.segments.active
    if not active.size:
        return False
    limit_ms = min(log.config.segment_ms, log.config.max_compaction_lag_ms)
    return now_ms - _begun_ms(active) > limit_ms


def next_roll_ms(log: PartitionLog) -> int | None:
    """When `must_roll` will say so, unless it does now; None while the active segment is empty."""
    active = log.segments.active
    if not active.size:
        return None
    return _begun_ms(active) + min(log.config.segment_ms, log.config.max_compaction_lag_ms) + 1


def _begun_ms(segment: Segment) -> int:
    first = first_timestamp(segment)
    return segment.created_ms if first == NO_TIMESTAMP else first


def first_timestamp(segment: Segment) -> int:
    """Of the segment's first record; -1 if it, or the batch it is in, has none. Costs one read of a few KiB, or, after
    a delete horizon has taken the place of the base timestamp, of the first batch."""
    for _, header in segment.headers(0):
        if header.is_log_append_time or header.magic < MAGIC or header.record_count == 0:
            return header.max_timestamp
        if not header.has_delete_horizon:
            return header.base_timestamp
        return _first_record_timestamp(segment, header)
    return NO_TIMESTAMP


def _first_record_timestamp(segment: Segment, header: BatchHeader) -> int:
    batch = segment.log.read_at(0, header.size)
    assert header.size > HEADER_SIZE
    for records in iter_records(batch, 0, header):
        return records[0].timestamp
    return header.max_timestamp


def delete_horizons(segments: Iterable[Segment]) -> list[int]:
    """The delete horizons in these sealed segments, by their headers; each once, in order. Blocks.

    CorruptMessage if one of them is damaged.
    """
    headers = (header for segment in segments for _, header in segment.headers(0))
    return sorted({header.base_timestamp for header in headers if header.has_delete_horizon})
