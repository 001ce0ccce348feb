"""The parts of a dump: files, their content, and damage. Each part is a line for people (`str`) with fields for
programs."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..filesystem import FileSystem

_BLOCK = 1 << 20
_SHOWN_BYTES = 200
"""Bytes of a key, a value or a header that a line shows, at most."""
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class File(NamedTuple):
    """A file. The parts up to the next File belong to it."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class Part(NamedTuple):
    """A part of a file: a batch, a record, an entry of an index, …"""

    kind: str
    fields: Mapping[str, object]
    """Values by name: numbers, texts, bytes, None, `Span`s, True for a mark, and pairs of text and bytes for
    headers."""
    depth: int = 1

    def __str__(self) -> str:
        return "  " * self.depth + " ".join(_field(name, value) for name, value in self.fields.items())


class Span(NamedTuple):
    """A range of numbers, both ends included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Note(NamedTuple):
    """A remark on a file."""

    text: str

    def __str__(self) -> str:
        return f"  {self.text}"


class Damage(NamedTuple):
    """Damage in a file."""

    path: str
    position: int
    """The first wrong byte, or the first byte of the smallest wrong part."""
    reason: str

    def __str__(self) -> str:
        return f"damaged: {self.path} at byte {self.position}: {self.reason}"


Dump = Iterator["File | Part | Note | Damage"]


class Source:
    """A file that is read at any position, up to the size that it had when it was opened."""

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        self.path = path
        self._start = 0
        self._block = b""
        self._file = filesystem.open(path)
        self.size = self._file.size
        try:
            self._block = self._file.read_at(0, _BLOCK)
        except OSError as error:
            self._file.close()
            if error.errno not in _READ_ONLY:
                raise
            self._block = filesystem.read(path)  # without permission to write, hold all of it
            self.size = len(self._block)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def read(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer where the file ends."""
        length = max(0, min(length, self.size - position))
        begin = position - self._start
        if begin < 0 or begin + length > len(self._block):
            self._block = self._file.read_at(position, max(length, _BLOCK))
            self._start, begin = position, 0
        return self._block[begin : begin + length]


def time_of(timestamp_ms: int) -> str:
    """Return ISO 8601 in UTC; "none" for -1, and the number itself beyond the calendar."""
    from datetime import datetime, timedelta, timezone

    if timestamp_ms == -1:
        return "none"
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(data: bytes | None) -> str:
    """Return bytes for people: text in quotes, other bytes in hexadecimal, long ones cut, with their length."""
    if data is None:
        return "null"
    import json

    part = data[:_SHOWN_BYTES]
    try:
        text = json.dumps(part.decode(), ensure_ascii=False) if part.decode().isprintable() else f"0x{part.hex()}"
    except UnicodeDecodeError:
        text = f"0x{part.hex()}"
    return text if len(part) == len(data) else f"{text}… ({len(data)} bytes)"


def _field(name: str, value: object) -> str:
    if value is True:
        return name
    if value is None or isinstance(value, bytes):
        return f"{name}={shown(value)}"
    if isinstance(value, tuple) and not isinstance(value, Span):
        return f"{name}: {' '.join(_field(*pair) for pair in value)}"
    return f"{name}={value}"


def count(number: int, noun: str) -> str:
    """ "1 byte", "2 bytes", "2 entries"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
