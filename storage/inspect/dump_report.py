"""What a dump consists of: files, what is in them, and the damage that was met on the way.

Each thing is a line for people (`str`) and has fields for programs.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..filesystem import FileSystem

_BLOCK = 1 << 20
_SHOWN_BYTES = 200
"""Of a key, a value or a header; `shown` counts what it leaves out."""
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class File(NamedTuple):
    """A file, of which all that follows is a part, up to the next one."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class Part(NamedTuple):
    """Something in a file: a batch, a record, an entry of an index, …"""

    kind: str
    fields: Mapping[str, object]
    """By name: numbers, texts, bytes, None, `Span`s, True for a mark, and pairs of text and bytes for headers."""
    depth: int = 1

    def __str__(self) -> str:
        return "  " * self.depth + " ".join(_field(name, value) for name, value in self.fields.items())


class Span(NamedTuple):
    """Numbers in a row."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


class Note(NamedTuple):
    """Something to be known about a file."""

    text: str

    def __str__(self) -> str:
        return f"  {self.text}"


class Damage(NamedTuple):
    """Something in a file that is not as it must be."""

    path: str
    position: int
    """The first byte that is wrong, or of the smallest whole that is."""
    reason: str

    def __str__(self) -> str:
        return f"damaged: {self.path} at byte {self.position}: {self.reason}"


Dump = Iterator["File | Part | Note | Damage"]


class Source:
    """A file that is read, here a little and there a little, up to the size it had at the beginning; never written."""

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
            self._block = filesystem.read(path)  # `open` wants to write too; where that is forbidden, hold all of it
            self.size = len(self._block)
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`, fewer where the file ends."""
        length = max(0, min(length, self.size - position))
        begin = position - self._start
        if begin < 0 or begin + length > len(self._block):
            self._block = self._file.read_at(position, max(length, _BLOCK))
            self._start, begin = position, 0
        return self._block[begin : begin + length]


def time_of(timestamp_ms: int) -> str:
    """ISO 8601 in UTC; "none" for -1, and the number itself where no calendar reaches."""
    from datetime import datetime, timedelta, timezone

    if timestamp_ms == -1:
        return "none"
    try:
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def shown(data: bytes | None) -> str:
    """Bytes for people: text in quotes, anything else in hexadecimal, what is long cut and counted."""
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
