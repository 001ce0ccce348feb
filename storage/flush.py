"""Flushing a log: which part of it is on the disk, and how the rest gets there.

A roll, `flush.messages`, `flush.ms`, the recovery point checkpoint and a clean shutdown all make a FlushWork, run it in
a thread, and finish it on the loop.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import NamedTuple

from ..protocol.errors import KafkaStorageError
from .config_key import MAX_LONG
from .filenames import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from .filesystem import FileSystem
from .leader_epochs import EpochEntry
from .log_config import LogConfig
from .offset_checkpoint_file import write_epochs
from .segment import Segment
from .segments import Segments


class DiskState:
    """Which part of a log is on the disk. Belongs to the thread of its log."""

    __slots__ = (
        "_directory",
        "_filesystem",
        "_names_given",
        "_names_on_disk",
        "_now_ms",
        "_saved_epochs",
        "_truncations",
        "is_abandoned",
        "last_flush_ms",
        "progress",
        "recovery_point",
    )

    recovery_point: int
    """See PartitionLog.recovery_point."""
    is_abandoned: bool
    """Whether the log is being deleted: flushes still under way have no effect, and may fail."""

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        now_ms: Callable[[], int],
        *,
        recovery_point: int = 0,
        saved_epochs: tuple[EpochEntry, ...] = (),
        names_are_on_disk: bool = False,
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._now_ms = now_ms
        self.recovery_point = recovery_point
        self.is_abandoned = False
        self.last_flush_ms = now_ms()
        self._saved_epochs = saved_epochs
        """The entries of leader-epoch-checkpoint, as written last or as loaded."""
        self._names_given = 1
        self._names_on_disk = 1 if names_are_on_disk else 0
        """New names, counted from the first, that are on the disk. A log begins with one new name."""
        self._truncations = 0
        self.progress = SyncProgress()

    @property
    def error(self) -> Exception | None:
        """See PartitionLog.storage_error."""
        return self.progress.error

    @error.setter
    def error(self, error: Exception) -> None:
        self.progress.error = error

    def flush_is_due(self, log_end_offset: int, config: LogConfig) -> bool:
        """See PartitionLog.flush_is_due."""
        unflushed = log_end_offset - self.recovery_point
        if unflushed >= config.flush_messages:
            return True
        flush_ms = config.flush_ms
        return flush_ms < MAX_LONG and unflushed > 0 and self._now_ms() - self.last_flush_ms >= flush_ms

    def on_new_name(self) -> None:
        """Note that a file was created or renamed: the next flush syncs the directory."""
        self._names_given += 1

    def on_truncation(self, end_offset: int) -> None:
        """Note that the log was truncated to `end_offset`: flushes under way say nothing about records appended there
        later."""
        self._truncations += 1
        self._names_given += 1
        self.recovery_point = min(self.recovery_point, end_offset)

    def flush(
        self,
        segments: Segments,
        log_end_offset: int,
        epochs: tuple[EpochEntry, ...],
        *,
        snapshot: str | None = None,
        is_closing: bool = False,
    ) -> FlushWork:
        """Return the work of putting everything below the log end offset on the disk; see PartitionLog.flush_work.

        Leaves the indexes of the active segment to recovery, unless the log `is_closing`. Then the name of the
        log's own directory is left to `LogManager.close`, which syncs it once for all logs.
        """
        unflushed: list[Segment] = []
        for segment in reversed(segments):
            if segment.indexes_are_on_disk and segment.next_offset <= self.recovery_point:
                break
            unflushed.insert(0, segment)
        active = None if is_closing else segments.active
        scope = FlushScope(
            upto=log_end_offset,
            segments=unflushed,
            with_indexes=[s for s in unflushed if s is not active and not s.indexes_are_on_disk],
            snapshot=snapshot,
            epochs=None if epochs is self._saved_epochs else epochs,
            names_given=self._names_given if self._names_given > self._names_on_disk else 0,
            with_own_name=not is_closing,
            truncations=self._truncations,
        )
        return FlushWork(self._filesystem, self._directory, scope, self.progress, self._finished)

    def _finished(self, work: FlushWork) -> None:
        """Apply the outcome of a flush, unless the log was truncated or deleted meanwhile."""
        scope = work.scope
        if self.is_abandoned:
            return
        if work.error is not None:
            raise KafkaStorageError(f"{self._directory}: {work.error}") from work.error
        if scope.truncations != self._truncations:
            return
        for segment in scope.with_indexes:
            segment.indexes_are_on_disk = True
        if scope.epochs is not None:
            self._saved_epochs = scope.epochs
        self._names_on_disk = max(self._names_on_disk, scope.names_given)
        self.recovery_point = max(self.recovery_point, scope.upto)
        self.last_flush_ms = self._now_ms()


class FlushScope(NamedTuple):
    """The files that a flush puts on the disk, captured on the loop."""

    upto: int
    """The flush covers every record below this offset, and may cover later ones."""
    segments: Sequence[Segment]
    """The segments that may not be on the disk in full, the oldest first."""
    with_indexes: Sequence[Segment]
    """The sealed ones among them whose indexes are to be written too."""
    snapshot: str | None
    """The path of a producer snapshot that is written and not synced."""
    epochs: tuple[EpochEntry, ...] | None
    """The leader epochs, unless their checkpoint is up to date."""
    names_given: int
    """New names that the log had made at this time; 0 if all of them are on the disk."""
    with_own_name: bool
    """Whether the name of the log's directory is put on the disk with the new names in it."""
    truncations: int
    """Truncations of the log until then."""


