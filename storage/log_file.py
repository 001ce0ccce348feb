"""Walking over a log file: batches, back to back, from a position at which one begins.

An announced size counts only if the file has that many bytes, and reserves no memory. Messages of magic 0 and 1, in
files of an old Kafka, count as batches (see protocol.records.old_formats.messages).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..protocol.errors import CorruptMessage
from ..protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    BatchHeader,
    read_header,
)

_SMALLEST = LOG_OVERHEAD + SMALLEST_MESSAGE
_HEADER_CHUNK = 4096
"""Bytes of one read when only headers are needed: about one index interval."""
_BATCH_CHUNK = 1 << 20
"""Bytes of one read when every byte is needed."""


class Readable(Protocol):
    """A file to read batches from."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position` on; fewer where the file ends."""


class Snapshot:
    """Bytes of a log file, held in memory: later changes of the file do not show."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = len(data)
        self._data = data

    def read_at(self, position: int, length: int) -> bytes:
        return self._data[position : position + length]


def read_headers(log: Readable, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every complete batch. Ends before an incomplete one; CorruptMessage at bytes that
    are no batch."""
    chunk, chunk_start = b"", position
    end = log.size
    while position + _SMALLEST <= end:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk, chunk_start = log.read_at(position, _HEADER_CHUNK), position
        at = position - chunk_start
        if chunk[at + MAGIC_AT] < MAGIC:
            header = _read_message_header(chunk, at)
        elif position + HEADER_SIZE > end:
            return
        else:
            header = read_header(chunk, at)
            if header.magic != MAGIC or header.size < HEADER_SIZE:
                raise CorruptMessage(f"{log.path}: no batch at position {position}")
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def _read_message_header(chunk: bytes, at: int) -> BatchHeader:
    from ..protocol.records.old_formats.messages import read_message_header  # old logs are rare

    return read_message_header(chunk, at)


def read_batches(log: Readable, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield what `read_headers` does, and the bytes of each batch. Verifies nothing more."""
    chunk, chunk_start = memoryview(b""), position
    for start, header in read_headers(log, position):
        if start + header.size > chunk_start + len(chunk):
            chunk, chunk_start = memoryview(log.read_at(start, max(header.size, _BATCH_CHUNK))), start
        yield start, header, chunk[start - chunk_start : start - chunk_start + header.size]
