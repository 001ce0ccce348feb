"""Entries in one file: a snapshot, and the changes since. A change is on the disk as a whole or not at all.

    kmini.db 3                          the first line: the name and the format
    d1be23e8 [[["topic","AA…"],"a"],…   the snapshot: a change from no entries to all entries
    0c7a1b02 [[["topic","AA…"],null]]   a change: the entries that it sets; null removes one

Each line but the first is a CRC-32 in 8 hexadecimal digits, a space, and JSON. A key is a list of texts and numbers.
A snapshot replaces the file atomically, so its line is always whole. A change is appended and synced, so only the last
line may be incomplete after a crash: its change was never answered, and the next start drops it. Any other deviation is
damage.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from .filesystem import File, FileSystem, put_in_place, write_aside

logger = logging.getLogger("kmini.storage")

FORMAT = 3
"""Formats 1 and 2 of `kmini.db` were databases of SQLite (`broker/controller/old_sqlite_database.py`)."""

_HEADER = b"kmini.db "
_HEADER_LINE = rb"kmini\.db (\d{1,9})\n"
_CRC_DIGITS = 8

_MIN_BYTES_BEFORE_SNAPSHOT = 256 << 10
"""Bytes of a file below which no snapshot is due. Above it one is due when the file is twice its snapshot's size."""

Key: TypeAlias = tuple[Any, ...]
"""Texts and numbers."""
Entries: TypeAlias = dict[Key, Any]
"""Values are those of JSON, except null."""


class CorruptJournal(Exception):
    """The file is not a journal, or damaged. The message says where and how, without the path."""


class LaterFormat(Exception):
    """The file was written by a later kmini. The message says which format it has."""


class Contents(NamedTuple):
    """The content of a file."""

    entries: Entries
    whole_bytes: int
    """Bytes up to the end of the last whole line. A crash may have left a part of a change after it."""
    changes: int
    """Lines after the snapshot."""
    snapshot_bytes: int
    """Bytes up to the end of the snapshot."""


class Journal:
    """An open file. Belongs to one thread."""

    def __init__(self, filesystem: FileSystem, path: str, entries: Entries) -> None:
        """Use `open` or `create`."""
        self._entries = entries
        self._filesystem = filesystem
        self._path = path
        self._file: File | None = None
        """None after a failed sync: the content of the file is unknown, and the next change writes a snapshot."""
        self._is_closed = False
        self._changes = 0
        """Lines after the snapshot."""
        self._snapshot_due_bytes = 0
        """Bytes of the file from which on a change is followed by a snapshot."""

    @classmethod
    def create(cls, filesystem: FileSystem, path: str, entries: Entries) -> Journal:
        """Write a file with these entries to `path`, in the place of any other. OSError if the disk refuses."""
        journal = cls(filesystem, path, entries)
        journal._write_snapshot(entries)
        return journal

    @classmethod
    def open(cls, filesystem: FileSystem, path: str) -> Journal:
        """Open the file at `path`. Raises CorruptJournal, LaterFormat, OSError if the disk refuses."""
        data = filesystem.read(path)
        contents = read_journal(data)
        journal = cls(filesystem, path, contents.entries)
        if contents.whole_bytes < len(data):
            rest = len(data) - contents.whole_bytes
            logger.warning("%s: dropped %d bytes of a change that a crash interrupted before its answer", path, rest)
            journal._write_snapshot(contents.entries)
        else:
            journal._continue(contents.changes, contents.snapshot_bytes)
            journal._sync_all()
        return journal

    @property
    def entries(self) -> Mapping[Key, Any]:
        """All entries, in the order in which they were first set."""
        return self._entries

    def change(self, changes: Mapping[Key, Any]) -> None:
        """Set entries, and remove those whose new value is None. The change is on the disk when this returns.

        OSError if the disk refuses: the entries are then as before. The file may have the change all the same until the
        next one.
        """
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        if not changes:
            return
        if self._file is None:
            changed = dict(self._entries)
            _apply(changed, changes)
            self._write_snapshot(changed)
            return
        self._append(self._file, _encode_line(changes))
        _apply(self._entries, changes)
        if self._file.size >= self._snapshot_due_bytes:
            self._try_snapshot()

    def replace(self, entries: Entries) -> None:
        """Have these entries and no others, which the file then holds as a snapshot. OSError if the disk refuses: the
        entries are then as before."""
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self._path)
        self._write_snapshot(entries)

    def close(self, *, clean: bool = True) -> None:
        """Close the file. With `clean` it is a snapshot, which has no last line that might be an interrupted change:
        every incomplete line in it is damage."""
        if self._is_closed:
            return
        if clean and (self._changes or self._file is None):
            self._try_snapshot()
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _sync_all(self) -> None:
        """Sync the file as it was read: the process before may have ended between a write and its sync."""
        assert self._file is not None
        try:
            self._file.sync()
            self._filesystem.sync_directory(os.path.dirname(self._path))
        except OSError:
            self.close(clean=False)
            raise

    def _append(self, file: File, line: bytes) -> None:
        size = file.size
        file.append(line)
        try:
            file.sync()
        except OSError:
            # A second sync would not tell what the disk has. Only a new file does.
            self._file = None
            with contextlib.suppress(OSError):
                file.truncate(size)
            file.close()
            raise
        self._changes += 1

    def _try_snapshot(self) -> None:
        """Write a snapshot to shorten the file: the disk has every change without it, so a failure is only logged."""
        try:
            self._write_snapshot(self._entries)
        except OSError as error:
            logger.warning("%s: a snapshot could not be written: %s", self._path, error)
            if self._file is not None:
                self._snapshot_due_bytes = 2 * self._file.size

    def _write_snapshot(self, entries: Entries) -> None:
        """Replace the file by a snapshot of these entries; the journal owns them from then on."""
        data = _HEADER + b"%d\n" % FORMAT + _encode_line(entries)
        write_aside(self._filesystem, self._path, data, is_private=True)
        file, self._file = self._file, None
        if file is not None:
            file.close()
        put_in_place(self._filesystem, self._path)
        self._continue(0, len(data))
        self._entries = entries

    def _continue(self, changes: int, snapshot_bytes: int) -> None:
        """Open the file for further changes; `changes` is the number of lines after its snapshot, which has
        `snapshot_bytes`."""
        file = self._filesystem.open(self._path, is_private=True)
        try:
            file.read_at(0, 1)  # a file that may not be written raises now, and not with the first change
        except OSError:
            file.close()
            raise
        self._file = file
        self._changes = changes
        self._snapshot_due_bytes = max(_MIN_BYTES_BEFORE_SNAPSHOT, 2 * snapshot_bytes)


