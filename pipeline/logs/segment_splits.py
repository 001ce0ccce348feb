"""Divide a segment at batches that its offset index names, so that several tasks read it.

An index has no checksum and may be older than its log, so an entry counts only if the batch at its position is whole
and ends at the entry's offset.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from typing import NamedTuple

from ...protocol.records.batch import MAGIC
from ...storage.filenames import LOG, OFFSET_INDEX
from ...storage.inspect.dump_log import look
from .log_dir import SegmentFile
from .segment_bytes import SegmentBytes

_CANDIDATES = 16
"""Entries that are tried for one place, at most: a damaged or old index costs a bounded time."""


class BatchStart(NamedTuple):
    """The place of a whole batch."""

    position: int
    base_offset: int

    def is_in(self, file: SegmentBytes) -> bool:
        """Whether the file has a whole batch with this offset at this position."""
        found = look(file, self.position, self.base_offset)
        return found.header is not None and not found.problem and found.header.base_offset == self.base_offset


def split_starts(segment: SegmentFile, max_bytes: int) -> list[BatchStart]:
    """Find the batches at which splits of about `max_bytes` begin, without the first one; empty if the segment is
    small or its index is missing, damaged or out of date.

    A segment with batches of magic 0 or 1 is not divided there: their headers have no base offset.
    """
    count = -(-segment.size_bytes // max_bytes)
    if count < 2:
        return []
    try:
        offsets, positions = _index_entries(segment.path.removesuffix(LOG) + OFFSET_INDEX)
        with SegmentBytes(segment.path) as file:
            starts = [BatchStart(0, segment.base_offset)]
            for number in range(1, count):
                entry = bisect_left(positions, segment.size_bytes * number // count)
                starts += _next_start(file, segment.base_offset, offsets[entry:], positions[entry:], starts[-1])
    except OSError:
        return []  # the task that reads the segment reports what is wrong with it
    return starts[1:]


def _next_start(
    file: SegmentBytes, base_offset: int, offsets: array[int], positions: array[int], last: BatchStart
) -> list[BatchStart]:
    """The first batch behind `last` that one of the next entries names; empty if there is none."""
    for offset, position in zip(offsets[:_CANDIDATES], positions[:_CANDIDATES], strict=False):
        start = _batch_of(file, position, base_offset + offset)
        if start is not None and start.position > last.position and start.base_offset > last.base_offset:
            return [start]
    return []


def _index_entries(path: str) -> tuple[array[int], array[int]]:
    """The relative offsets and the positions, without the zeros that Apache Kafka allocates for an active segment."""
    with open(path, "rb") as file:
        data = file.read()
    used = len(data.rstrip(b"\0"))
    words = array("i", data[: min(-(-used // 8) * 8, len(data) // 8 * 8)])
    if sys.byteorder == "little":
        words.byteswap()
    return words[0::2], words[1::2]


def _batch_of(file: SegmentBytes, position: int, last_offset: int) -> BatchStart | None:
    """The batch that an entry names, if it is whole and the entry or the next batch confirms its offset, which no
    checksum covers.

    An entry has the last offset of the batch, or of all batches that were appended with it.
    """
    if position <= 0:
        return None
    found = look(file, position)
    header = found.header
    if header is None or found.problem or header.magic != MAGIC or header.last_offset > last_offset:
        return None
    if header.last_offset < last_offset:
        following = look(file, position + found.size, verify=False).header
        if following is None or following.base_offset != header.next_offset:
            return None
    return BatchStart(position, header.base_offset)
