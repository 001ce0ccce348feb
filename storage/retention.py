"""Retention: which of the oldest segments a log may lose, and taking them out.

Three rules in this order: log start offset, size (`retention.bytes`), age (`retention.ms`). For all of them: segments
go from the oldest on, up to the first that must stay; a segment goes only when everything in it is below the high
watermark; the last one goes only if it holds something (the log rolls first, so that it has a segment to append to). A
log whose `cleanup.policy` lacks delete loses segments by its log start offset only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from .deletion import delete_records_below, without_checkpoint
from .log import PartitionLog
from .segment import Segment


class Aged(Protocol):
    """What the rules ask of a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def next_offset(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def largest_timestamp(self) -> int: ...


S = TypeVar("S", bound=Aged)


def apply_retention(log: PartitionLog, now_ms: int) -> int:
    """Take the segments whose retention is over out of the log; return how many.

    Raises KafkaStorageError if the disk refuses to roll, or to say how old a file is.
    """
    with log.disk_errors():
        count = expired_segments(log, now_ms)
    if count == len(log.segments):
        log.roll(now_ms)
    if count:
        first_kept = [*log.segments][count]
        delete_records_below(log, first_kept.base_offset, without_checkpoint)
    return count


def expired_segments(log: PartitionLog, now_ms: int) -> int:
    """How many of the oldest segments retention removes now; all of them is a possible answer."""
    row, config = [*log.segments], log.config
    count = log.segments.count_below(log.log_start_offset)
    if config.is_deletable:
        count += beyond_size(row[count:], config.retention_bytes, log.high_watermark)
        count += beyond_age(row[count:], config.retention_ms, log.high_watermark, now_ms)
    return count


def next_retention_ms(log: PartitionLog) -> int | None:
    """When `apply_retention` will next have an effect if nothing changes but the time; 0 for now, None for never.

    Raises KafkaStorageError as `apply_retention` does.
    """
    row, config = [*log.segments], log.config
    if log.segments.count_below(log.log_start_offset):
        return 0
    if not config.is_deletable:
        return None
    if beyond_size(row, config.retention_bytes, log.high_watermark):
        return 0
    if config.retention_ms < 0 or not _oldest_while(lambda segment: segment is row[0], row, log.high_watermark):
        return None
    with log.disk_errors():
        expires_ms: int = row[0].largest_timestamp + config.retention_ms
    return expires_ms + 1


def beyond_size(segments: Sequence[Segment], retention_bytes: int, high_watermark: int) -> int:
    """How many of the oldest segments the log can lose and keep at least `retention.bytes`; a negative one sets no
    limit."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes

    def is_excess(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _oldest_while(is_excess, segments, high_watermark)


def beyond_age(segments: Sequence[Aged], retention_ms: int, high_watermark: int, now_ms: int) -> int:
    """How many of the oldest segments have no timestamp within `retention.ms` of now; a negative one sets no limit.

    A segment without timestamps is as old as its file.
    """
    if retention_ms < 0:
        return 0
    return _oldest_while(lambda segment: now_ms - segment.largest_timestamp > retention_ms, segments, high_watermark)


def _oldest_while(expired: Callable[[S], bool], segments: Sequence[S], high_watermark: int) -> int:
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        upper_bound = segment.next_offset if is_last else segments[number + 1].base_offset
        if upper_bound > high_watermark or (is_last and not segment.size) or not expired(segment):
            return number
    return len(segments)
