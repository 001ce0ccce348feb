"""The filters of a query that Spark 4.1 or later gives to a data source, and the parts of a log that cannot match them.

Spark applies every filter again to the rows, so a part counts as matching unless it surely does not.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from ...protocol.records.batch import NO_TIMESTAMP
from ...storage.filenames import LOG, OFFSET_INDEX, TIME_INDEX
from ...storage.filesystem import OsFileSystem
from ...storage.indexes.index_file import CorruptIndex
from ...storage.indexes.offset_index import OffsetIndex
from ...storage.indexes.time_index import TimeIndex
from ...storage.inspect.dump_log import walk
from .log_dir import SegmentFile
from .segment_bytes import SegmentBytes

TOPIC, PARTITION, OFFSET, TIMESTAMP = "topic", "partition", "offset", "timestamp"

_TYPES: dict[str, type] = {TOPIC: str, PARTITION: int, OFFSET: int, TIMESTAMP: datetime.datetime}
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)
_MILLISECOND = datetime.timedelta(milliseconds=1)
_MOST_BATCHES = 4096
"""Batches that are walked over from an entry of the offset index, at most."""

Interval = tuple[Any, Any]
"""The lowest and the highest value that match, both included; None where there is no bound. Timestamps are in ms."""


class PushedFilters:
    """Filters of `pyspark.sql.datasource`, all of which a row must pass."""

    def __init__(self, filters: Iterable[Any] = ()) -> None:
        self._filters = [found for found in map(_intervals, filters) if found is not None]

    def has(self, column: str) -> bool:
        """Whether a filter is known for this column."""
        return any(name == column for name, _ in self._filters)

    def may_match(self, column: str, lowest: Any, highest: Any) -> bool:
        """Whether a value from `lowest` to `highest` may pass; None is no bound."""
        return all(
            any(_meet(interval, (lowest, highest)) for interval in intervals)
            for name, intervals in self._filters
            if name == column
        )

    def bounds(self, column: str) -> Interval:
        """The lowest and the highest value that may pass; None where there is no bound."""
        found = [intervals for name, intervals in self._filters if name == column and intervals]
        lows = [min(low for low, _ in intervals) for intervals in found if intervals[0][0] is not None]
        highs = [max(high for _, high in intervals) for intervals in found if intervals[0][1] is not None]
        return max(lows, default=None), min(highs, default=None)


def _meet(one: Interval, other: Interval) -> bool:
    is_below = one[1] is not None and other[0] is not None and one[1] < other[0]
    is_above = one[0] is not None and other[1] is not None and one[0] > other[1]
    return not is_below and not is_above


def _intervals(pushed: Any) -> tuple[str, list[Interval]] | None:
    """The column of a filter and the intervals of its values; None for a filter of another kind.

    The filter's class is told by its name, because PySpark 4.0 has no such classes.
    """
    kind = type(pushed).__name__
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    if kind not in ("EqualTo", "EqualNullSafe", "In", *_LOWER, *_UPPER) or len(path) != 1 or path[0] not in _TYPES:
        return None
    (column,) = path
    values = list(pushed.value) if kind == "In" else [pushed.value]
    if not all(isinstance(value, _TYPES[column]) for value in values):
        return None
    intervals: list[Interval] = [(value, value) for value in values]
    if column == TIMESTAMP:
        if any(value.tzinfo is None for value in values):
            return None
        since = [value - _EPOCH for value in values]
        intervals = [(one // _MILLISECOND, -(-one // _MILLISECOND)) for one in since]
    if kind in _LOWER:
        return column, [(low, None) for low, _ in intervals]
    if kind in _UPPER:
        return column, [(None, high) for _, high in intervals]
    return column, intervals


_LOWER = ("GreaterThan", "GreaterThanOrEqual")
_UPPER = ("LessThan", "LessThanOrEqual")


def largest_timestamp(segment: SegmentFile, recovery_point: int) -> int | None:
    """The largest timestamp in a segment, in ms, by its time index; None if it is not certain.

    The last entry of a segment that was closed has it. It counts if it was flushed, below the recovery point, and a
    batch has this timestamp at its offset: an index has no checksum.
    """
    if segment.end_offset is None or segment.end_offset > recovery_point:
        return None
    filesystem, name = OsFileSystem(), segment.path.removesuffix(LOG)
    try:
        last = TimeIndex(filesystem, name + TIME_INDEX, segment.base_offset).last_entry
        start = OffsetIndex(filesystem, name + OFFSET_INDEX, segment.base_offset).lookup(last.offset)
        if last.timestamp == NO_TIMESTAMP:
            return None
        with SegmentBytes(segment.path) as file:
            batches = walk(file, segment.base_offset, position=start.position, verify=False)
            for found, _ in zip(batches, range(_MOST_BATCHES), strict=False):
                if found.header is None or found.problem or found.header.base_offset > last.offset:
                    return None
                if found.header.last_offset >= last.offset:
                    return last.timestamp if found.header.max_timestamp == last.timestamp else None
    except (CorruptIndex, OSError):
        return None
    return None
