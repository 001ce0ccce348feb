"""Which log is cleaned next, and when there is one to be cleaned.

A log is a candidate if its topic is compacted, its cleaning state is IDLE (cleaning_states.py) and no pass over it has
failed. The cleaner picks one of the candidates:

1. Logs with a record that has been waiting longer than `max.compaction.lag.ms` (KIP-354), whatever their dirty ratio:
   by must-clean ratio, then by dirty ratio. (Apache Kafka cleans them too, but gives them no precedence.)
2. Logs whose dirty ratio is above `min.cleanable.dirty.ratio`: the dirtiest.
3. Logs in which the delete horizon of a tombstone or marker has passed (KIP-534), though nothing is dirty: the longest
   overdue. Such passes of one log are at least the back-off apart, and ten times as long as its last one took. (In
   Apache Kafka such records wait for the next dirty ones, for ever if there are none.)

A pass that fails makes its log *uncleanable* until the broker starts again: nothing of it was lost, and the others go
on. The bound of KIP-354 does not hold there; the gauges show it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ..config_key import MAX_LONG
from ..log import PartitionLog
from .cleanable_log import CleanableLog
from .cleaner_checkpoint import CleanerCheckpoint
from .cleaning_states import CleaningStates
from .dirtiness import Dirtiness, assess, capture, first_timestamp, next_roll_ms
from .stats import NO_HORIZON, LastPasses, PassReport, Standing

logger = logging.getLogger("kmini.storage.cleaner")

_HORIZON_SPACING = 10
"""A pass for horizons alone may take a tenth of the time."""


class Reason(enum.IntEnum):
    """Why a log is picked; the greatest goes first."""

    HORIZON = 1
    DIRTY = 2
    MUST = 3


class Job(NamedTuple):
    """A log to be cleaned. It is IN_PROGRESS until `Schedule.ended`."""

    partition: TopicPartition
    log: PartitionLog
    reason: Reason
    dirtiness: Dirtiness
    range: CleanableLog


Rank: TypeAlias = tuple[float, ...]
"""A Reason, and how urgent it is; greater ones go first."""


@dataclass
class _Memory:
    """What is remembered of a partition's passes."""

    horizon_ms: int | None = None
    """The earliest delete horizon in the log, or earlier; NO_HORIZON if there is none; None if nobody has looked."""
    next_horizon_pass_ms: int = 0
    failure: str | None = None


