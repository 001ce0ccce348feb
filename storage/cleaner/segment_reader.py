"""Reading a segment a buffer at a time: chunks that begin with a batch and hold at least one whole batch.

Every checksum is verified, here or, for simple batches, by the sieve. A pass writes a new checksum for every batch that
it changes; without the check, damaged records would get a valid one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ...protocol.errors import CorruptMessage, InvalidRecord
from ...protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    BatchHeader,
    batch_size,
    is_crc_valid,
    read_header,
)
from ..indexes.index_file import CorruptIndex
from ..segment import Segment

_DROPPED_BYTES = 1024 * 1024


class SegmentReader:
    """Reads one sealed segment. `on_read` gets the bytes of every read; it may raise to stop.

    With `drops_behind` the bytes read leave the page cache, which then has room for the bytes that the pass writes.
    """

    def __init__(
        self, segment: Segment, buffer_bytes: int, on_read: Callable[[int], None], *, drops_behind: bool = False
    ) -> None:
        self.path = segment.log.path
        self._log = segment.log
        self.buffer_bytes = buffer_bytes
        """Bytes of a chunk, unless a batch is larger. May be changed at any time."""
        self._on_read = on_read
        self._drops_behind = drops_behind
        self._dropped = 0
        """The bytes before this position have left the page cache. Only raised."""

    def chunk_at(self, position: int) -> bytes:
        """Read from `position`, where a batch begins: as many bytes as the buffer has, more if the batch is larger.

        CorruptMessage if the file ends within the batch: a sealed segment ends with a whole one.
        """
        left = self._log.size - position
        chunk = self._log.read_at(position, min(max(self.buffer_bytes, HEADER_SIZE), left))
        if left < LOG_OVERHEAD + SMALLEST_MESSAGE:
            raise self.damage(position, "something that is no batch")
        size = batch_size(chunk)
        if size > left or size < LOG_OVERHEAD + SMALLEST_MESSAGE:
            raise self.damage(position, f"a batch of {size} bytes where {left} are left")
        if size > len(chunk):
            chunk = self._log.read_at(position, size)
        self._on_read(len(chunk))
        if self._drops_behind and position - self._dropped >= _DROPPED_BYTES:
            self._log.drop_behind(self._dropped, position)
            self._dropped = position
        return chunk

    def batch_at(self, chunk: bytes, at: int, position: int) -> BatchHeader | None:
        """Return the header of the batch at `at` of the chunk that was read at `position`, its checksum verified.

        None if the chunk does not hold all of it. CorruptMessage if it is damaged.
        """
        left = len(chunk) - at
        if left < LOG_OVERHEAD + SMALLEST_MESSAGE or batch_size(chunk, at) > left:
            return None
        if chunk[at + MAGIC_AT] < MAGIC:
            from ...protocol.records.old_formats.messages import read_message_header  # old logs are rare

            header = read_message_header(chunk, at)
        elif left < HEADER_SIZE or batch_size(chunk, at) < HEADER_SIZE:
            raise self.damage(position + at, "a batch without room for its header")
        else:
            header = read_header(chunk, at)
        if header.magic > MAGIC or not is_crc_valid(chunk, at, header):
            raise self.damage(position + at, "a batch with a wrong checksum")
        return header

    def damage(self, position: int, what: str) -> CorruptMessage:
        return CorruptMessage(f"{self.path}: there is {what} at position {position}")

    @contextlib.contextmanager
    def naming(self, position: int) -> Iterator[None]:
        """Name file and position if the body finds the batch damaged."""
        try:
            yield
        except (CorruptMessage, InvalidRecord) as error:
            raise self.damage(position, f"a damaged batch ({error})") from error


def position_before(segment: Segment, offset: int) -> int:
    """Return a position at which a batch begins, at or before the batch that holds `offset`."""
    if offset <= segment.base_offset:
        return 0
    try:
        return segment.offset_index.lookup(offset).position
    except CorruptIndex:
        return 0
