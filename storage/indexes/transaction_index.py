"""The aborted transactions whose ABORT marker lies in the segment, in the order of the markers.

From it a fetch with isolation level read_committed gets the transactions that its consumer must skip. The file exists
only if it has an entry.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from ..filesystem import FileSystem
from .index_file import CorruptIndex, IndexFile

_VERSION = 0
_ENTRY = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    """The transaction's first offset in the partition; may lie in an earlier segment, or below the log start offset."""
    last_offset: int
    """The offset of the ABORT marker."""
    last_stable_offset: int
    """The last stable offset after the marker: every aborted transaction that begins below it ends at or before the
    marker."""


class TransactionIndex(IndexFile):
    """Entries in ascending `last_offset`; 34 bytes each in the file (FORMAT.md)."""

    __slots__ = ("_entries",)

    entry_size = _ENTRY.size

    def __init__(self, filesystem: FileSystem, name: str, base_offset: int, *, directory: str = "") -> None:
        super().__init__(filesystem, name, base_offset, directory=directory)
        self._entries: list[AbortedTransaction] = []

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no entry. Reads no file."""
        return self._loaded and not self._entries

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry. ValueError unless its marker is beyond the last entry's."""
        self._ensure_loaded()
        if self._entries and entry.last_offset <= self._entries[-1].last_offset:
            raise ValueError(f"{self.path}: marker {entry.last_offset} is not beyond {self._entries[-1].last_offset}")
        self._entries.append(entry)

    def entries(self) -> list[AbortedTransaction]:
        self._ensure_loaded()
        return list(self._entries)

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the entries with offsets from `fetch_offset` to below `upper_bound`, and whether these are all.

        If not, later segments may have further ones: aborted transactions that began below `upper_bound`.
        """
        self._ensure_loaded()
        found = []
        for entry in islice(self._entries, bisect_left(self._entries, fetch_offset, key=_last_offset), None):
            if entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop the entries from the first one whose marker is at or beyond `offset`."""
        self._ensure_loaded()
        count = 0
        while count < len(self._entries) and self._entries[count].last_offset < offset:
            count += 1
        del self._entries[count:]
        self._forget_from(count)

    def _file_is_needed(self) -> bool:
        return False

    def _count(self) -> int:
        return len(self._entries)

    def _encode(self, first: int) -> bytes:
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self._entries[first:])

    def _decode(self, data: bytes) -> None:
        entries: list[AbortedTransaction] = []
        previous = self.base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != _VERSION:
                raise CorruptIndex(f"{self.path}: entry {len(entries)} has version {version}")
            if entry.last_offset <= previous:
                raise CorruptIndex(f"{self.path}: marker {entry.last_offset} after {previous}")
            previous = entry.last_offset
            entries.append(entry)
        self._entries = entries
