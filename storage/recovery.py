"""Loading a log from its directory: after a clean shutdown, a killed process, or a power loss.

Damage never refuses the start: it is cut off or rebuilt, and logged.

1. Finish or undo what a crash interrupted: deletions, and swaps of cleaned segments (`settle_files`).
2. Open the segments. After a clean shutdown they count as whole. Otherwise recover the segment that holds the recovery
   point, and all later ones. In both cases recovery begins earlier if an offset index is missing or cannot be right.
3. Recover a segment: verify its batches, rebuild its indexes, and cut its file at the first batch that is damaged or
   incomplete. If anything was cut, or if the segment ends before the next one begins and compaction has not been there
   (`compacted_to`), delete later segments: the log ends where it is known to be whole. (Kafka takes every such gap for
   the work of compaction.)
4. A log that ends below its checkpointed log start offset begins anew there. Recovered batches complete the leader
   epochs, which are clipped to the log. Producers come from their newest snapshot and the batches after it.

(Apache Kafka: LogLoader.)
"""

from __future__ import annotations

import contextlib
import logging
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import islice, zip_longest

from ..protocol.errors import CorruptMessage
from ..protocol.records.batch import BatchHeader
from ..protocol.topics import TopicPartition
from ..protocol.uuids import ZERO_UUID
from . import filenames
from .config_key import MAX_LONG
from .filenames import SegmentFile, parse_segment_file, segment_path
from .filesystem import FileSystem
from .flush import DiskState
from .indexes.index_file import CorruptIndex
from .leader_epochs import EpochEntry, LeaderEpochs
from .log import PartitionLog
from .log_config import LogConfig
from .log_dir_files import CorruptMetadata, read_partition_metadata
from .log_environment import LogEnvironment
from .log_file import read_headers
from .offset_checkpoint_file import CorruptCheckpoint, read_epochs
from .producers.producer_replay import replay, replay_batch, take_snapshot
from .producers.producer_snapshot import (
    list_snapshots,
    remove_snapshots,
    remove_stray_snapshots,
    snapshots_among,
)
from .producers.producer_state_manager import ProducerStateManager
from .segment import Segment
from .segments import Segments

logger = logging.getLogger("kmini.storage")


def load_log(
    environment: LogEnvironment,
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    *,
    is_clean: bool,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    compacted_to: int = MAX_LONG,
) -> PartitionLog:
    """Load the log in this directory, ready for appends. Uses nothing else, so any thread may load any log.

    `is_clean` says that the last shutdown was clean. The offsets come from the checkpoints; 0 for a missing entry.
    Compaction may have removed records below `compacted_to`, and none above it. OSError if the disk refuses.
    """
    loader = LogLoader(
        environment,
        directory,
        topic_partition,
        config,
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        compacted_to=compacted_to,
    )
    return loader.finish()


def settle_files(filesystem: FileSystem, directory: str) -> list[SegmentFile]:
    """Finish or undo what a crash interrupted; return the remaining files of segments, by offset.

    Removes files that were to be deleted. Undoes a cleaning that had not renamed all its files to `.swap`: they are
    renamed in descending order, so a `.swap` at or above the lowest `.cleaned` belongs to it. Finishes a cleaning that
    had: its segments replace everything in the range of offsets that they cover. (Segments beyond its
    last batch, of which it has left nothing, may still be there: the next cleaning begins where this one did.)
    """
    files = [file for file in map(parse_segment_file, filesystem.list(directory)) if file is not None]
    if not any(file.suffix for file in files):
        return files  # the names are sorted, and their digits are of one length
    unfinished = min((file.base_offset for file in files if file.suffix == filenames.CLEANED), default=None)
    kept, swaps = [], []
    for file in files:
        is_undone = unfinished is not None and file.suffix == filenames.SWAP and file.base_offset >= unfinished
        if file.suffix in (filenames.DELETED, filenames.CLEANED) or is_undone:
            filesystem.remove(segment_path(directory, *file))
        elif file.suffix == filenames.SWAP:
            swaps.append(file)
        else:
            kept.append(file)
    return sorted(_finish_swaps(filesystem, directory, swaps, kept) if swaps else kept)


def _finish_swaps(
    filesystem: FileSystem, directory: str, swaps: list[SegmentFile], others: list[SegmentFile]
) -> list[SegmentFile]:
    covered = range(0)
    logs = [file for file in swaps if file.kind == filenames.LOG]
    if logs:
        # A segment of 0 bytes covers its base offset: it replaces the segment of that name.
        end = max(_next_offset(filesystem, segment_path(directory, *file), file.base_offset + 1) for file in logs)
        covered = range(min(logs).base_offset, end)
    kept = []
    for file in others:
        if file.base_offset in covered:
            filesystem.remove(segment_path(directory, *file))
        else:
            kept.append(file)
    # Ascending, the log first: after another crash no `.swap` covers a file that has its final name.
    for file in sorted(swaps, key=lambda file: (file.base_offset, file.kind != filenames.LOG)):
        final = file._replace(suffix="")
        filesystem.rename(segment_path(directory, *file), segment_path(directory, *final))
        kept.append(final)
    filesystem.sync_directory(directory)
    return kept


