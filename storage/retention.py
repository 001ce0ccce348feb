"""Which segments have had their time: by log start offset, by size, by age (in this order).

Nothing here changes anything. A log asks how many of its oldest segments go, and removes them itself.

Rules that hold for all three: segments go from the oldest on, up to the first that must stay; a segment goes only when
everything in it is below the high watermark; the last one goes only if it holds something (the log then rolls first, so
that it always has a segment to append to). A log that is only compacted, or that has no policy at all, loses segments
by its start offset only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from .log_config import LogConfig

if TYPE_CHECKING:
    from .segment import Segment


def expired_segments(
    segments: Iterable[Segment], config: LogConfig, log_start_offset: int, high_watermark: int, now_ms: int
) -> int:
    """How many of the oldest segments retention removes now; all of them is a possible answer."""
    row = list(segments)
    count = below_start_offset(row, log_start_offset)
    if config.is_deletable:
        count += beyond_size(row[count:], config.retention_bytes, high_watermark)
        count += beyond_age(row[count:], config.retention_ms, high_watermark, now_ms)
    return count


def next_expiry_ms(
    segments: Iterable[Segment], config: LogConfig, log_start_offset: int, high_watermark: int
) -> int | None:
    """When there will be segments to remove if nothing changes but the time; 0 if there are; None if there will be
    none."""
    row = list(segments)
    if below_start_offset(row, log_start_offset):
        return 0
    if not config.is_deletable:
        return None
    if beyond_size(row, config.retention_bytes, high_watermark):
        return 0
    if config.retention_ms < 0 or not _oldest_while(lambda segment: segment is row[0], row, high_watermark):
        return None
    return row[0].largest_timestamp + config.retention_ms + 1


def below_start_offset(segments: Iterable[Segment], log_start_offset: int) -> int:
    """How many of the oldest segments no reader may see: those whose successor begins at or below the log start offset.

    The last one has no successor and stays. (All these are below the high watermark, as the log start offset is.)
    """
    return sum(1 for _ in takewhile(lambda segment: segment.base_offset <= log_start_offset, islice(segments, 1, None)))


def beyond_size(segments: Sequence[Segment], retention_bytes: int, high_watermark: int) -> int:
    """How many of the oldest segments the log can lose and keep at least `retention.bytes`; negative: no limit."""
    if retention_bytes < 0:
        return 0
    excess = sum(segment.size for segment in segments) - retention_bytes

    def is_excess(segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return _oldest_while(is_excess, segments, high_watermark)


def beyond_age(segments: Sequence[Segment], retention_ms: int, high_watermark: int, now_ms: int) -> int:
    """How many of the oldest segments have no timestamp within `retention.ms` of now; negative: no limit."""
    if retention_ms < 0:
        return 0
    return _oldest_while(lambda segment: now_ms - segment.largest_timestamp > retention_ms, segments, high_watermark)


def _oldest_while(expired: Callable[[Segment], bool], segments: Sequence[Segment], high_watermark: int) -> int:
    for number, segment in enumerate(segments):
        is_last = number + 1 == len(segments)
        upper_bound = segment.next_offset if is_last else segments[number + 1].base_offset
        if upper_bound > high_watermark or (is_last and not segment.size) or not expired(segment):
            return number
    return len(segments)
