"""A pass in a thread, and the swaps that the loop does for it.

thread                                   loop
------                                   ----
                                         job = schedule.pick(...)
                                         work = CleaningWork(job, ...)
work.run(swap)   group is on the disk -> swap_in(job.log, group)
                 sync the directory   <-
                 next group ...
                                         if schedule.ended(job, work.report, work.error, now):
checkpoint.write(snapshot)
"""

from __future__ import annotations

from collections.abc import Callable

from ...protocol.errors import KafkaStorageError
from ..log import PartitionLog
from .clean import Pass
from .cleanable_log import CleaningAborted, Limits
from .cleaned_segment import CleanedGroup, discard
from .schedule import Job
from .stats import PassReport
from .throttle import Throttle


class CleaningWork:
    """One job. After `run` it has a `report` or an `error`; neither if it was stopped, or if the log has changed."""

    def __init__(
        self, job: Job, now_ms: int, limits: Limits, throttle: Throttle, is_stopped: Callable[[], bool]
    ) -> None:
        """The thread calls `is_stopped` at every read and write: whether the partition is aborted, or the broker
        stops."""
        self._job = job
        self._pass = Pass(job.range, now_ms, limits, self)
        self._throttle = throttle
        self._is_stopped = is_stopped
        self.report: PassReport | None = None
        self.error: Exception | None = None

    def on_bytes(self, count: int) -> None:
        if self._is_stopped():
            raise CleaningAborted
        self._throttle.on_bytes(count)

    def run(self, swap: Callable[[CleanedGroup], None]) -> None:
        """Run the pass. Blocks. `swap` returns once the loop has done `swap_in`, and raises the error of that."""
        log = self._job.range
        remaining = list(log.segments)
        try:
            for group in self._pass.run():
                try:
                    swap(group)
                except CleaningAborted:
                    discard(log.filesystem, group.segment)
                    raise
                del remaining[: len(group.sources)]
                log.filesystem.sync_directory(log.directory)
            self.report = self._pass.report
        except CleaningAborted:
            return
        except KafkaStorageError as error:  # from the swap
            self.error = error
        except Exception as error:  # any error concerns this log only
            if not any(segment.is_deleted for segment in remaining):  # else a later pass cleans the changed log
                self.error = error


def swap_in(log: PartitionLog, group: CleanedGroup) -> None:
    """Put the segment in the place of its sources, on the loop.

    KafkaStorageError if the disk refuses. CleaningAborted if the log has lost a source: by truncation or deletion.
    """
    sealed = [*log.segments][:-1]
    if not all(source in sealed for source in group.sources):
        raise CleaningAborted
    log.replace_segments(group.sources, group.segment)
