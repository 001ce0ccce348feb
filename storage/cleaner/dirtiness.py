"""How dirty a log is: which bytes can be cleaned, which must be, and since when.

    log start          first dirty                  end           active segment
        |   clean bytes     |   cleanable bytes      |   too young, undecided    |
    ----+-------------------+------------------------+---------------------------+---->  offsets

Whole segments count. *Dirty ratio*: cleanable bytes by the sum of clean and cleanable bytes; other bytes do not count.
*Must-clean ratio* (KIP-354): the same with only those cleanable segments whose first record is older than
`max.compaction.lag.ms`.

Three kinds of segments are not cleanable: the active one; those that reach the last stable offset; and with
`min.compaction.lag.ms` the first dirty segment with a record younger than that, and all after it.

What is cleaned for it, and in which order: `schedule.py`.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.records.batch import HEADER_SIZE, MAGIC, NO_TIMESTAMP, BatchHeader
from ...protocol.records.batch_records import iter_records
from ...protocol.records.record import TOMBSTONE_BIT
from ..config_key import MAX_LONG
from ..log import PartitionLog
from ..segment import Segment
from .cleanable_log import CleanableLog, ProducerTail


class Postponed(NamedTuple):
    """The dirty segments of a log that are left alone for the time being."""

    since_ms: int
    """Those that were begun after this time."""
    until_ms: int

    def has(self, segment: Segment) -> bool:
        """Without asking the disk how old a segment is where nothing is postponed."""
        return self.since_ms < MAX_LONG and segment.created_ms > self.since_ms

    def due_ms(self, segment: Segment, time_ms: int) -> int:
        """When what falls due in a segment at this time is seen to."""
        return max(time_ms, self.until_ms) if self.has(segment) else time_ms


NOTHING_POSTPONED = Postponed(MAX_LONG, 0)


class Dirtiness(NamedTuple):
    """How dirty one log is at one time."""

    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that cannot be cleaned: a pass would end there."""
    clean_bytes: int
    cleanable_bytes: int
    must_clean_bytes: int
    delay_ms: int
    """Milliseconds by which the longest wait of a dirty record exceeds `max.compaction.lag.ms`; 0 if none does. Records
    in segments that cannot be cleaned count, so that the gauge shows what delays them."""

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
    """Return where the dirty part begins: the checkpointed offset, or the log start offset if that is missing or cannot
    be right."""
    if checkpoint is None or not log.log_start_offset <= checkpoint <= log.log_end_offset:
        return log.log_start_offset
    return checkpoint


def assess(
    log: PartitionLog, checkpoint: int | None, now_ms: int, postponed: Postponed = NOTHING_POSTPONED
) -> Dirtiness:
    """Measure a log; segments that are postponed cannot be cleaned. OSError if the disk refuses to say how old a file
    is, CorruptMessage if a segment does not begin with a batch."""
    first_dirty = first_dirty_offset(log, checkpoint)
    end_offset = _end_offset(log, first_dirty, now_ms, postponed)
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


def _end_offset(log: PartitionLog, first_dirty: int, now_ms: int, postponed: Postponed) -> int:
    stable = log.last_stable_offset
    min_lag_ms = log.config.min_compaction_lag_ms
    following = iter([*log.segments][1:])
    for segment in log.segments:
        upper_bound = next(following, None)
        if upper_bound is None or upper_bound.base_offset > stable:
            return segment.base_offset
        if segment.next_offset > first_dirty and (
            postponed.has(segment) or (min_lag_ms > 0 and segment.largest_timestamp > now_ms - min_lag_ms)
        ):
            return segment.base_offset
    raise AssertionError("a log has an active segment")


def capture(log: PartitionLog, dirtiness: Dirtiness) -> CleanableLog:
    """Return the input of a pass over the log as it is now; the pass may then run in another thread."""
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
    """Whether the active segment of this compacted log must be sealed for the sake of KIP-354, appends or not: its
    first record is older than `segment.ms` or `max.compaction.lag.ms`. Without a timestamp the age of the segment
    counts."""
    active = log.segments.active
    if not active.size:
        return False
    return now_ms - _begun_ms(active) > log.config.longest_active_ms


def next_roll_ms(log: PartitionLog) -> int | None:
    """Return when `must_roll` becomes true; None while the active segment is empty."""
    active = log.segments.active
    if not active.size:
        return None
    return _begun_ms(active) + log.config.longest_active_ms + 1


def _begun_ms(segment: Segment) -> int:
    first = first_timestamp(segment)
    return segment.created_ms if first == NO_TIMESTAMP else first


def first_timestamp(segment: Segment) -> int:
    """Return the timestamp of the segment's first record; -1 if it, or its batch, has none.

    Reads a few KiB; or the first batch, if a delete horizon has taken the place of its base timestamp.
    """
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
