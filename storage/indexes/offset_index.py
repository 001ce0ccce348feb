"""From an offset to a position in the segment's log file: one entry about every `index.interval.bytes`.

An entry has the LAST offset of a batch (or append) and the position where that batch STARTS. A scan for an offset
begins at the position of the greatest entry at or below it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import lt
from typing import NamedTuple

from ..filesystem import FileSystem
from .index_file import DEFAULT_MAX_BYTES, CorruptIndex, IndexFile, big_endian, is_ordered

MAX_RELATIVE_OFFSET = 2**31 - 1


def _no_entries() -> tuple[array[int], array[int]]:
    return array("i"), array("i")


_NO_ENTRIES = _no_entries()
"""The columns of every empty index, which never change: most indexes of a broker with thousands of partitions."""


class OffsetOverflow(Exception):
    """The offset is too far from the segment's base offset for an index entry: the segment must be rolled, or split."""


class OffsetPosition(NamedTuple):
    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Entries (offset, position), both strictly increasing; 8 bytes each in the file (FORMAT.md)."""

    __slots__ = ("_columns", "_max_entries")

    entry_size = 8

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
        """Offsets relative to the base offset, and positions: two columns of one length, replaced together."""

    @property
    def is_full(self) -> bool:
        """Whether `segment.index.bytes` has no room for another entry: the segment must be rolled."""
        if not self._loaded:
            self.load()
        return len(self._columns[0]) >= self._max_entries

    @property
    def last_offset(self) -> int:
        """Offset of the last entry; the base offset if there is none."""
        return self.base_offset + self._columns[0][-1] if len(self) else self.base_offset

    def append(self, offset: int, position: int) -> None:
        """Add an entry. ValueError unless the offset is beyond the last one's; OffsetOverflow if it is out of reach."""
        if not self._loaded:
            self.load()
        offsets, positions = self._columns
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise OffsetOverflow(f"{self.path}: offset {offset} is out of reach")
        if offsets and relative <= offsets[-1]:
            raise ValueError(f"{self.path}: offset {offset} is not beyond {self.last_offset}")
        if not offsets:
            self._columns = offsets, positions = _no_entries()
        positions.append(position)
        offsets.append(relative)

    def append_all(self, offsets: Sequence[int], positions: Sequence[int]) -> None:
        """Add many entries, as far as there is room for them. Raises as `append` does, then with some of them added."""
        self._ensure_loaded()
        room = self._max_entries - self._count()
        if room <= 0 or not offsets:
            return
        offsets, positions = offsets[:room], positions[:room]
        relatives = [offset - self.base_offset for offset in offsets]
        last = self._columns[0][-1] if self._count() else -1
        if last < relatives[0] and relatives[-1] <= MAX_RELATIVE_OFFSET and all(map(lt, relatives, relatives[1:])):
            if not self._count():
                self._columns = _no_entries()
            self._columns[1].extend(positions)
            self._columns[0].extend(relatives)
        else:
            for offset, position in zip(offsets, positions, strict=True):
                self.append(offset, position)  # says which one is wrong

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the greatest entry at or below `offset`; (base offset, 0) if there is none."""
        self._ensure_loaded()
        offsets, positions = self._columns
        entry = bisect_right(offsets, offset - self.base_offset) - 1
        if entry < 0:
            return OffsetPosition(self.base_offset, 0)
        return OffsetPosition(self.base_offset + offsets[entry], positions[entry])

    def entries(self) -> list[OffsetPosition]:
        self._ensure_loaded()
        base = self.base_offset
        return [OffsetPosition(base + offset, position) for offset, position in zip(*self._columns, strict=True)]

    def truncate_to(self, offset: int) -> None:
        """Drop the entries at or beyond `offset`."""
        self._ensure_loaded()
        offsets, positions = self._columns
        count = bisect_left(offsets, offset - self.base_offset)
        self._columns = offsets[:count], positions[:count]
        self._forget_from(count)

    def _count(self) -> int:
        return len(self._columns[0])

    def _encode(self, first: int) -> bytes:
        offsets, positions = self._columns
        words = array("i", bytes(self.entry_size * (len(offsets) - first)))
        words[0::2] = offsets[first:]
        words[1::2] = positions[first:]
        return big_endian(words).tobytes()

    def _decode(self, data: bytes) -> None:
        if not data:
            self._columns = _NO_ENTRIES
            return
        words = big_endian(array("i", data))
        columns = words[0::2], words[1::2]
        for column in columns:
            if (column and column[0] < 0) or not is_ordered(column, lt):
                raise CorruptIndex(f"{self.path}: entries do not increase")
        self._columns = columns
