"""Which log to clean next, and when the next one is due.

A log is a candidate if its topic is compacted, its cleaning state is IDLE (cleaning_states.py) and no pass over it has
failed. The cleaner picks one of the candidates:

1. Logs with a record that has waited longer than `max.compaction.lag.ms` (KIP-354), whatever their dirty ratio: by
   must-clean ratio, then by dirty ratio. (Apache Kafka cleans them too, without precedence.)
2. Logs whose dirty ratio is above `min.cleanable.dirty.ratio`: the dirtiest first.
3. Clean logs in which the delete horizon of a tombstone or marker has passed (KIP-534): the longest overdue first. Two
   such passes over one log are at least the back-off apart, and ten times the duration of the last pass. (In Apache
   Kafka such records wait for the next dirty ones, forever if there are none.)

A pass that fails makes its log *uncleanable* until the broker restarts. No record is lost, and the cleaner goes on with
the other logs. The bound of KIP-354 does not hold for an uncleanable log; the gauges show it.
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ..config_key import MAX_LONG
from ..log import PartitionLog
from .cleanable_log import CleanableLog
from .cleaner_checkpoint import CleanerCheckpoint
from .cleaning_states import CleaningStates
from .dirtiness import NOTHING_POSTPONED, Dirtiness, Postponed, assess, capture, first_timestamp, next_roll_ms
from .stats import NO_HORIZON, CleanerGauges, LastPasses, PassReport

logger = logging.getLogger("kmini.storage.cleaner")

_HORIZON_SPACING = 10
"""Durations of the last pass that must go by before a pass for horizons alone: it takes a tenth of the time at most."""


class Reason(enum.IntEnum):
    """Why a log is picked. The greatest goes first."""

    HORIZON = 1
    DIRTY = 2
    MUST = 3


class Job(NamedTuple):
    """A log to clean. Its partition is IN_PROGRESS until `Schedule.ended`."""

    partition: TopicPartition
    log: PartitionLog
    reason: Reason
    dirtiness: Dirtiness
    range: CleanableLog


DueReason: TypeAlias = Literal["delete horizon", "roll", "max.compaction.lag.ms", "min.compaction.lag.ms"]
"""Why the cleaner looks at a log at a certain time."""

Rank: TypeAlias = tuple[float, ...]
"""A Reason, and how urgent it is. Greater ranks go first."""


@dataclass
class _Memory:
    """The results of a partition's passes."""

    horizon_ms: int | None = None
    """A lower bound of the delete horizons in the log; NO_HORIZON if it has none; None if the log was not scanned."""
    next_horizon_pass_ms: int = 0
    failure: str | None = None