def _next_offset(filesystem: FileSystem, path: str, next_offset: int) -> int:
    """The offset after the last batch of a file, or `next_offset` if it has none."""
    with contextlib.closing(filesystem.open(path)) as log, contextlib.suppress(CorruptMessage):
        for _, header in read_headers(log):
            next_offset = header.next_offset
    return next_offset


class LogLoader:
    """Loads a log as `load_log` does, in two steps: the first opens its files and finds the segments to recover, which
    takes a tenth of a millisecond; `finish` recovers them, which may take minutes."""

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        *,
        is_clean: bool,
        recovery_point: int,
        log_start_offset: int,
        compacted_to: int,
    ) -> None:
        """Open the files. OSError if the disk refuses."""
        self.environment = environment
        self.filesystem = environment.filesystem
        self.directory = directory
        self.topic_partition = topic_partition
        self.config = config
        self.recovery_point = recovery_point
        self.log_start_offset = log_start_offset
        self.compacted_to = compacted_to
        self.now_ms = environment.now_ms()
        self.producers = ProducerStateManager(
            self.filesystem, directory, expiration_ms=environment.producer_expiration_ms
        )
        files = settle_files(self.filesystem, directory)
        self.snapshots = snapshots_among(files)
        """The offsets of the producer snapshots that the last process has left, ascending."""
        row = self._open(files)
        if not row:
            row = [Segment(self.filesystem, directory, log_start_offset, config, self.now_ms, create=True)]
        self.segments = Segments(self.filesystem, environment.deletions, directory, row)
        self.epochs, self.saved_epochs = self._load_epochs()
        """The leader epochs, and the entries of leader-epoch-checkpoint."""
        self.first_to_recover = self._first_to_recover(row, files, is_clean)
        """The number of the first segment to recover; None if no segment needs recovery."""

    @property
    def bytes_to_recover(self) -> int:
        """Bytes of batches that `finish` reads and verifies."""
        first = self.first_to_recover
        return 0 if first is None else sum(segment.size for segment in islice(self.segments, first, None))

    def finish(self) -> PartitionLog:
        """Recover what is to be recovered, and return the log. OSError if the disk refuses."""
        self._load_records()
        is_whole = self.first_to_recover is None
        log_end_offset = self.segments.active.next_offset
        log_start_offset = max(self.log_start_offset, self.segments.oldest.base_offset)
        self.epochs.truncate_from_end(log_end_offset)
        self.epochs.truncate_from_start(log_start_offset)
        disk = DiskState(
            self.filesystem,
            self.directory,
            self.environment.now_ms,
            recovery_point=log_end_offset
            if is_whole
            else min(max(self.recovery_point, log_start_offset), log_end_offset),
            saved_epochs=self.saved_epochs,
            names_are_on_disk=is_whole,
        )
        return PartitionLog(
            self.environment,
            self.directory,
            self.topic_partition,
            _topic_id(self.filesystem, self.directory),
            self.config,
            segments=self.segments,
            leader_epochs=self.epochs,
            producers=self.producers,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            disk=disk,
        )

    def _load_records(self) -> None:
        """Recover segments if needed, and load the producers."""
        if self.snapshots:
            bases = [segment.base_offset for segment in self.segments]
            self.snapshots = remove_stray_snapshots(self.filesystem, self.directory, self.snapshots, bases)
        first = self.first_to_recover
        if first is not None:
            self._recover(first)
            if first and self.segments.active.next_offset < self.recovery_point:
                # Records below the recovery point are missing, or the checkpoint is of an earlier log of this name.
                self.snapshots = list_snapshots(self.filesystem, self.directory)
                self._recover(0)
        if self.segments.active.next_offset < self.log_start_offset:
            self._start_anew()
        elif first is None:
            self._load_producers()

    def _open(self, files: Sequence[SegmentFile]) -> list[Segment]:
        bases = {file.base_offset for file in files if file.kind == filenames.LOG}
        for file in files:
            if file.base_offset not in bases and file.kind in filenames.SEGMENT_KINDS:
                self.filesystem.remove(segment_path(self.directory, *file))  # an index without a log
        ordered = sorted(bases)
        return [
            Segment(
                self.filesystem, self.directory, base, self.config, self.now_ms, create=False, next_offset=following
            )
            for base, following in zip_longest(ordered, ordered[1:])
        ]

    def _first_to_recover(self, row: list[Segment], files: Sequence[SegmentFile], is_clean: bool) -> int | None:
        """See the attribute. Makes the last segment the active one if there is nothing to recover."""
        indexed = {file.base_offset for file in files if file.kind == filenames.OFFSET_INDEX}
        for number, segment in enumerate(row):
            is_unflushed = not is_clean and (segment is row[-1] or segment.next_offset > self.recovery_point)
            if is_unflushed or (segment.size and segment.base_offset not in indexed):
                return number
        try:
            cut = row[-1].walk_tail()
        except CorruptIndex as error:
            logger.warning("%s; recovering the segment", error)
            return len(row) - 1
        if cut:
            logger.warning("%s: cut %d bytes off the end that are no batch", self.directory, cut)
        return None

    def _recover(self, first: int) -> None:
        """Recover every segment from number `first` on, and replay its producers.

        A snapshot of the last process beyond the first of these segments is not believed, and goes unless recovery
        comes to the same one.
        """
        row = list(self.segments)
        base = row[first].base_offset
        limit = max(base, self.log_start_offset)
        believed = bisect_right(self.snapshots, limit)
        self.producers.load(self.log_start_offset, limit, self.now_ms, self.snapshots[:believed])
        replay(self.producers, row[:first], max(base, self.producers.end_offset))
        taken: set[int] = set()
        for number in range(first, len(row)):
            segment = row[number]
            self.producers.end_offset = max(self.producers.end_offset, segment.base_offset)
            self._take_snapshot(taken)
            cut = segment.recover(partial(self._visit, segment))
            later = len(row) - number - 1
            if cut or (later and self._misses_records(segment, row[number + 1])):
                logger.warning(
                    "%s: segment %d was damaged at offset %d; cut %d bytes and %d later segments",
                    self.directory,
                    segment.base_offset,
                    segment.next_offset,
                    cut,
                    later,
                )
                self.segments.delete_newest(later, self.now_ms + self.config.file_delete_delay_ms)
                break
            if later:
                segment.seal()
        self._take_snapshot(taken, at_log_end=True)
        beyond = [offset for offset in self.snapshots[believed:] if offset not in taken]
        remove_snapshots(self.filesystem, self.directory, beyond)

    def _misses_records(self, segment: Segment, following: Segment) -> bool:
        """Whether a power loss has taken records, in whole batches, off the end of a segment that was rolled and not
        flushed, and has left the one after it."""
        return segment.next_offset < following.base_offset and following.base_offset > self.compacted_to

    def _take_snapshot(self, taken: set[int], *, at_log_end: bool = False) -> None:
        if take_snapshot(self.producers, at_log_end=at_log_end) is not None:
            taken.add(self.producers.end_offset)

    def _visit(self, segment: Segment, header: BatchHeader, batch: memoryview) -> None:
        if header.partition_leader_epoch > self.epochs.latest_epoch:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.next_offset > self.producers.end_offset:
            for aborted in replay_batch(self.producers, header, batch):
                segment.transaction_index.append(aborted)

    def _start_anew(self) -> None:
        """Drop all segments, which lie below the log start offset, and begin there."""
        logger.warning(
            "%s ends at offset %d, below its start %d: it begins anew there",
            self.directory,
            self.segments.active.next_offset,
            self.log_start_offset,
        )
        self.segments.restart_at(
            self.log_start_offset, self.config, self.now_ms, self.now_ms + self.config.file_delete_delay_ms
        )
        self.epochs.clear()
        self.producers.clear(self.log_start_offset)

    def _load_epochs(self) -> tuple[LeaderEpochs, tuple[EpochEntry, ...]]:
        """The leader epochs, and those of them that leader-epoch-checkpoint has: none if it is damaged."""
        epochs = LeaderEpochs()
        path = filenames.path_in(self.directory, filenames.LEADER_EPOCH_CHECKPOINT)
        try:
            epochs.entries = saved = _entries_of(tuple(read_epochs(self.filesystem, path)))
        except CorruptCheckpoint as error:
            logger.warning("%s; taking leader epochs from the batches", error)
            for segment in self.segments:
                with contextlib.suppress(CorruptMessage):
                    for _, header in segment.headers():
                        if header.partition_leader_epoch > epochs.latest_epoch:
                            epochs.assign(header.partition_leader_epoch, header.base_offset)
            return epochs, ()
        return epochs, saved

    def _load_producers(self) -> None:
        """Load the producers after a clean shutdown, which leaves a snapshot: a log without one has no producers."""
        end_offset = self.segments.active.next_offset
        if self.snapshots:
            self.producers.load(self.log_start_offset, end_offset, self.now_ms, self.snapshots)
            replay(self.producers, self.segments, end_offset)
        else:
            self.producers.end_offset = self.producers.last_snapshot_offset = end_offset


@lru_cache(maxsize=16)  # partitions that were created together have equal checkpoints, whose entries are kept once
def _entries_of(entries: tuple[tuple[int, int], ...]) -> tuple[EpochEntry, ...]:
    """The entries of a checkpoint, without those that contradict later ones."""
    return LeaderEpochs(entries).entries


def _topic_id(filesystem: FileSystem, directory: str) -> bytes:
    try:
        return read_partition_metadata(filesystem, directory) or ZERO_UUID
    except CorruptMetadata as error:
        logger.warning("%s; taking it as missing", error)
        return ZERO_UUID