class SyncProgress:
    """The progress of all flushes of one log, whatever their threads. They run one at a time and change it under
    `lock`."""

    __slots__ = ("error", "lock", "truncations", "upto")

    def __init__(self) -> None:
        self.lock = Lock()
        self.error: Exception | None = None
        """The error of a sync: records synced later may follow a hole."""
        self.truncations = 0
        self.upto = 0
        """Offset below which everything was synced since the `truncations`-th truncation of the log."""


class FlushWork:
    """Makes a log survive a power loss up to an offset. A BackgroundWork.

    While one runs others queue up, if many producers wait for flush.messages=1; the next one syncs for all of them.

    It may fail in two ways. Without room for an index or a checkpoint, nothing is lost, and the next flush may succeed.
    After a failed sync the system may have dropped records that it had accepted, whatever the next sync returns: no
    flush of this log succeeds any more, and no record is appended after the hole.
    """

    __slots__ = ("_directory", "_filesystem", "_finished", "error", "progress", "scope")

    def __init__(
        self,
        filesystem: FileSystem,
        directory: str,
        scope: FlushScope,
        progress: SyncProgress,
        finished: Callable[[FlushWork], None],
    ) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self.progress = progress
        self._finished = finished
        self.scope = scope
        self.error: Exception | None = None

    def run(self) -> None:
        with self.progress.lock:
            try:
                self._run()
            except (OSError, ValueError) as error:  # ValueError: a file was closed meanwhile
                self.error = error

    def _run(self) -> None:
        scope, progress = self.scope, self.progress
        if progress.error is not None:
            raise progress.error
        if self._is_done_already():
            return
        self._write()
        try:
            self._sync()
        except (OSError, ValueError) as error:
            progress.error = error
            raise
        progress.truncations, progress.upto = scope.truncations, scope.upto

    def _is_done_already(self) -> bool:
        """Whether another flush, which began after this one was made, has synced all that this one covers."""
        scope, progress = self.scope, self.progress
        more_than_records = scope.with_indexes or scope.snapshot or scope.epochs is not None or scope.names_given
        return not more_than_records and progress.truncations == scope.truncations and progress.upto >= scope.upto

    def finish(self) -> None:
        self._finished(self)

    def _write(self) -> None:
        for segment in self.scope.with_indexes:
            with _unless_deleted(segment):
                segment.write_indexes()
        if self.scope.epochs is not None:
            path = os.path.join(self._directory, LEADER_EPOCH_CHECKPOINT)
            write_epochs(self._filesystem, path, self.scope.epochs, sync_name=not self.scope.names_given)

    def _sync(self) -> None:
        scope = self.scope
        for segment in scope.with_indexes:
            with _unless_deleted(segment):
                segment.sync_indexes()
        for segment in scope.segments:
            with _unless_deleted(segment):
                segment.log.sync()
        if scope.snapshot is not None:
            self._sync_file(scope.snapshot)
        if scope.names_given:
            self._sync_file(os.path.join(self._directory, PARTITION_METADATA))
            self._filesystem.sync_directory(self._directory)
            if scope.with_own_name:
                self._filesystem.sync_directory(os.path.dirname(self._directory))

    def _sync_file(self, path: str) -> None:
        """Sync a file, if it exists: retention may have deleted the snapshot, and a log may lack its id."""
        with contextlib.suppress(FileNotFoundError), contextlib.closing(self._filesystem.open(path)) as file:
            file.sync()


@contextlib.contextmanager
def _unless_deleted(segment: Segment) -> Iterator[None]:
    """Ignore errors of a segment that has left its log meanwhile."""
    try:
        yield
    except (OSError, ValueError):
        if not segment.is_deleted:
            raise