class Schedule:
    """For the loop. Each call gets the logs as they are then, so changes need not be reported."""

    def __init__(
        self,
        checkpoint: CleanerCheckpoint,
        *,
        backoff_ms: int,
        postponed: Callable[[TopicPartition], Postponed] = lambda partition: NOTHING_POSTPONED,
    ) -> None:
        """`postponed` says which segments of a log are left alone for the time being."""
        self.checkpoint = checkpoint
        self._postponed = postponed
        self.backoff_ms = backoff_ms
        """`log.cleaner.backoff.ms`. May change at any time."""
        self.threads = 1
        """`log.cleaner.threads`. May change at any time."""
        self.states = CleaningStates()
        self.last_passes = LastPasses()
        self._memories: dict[TopicPartition, _Memory] = {}
        self._ranking: deque[TopicPartition] = deque()
        """The rest of the last ranking, the best first."""
        self._ranked_ms = 0

    # Picking

    def pick(self, logs: Mapping[TopicPartition, PartitionLog], now_ms: int) -> Job | None:
        """Return the log to clean next, whose partition is IN_PROGRESS from here on; None if there is none.

        Ranking many logs takes a while. So a ranking is used until it is empty or a back-off old, and each log is
        measured again when its turn comes.
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
        """Rank a log; None if there is no reason to clean it now, or if it must not be cleaned."""
        if not log.config.is_compacted or not self.states.is_idle(partition) or self._memory(partition).failure:
            return None
        dirtiness = self.measure(partition, log, now_ms, self._postponed(partition))
        rank = None if dirtiness is None else self._rank(partition, log, dirtiness, now_ms)
        return None if rank is None or dirtiness is None else (rank, dirtiness)

    def pick_this(self, partition: TopicPartition, log: PartitionLog, now_ms: int) -> Job | None:
        """Return a job for this log, dirty or not; None if it is uncleanable. IllegalTransition unless it is idle."""
        dirtiness = self.measure(partition, log, now_ms)
        if dirtiness is None or self._memory(partition).failure:
            return None
        return self._job(partition, log, Reason.MUST, dirtiness)

    def _job(self, partition: TopicPartition, log: PartitionLog, reason: Reason, dirtiness: Dirtiness) -> Job:
        self.states.start(partition)
        return Job(partition, log, reason, dirtiness, capture(log, dirtiness))

    def _compacted(self, logs: Mapping[TopicPartition, PartitionLog]) -> Iterable[tuple[TopicPartition, PartitionLog]]:
        return ((partition, log) for partition, log in logs.items() if log.config.is_compacted and log.log_end_offset)

    def measure(
        self, partition: TopicPartition, log: PartitionLog, now_ms: int, postponed: Postponed = NOTHING_POSTPONED
    ) -> Dirtiness | None:
        """Measure a log; None if it cannot be measured, which makes it uncleanable."""
        noted = self.checkpoint.get(partition)
        try:
            dirtiness = assess(log, noted, now_ms, postponed)
        except (KafkaError, OSError) as error:
            if not self._memory(partition).failure:
                self.fail(partition, error)
            return None
        if noted is not None and noted != dirtiness.first_dirty_offset:
            self._correct(partition, log, noted, dirtiness.first_dirty_offset)
        return dirtiness

    def _correct(self, partition: TopicPartition, log: PartitionLog, noted: int, first_dirty_offset: int) -> None:
        """Replace a checkpointed offset outside the log. Only retention should move the log start beyond it."""
        self.checkpoint.correct(partition, first_dirty_offset)
        if noted > log.log_end_offset or not log.config.is_deletable:
            logger.warning(
                "%s: the cleaner checkpoint is at %d, outside %d..%d: it is cleaned from %d on",
                *(partition, noted, log.log_start_offset, log.log_end_offset, first_dirty_offset),
            )

    def _rank(self, partition: TopicPartition, log: PartitionLog, dirtiness: Dirtiness, now_ms: int) -> Rank | None:
        """The rank of a log; None if there is no reason to clean it."""
        if dirtiness.must_clean_bytes:
            return (Reason.MUST, dirtiness.must_clean_ratio, dirtiness.ratio)
        if dirtiness.cleanable_bytes and dirtiness.ratio > log.config.min_cleanable_dirty_ratio:
            return (Reason.DIRTY, dirtiness.ratio)
        memory = self._memory(partition)
        if memory.horizon_ms is not None and max(memory.horizon_ms, memory.next_horizon_pass_ms) <= now_ms:
            return (Reason.HORIZON, now_ms - memory.horizon_ms)
        return None

    # The end of a job

    def ended(self, job: Job, report: PassReport | None, error: BaseException | None, now_ms: int) -> bool:
        """Take the result of a worker: a report, or an error, or neither if the worker was stopped.

        Return whether the checkpoint moved and is to be written. (The segments of the pass are on the disk already.)
        """
        partition = job.partition
        has_completed = self.states.done(partition)
        if error is not None:
            self.fail(partition, error)
            return False
        if report is None or not has_completed:
            return False
        memory = self._memory(partition)
        memory.horizon_ms = report.earliest_horizon_ms
        memory.next_horizon_pass_ms = now_ms + max(self.backoff_ms, int(_HORIZON_SPACING * report.seconds * 1000))
        self.last_passes.note(report, self.threads)
        self.checkpoint.set(partition, report.end_offset)
        logger.info("%s: %s", partition, report)
        return True

    def fail(self, partition: TopicPartition, error: BaseException) -> None:
        """Make the log uncleanable."""
        self._memory(partition).failure = str(error) or type(error).__name__
        logger.error("%s cannot be cleaned any more until the broker starts again: %s", partition, error)

    def note_horizon(self, partition: TopicPartition, horizon_ms: int | None) -> None:
        """Note the earliest delete horizon of a log that was scanned for it; None for a log without any."""
        memory = self._memory(partition)
        if memory.horizon_ms is None:
            memory.horizon_ms = NO_HORIZON if horizon_ms is None else horizon_ms

    def without_horizon(self, logs: Mapping[TopicPartition, PartitionLog]) -> list[TopicPartition]:
        """Compacted logs not yet scanned for delete horizons."""
        return [p for p, _ in self._compacted(logs) if p not in self._memories or self._memories[p].horizon_ms is None]

    # Truncated and removed logs

    def on_truncation(self, partition: TopicPartition, log: PartitionLog) -> bool:
        """Note that the log was truncated; return whether the checkpoint moved and is to be written."""
        return self.checkpoint.lower(partition, log.segments.active.base_offset)

    def forget(self, partition: TopicPartition) -> bool:
        """Forget a log that is going: a new log of its name begins anew. Return whether the checkpoint is to be
        written."""
        self._memories.pop(partition, None)
        self.checkpoint.remove(partition)
        return self.checkpoint.is_corrected

    def forget_all_but(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget all partitions but these."""
        known = set(partitions)
        self.states.forget_all_but(known)
        for partition in self._memories.keys() - known:
            self.forget(partition)

    # Metrics and time

    def uncleanable(self) -> dict[TopicPartition, str]:
        """Uncleanable partitions, with the reason."""
        return {partition: memory.failure for partition, memory in self._memories.items() if memory.failure}

    def gauges(self, logs: Mapping[TopicPartition, PartitionLog], now_ms: int) -> CleanerGauges:
        """Measure all compacted logs, including those that are paused, being cleaned or uncleanable."""
        delay_ms, dirtiest, uncleanable, uncleanable_bytes = 0, 0.0, 0, 0
        for partition, log in self._compacted(logs):
            dirtiness = self.measure(partition, log, now_ms)
            if dirtiness is not None:
                delay_ms, dirtiest = max(delay_ms, dirtiness.delay_ms), max(dirtiest, dirtiness.ratio)
            if self._memory(partition).failure:
                uncleanable += 1
                uncleanable_bytes += log.size_bytes if dirtiness is None else dirtiness.cleanable_bytes
        return CleanerGauges(delay_ms / 1000, 100 * dirtiest, uncleanable, uncleanable_bytes)

    def next_due_ms(self, logs: Mapping[TopicPartition, PartitionLog], since_ms: int) -> int | None:
        """Return the first time after `since_ms` at which time alone gives the cleaner something to do: a roll, a
        bound, a minimum lag, a horizon; None for never. The time may be too early, and is never too late.

        `since_ms` is when the cleaner began to look. What falls due during the look, after the cleaner has passed its
        log, is due at once.
        """
        times: list[int] = []
        for partition, log in self._compacted(logs):
            # The next `pick` finds that a log that cannot be measured is uncleanable.
            with contextlib.suppress(KafkaError, OSError):
                times += (time for _, time in self.due_times(partition, log))
        return min((time for time in times if time > since_ms), default=None)

    def due_times(self, partition: TopicPartition, log: PartitionLog) -> Iterator[tuple[DueReason, int]]:
        """The times at which time alone gives the cleaner something to do in a compacted log, past ones included; none
        for an uncleanable log. Raises CorruptMessage and OSError if the log cannot be measured."""
        memory = self._memory(partition)
        if memory.failure:
            return
        if memory.horizon_ms is not None and memory.horizon_ms < NO_HORIZON:
            yield "delete horizon", max(memory.horizon_ms, memory.next_horizon_pass_ms)
        due_ms = self._postponed(partition).due_ms
        roll_ms = next_roll_ms(log)
        if roll_ms is not None:
            yield "roll", due_ms(log.segments.active, roll_ms)
        config, first_dirty = log.config, self.checkpoint.get(partition) or 0
        for segment in log.segments:
            if segment is log.segments.active or segment.next_offset <= first_dirty:
                continue
            if config.max_compaction_lag_ms < MAX_LONG:
                yield (
                    "max.compaction.lag.ms",
                    due_ms(segment, first_timestamp(segment) + config.max_compaction_lag_ms + 1),
                )
            if config.min_compaction_lag_ms > 0:
                yield "min.compaction.lag.ms", due_ms(segment, segment.largest_timestamp + config.min_compaction_lag_ms)

    def _memory(self, partition: TopicPartition) -> _Memory:
        memory = self._memories.get(partition)
        if memory is None:
            memory = self._memories[partition] = _Memory()
        return memory
