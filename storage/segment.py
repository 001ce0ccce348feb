"""One segment of a partition's log: the batches of a range of offsets in `NN.log`, and the indexes that find them.

Appends go to the last segment of a log, the active one. Its indexes are in memory and reach their files when it is
sealed or closed; until then recovery can rebuild them from the batches. The active segment also remembers where every
batch after its last index entry begins, so that reads at the end of the log need not walk the file.
"""

from __future__ import annotations

import contextlib
import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator

from ..protocol.errors import CorruptMessage
from ..protocol.records.batch import NO_TIMESTAMP, BatchHeader, is_crc_valid
from .filenames import SEGMENT_KINDS, path_in, segment_file
from .filesystem import Buffer, FileSystem
from .indexes.index_file import CorruptIndex
from .indexes.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from .indexes.time_index import TimeIndex
from .indexes.transaction_index import TransactionIndex
from .log_config import LogConfig
from .log_file import read_batches, read_headers

logger = logging.getLogger("kmini.storage")

_MAX_TAIL = 1024
"""Batches remembered after the last index entry, at most; only an unusually large index.interval.bytes needs more."""


class Segment:
    """See above. One thread changes a segment; other threads may read and sync the files of a sealed one."""

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
    """The number in the names of the files; no batch in them has a lower offset. Never changes."""
    next_offset: int
    """The offset after the last batch. Appends raise it, truncation lowers it. In a sealed segment that was loaded and
    not walked it is the base offset of the next segment: an upper bound, because compaction may have removed the last
    batches."""
    created_ms: int
    """When this process created or opened it. The age of a segment without timestamps counts from here."""
    indexes_are_full: bool
    """Whether an index has no room for another entry. Entries set it; truncation and recovery clear it."""
    indexes_are_on_disk: bool
    """Whether the index files equal the entries, durably. A finished flush of the sealed segment sets it; every change
    of entries clears it. The recovery point does not pass a segment without it."""
    is_deleted: bool
    """Whether the segment has left its log: its files have `.deleted` names, or are gone. Never cleared."""

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
        """Open the segment's files; with `create`, create them empty. They have `suffix` until `Segments.replace`.

        A segment that exists is usable as a sealed one at once, with `next_offset` from the next segment, and as the
        active one after `walk_tail`.
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
        log, offsets, times, transactions = [segment_file(base_offset, kind, suffix) for kind in SEGMENT_KINDS]
        self.log = filesystem.open(path_in(directory, log), create=create)
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(filesystem, offsets, base_offset, index_bytes, directory=directory)
        self.time_index = TimeIndex(filesystem, times, base_offset, index_bytes, directory=directory)
        self.transaction_index = TransactionIndex(filesystem, transactions, base_offset, directory=directory)
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
        """The age for retention: the largest timestamp, or the file's modification time if records have none."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @property
    def modified_ms(self) -> int:
        """When the log file last changed, in milliseconds, by the file system."""
        return self._filesystem.modified_ms(self.log.path)

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the age for rolling counts; -1 if it has none."""
        if self._first_timestamp is None:
            for _, header in self.headers(0):
                self._first_timestamp = header.max_timestamp
                return header.max_timestamp
            return NO_TIMESTAMP
        return self._first_timestamp

    # Writing

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, config: LogConfig, now_ms: int) -> bool:
        """Whether an append of `size` bytes up to `last_offset` needs a new segment.

        Only a segment with batches rolls by age. The age is the time between this append and the first batch, by the
        timestamps of records if they have any. max.compaction.lag.ms counts as well (KIP-354), because only sealed
        segments are cleaned.
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
        first = self._first_timestamp
        if first is None:
            first = self.first_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        return waited_ms > config.longest_active_ms - self.roll_jitter_ms

    def append(self, records: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch with its offsets and leader epoch. OSError if the disk refuses; nothing has changed then."""
        position = self.log.size
        self.log.append(records)
        self.indexes_are_on_disk = False
        self._note_batch(position, len(records), last_offset, max_timestamp)

    def append_all(self, records: Buffer, headers: list[tuple[int, BatchHeader]]) -> None:
        """Write several batches, with their positions in `records`, at once. All or nothing, like `append`."""
        position = self.log.size
        self.log.append(records)
        self.indexes_are_on_disk = False
        for start, header in headers:
            self._note_batch(position + start, header.size, header.last_offset, header.max_timestamp)

    def note_batches(self, position: int, columns: Iterable[Iterable[int]]) -> None:
        """Account for many batches of a segment that is not in use yet, which the caller writes now or later. The
        columns: starts behind `position`, sizes, last offsets, largest timestamps. Raises OffsetOverflow."""
        self.indexes_are_on_disk = False
        newest, newest_offset = self.max_timestamp, self._max_timestamp_offset
        interval, since = self._index_interval, self._bytes_since_index_entry
        last_offset = self.next_offset - 1
        offsets: list[int] = []
        positions: list[int] = []
        timestamps: list[int] = []
        timestamp_offsets: list[int] = []
        for start, size, last_offset, timestamp in zip(*columns, strict=True):
            if timestamp > newest:
                newest, newest_offset = timestamp, last_offset
            if since > interval:
                offsets.append(last_offset)
                positions.append(position + start)
                timestamps.append(newest)
                timestamp_offsets.append(newest_offset)
                since = 0
            since += size
        self.offset_index.append_all(offsets, positions)
        self.time_index.append_all(timestamps, timestamp_offsets)
        self._max_timestamp, self._max_timestamp_offset = newest, newest_offset
        self._bytes_since_index_entry = since
        self.next_offset = last_offset + 1
        self._forget_tail()

    def _note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Account for a batch that is in the file. An index entry is due BEFORE the batch's bytes count."""
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
            self.time_index.maybe_append(self._max_timestamp, self._max_timestamp_offset)  # type: ignore[arg-type]  # known
            self.indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = 0
        self._forget_tail()

    def _forget_tail(self) -> None:
        """Forget the remembered batches, and begin again with the one at `next_offset`."""
        self._tail_first_offset = self.next_offset
        self._tail_offsets = array("q")
        self._tail_positions = array("q")

    def seal(self) -> None:
        """Add the closing entry of the time index: no append follows. `write_indexes` writes the files."""
        if self.max_timestamp >= 0:
            self.time_index.maybe_append(self.max_timestamp, self._max_timestamp_offset, closing=True)
        self._forget_tail()

    def write_indexes(self) -> None:
        """Make the index files equal to the entries. Only for a segment that is sealed or closing."""
        for index in self.indexes:
            index.flush()

    def sync_indexes(self) -> None:
        """Return when the index files are on the disk. Blocks."""
        for index in self.indexes:
            index.sync()

    # Reading

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Return position and size of the batch that contains `offset`, or of the next one if compaction removed it.

        None if every batch ends below `offset`. CorruptMessage if the walk over the file meets damage.
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

    def read(self, offset: int, max_bytes: int, end_position: int, min_one_batch: bool) -> bytes | None:
        """Return up to `max_bytes` from the start of the batch that contains `offset`, up to `end_position`.

        The last batch may be cut off. The first one is whole, however large, with `min_one_batch`; without it, no bytes
        are returned if it does not fit. None if every batch of the segment ends below `offset`.
        """
        if self._tail_first_offset <= offset < self.next_offset:
            # As in `locate`, without the size of the batch: all up to the end is returned, if that is not too much.
            position = self._tail_positions[bisect_left(self._tail_offsets, offset)]
            if end_position - position <= max_bytes:
                return self.log.read_at(position, end_position - position)
        located = self.locate(offset)
        if located is None:
            return None
        position, size = located
        if size > max_bytes and not min_one_batch:
            return b""
        return self.log.read_at(position, min(max(size, max_bytes), end_position - position))

    def position_of(self, offset: int) -> int:
        """Return where the batch that contains `offset`, or the next one, begins; the end of the file if none does."""
        located = self.locate(offset)
        return self.log.size if located is None else located[0]

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of every complete batch from `position` on; see log_file.py."""
        return read_headers(self.log, position)

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield what `headers` does, and the bytes of each batch."""
        return read_batches(self.log, position)

    def headers_since(self, timestamp: int, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of the batches from `offset` on with a timestamp at or after `timestamp`."""
        offset = max(offset, self._time_index_lookup(timestamp))
        for position, header in self.headers(self.position_of(offset)):
            if header.max_timestamp >= timestamp:
                yield position, header

    # Look-ups, which rebuild a damaged index from the log

    def _position_before(self, offset: int) -> int:
        """A position at or before the batch that contains `offset`."""
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

    # Loading, truncating, closing

    def walk_tail(self) -> int:
        """Make a loaded segment the active one; cut the bytes off its end that are no batch, and return how many.

        Walks the headers from the last index entry on. CorruptIndex if the indexes do not fit the log: recover it then.
        The index files of a log too small for an entry are not read."""
        if self.log.size <= self._index_interval:
            self.offset_index.skip()
            self.time_index.skip()
        last = self.offset_index.lookup(self.base_offset + MAX_RELATIVE_OFFSET)
        self._max_timestamp, self._max_timestamp_offset = self.time_index.last_entry
        self._first_timestamp = None
        self.indexes_are_full = self.offset_index.is_full or self.time_index.is_full
        self._bytes_since_index_entry = 0
        self.next_offset = self.base_offset
        self._forget_tail()
        end, has_entries = last.position, len(self.offset_index) > 0
        with contextlib.suppress(CorruptMessage):
            for position, header in self.headers(last.position):
                if has_entries and position == last.position:
                    if header.last_offset != last.offset:
                        raise CorruptIndex(f"{self.offset_index.path}: offset {last.offset} is not at {position}")
                    self.next_offset = header.base_offset
                    self._forget_tail()
                self._note_batch(position, header.size, header.last_offset, header.max_timestamp)
                end = position + header.size
        if has_entries and end == last.position:
            raise CorruptIndex(f"{self.offset_index.path}: no batch at {end}")
        if last.position:
            self._first_timestamp = None  # walked from the middle: `first_timestamp` reads it
        return self._cut_at(end)

    def recover(self, visit: Callable[[BatchHeader, memoryview], None]) -> int:
        """Verify every batch, rebuild the indexes, cut the file at the first damaged batch; return how many bytes.

        `visit` gets each good batch, whose bytes are valid during the call.
        """
        self._reset_indexes()
        end, last = 0, self.base_offset + MAX_RELATIVE_OFFSET
        with contextlib.suppress(CorruptMessage):
            for position, header, batch in self.batches():
                is_next = self.next_offset <= header.base_offset <= header.last_offset <= last
                if not is_next or not is_crc_valid(batch, 0, header):
                    break
                self._note_batch(position, header.size, header.last_offset, header.max_timestamp)
                end = position + header.size
                visit(header, batch)
        return self._cut_at(end)

    def truncate_to(self, offset: int) -> None:
        """Drop the batch that contains `offset` and all after it, and become the active segment."""
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
