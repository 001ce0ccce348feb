"""The bytes of a segment file, read in memory that does not grow with the file.

The file is read, not mapped. If a broker truncates the file, or the disk fails, reading raises an error; a mapping
would end the process.
"""

from __future__ import annotations

import os

_CHUNK_BYTES = 2 << 20
"""Bytes read at a time: small enough to stay in the processor's cache until they are parsed."""


class SegmentBytes:
    """A file up to its size at opening, or less if it becomes shorter; never written.

    It is a `Readable` of `storage.inspect.dump_log`, and a context manager. Raises the errors of opening and reading a
    file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._file = open(self.path, "rb", buffering=0)  # noqa: SIM115
        status = os.fstat(self._file.fileno())
        self.size, self.inode = status.st_size, status.st_ino
        self._buffer = bytearray(_CHUNK_BYTES)
        self._start = self._end = 0

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> SegmentBytes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def chunk(self, position: int, at_least: int = 1) -> tuple[memoryview, int, int]:
        """A buffer and the start and end in it of the bytes from `position`: `at_least` bytes unless the file ends
        earlier. Valid until the next call of any method."""
        at_least = max(0, min(at_least, self.size - position))
        if not self._start <= position <= position + at_least <= self._end or position == self._end:
            self._load(position, at_least)
        return memoryview(self._buffer), position - self._start, self._end - self._start

    def read(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`, or fewer at the end of the file."""
        length = max(0, min(length, self.size - position))
        if length > _CHUNK_BYTES:
            return self._read_all(position, length)
        buffer, start, end = self.chunk(position, length)
        with buffer:
            return bytes(buffer[start : min(end, start + length)])

    def _load(self, position: int, at_least: int) -> None:
        size = max(_CHUNK_BYTES, at_least)
        if len(self._buffer) != size:
            self._buffer = bytearray(size)
        self._start = self._end = position
        self._file.seek(position)
        with memoryview(self._buffer) as buffer:
            while self._end < min(self.size, position + size):
                got = self._file.readinto(buffer[self._end - position :])
                if not got:
                    self.size = self._end
                self._end = min(self._end + got, self.size)

    def _read_all(self, position: int, length: int) -> bytes:
        pieces = []
        self._file.seek(position)
        while length > 0:
            piece = self._file.read(length)
            if not piece:
                self.size = position
                break
            pieces.append(piece)
            position += len(piece)
            length -= len(piece)
        return b"".join(pieces)
