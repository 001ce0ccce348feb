"""What a dump consists of: lines for people, and the damage that was met on the way."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple

from .filesystem import FileSystem

_BLOCK = 1 << 20
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


class Damage(NamedTuple):
    """Something in a file that is not as it must be."""

    path: str
    position: int
    """The first byte that is wrong, or of the smallest whole that is."""
    reason: str


Dump = Iterator["str | Damage"]


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


def shown(data: bytes | None, limit: int = 200) -> str:
    """Bytes for people: text in quotes, anything else in hexadecimal, what is long cut and counted."""
    if data is None:
        return "null"
    import json

    part = data[:limit]
    try:
        text = json.dumps(part.decode(), ensure_ascii=False) if part.decode().isprintable() else f"0x{part.hex()}"
    except UnicodeDecodeError:
        text = f"0x{part.hex()}"
    return text if len(part) == len(data) else f"{text}… ({len(data)} bytes)"


def count(number: int, noun: str) -> str:
    """ "1 byte", "2 bytes", "2 entries"."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
