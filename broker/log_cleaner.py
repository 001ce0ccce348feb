"""The log cleaner at work: it looks when there may be something to clean, cleans in threads, and swaps on the loop.

It looks a back-off (`log.cleaner.backoff.ms`) after something has changed, and when time alone makes something due
(`Schedule.next_due_ms`): a test that moves the clock by a week waits for what falls due in it, and for nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from ..protocol.errors import KafkaError, KafkaStorageError
from ..protocol.records.load_kernel import IS_COMPILED
from ..protocol.topics import TopicPartition
from ..storage.cleaner.cleaning_states import State
from ..storage.filenames import CLEANER_CHECKPOINT
from ..storage.log import PartitionLog
from ..storage.log_manager import LogManager
from .clock import Clock
from .log_maintenance import LogMaintenance
from .scheduler import CheckpointWriter, Deferred, Turn, do_in_thread
from .settings.dynamic_config import DynamicBrokerConfig

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ..storage.cleaner.cleanable_log import Limits
    from ..storage.cleaner.cleaned_segment import CleanedGroup
    from ..storage.cleaner.dirtiness import Postponed
    from ..storage.cleaner.schedule import Job, Schedule
    from ..storage.cleaner.stats import CleanerGauges, PassReport
    from ..storage.cleaner.throttle import Throttle

T = TypeVar("T")

log = logging.getLogger("kmini.cleaner")


class LogCleaner:
    """Cleans the compacted logs of a broker. For its loop; made once the logs are loaded."""

    def __init__(
        self, config: DynamicBrokerConfig, clock: Clock, logs: LogManager, maintenance: LogMaintenance
    ) -> None:
        self._config = config
        self._clock = clock
        self._logs = logs
        self._changed = maintenance.offsets_changed
        """Called with every partition whose log has left work for other parts of the broker."""
        self._recovery_point_checkpoint = maintenance.recovery_point_checkpoint
        self._threads = 0
        self._executor: ThreadPoolExecutor | None = None
        """Has `_threads` threads."""
        self._look = Deferred(clock, "compaction", self.look)
        self._checkpoint_writer = CheckpointWriter(
            lambda: self.schedule.checkpoint.snapshot(self._logs.logs.keys()),
            lambda offsets: self.schedule.checkpoint.write(offsets),
        )
        self._write_soon = Deferred(clock, "the cleaner checkpoint", self._write_checkpoint)
        self._will_look = False
        """Whether a look is at most a back-off away. (One that waits for a delete horizon may be a week away.)"""
        self._is_stopping = False
        self._under_way = 0
        self._ended = asyncio.Condition()
        """Notified whenever one of the passes under way has ended, checkpoint and all, or a pause."""
        self.last_look_ms = clock.now_ms()
        """The time of the last look for something to clean; at first, of the construction."""
        self.dead_threads = 0
        """Cleaner threads that died in the last look, of an error that concerns no single log. The next look starts
        at 0."""
        maintenance.on_change(self._log_changed)

    @cached_property
    def schedule(self) -> Schedule:
        """Made, like all that comes with it, when it is first asked for: a broker starts faster without."""
        from ..storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
        from ..storage.cleaner.schedule import Schedule

        checkpoint = CleanerCheckpoint(self._logs.filesystem, self._logs.directory)
        backoff_ms = self._config.current.log_cleaner_backoff_ms
        return Schedule(checkpoint, backoff_ms=backoff_ms, postponed=self._postponed)

    @cached_property
    def _throttle(self) -> Throttle:
        from ..storage.cleaner.throttle import Throttle

        return Throttle(self._config.current.log_cleaner_io_max_bytes_per_second)

    @property
    def is_enabled(self) -> bool:
        return self._config.current.log_cleaner_enable

    def may_touch(self, partition: TopicPartition) -> bool:
        """Whether no pass reads the sealed segments of this partition: retention waits for those that do."""
        return not self._under_way or self.schedule.states.is_idle(partition)

    async def until_idle(self, partition: TopicPartition) -> None:
        """Return once no pass is under way over this partition and no pause holds."""
        async with self._ended:
            await self._ended.wait_for(partial(self.schedule.states.is_idle, partition))

    def _log_changed(self, partition: TopicPartition) -> None:
        """A log changed: look in a back-off, unless that is due already, or when the clock has been moved."""
        if not self._will_look:
            move = self._clock.move_of(partition)
            if move is None:
                self.ask()
            else:
                self._ask_at(move.ends_ms)

    def _postponed(self, partition: TopicPartition) -> Postponed:
        """Which segments of a log wait for the end of a move of the clock. At the end, which takes time as well, those
        that are begun after it: a busy log would never be clean."""
        from ..storage.cleaner.dirtiness import NOTHING_POSTPONED, Postponed

        move = self._clock.move
        if move is None or partition not in move.written:
            return NOTHING_POSTPONED
        is_at_end = self._clock.now_ms() >= move.ends_ms
        return Postponed(move.ends_ms if is_at_end else move.began_ms, move.ends_ms)

    def _ask_at(self, due_ms: int) -> None:
        if self.is_enabled and not self._is_stopping:
            self._look.ask_at(due_ms)

    def ask(self, delay_ms: int | None = None) -> None:
        """Something may have to be cleaned: look in a back-off, or in `delay_ms`, or sooner if that was asked for."""
        if self.is_enabled and not self._is_stopping:
            self._will_look = self._will_look or delay_ms is None
            self._look.ask(self._config.current.log_cleaner_backoff_ms if delay_ms is None else delay_ms)

    async def stop(self) -> None:
        """End the passes under way; what they have swapped in stays."""
        self._is_stopping = True
        self._look.cancel()
        async with self._ended:
            await self._ended.wait_for(lambda: not self._under_way)
        if self._write_soon.is_asked_for:
            await self._write_checkpoint()
        self._write_soon.cancel()
        if self._executor is not None:
            self._executor.shutdown()

    # Looking

    async def look(self) -> None:
        """Roll what must be, clean what can be, and see when to look again."""
        self.last_look_ms = self._clock.now_ms()
        self._will_look = False
        if not any(partition_log.config.is_compacted for partition_log in self._logs.logs.values()):
            return
        try:
            await self._look_at_all()
        except Exception:
            self.dead_threads = max(self.dead_threads, 1)
            self.ask()  # what falls due meanwhile must not wait for the next append
            raise

    async def _look_at_all(self) -> None:
        logs, config = self._logs.logs, self._config.current
        threads = config.log_cleaner_threads
        self.schedule.backoff_ms, self.schedule.threads = config.log_cleaner_backoff_ms, threads
        self._throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self.schedule.forget_all_but(logs)
        await self._roll_what_is_due()
        await self._find_horizons()
        ends = await asyncio.gather(*(self._clean_all() for _ in range(threads)), return_exceptions=True)
        errors = [end for end in ends if isinstance(end, BaseException)]
        self.dead_threads = len(errors)
        if errors:
            raise errors[0]
        due_ms = self.schedule.next_due_ms(logs, self.last_look_ms)
        if due_ms is not None:
            self._ask_at(max(due_ms, self._clock.now_ms() + self.schedule.backoff_ms))

    async def _roll_what_is_due(self) -> None:
        """Roll active segments whose records must be cleaned (KIP-354): an idle log would never roll by itself."""
        from ..storage.cleaner.dirtiness import must_roll

        now_ms, turn = self._clock.now_ms(), Turn()
        for partition, partition_log in list(self._logs.logs.items()):
            if turn.is_over:
                await turn.next()
            if partition_log.config.is_compacted and partition in self._logs.logs:
                try:
                    if self._postponed(partition).has(partition_log.segments.active):
                        continue
                    if must_roll(partition_log, now_ms):
                        self._roll(partition, partition_log)
                except (KafkaError, OSError) as error:
                    log.error("%s cannot be rolled: %s", partition, error)

    def _roll(self, partition: TopicPartition, partition_log: PartitionLog) -> None:
        partition_log.roll(self._clock.now_ms())
        self._changed(partition)

    async def _find_horizons(self) -> None:
        from ..storage.cleaner.delete_horizons import delete_horizons

        logs = self._logs.logs
        for partition in self.schedule.without_horizon(logs):
            if self._is_stopping or partition not in logs:
                continue
            partition_log = logs[partition]
            sealed = [*partition_log.segments][:-1]
            try:
                found = await self._in_thread(partial(delete_horizons, sealed))
            except (KafkaError, OSError, ValueError) as error:
                if logs.get(partition) is partition_log and not any(segment.is_deleted for segment in sealed):
                    self.schedule.fail(partition, error)
                found = []
            self.schedule.note_horizon(partition, found[0] if found else None)

    async def _clean_all(self) -> None:
        while not self._is_stopping:
            job = self.schedule.pick(self._logs.logs, self._clock.now_ms())
            if self.schedule.checkpoint.is_corrected:
                await self._write_checkpoint()
            if job is None:
                return
            await self._clean(job)

    async def compact(self, partition: TopicPartition) -> list[PassReport]:
        """Roll the log and clean it now, up to its end, however clean it is; the reports of the passes that took.

        More than one if the map was too small. KafkaStorageError if the log is uncleanable.
        """
        from ..storage.cleaner.delete_horizons import delete_horizons

        partition_log = self._logs.logs[partition]
        self._roll(partition, partition_log)
        reports: list[PassReport] = []
        while True:
            await self.until_idle(partition)
            job = self.schedule.pick_this(partition, partition_log, self._clock.now_ms())
            report = None if job is None else await self._clean(job)
            if job is None or report is None:
                reason = self.schedule.uncleanable().get(partition, "its cleaning was stopped")
                raise KafkaStorageError(f"{partition} was not compacted: {reason}")
            reports.append(report)
            if report.end_offset >= job.range.end_offset:
                with contextlib.suppress(KafkaError, OSError, ValueError):  # the log may be gone by now
                    report.horizons_ms = await self._in_thread(partial(delete_horizons, [*partition_log.segments][:-1]))
                return reports

    # What others do to logs

    def forget(self, partition: TopicPartition) -> None:
        """The log is going: a pass over it ends, and a later log of its name is dirty from its start."""
        self.abort(partition)
        if self._was_anything_cleaned() and self.schedule.forget(partition):
            self._write_soon.ask(0)

    def _was_anything_cleaned(self) -> bool:
        """Whether a log may have an entry in the checkpoint. Without a schedule, the file tells."""
        path = os.path.join(self._logs.directory, CLEANER_CHECKPOINT)
        return "schedule" in vars(self) or self._logs.filesystem.exists(path)

    def abort(self, partition: TopicPartition) -> None:
        """The log is going, or is not to be compacted any more: a pass over it ends before it reads or swaps more."""
        if self._under_way:
            states = self.schedule.states
            if states[partition] is State.IN_PROGRESS:
                states.pause(partition, partial(states.resume, partition))

    @contextlib.asynccontextmanager
    async def paused(self, partition: TopicPartition) -> AsyncIterator[None]:
        """Keep the cleaner from a log whose sealed segments are to be changed. A pass over it is aborted, and has ended
        when the body begins."""
        states = self.schedule.states
        async with self._ended:
            await self._ended.wait_for(lambda: not states.is_aborted(partition))
        has_ended = asyncio.Event()
        if not states.pause(partition, has_ended.set):
            await has_ended.wait()
        try:
            yield
        finally:
            if states[partition] is State.PAUSED:  # else the log has gone meanwhile
                states.resume(partition)
            async with self._ended:
                self._ended.notify_all()
            self.ask()

    async def truncate(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        is_wanted: Callable[[], bool] | None = None,
        fully: bool = False,
    ) -> None:
        """Drop what is at or beyond `offset`, as a follower that parted from its leader must; `fully`: drop all, and go
        on there. Nothing happens unless it `is_wanted` when the cleaner has let go of the log. KafkaStorageError,
        OSError."""
        async with self.paused(partition):
            partition_log = self._logs.get(partition)
            if partition_log is not None and partition_log.lower_recovery_point(offset):
                # First: after a power loss amid the truncation, recovery would not verify batches below the former one.
                await self._recovery_point_checkpoint.write()
                partition_log = self._logs.get(partition)
            if partition_log is None or (is_wanted is not None and not is_wanted()):
                return
            if fully:
                partition_log.truncate_fully_and_start_at(offset)
            else:
                partition_log.truncate_to(offset)
            self._changed(partition)
            if self.schedule.on_truncation(partition, partition_log):
                await self._write_checkpoint()

    # Seen from outside

    def gauges(self) -> CleanerGauges:
        """The gauges over all compacted logs, as of now."""
        return self.schedule.gauges(self._logs.logs, self._clock.now_ms())

    # Cleaning

    async def _clean(self, job: Job) -> PassReport | None:
        """Do the job; None if it failed, or was stopped."""
        from ..storage.cleaner.cleanable_log import CleaningAborted
        from ..storage.cleaner.worker import CleaningWork, swap_in

        loop = asyncio.get_running_loop()

        def is_stopped() -> bool:
            return self._is_stopping or self.schedule.states.is_aborted(job.partition)

        def swap_now(group: CleanedGroup) -> None:
            if is_stopped():
                raise CleaningAborted
            swap_in(job.log, group)
            self._changed(job.partition)

        async def swap_on_loop(group: CleanedGroup) -> None:
            swap_now(group)

        def swap(group: CleanedGroup) -> None:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                asyncio.run_coroutine_threadsafe(swap_on_loop(group), loop).result()
            else:  # a simulated loop does the work of threads itself, and must not wait for itself
                swap_now(group)

        work = CleaningWork(job, self._clock.now_ms(), self._limits(), self._throttle, is_stopped)
        self._under_way += 1
        try:
            await self._put_on_disk(job)
            await self._in_thread(partial(work.run, swap))
        except (KafkaStorageError, OSError) as failure:  # `run` raises none
            work.error = failure
        finally:
            error = None if is_stopped() else work.error
            has_moved = self.schedule.ended(job, work.report, error, self._clock.now_ms())
            if has_moved:
                await self._write_checkpoint()
            self._under_way -= 1
            async with self._ended:
                self._ended.notify_all()
        return work.report if has_moved else None

    async def _put_on_disk(self, job: Job) -> None:
        """Flush what is to be cleaned, and return when the checkpoint says so: recovery takes no gap between segments
        above the recovery point for the work of a pass. KafkaStorageError, OSError."""
        end_offset, checkpoint = job.range.end_offset, self._recovery_point_checkpoint
        if job.log.recovery_point < end_offset:
            await do_in_thread(job.log.flush_work())
        if checkpoint.written.get(job.partition, 0) < end_offset:
            await checkpoint.write()

    async def _write_checkpoint(self) -> None:
        try:
            await self._checkpoint_writer.write()
        except OSError as error:
            log.error("the cleaner checkpoint cannot be written: %s", error)

    def _limits(self) -> Limits:
        from ..storage.cleaner.cleanable_log import Limits

        config = self._config.current
        threads = max(config.log_cleaner_threads, 1)
        return Limits(
            map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=config.log_cleaner_io_buffer_load_factor,
            buffer_bytes=config.log_cleaner_io_buffer_size // threads // 2,
            record_bytes=config.kmini_max_decompressed_message_bytes,
            sifts_ahead=IS_COMPILED and _free_cores() >= threads + 1,
        )

    async def _in_thread(self, function: Callable[[], T]) -> T:
        """Not in one of the broker's worker threads: a pass takes minutes, and others wait for those."""
        threads = max(self._config.current.log_cleaner_threads, 1)
        if self._executor is None or threads != self._threads:
            from concurrent.futures import ThreadPoolExecutor

            if self._executor is not None:
                self._executor.shutdown(wait=False)  # what it is doing it finishes
            self._executor, self._threads = ThreadPoolExecutor(threads, "kmini-cleaner"), threads
        return await asyncio.get_running_loop().run_in_executor(self._executor, function)


def _free_cores() -> float:
    """The cores that this process may use, without those that all processes have kept busy in the last minute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores - (os.getloadavg()[0] if hasattr(os, "getloadavg") else 1)
