"""One segment of a partition's log: the batches of a range of offsets in `NN.log`, and the indexes that find them.

Only the last segment of a log, the active one, is appended to. Its indexes live in memory and reach their files when it
is sealed or closed; until then recovery can rebuild them from the batches. Beyond its last index entry the active
segment also remembers where every batch begins, so that readers at the end of the log cost no look at the file.
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from ..protocol.errors import CorruptMessage
from ..protocol.records.batch import NO_TIMESTAMP, BatchHeader, is_crc_valid
from .filenames import SEGMENT_KINDS, segment_path
from .filesystem import Buffer, FileSystem
from .indexes.index_file import CorruptIndex
from .indexes.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from .indexes.time_index import TimeIndex
from .indexes.transaction_index import TransactionIndex
from .log_config import LogConfig
from .log_file import read_batches, read_headers

logger = logging.getLogger("kmini.storage")

_MAX_TAIL = 1024
"""Batches remembered beyond the last index entry; only an unusually large index.interval.bytes reaches it."""


class Segment:
    """See the module's text. One thread changes a segment; sealed, its files may be read and synced by others."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_filesystem",
        "_first_timestamp",
        "_index_interval",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_tail_first_offset",
        "_tail_offsets",
        "_tail_positions",
        "base_offset",
        "created_ms",
        "directory",
        "indexes_are_full",
        "indexes_are_on_disk",
        "is_deleted",
        "log",
        "next_offset",
        "offset_index",
        "roll_jitter_ms",
        "time_index",
        "transaction_index",
    )

    base_offset: int
    """Names the files; no batch in them has a lower offset. Never changes."""
    next_offset: int
    """The offset after the last batch. Raised by appends, lowered by truncation. Of a sealed segment that was loaded
    and not walked it is the base offset of the next one: an upper bound, because compaction may have taken the last
    batches."""
    created_ms: int
    """When this process created or opened it: the age of a segment without timestamps, which a restart resets."""
    indexes_are_full: bool
    """Whether an index has no room for another entry. Set as entries come, cleared by truncation and recovery."""
    indexes_are_on_disk: bool
    """Whether the index files equal the entries, durably. Set when a flush of the sealed segment has finished, cleared
    by whatever changes entries. The recovery point does not pass a segment that lacks it."""
    is_deleted: bool
    """The segment has left its log; its files carry `.deleted` names, or are gone. Never cleared."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        base_offset: int,
        config: LogConfig,
        now_ms: int,
        *,
        create: bool,
        next_offset: int | None = None,
        suffix: str = "",
    ) -> None:
        """The segment's files, created if asked (then whatever lay there under its names is gone). They carry `suffix`
        until `Segments.replace`.

        One that exists is usable as a sealed segment at once, if `next_offset` tells where the next one begins, and as
        the active one after `walk_tail`.
        """
        self._filesystem = filesystem
        self.directory = directory
        self.base_offset = base_offset
        self.next_offset = base_offset if next_offset is None else next_offset
        self.created_ms = now_ms
        self.is_deleted = False
        self.indexes_are_on_disk = not create
        self.roll_jitter_ms = config.random_segment_jitter_ms()
        self._index_interval = config.index_interval_bytes
        self._bytes_since_index_entry = 0
        self._first_timestamp: int | None = None
        self._max_timestamp: int | None = None
        self._max_timestamp_offset = base_offset
        log, offset_index, time_index, transaction_index = (
            segment_path(directory, base_offset, kind, suffix) for kind in SEGMENT_KINDS
        )
        self.log = filesystem.open(log, create=create)
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(filesystem, offset_index, base_offset, index_bytes)
        self.time_index = TimeIndex(filesystem, time_index, base_offset, index_bytes)
        self.transaction_index = TransactionIndex(filesystem, transaction_index, base_offset)
        self.indexes_are_full = False
        self._forget_tail()
        if create:
            if self.log.size:
                self.log.truncate(0)
            self._reset_indexes()

    def __repr__(self) -> str:
        return f"Segment({self.base_offset}..{self.next_offset}, {self.size} bytes)"

    @property
    def indexes(self) -> tuple[OffsetIndex, TimeIndex, TransactionIndex]:
        return self.offset_index, self.time_index, self.transaction_index

    @property
    def size(self) -> int:
        """Bytes of batches."""
        return self.log.size

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of any batch; -1 if none has one."""
        if self._max_timestamp is None:
            self._max_timestamp, self._max_timestamp_offset = self._last_time_index_entry()
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """What retention goes by: the largest timestamp, or the file's modification time where records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When its batches were last written to, as the file system says."""
        return self._filesystem.modified_ms(self.log.path)

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the segment's age is counted; -1 if it has none."""
        if self._first_timestamp is None:
            for _, header in self.headers(0):
                self._first_timestamp = header.max_timestamp
                return header.max_timestamp
            return NO_TIMESTAMP
        return self._first_timestamp

    # Writing

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        """Whether an append of `size` bytes up to `last_offset` belongs into a new segment.

        Time rolls only a segment that holds something, and by the records' own time where they have one: the distance
        between this append and the first batch. max.compaction.lag.ms rolls as well (KIP-354): only sealed segments are
        cleaned.
        """
        used = self.log.size
        if (
            used + size > config.segment_bytes
            or self.indexes_are_full
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        ):
            return True
        if not used:
            return False
        limit_ms = config.segment_ms
        if config.is_compacted and config.max_compaction_lag_ms < limit_ms:
            limit_ms = config.max_compaction_lag_ms
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited_ms > limit_ms - self.roll_jitter_ms

    def append(self, records: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch, offsets and leader epoch included. OSError if the disk refuses; then nothing has changed."""
        position = self.log.size
        self.log.append(records)
        self.indexes_are_on_disk = False
        self._note_batch(position, len(records), last_offset, max_timestamp)

    def append_all(self, records: Buffer, headers: list[tuple[int, BatchHeader]]) -> None:
        """Write several batches, given with their positions in `records`, at once. All or nothing, like `append`."""
        position = self.log.size
        self.log.append(records)
        self.indexes_are_on_disk = False
        for start, header in headers:
            self._note_batch(position + start, header.size, header.last_offset, header.max_timestamp)

    def append_noted(self, records: Buffer, notes: Iterable[tuple[int, int, int, int]]) -> None:
        """Write several batches at once to a segment that nobody reads yet. They are given as notes: position in
        `records`, size, last offset, largest timestamp. OSError if the disk refuses, as in `append`; OffsetOverflow."""
        at = self.log.size
        self.log.append(records)
        self.indexes_are_on_disk = False
        newest, newest_offset = self.max_timestamp, self._max_timestamp_offset
        interval, since = self._index_interval, self._bytes_since_index_entry
        last_offset = self.next_offset - 1
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        for start, size, last_offset, timestamp in notes:
            if timestamp > newest:
                newest, newest_offset = timestamp, last_offset
            if since > interval:
                entries.append((last_offset, at + start))
                times.append((newest, newest_offset))
                since = 0
            since += size
        self.offset_index.append_all(entries)
        self.time_index.append_all(times)
        self._max_timestamp, self._max_timestamp_offset = newest, newest_offset
        self._bytes_since_index_entry = since
        self.next_offset = last_offset + 1
        self._forget_tail()

    def _note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for a batch that now is in the file. An index entry is due BEFORE the batch's bytes are counted."""
        if max_timestamp > self._max_timestamp:  # type: ignore[operator]  # known in the active segment
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self._first_timestamp is None:
            self._first_timestamp = max_timestamp
        if self._bytes_since_index_entry > self._index_interval:
            self._add_index_entries(position, last_offset)
        elif len(self._tail_offsets) >= _MAX_TAIL:
            self._forget_tail()
        self._bytes_since_index_entry += size
        self._tail_offsets.append(last_offset)
        self._tail_positions.append(position)
        self.next_offset = last_offset + 1

    def _add_index_entries(self, position: int, last_offset: int) -> None:
        if not self.indexes_are_full:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset)
            self.indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = 0
        self._forget_tail()

    def _forget_tail(self) -> None:
        """Start remembering batches afresh, with the one that begins at `next_offset`."""
        self._tail_first_offset = self.next_offset
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    def seal(self) -> None:
        """No append will follow: give the time index its closing entry. Its files follow with `write_indexes`."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset, closing=True)
        self._forget_tail()

    def write_indexes(self) -> None:
        """Make the index files equal to the entries. Only for a segment that is sealed, or closing."""
        for index in self.indexes:
            index.flush()

    def sync_indexes(self) -> None:
        """Return when what `write_indexes` wrote is on the disk. Blocks."""
        for index in self.indexes:
            index.sync()

    # Reading

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Position and size of the batch that contains `offset`, or of the next one where compaction took it.

        None if every batch ends below `offset`. CorruptMessage if the file is damaged where it had to be walked.
        """
        if offset >= self.next_offset:
            return None
        if offset >= self._tail_first_offset:
            number = bisect_left(self._tail_offsets, offset)
            positions = self._tail_positions
            position = positions[number]
            number += 1
            return position, (positions[number] if number < len(positions) else self.log.size) - position
        for position, header in self.headers(self._position_before(offset)):
            if header.last_offset >= offset:
                return position, header.size
        return None

    def read(self, offset: int, max_bytes: int, end_position: int, *, min_one_batch: bool) -> bytes | None:
        """Up to `max_bytes` from the start of the batch that contains `offset`, ending at `end_position` at the latest.

        Ends in the middle of a batch where the bytes do, but not of the first one: with `min_one_batch` that is whole,
        however large, and without it there are no bytes if it does not fit. None if every batch of the segment ends
        below `offset`.
        """
        located = self.locate(offset)
        if located is None:
            return None
        position, size = located
        length = max_bytes
        if size > max_bytes:
            if not min_one_batch:
                return b""
            length = size
        available = end_position - position
        return self.log.read_at(position, length if length < available else available)

    def position_of(self, offset: int) -> int:
        """Where the batch that contains `offset` (or the next one) begins; the end of the file if there is none."""
        located = self.locate(offset)
        return self.log.size if located is None else located[0]

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every complete batch from `position` on; see log_file.py."""
        return read_headers(self.log, position)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Like `headers`, with the bytes of each batch."""
        return read_batches(self.log, position)

    def headers_since(self, timestamp: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of the batches from `offset` on whose largest timestamp is at or after `timestamp`."""
        offset = max(offset, self._time_index_lookup(timestamp))
        for position, header in self.headers(self.position_of(offset)):
            if header.max_timestamp >= timestamp:
                yield position, header

    # Indexes that turn out to be damaged are rebuilt from the log

    def _position_before(self, offset: int) -> int:
        """Where to begin looking for the batch that contains `offset`."""
        try:
            return self.offset_index.lookup(offset).position
        except CorruptIndex as error:
            self._rebuild_indexes(error)
            return self.offset_index.lookup(offset).position

    def _time_index_lookup(self, timestamp: int) -> int:
        try:
            return self.time_index.lookup(timestamp).offset
        except CorruptIndex as error:
            self._rebuild_indexes(error)
            return self.time_index.lookup(timestamp).offset

    def _last_time_index_entry(self) -> tuple[int, int]:
        try:
            return self.time_index.last_entry
        except CorruptIndex as error:
            self._rebuild_indexes(error)
            return self.time_index.last_entry

    def _rebuild_indexes(self, error: CorruptIndex) -> None:
        logger.warning("%s; rebuilding the indexes of segment %d", error, self.base_offset)
        self._reset_indexes()
        with contextlib.suppress(CorruptMessage):
            for position, header in self.headers(0):
                self._note_batch(position, header.size, header.last_offset, header.max_timestamp)
        self.seal()

    def _reset_indexes(self) -> None:
        for index in self.indexes:
            index.reset()
        self.indexes_are_on_disk = False
        self.indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = 0
        self._first_timestamp = None
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self.next_offset = self.base_offset
        self._forget_tail()

    # Coming back, and going

    def walk_tail(self) -> int:
        """Make a loaded segment ready to be the active one; returns how many bytes are cut off its end, being no batch.

        Walks the headers from the last index entry on. CorruptIndex if the indexes do not fit the log: then recover it.
        """
        last = self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry
        self._first_timestamp = None
        self.indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = 0
        self.next_offset = self.base_offset
        self._forget_tail()
        end = last.position
        with contextlib.suppress(CorruptMessage):
            for position, header in self.headers(last.position):
                if position == last.position and len(self.offset_index):
                    if header.last_offset != last.offset:
                        raise CorruptIndex(f"{self.offset_index.path}: offset {last.offset} is not at {position}")
                    self.next_offset = header.base_offset
                    self._forget_tail()
                self._note_batch(position, header.size, header.last_offset, header.max_timestamp)
                end = position + header.size
        if end == last.position and len(self.offset_index):
            raise CorruptIndex(f"{self.offset_index.path}: no batch at {end}")
        if last.position:
            self._first_timestamp = None  # walked from the middle: `first_timestamp` will look
        return self._cut_at(end)

    def recover(self, visit: Callable[[BatchHeader, memoryview], None]) -> int:
        """Verify every batch, rebuild the indexes, cut the file at the first damaged batch; returns how many bytes.

        `visit` gets each good batch, with bytes that are valid during the call.
        """
        self._reset_indexes()
        end = 0
        with contextlib.suppress(CorruptMessage):
            for position, header, batch in self.batches():
                if not self._is_sound(header) or not is_crc_valid(batch, 0, header):
                    break
                self._note_batch(position, header.size, header.last_offset, header.max_timestamp)
                end = position + header.size
                visit(header, batch)
        return self._cut_at(end)

    def _is_sound(self, header: BatchHeader) -> bool:
        return (
            header.base_offset >= self.next_offset
            and header.last_offset_delta >= 0
            and header.last_offset - self.base_offset <= MAX_RELATIVE_OFFSET
        )

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all after it, and be the active segment."""
        located = self.locate(offset)
        if located is not None:
            for index in self.indexes:
                index.truncate_to(offset)
            self.log.truncate(located[0])
        self.indexes_are_on_disk = False
        self.walk_tail()

    def _cut_at(self, end: int) -> int:
        excess = self.log.size - end
        if excess:
            self.log.truncate(end)
        return excess

    def close(self) -> None:
        self.log.close()