def read_journal(data: bytes) -> Contents:
    """Read the bytes of a file. Raises CorruptJournal, LaterFormat."""
    start = _check_header(data)
    entries: Entries = {}
    line_number, snapshot_bytes = 1, start
    while start < len(data) or line_number == 1:
        line_number += 1
        end = data.find(b"\n", start)
        line = data[start:] if end < 0 else data[start:end]
        if end < 0 or not _is_whole(line):
            if line_number > 2 and _is_interrupted(data, start, end):
                line_number -= 1
                break
            raise CorruptJournal(f"line {line_number}, at byte {start}, is not what was written")
        try:
            _apply(entries, {_key_of(parts): value for parts, value in json.loads(line[_CRC_DIGITS + 1 :])})
        except (ValueError, TypeError) as error:
            raise CorruptJournal(f"line {line_number}, at byte {start}, is no list of entries") from error
        start = end + 1
        if line_number == 2:
            snapshot_bytes = start
    return Contents(entries, start, line_number - 2, snapshot_bytes)


def _key_of(parts: Sequence[Any]) -> Key:
    """The key with these parts. Thousands of keys repeat their strings, which are kept once."""
    return tuple([intern(part) if type(part) is str else part for part in parts])


def _check_header(data: bytes) -> int:
    """Check the first line; return the position after it."""
    if not data:
        raise CorruptJournal("it is empty")
    match = re.match(_HEADER_LINE, data)
    if match is None:
        raise CorruptJournal(f"it begins with {data[:16]!r} where {_HEADER + b'%d' % FORMAT!r} was expected")
    if int(match[1]) > FORMAT:
        raise LaterFormat(f"format {int(match[1])}")
    if int(match[1]) < FORMAT:
        raise CorruptJournal(f"it says that it has format {int(match[1])}, which is none of text")
    return match.end()


def _is_whole(line: bytes) -> bool:
    return line[:_CRC_DIGITS] == _crc(line[_CRC_DIGITS + 1 :]) and line[_CRC_DIGITS : _CRC_DIGITS + 1] == b" "


def _is_interrupted(data: bytes, start: int, end: int) -> bool:
    """Whether an incomplete line may be an interrupted change: the last line, cut off, or with zeros in the place of
    bytes that did not reach the disk."""
    if end < 0:
        return True
    return end + 1 == len(data) and b"\0" in data[start:end]


def _encode_line(changes: Mapping[Key, Any]) -> bytes:
    text = json.dumps(list(changes.items()), separators=(",", ":")).encode()
    return _crc(text) + b" " + text + b"\n"


def _crc(text: bytes) -> bytes:
    return b"%08x" % zlib.crc32(text)


def _apply(entries: Entries, changes: Mapping[Key, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            entries.pop(key, None)
        else:
            entries[key] = value
