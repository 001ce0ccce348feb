"""The segments of a log in a row: which one holds an offset, and how they are added, replaced and deleted.

When the active one has to roll: `segment.py`.
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from operator import attrgetter

from .background_work import Deletions
from .config_key import MAX_LONG
from .filenames import DELETED, PRODUCER_SNAPSHOT, SEGMENT_KINDS, SWAP, segment_path
from .filesystem import FileSystem
from .indexes.transaction_index import AbortedTransaction
from .log_config import LogConfig
from .segment import Segment

ANOTHER_SEGMENT = MAX_LONG
"""Returned by `bytes_between` when the range crosses a segment: satisfies any `min_bytes` of a fetch."""

logger = logging.getLogger("kmini.storage")

_base_offset = attrgetter("base_offset")


def aborted_transactions(segments: Iterable[Segment], offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions of the offsets from `offset` to below `end_offset`, from the indexes of
    neighbouring segments, the first of which holds `offset`. Ends at the first index that shows that later segments
    have no more of them."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        some, is_all = segment.transaction_index.collect(offset, end_offset)
        found += some
        if is_all:
            break
    return found


def rename_segment(filesystem: FileSystem, segment: Segment, suffix: str) -> None:
    """Give the files of a segment their names with `suffix`, or without any. OSError if the disk refuses.

    The log comes first, so that its name shows how far this got at least.
    """
    log, *indexes = (segment_path(segment.directory, segment.base_offset, kind, suffix) for kind in SEGMENT_KINDS)
    filesystem.rename(segment.log.path, log)
    for index, path in zip(segment.indexes, indexes, strict=True):
        with contextlib.suppress(FileNotFoundError):  # a transaction index without entries has no file
            filesystem.rename(index.path, path)
        index.path = path


class Segments:
    """Segments in the order of their base offsets; never empty, except within `restart_at`.

    The `next_offset` of each is at most the base offset of the one after it; compaction may have removed the offsets
    between. (Apache Kafka: LogSegments.)
    """

    __slots__ = ("_deletions", "_directory", "_filesystem", "_row", "active")

    active: Segment
    """The last segment, to which the log appends."""

    def __init__(self, filesystem: FileSystem, deletions: Deletions, directory: str, row: list[Segment]) -> None:
        self._filesystem = filesystem
        self._deletions = deletions
        self._directory = directory
        self._row = row
        self.active = row[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._row)

    def __reversed__(self) -> Iterator[Segment]:
        return reversed(self._row)

    def __len__(self) -> int:
        return len(self._row)

    @property
    def oldest(self) -> Segment:
        return self._row[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._row)

    # Reading

    def since(self, offset: int) -> Iterator[Segment]:
        """Return the segment whose range has `offset`, and those after it: compaction may have emptied its end."""
        if offset >= self.active.base_offset:
            return iter((self.active,))
        first = bisect_right(self._row, offset, key=_base_offset) - 1
        return islice(self._row, max(first, 0), None)

    def read(self, offset: int, max_bytes: int, limit_offset: int, min_one_batch: bool) -> bytes:
        """See PartitionLog.read. Checks nothing; `offset` must be below `limit_offset`."""
        active = self.active
        # `since` would return the active segment, too: most reads are at the end of the log, and save its call.
        for segment in (active,) if offset >= active.base_offset else self.since(offset):
            end = segment.log.size if limit_offset >= segment.next_offset else segment.position_of(limit_offset)
            data = segment.read(offset, max_bytes, end, min_one_batch)
            if data is not None:
                return data
        return b""

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """See PartitionLog.bytes_between. Checks nothing; `offset` must be below `limit_offset`."""
        segment = next(self.since(offset))
        if limit_offset > segment.next_offset:
            return ANOTHER_SEGMENT
        end = segment.size if limit_offset == segment.next_offset else segment.position_of(limit_offset)
        return end - segment.position_of(offset)

    def may_have_aborted(self, offset: int) -> bool:
        """Whether records of aborted transactions may lie from `offset` on. Quick for the active segment, where it is
        False unless a transaction was aborted in it."""
        return offset < self.active.base_offset or not self.active.transaction_index.is_empty

    def aborted_transactions(self, offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that may have records from `offset` to below `end_offset`. Their markers may
        lie in later segments, beyond `end_offset` too."""
        return aborted_transactions(self.since(offset), offset, end_offset)

    def count_below(self, log_start_offset: int) -> int:
        """How many of the oldest segments lie below the log start as a whole: those whose successor begins at it or
        below. The last one has no successor and stays."""
        following = islice(self._row, 1, None)
        return sum(1 for _ in takewhile(lambda segment: segment.base_offset <= log_start_offset, following))

    # Rolling

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> None:
        """Seal the active segment and put an empty one after it. OSError if the disk refuses; nothing has changed
        then."""
        new = Segment(self._filesystem, self._directory, base_offset, config, now_ms, create=True)
        self.active.seal()
        self._row.append(new)
        self.active = new

    # Deleting and replacing

    def delete_oldest(self, count: int, due_ms: int) -> None:
        """Take the oldest segments out of the row, not all of them. Their files have `.deleted` names until
        `due_ms`."""
        gone, self._row[:count] = self._row[:count], []
        self._discard(gone, due_ms)

    def replace(self, old: Sequence[Segment], new: Segment, due_ms: int) -> None:
        """Put `new`, whose files are complete and on the disk as `.cleaned`, in the place of the neighbours `old`.

        A crash before all its files are called `.swap` leaves the old segments, a later one the new segment
        (recovery.py). The old files have `.deleted` names until `due_ms`. After an OSError only a restart can tell
        which of them count.
        """
        first = self._row.index(old[0])
        rename_segment(self._filesystem, new, SWAP)
        for segment in old:
            paths = self._mark_deleted(segment)
            self._deletions.add(paths, due_ms)
            if not all(path.endswith(DELETED) for path in paths):
                raise OSError(f"{segment.log.path} could not be renamed, to make room for what it was compacted to")
        for segment in old[1:]:
            self._discard_snapshot(segment, due_ms)
        rename_segment(self._filesystem, new, "")
        self._row[first : first + len(old)] = [new]

    def delete_newest(self, count: int, due_ms: int) -> None:
        """Take the newest segments out of the row, not all of them. The last one that stays becomes the active one."""
        kept = len(self._row) - count
        self._discard(self._row[kept:], due_ms)
        del self._row[kept:]
        self.active = self._row[-1]

    def truncate_to(self, offset: int, due_ms: int) -> None:
        """Drop the batch that contains `offset` and all after it; `offset` must not be below the oldest base offset."""
        kept = max(1, bisect_right(self._row, offset, key=_base_offset))
        self.delete_newest(len(self._row) - kept, due_ms)
        self.active.truncate_to(offset)

    def restart_at(self, offset: int, config: LogConfig, now_ms: int, due_ms: int) -> None:
        """Drop all segments, and begin with an empty one at `offset`."""
        self._discard(self._row, due_ms)
        self.active = Segment(self._filesystem, self._directory, offset, config, now_ms, create=True)
        self._row = [self.active]

    def _discard(self, segments: Sequence[Segment], due_ms: int) -> None:
        for segment in segments:
            self._deletions.add(self._mark_deleted(segment), due_ms)
            self._discard_snapshot(segment, due_ms)

    def _mark_deleted(self, segment: Segment) -> list[str]:
        """Give the files of a segment their `.deleted` names; return the paths to remove later. Readers go on reading.

        A file that cannot be renamed is returned under its own name.
        """
        segment.is_deleted = True
        marked = [self._mark_file_deleted(segment.log.path)]
        for index in segment.indexes:
            index.path = self._mark_file_deleted(index.path)  # a flush under way writes to a file that goes as well
            marked.append(index.path)
        return marked

    def _mark_file_deleted(self, path: str) -> str:
        target = path + DELETED
        try:
            self._filesystem.rename(path, target)
        except FileNotFoundError:
            return target  # an index that was never written
        except OSError as error:
            logger.warning("could not rename %s: %s", path, error)
            return path
        return target

    def _discard_snapshot(self, segment: Segment, due_ms: int) -> None:
        snapshot = segment_path(self._directory, segment.base_offset, PRODUCER_SNAPSHOT)
        with contextlib.suppress(OSError):  # usually there is none
            self._filesystem.rename(snapshot, snapshot + DELETED)
            self._deletions.add([snapshot + DELETED], due_ms)

    def close(self) -> None:
        for segment in self._row:
            segment.close()
