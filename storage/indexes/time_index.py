"""From a timestamp to an offset of the segment.

An entry (T, o) says that no batch up to and including offset o has a timestamp above T. A search for a timestamp begins
after the offset of the greatest entry below it.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import le, lt
from typing import NamedTuple

from ...protocol.records.batch import NO_TIMESTAMP
from ..filesystem import FileSystem
from .index_file import DEFAULT_MAX_BYTES, CorruptIndex, IndexFile, big_endian, is_ordered
from .offset_index import MAX_RELATIVE_OFFSET, OffsetOverflow

_HIGH = 1 if sys.byteorder == "little" else 0
"""Index of the high half of a 64-bit number among its two 32-bit words, on this machine."""


def _no_entries() -> tuple[array[int], array[int]]:
    return array("q"), array("i")


_NO_ENTRIES = _no_entries()
"""The columns of every empty index, which never change."""


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """Entries (timestamp, offset): timestamps strictly increase, offsets never decrease; 12 bytes each (FORMAT.md).

    The last place is for the closing entry, with which a sealed or closed segment records its largest timestamp. So
    `is_full` is true one entry early, and `maybe_append` has `closing`.
    """

    __slots__ = ("_columns", "_max_entries")

    entry_size = 12

    def __init__(
        self,
        filesystem: FileSystem,
        name: str,
        base_offset: int,
        max_bytes: int = DEFAULT_MAX_BYTES,
        *,
        directory: str = "",
    ) -> None:
        super().__init__(filesystem, name, base_offset, directory=directory)
        self._max_entries = max_bytes // self.entry_size
        self._columns = _NO_ENTRIES
        """Timestamps, and offsets relative to the base offset: two columns of one length, replaced together."""

    @property
    def is_full(self) -> bool:
        """Whether `segment.index.bytes` has only the place of the closing entry left: the segment must be rolled."""
        if not self._loaded:
            self.load()
        return len(self._columns[0]) >= self._max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry; (-1, base offset) if there is none."""
        if not len(self):
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamps, offsets = self._columns
        return TimestampOffset(timestamps[-1], self.base_offset + offsets[-1])

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> bool:
        """Add an entry if its timestamp is beyond the last one's; return whether it did.

        ValueError if timestamp or offset lie before the last entry's, or if the index is full and this is not the
        closing entry; OffsetOverflow if the offset is out of reach.
        """
        if not self._loaded:
            self.load()
        timestamps, offsets = self._columns
        relative = offset - self.base_offset
        if timestamps and (relative < offsets[-1] or timestamp < timestamps[-1]):
            raise ValueError(f"{self.path}: ({timestamp}, {offset}) lies before {self.last_entry}")
        if timestamp <= (timestamps[-1] if timestamps else NO_TIMESTAMP):
            return False
        if not closing and len(timestamps) >= self._max_entries - 1:
            raise ValueError(f"{self.path}: full")
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise OffsetOverflow(f"{self.path}: offset {offset} is out of reach")
        if not timestamps:
            self._columns = timestamps, offsets = _no_entries()
        offsets.append(relative)
        timestamps.append(timestamp)
        return True

    def append_all(self, timestamps: Iterable[int], offsets: Iterable[int]) -> None:
        """Add those of many entries whose timestamps are beyond the last one's, as far as there is room for them.
        Raises as `maybe_append` does, then with some of them added."""
        last, last_offset = self.last_entry
        if not self._count():
            self._columns = _no_entries()
        all_timestamps, all_offsets = self._columns
        for timestamp, offset in zip(timestamps, offsets, strict=True):
            if timestamp > last and len(all_timestamps) < self._max_entries - 1:
                relative = offset - self.base_offset
                if offset < last_offset or not 0 <= relative <= MAX_RELATIVE_OFFSET:
                    self.maybe_append(timestamp, offset)  # which says what is wrong
                all_offsets.append(relative)
                all_timestamps.append(timestamp)
                last, last_offset = timestamp, offset

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the greatest entry at or below `timestamp`; (-1, base offset) if there is none."""
        self._ensure_loaded()
        timestamps, offsets = self._columns
        entry = bisect_right(timestamps, timestamp) - 1
        if entry < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return TimestampOffset(timestamps[entry], self.base_offset + offsets[entry])

    def entries(self) -> list[TimestampOffset]:
        self._ensure_loaded()
        base = self.base_offset
        return [TimestampOffset(timestamp, base + offset) for timestamp, offset in zip(*self._columns, strict=True)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries whose offset is at or beyond `offset`."""
        self._ensure_loaded()
        timestamps, offsets = self._columns
        count = bisect_left(offsets, offset - self.base_offset)
        self._columns = timestamps[:count], offsets[:count]
        self._forget_from(count)

    def _count(self) -> int:
        return len(self._columns[0])

    def _encode(self, first: int) -> bytes:
        timestamps, offsets = self._columns
        halves = array("i", timestamps[first:].tobytes())
        words = array("i", bytes(self.entry_size * (len(timestamps) - first)))
        words[0::3] = halves[_HIGH::2]
        words[1::3] = halves[1 - _HIGH :: 2]
        words[2::3] = offsets[first:]
        return big_endian(words).tobytes()

    def _decode(self, data: bytes) -> None:
        if not data:
            self._columns = _NO_ENTRIES
            return
        words = big_endian(array("i", data))
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[_HIGH::2] = words[0::3]
        halves[1 - _HIGH :: 2] = words[1::3]
        timestamps, offsets = array("q", halves.tobytes()), words[2::3]
        if not is_ordered(timestamps, lt):
            raise CorruptIndex(f"{self.path}: timestamps do not increase")
        if (offsets and offsets[0] < 0) or not is_ordered(offsets, le):
            raise CorruptIndex(f"{self.path}: offsets decrease")
        self._columns = timestamps, offsets
