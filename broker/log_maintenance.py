"""What a change of a log leaves to be done: operations to complete, checkpoints to write, segments to flush, files to
delete.

It is done some time after the first change, once for all changes until then; a broker in which nothing changes does
none of it. What runs at intervals is in `housekeeping.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from functools import partial

from ..protocol.errors import KafkaStorageError
from ..protocol.topics import TopicPartition
from ..storage import filenames
from ..storage.background_work import BackgroundWork
from ..storage.log_manager import LogManager
from ..storage.offset_checkpoint_file import write_offsets
from .clock import Clock, Move
from .purgatory import Purgatory
from .scheduler import CheckpointWriter, Deferred, PausedTasks, do_in_thread, in_thread
from .settings.dynamic_config import DynamicBrokerConfig

log = logging.getLogger("kmini.broker")


class LogMaintenance:
    """Follows the changes of a broker's logs. Belongs to the broker's loop."""

    def __init__(self, config: DynamicBrokerConfig, clock: Clock, logs: LogManager, purgatory: Purgatory) -> None:
        self._config = config
        self._clock = clock
        self._logs = logs
        self._purgatory = purgatory
        self.paused_tasks = PausedTasks()
        """The periodic tasks that skip their runs until something changes."""
        self.log_start_checkpoint = CheckpointWriter(logs.log_start_offsets, logs.write_log_start_offsets)
        """The checkpoint of log start offsets: DeleteRecords is answered when it is written."""
        self.recovery_point_checkpoint = self._writer(filenames.RECOVERY_POINT_CHECKPOINT, logs.recovery_points)
        """The checkpoint of recovery points: a log is truncated below its own when it is written."""
        high_watermarks = self._writer(filenames.HIGH_WATERMARK_CHECKPOINT, logs.high_watermarks)
        later = partial(Deferred, clock)
        self._high_watermarks = later("the high watermark checkpoint", high_watermarks.write)
        self._recovery_points = later("the recovery point checkpoint", self.recovery_point_checkpoint.write)
        self._start_offsets = later("the log start offset checkpoint", self.log_start_checkpoint.write)
        self._deletions = later("the deletion of files", self._delete_files)
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self._working: set[asyncio.Task[None]] = set()

    def on_change(self, listener: Callable[[TopicPartition], None]) -> None:
        """Call `listener` with its partition after every change of a log; it must be quick."""
        self._listeners.append(listener)

    def no_more(self, listener: Callable[[TopicPartition], None]) -> None:
        """Take back `on_change`."""
        self._listeners.remove(listener)

    def offsets_changed(self, topic_partition: TopicPartition) -> None:
        """The offsets of a partition changed: complete the operations that wait for that, and see to what its log left
        to be done."""
        self._purgatory.check(topic_partition)
        move = None if self._clock.move is None else self._clock.move_of(topic_partition)
        if move is not None:
            self._leave_until_end_of(move)
        else:
            if self.paused_tasks.paused:
                self.paused_tasks.resume()
            if not self._high_watermarks.is_asked_for:
                self._ask_for_checkpoints()
        for listener in self._listeners:
            listener(topic_partition)
        environment = self._logs.environment
        if environment.background:
            self._start_background_work()
        if environment.deletions.waiting:
            self.ask_for_deletion()

    def _leave_until_end_of(self, move: Move) -> None:
        """See to what clients write while the clock is moved when it has been moved."""
        move.at_end[self._move_ended] = None
        self.paused_tasks.resume_by(move.ends_ms)
        for deferred in (self._high_watermarks, self._recovery_points, self._start_offsets):
            deferred.ask_at(move.ends_ms)

    def _move_ended(self, move: Move) -> None:
        """See to it in the usual time: it may have been written after the last look, and a move that was cancelled does
        not come to where its looks are."""
        for topic_partition in move.written:
            if self._logs.get(topic_partition) is not None:
                self.offsets_changed(topic_partition)
        self._ask_for_checkpoints()

    def _ask_for_checkpoints(self) -> None:
        config = self._config.current
        self._high_watermarks.ask(config.replica_high_watermark_checkpoint_interval_ms)
        self._recovery_points.ask(config.log_flush_offset_checkpoint_interval_ms)
        self._start_offsets.ask(config.log_flush_start_offset_checkpoint_interval_ms)

    def ask_for_deletion(self) -> None:
        """Delete the files that are marked for deletion when `file.delete.delay.ms` has passed."""
        due_ms = self._logs.next_deletion_ms
        if due_ms is not None:
            self._deletions.ask(max(due_ms - self._clock.now_ms(), 0))

    def _start_background_work(self) -> None:
        for work in self._logs.take_background_work():
            task = asyncio.ensure_future(_do(work))
            self._working.add(task)
            task.add_done_callback(self._working.discard)

    def cancel(self) -> None:
        """Write and delete nothing more; `finish` follows."""
        for deferred in (self._high_watermarks, self._recovery_points, self._start_offsets, self._deletions):
            deferred.cancel()

    async def finish(self) -> None:
        """Return when the background work of the logs has ended."""
        while self._working:
            await asyncio.wait(self._working)

    def _writer(self, name: str, snapshot: Callable[[], dict[TopicPartition, int]]) -> CheckpointWriter:
        path = os.path.join(self._logs.directory, name)
        return CheckpointWriter(snapshot, partial(write_offsets, self._logs.filesystem, path))

    async def _delete_files(self) -> None:
        await in_thread(self._logs.delete_due_files, self._clock.now_ms())
        self.ask_for_deletion()


async def _do(work: BackgroundWork) -> None:
    try:
        await do_in_thread(work)
    except KafkaStorageError as error:
        log.error("%s", error)
