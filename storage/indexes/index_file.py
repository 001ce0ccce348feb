"""The base of the three indexes of a segment: entries in memory, an exact file, no checksum.

The log can always replace an index, so an index file has no checksum. `load` refuses a file that cannot be right;
recovery rebuilds it, and every index of a segment that may not have been flushed. Entries are appended in memory, and
`flush` updates the file when the segment is sealed, closed or flushed. The file of an active segment lags behind until
then, and is never longer than its entries (Apache Kafka preallocates; the files of a closed log are the same).
"""

from __future__ import annotations

import contextlib
import sys
from array import array
from collections.abc import Callable
from itertools import islice

from ..filenames import path_in
from ..filesystem import FileSystem

DEFAULT_MAX_BYTES = 10 * 1024 * 1024
_ORDER_SAMPLE = 16_384
"""Entries whose order is checked, at most: loading the index of a 1 GiB segment takes about a millisecond."""


class CorruptIndex(Exception):
    """The file cannot be an index of this segment. The caller rebuilds it from the log."""


class IndexFile:
    """Base of the indexes. The first use reads the file, and may raise CorruptIndex.

    One thread changes an index; other threads may look up entries once its segment is sealed.
    """

    __slots__ = ("_directory", "_filesystem", "_flushed", "_loaded", "_name", "_stale", "base_offset")

    entry_size: int

    def __init__(self, filesystem: FileSystem, name: str, base_offset: int, *, directory: str = "") -> None:
        """The file has this name in the directory, or this path. A segment has the directory already, and segments of
        other partitions the name: an index at rest keeps no string of its own."""
        self._filesystem = filesystem
        self._directory, self._name = directory, name
        self.base_offset = base_offset
        self._loaded = False
        self._flushed = 0
        """Entries, from the first, that the file has."""
        self._stale = False
        """Whether the file has more than the flushed entries, or is missing and must exist."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    @property
    def path(self) -> str:
        """The path of the file. The code that renames the file changes it."""
        return path_in(self._directory, self._name) if self._directory else self._name

    @path.setter
    def path(self, path: str) -> None:
        self._directory, self._name = "", path

    def __len__(self) -> int:
        """Number of entries."""
        self._ensure_loaded()
        return self._count()

    @property
    def size_bytes(self) -> int:
        return len(self) * self.entry_size

    def load(self) -> None:
        """Read the file now instead of at the first use. A missing file is an empty index. CorruptIndex if it is
        damaged."""
        try:
            data = self._filesystem.read(self.path)
        except FileNotFoundError:
            data = b""
            self._stale = self._file_is_needed()
        if len(data) % self.entry_size:
            raise CorruptIndex(f"{self.path}: {len(data)} bytes are no multiple of {self.entry_size}")
        self._decode(data)
        self._flushed = len(data) // self.entry_size
        self._loaded = True

    def reset(self) -> None:
        """Drop all entries, whatever the file has: for a new segment, and before a rebuild."""
        self._decode(b"")
        self._flushed = 0
        self._loaded = True
        self._stale = True

    def skip(self) -> None:
        """Begin without entries instead of reading the file, unless it was read before. Look-ups then lead to the start
        of the segment. The next flush that has an entry writes the file anew."""
        if not self._loaded:
            self._decode(b"")
            self._loaded = True

    def flush(self) -> None:
        """Make the file equal to the entries; cheap if nothing is new. Does not sync."""
        if not self._loaded or not (self._stale or self._flushed < self._count()):
            return
        if not self._count() and not self._file_is_needed() and not self._filesystem.exists(self.path):
            self._stale = False
            return
        with contextlib.closing(self._filesystem.open(self.path, create=True)) as file:
            kept = self._flushed * self.entry_size
            if file.size > kept:
                file.truncate(kept)
            elif file.size < kept:
                self._flushed = file.size // self.entry_size
                file.truncate(self._flushed * self.entry_size)
            data = self._encode(self._flushed)
            if data:
                file.append(data)
        self._flushed = self._count()
        self._stale = False

    def sync(self) -> None:
        """Return when the flushed bytes are on the disk, if there is a file. Blocks: call it off the loop."""
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self._filesystem.open(self.path)) as file:
            file.sync()

    def unload(self) -> None:
        """Flush, and release the memory (5 MiB for a segment of 1 GiB); the next use reads the file again.

        Only for an index that does not change any more. A look-up in another thread meanwhile finds its entry, or none;
        then it begins its scan at the start of the segment.
        """
        if self._loaded:
            self.flush()
            self._decode(b"")
            self._loaded = False

    def _ensure_loaded(self) -> None:
        if not self._loaded:
            self.load()

    def _forget_from(self, entry: int) -> None:
        """Note that the entries from this one on were dropped from memory: the file must follow."""
        if entry < self._flushed:
            self._flushed = entry
            self._stale = True

    def _file_is_needed(self) -> bool:
        """Whether the file must exist when there are no entries."""
        return True

    def _count(self) -> int:
        raise NotImplementedError

    def _encode(self, first: int) -> bytes:
        """Return the bytes of the entries from number `first` on."""
        raise NotImplementedError

    def _decode(self, data: bytes) -> None:
        """Replace the entries by these; CorruptIndex if they cannot be right."""
        raise NotImplementedError


def is_ordered(column: array[int], in_order: Callable[[int, int], bool]) -> bool:
    """Whether neighbours are in order: all of them in an ordinary index, a sample and the last two in a very large one.

    The last two are checked because an index that was preallocated and not trimmed ends in a million zeros.
    """
    if len(column) < 2:
        return True
    sample = column[:: len(column) // _ORDER_SAMPLE + 1]
    return all(map(in_order, column[-2:-1], column[-1:])) and all(map(in_order, sample, islice(sample, 1, None)))


def big_endian(words: array[int]) -> array[int]:
    """Convert between the machine's byte order and the file's. Changes its argument."""
    if sys.byteorder == "little":
        words.byteswap()
    return words