class Schedule:
    """For the loop. Knows of the logs what it is told in each call, so that nobody has to tell it of changes."""

    def __init__(self, checkpoint: CleanerCheckpoint, *, backoff_ms: int) -> None:
        self.checkpoint = checkpoint
        self.backoff_ms = backoff_ms
        """`log.cleaner.backoff.ms`; may be changed at any time."""
        self.threads = 1
        """`log.cleaner.threads`; likewise."""
        self.states = CleaningStates()
        self.last_passes = LastPasses()
        self._memories: dict[TopicPartition, _Memory] = {}
        self._ranking: deque[TopicPartition] = deque()
        """What is left of the last ranking, the best first."""
        self._ranked_ms = 0

    # Picking

    def pick(self, logs: Mapping[TopicPartition, PartitionLog], now_ms: int) -> Job | None:
        """The log to clean next, IN_PROGRESS from here on; None if there is none.

        To rank all logs takes a while if there are many. So they are ranked once and taken one after the other, each if
        there still is a reason to, and ranked again when none is left, or a back-off later.
        """
        if not 0 <= now_ms - self._ranked_ms < self.backoff_ms:
            self._ranking.clear()
        while True:
            if is_new := not self._ranking:
                ranks = ((self._look_at(partition, log, now_ms), partition) for partition, log in self._compacted(logs))
                ranked = [(found[0], partition) for found, partition in ranks if found is not None]
                self._ranking = deque(partition for _, partition in sorted(ranked, key=itemgetter(0), reverse=True))
                self._ranked_ms = now_ms
            while self._ranking:
                partition = self._ranking.popleft()
                log = logs.get(partition)
                if log is not None and (found := self._look_at(partition, log, now_ms)) is not None:
                    rank, dirtiness = found
                    return self._job(partition, log, Reason(int(rank[0])), dirtiness)
            if is_new:
                return None

    def _look_at(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> tuple[Rank, Dirtiness] | None:
        """None if there is no reason to clean the log now, or it must not be."""
        if not log.config.is_compacted or not self.states.is_idle(partition) or self._memory(partition).failure:
            return None
        dirtiness = self._assess(partition, log, now_ms)
        rank = None if dirtiness is None else self._rank(partition, log, dirtiness, now_ms)
        return None if rank is None or dirtiness is None else (rank, dirtiness)

    def pick_this(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> Job | None:
        """A job for this log, dirty or not; None if it is uncleanable. IllegalTransition unless it is idle."""
        dirtiness = self._assess(partition, log, now_ms)
        if dirtiness is None or self._memory(partition).failure:
            return None
        return self._job(partition, log, Reason.MUST, dirtiness)

    def _job(self, partition: TopicPartition, log: PartitionLog, reason: Reason, dirtiness: Dirtiness) -> Job:
        self.states.start(partition)
        return Job(partition, log, reason, dirtiness, capture(log, dirtiness))

    def _compacted(self, logs: Mapping[TopicPartition, PartitionLog]) -> Iterable[tuple[TopicPartition, PartitionLog]]:
        return ((partition, log) for partition, log in logs.items() if log.config.is_compacted and log.log_end_offset)

    def _assess(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> Dirtiness | None:
        """None if the log cannot even be looked at: then it is uncleanable."""
        noted = self.checkpoint.get(partition)
        try:
            dirtiness = assess(log, noted, now_ms)
        except (KafkaError, OSError) as error:
            if not self._memory(partition).failure:
                self.fail(partition, error)
            return None
        if noted is not None and noted != dirtiness.first_dirty_offset:
            self._correct(partition, log, noted, dirtiness.first_dirty_offset)
        return dirtiness

    def _correct(self, partition: TopicPartition, log: PartitionLog, noted: int, first_dirty_offset: int) -> None:
        """The checkpoint cannot be right. Retention moves the start of a log beyond it; nothing else should."""
        self.checkpoint.correct(partition, first_dirty_offset)
        if noted > log.log_end_offset or not log.config.is_deletable:
            logger.warning(
                "%s: the cleaner checkpoint is at %d, outside %d..%d: it is cleaned from %d on",
                *(partition, noted, log.log_start_offset, log.log_end_offset, first_dirty_offset),
            )

    def _rank(self, partition: TopicPartition, log: PartitionLog, dirtiness: Dirtiness, now_ms: int) -> Rank | None:
        """Larger ones go first; None if there is no reason to clean the log."""
        if dirtiness.must_clean_bytes:
            return (Reason.MUST, dirtiness.must_clean_ratio, dirtiness.ratio)
        if dirtiness.cleanable_bytes and dirtiness.ratio > log.config.min_cleanable_dirty_ratio:
            return (Reason.DIRTY, dirtiness.ratio)
        memory = self._memory(partition)
        if memory.horizon_ms is not None and max(memory.horizon_ms, memory.next_horizon_pass_ms) <= now_ms:
            return (Reason.HORIZON, now_ms - memory.horizon_ms)
        return None

    # What comes back

    def ended(self, job: Job, report: PassReport | None, error: BaseException | None, now_ms: int) -> bool:
        """The worker is done with the job: with a report, or with what failed, or with neither if it was stopped.

        True if the checkpoint moved and is to be written (after what the pass wrote is on the disk).
        """
        partition = job.partition
        was_left_alone = self.states.done(partition)
        if error is not None:
            self.fail(partition, error)
            return False
        if report is None or not was_left_alone:
            return False
        memory = self._memory(partition)
        memory.horizon_ms = report.earliest_horizon_ms
        memory.next_horizon_pass_ms = now_ms + max(self.backoff_ms, int(_HORIZON_SPACING * report.seconds * 1000))
        self.last_passes.note(report, self.threads)
        self.checkpoint.set(partition, report.end_offset)
        logger.info("%s: %s", partition, report)
        return True

    def fail(self, partition: TopicPartition, error: BaseException) -> None:
        """The log is uncleanable from now on."""
        self._memory(partition).failure = str(error) or type(error).__name__
        logger.error("%s cannot be cleaned any more until the broker starts again: %s", partition, error)

    def note_horizon(self, partition: TopicPartition, horizon_ms: int | None) -> None:
        """Somebody has looked for the earliest delete horizon of a log that was not cleaned since the start."""
        memory = self._memory(partition)
        if memory.horizon_ms is None:
            memory.horizon_ms = NO_HORIZON if horizon_ms is None else horizon_ms

    def without_horizon(self, logs: Mapping[TopicPartition, PartitionLog]) -> list[TopicPartition]:
        """Compacted logs of which nobody knows whether horizons wait in them."""
        return [p for p, _ in self._compacted(logs) if p not in self._memories or self._memories[p].horizon_ms is None]

    # What others do to logs

    def on_truncation(self, partition: TopicPartition, log: PartitionLog) -> bool:
        """The log was cut; True if the checkpoint moved and is to be written."""
        return self.checkpoint.lower(partition, log.segments.active.base_offset)

    def forget_all_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Logs that are gone: one of the same name begins afresh."""
        known = set(partitions)
        self.states.forget_all_but(known)
        for partition in self._memories.keys() - known:
            del self._memories[partition]
            self.checkpoint.remove(partition)

    # Seen from outside

    def failures(self) -> dict[TopicPartition, str]:
        """Uncleanable partitions, and why."""
        return {partition: memory.failure for partition, memory in self._memories.items() if memory.failure}

    def standing(self, logs: Mapping[TopicPartition, PartitionLog], now_ms: int) -> Standing:
        """What waits, and for how long, also of logs that are paused, being cleaned or uncleanable."""
        delay_ms, dirtiest, uncleanable, uncleanable_bytes = 0, 0.0, 0, 0
        for partition, log in self._compacted(logs):
            dirtiness = self._assess(partition, log, now_ms)
            if dirtiness is not None:
                delay_ms, dirtiest = max(delay_ms, dirtiness.delay_ms), max(dirtiest, dirtiness.ratio)
            if self._memory(partition).failure:
                uncleanable += 1
                uncleanable_bytes += log.size_bytes if dirtiness is None else dirtiness.cleanable_bytes
        return Standing(delay_ms / 1000, 100 * dirtiest, uncleanable, uncleanable_bytes)

    def next_due_ms(self, logs: Mapping[TopicPartition, PartitionLog], now_ms: int) -> int | None:
        """When time alone will next give the cleaner something to do: a roll, a bound, a minimum lag, a horizon. None
        if that is never. It may be too early, never too late."""
        times: list[int] = []
        for partition, log in self._compacted(logs):
            if not self._memory(partition).failure:
                # What cannot be looked at is found to be uncleanable by the next `pick`.
                with contextlib.suppress(KafkaError, OSError):
                    times += self._times(partition, log)
        return min((time for time in times if time > now_ms), default=None)

    def _times(self, partition: TopicPartition, log: PartitionLog) -> Iterable[int]:
        memory = self._memory(partition)
        if memory.horizon_ms is not None and memory.horizon_ms < NO_HORIZON:
            yield max(memory.horizon_ms, memory.next_horizon_pass_ms)
        roll_ms = next_roll_ms(log)
        if roll_ms is not None:
            yield roll_ms
        config, first_dirty = log.config, self.checkpoint.get(partition) or 0
        for segment in log.segments:
            if segment is log.segments.active or segment.next_offset <= first_dirty:
                continue
            if config.max_compaction_lag_ms < MAX_LONG:
                yield first_timestamp(segment) + config.max_compaction_lag_ms + 1
            if config.min_compaction_lag_ms > 0:
                yield segment.largest_timestamp + config.min_compaction_lag_ms

    def _memory(self, partition: TopicPartition) -> _Memory:
        memory = self._memories.get(partition)
        if memory is None:
            memory = self._memories[partition] = _Memory()
        return memory
