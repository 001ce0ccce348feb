"""Delete the records of a topic that every consumer has durably processed (KIP-107).

The rule: a partition is purged up to the smallest offset that any registered consumer of it has durably processed, and
not at all while the offset of one consumer is unknown.

For a stage this is the *committed* offset of its checkpoint (see `spark_checkpoint.py`). The offsets that a batch
planned to read are in the checkpoint too, and progress events come early, late or never; neither counts. For a consumer
group it is the group's committed offset.

A purge never stops a stream: a refused purge is reported and tried again after a growing pause.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..admin import AdminError, DeletedRecords
from .spark_checkpoint import (
    CheckpointError,
    CheckpointFiles,
    LocalFiles,
    kafka_sources,
    last_commit,
    read_processed,
)

log = logging.getLogger("kmini.pipeline")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Seconds between a refused purge and the next attempt: doubled with each refusal in a row."""
CHECK_EVERY_S = 0.1
"""Seconds between checks of the checkpoints. A check that finds no new commit lists one folder."""
ASK_GROUPS_EVERY_S = 1.0
"""Least seconds between two requests for a group's committed offsets."""
LOOK_ELSEWHERE_EVERY_S = 1.0
"""Least seconds between two looks at a checkpoint that is not on this machine: an object store bills each."""


class DeletesRecords(Protocol):
    """The part of `Admin` that a purge needs."""

    def delete_before(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], DeletedRecords]: ...

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]: ...

    def end_offsets(self, topic: str, partitions: int) -> dict[int, int]: ...


class Ownership(Protocol):
    """The part of `TopicOwnership` that a purge needs."""

    def other_owner(self, topic: str) -> str: ...


class TopicConsumer(Protocol):
    """A reader of a topic: a stage, or a consumer group outside the pipeline."""

    name: str

    def processed(self, topic: str) -> Mapping[int, int]:
        """For each partition, the offset before which every record is processed and never read again. A missing
        partition may be read from its beginning. Raises `CheckpointError`, `AdminError` or OSError if it is unknown."""

    def look_again(self) -> None:
        """Have the next `processed` answer by what is there then, however recent the last look is."""

    def make_durable(self) -> None:
        """Make the last result of `processed` survive a power loss. Raises OSError."""


class StageConsumer:
    """A stage. Its checkpoint holds its offsets."""

    def __init__(
        self,
        name: str,
        files: CheckpointFiles,
        sync: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`sync` brings the stage's files to the disk."""
        self.name = f"stage {name}"
        self._files = files
        self._sync = sync
        self._now = now
        self._look_every_s = 0.0 if isinstance(files, LocalFiles) else LOOK_ELSEWHERE_EVERY_S
        self._looked_at = float("-inf")
        self._commit: int | None = None
        self._offsets: Mapping[tuple[str, int], int] = {}
        self._is_durable = False

    def processed(self, topic: str) -> dict[int, int]:
        is_due = self._now() - self._looked_at >= self._look_every_s
        if is_due and last_commit(self._files) != self._commit:
            found = read_processed(self._files)
            self._commit, self._offsets = (found.batch_id, found.offsets) if found else (None, {})
            self._is_durable = False
        if is_due:
            self._looked_at = self._now()
        return {partition: offset for (name, partition), offset in self._offsets.items() if name == topic}

    def position(self, topic: str) -> dict[int, int]:
        """What `processed` says; where the stage began to read the topic, if nothing of that is processed."""
        if processed := self.processed(topic):
            return processed
        began: dict[int, int] = {}
        for source in kafka_sources(self._files):
            for (name, partition), offset in source.items():
                if name == topic:
                    began[partition] = min(offset, began.get(partition, offset))
        return began

    def look_again(self) -> None:
        self._looked_at = float("-inf")

    def make_durable(self) -> None:
        if not self._is_durable:
            self._sync()
            self._is_durable = True


class GroupConsumer:
    """A consumer group. The broker keeps its offsets, and is asked at most every `ASK_GROUPS_EVERY_S`."""

    def __init__(
        self, group: str, partitions: Sequence[int], admin: DeletesRecords, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = f"group {group}"
        self._group = group
        self._partitions = partitions
        self._admin = admin
        self._now = now
        self._asked_at = float("-inf")
        self._offsets: dict[int, int] = {}

    def processed(self, topic: str) -> dict[int, int]:
        if self._now() - self._asked_at >= ASK_GROUPS_EVERY_S:
            self._offsets = self._admin.committed(self._group, topic, self._partitions)
            self._asked_at = self._now()
        return self._offsets

    def look_again(self) -> None:
        self._asked_at = float("-inf")

    def make_durable(self) -> None:
        """Does nothing: the broker stores committed offsets."""


@dataclass
class TopicPurge:
    """A topic that is purged, and the state of its purging."""

    topic: str
    partitions: Sequence[int]
    consumers: Sequence[TopicConsumer]
    starts: Mapping[int, int] = field(default_factory=dict)
    """The log start offset of each partition when this run began."""
    low_watermarks: dict[int, int] = field(default_factory=dict)
    """Last answer of the broker for each partition. Purges raise it; nothing lowers it. Records before it are gone."""
    waits_for: dict[int, str] = field(default_factory=dict)
    """Partition -> the consumers that keep it from being purged, because their offsets are unknown."""
    problem: str = ""
    """Why the last attempt failed; empty after a success."""
    refusals: int = 0
    """Refusals since the last success."""
    retry_at: float = 0.0
    """Time of the next attempt, by the clock of the `Purger`."""

    def __post_init__(self) -> None:
        self.low_watermarks = {**self.starts, **self.low_watermarks}

    @property
    def purged(self) -> int:
        """Offsets that went in this run, through this pipeline or not."""
        return sum(self.low_watermarks.values()) - sum(self.starts.values())

    def held(self, ends: Mapping[int, int]) -> int:
        """Records before these ends that are not deleted."""
        return sum(end - self.low_watermarks.get(partition, 0) for partition, end in ends.items())

    def unprocessed(self, ends: Mapping[int, int]) -> int:
        """Records before these ends that a stage has still to process. Raises what `TopicConsumer.processed` raises."""
        stages = [one.position(self.topic) for one in self.consumers if isinstance(one, StageConsumer)]
        return sum(end - min((one.get(partition, 0) for one in stages), default=end) for partition, end in ends.items())

    def kept_by(self, ends: Mapping[int, int]) -> list[str]:
        """The consumers that keep records before these ends: in each partition that holds some, those that have
        processed least of them. Raises what `TopicConsumer.processed` raises."""
        processed = {consumer.name: consumer.processed(self.topic) for consumer in self.consumers}
        names: list[str] = []
        for partition, end in ends.items():
            offsets = {name: one.get(partition, -1) for name, one in processed.items()}
            least = min(offsets.values(), default=end)
            if least < end and self.low_watermarks.get(partition, 0) < end:
                names += [name for name, offset in offsets.items() if offset == least]
        return list(dict.fromkeys(names))

    def purgeable(self) -> dict[int, int]:
        """The offset up to which each partition can be purged. Raises what `TopicConsumer.processed` raises."""
        offsets_by_name = [(consumer.name, consumer.processed(self.topic)) for consumer in self.consumers]
        self.waits_for = {}
        offsets = {}
        for partition in self.partitions:
            unknown = [name for name, processed in offsets_by_name if partition not in processed]
            if unknown or not offsets_by_name:
                self.waits_for[partition] = ", ".join(unknown)
            else:
                offsets[partition] = min(processed[partition] for _, processed in offsets_by_name)
        return offsets


class Purger:
    """Purges topics when `purge` is called. Any thread may call it."""

    def __init__(
        self,
        admin: DeletesRecords,
        topics: Sequence[TopicPurge],
        now: Callable[[], float] = time.monotonic,
        ownership: Ownership | None = None,
    ) -> None:
        """With `ownership` a topic is purged only while this pipeline owns it."""
        self.topics = topics
        self._admin = admin
        self._now = now
        self._ownership = ownership
        self._lock = threading.RLock()

    def purge(self, *, at_once: bool = False) -> int:
        """Delete the processed records; return the number of purged partitions. `at_once` ignores the pause after a
        refusal, and looks at every consumer anew."""
        with self._lock:
            if at_once:
                for topic in self.topics:
                    for consumer in topic.consumers:
                        consumer.look_again()
            return sum(self._purge(topic) for topic in self.topics if at_once or topic.retry_at <= self._now())

    def has_room(self, name: str, limit: int) -> bool:
        """Whether another batch may be written to a purged topic: no more than `limit` of its records are there, or
        are left for the stages to process. Purges the topic if it holds more, so that a batch which is written then
        finds it purged. Where this cannot be known, the answer is yes: the purge reports the reason."""
        with self._lock:
            topic = next((topic for topic in self.topics if topic.topic == name), None)
            if topic is None:
                return True
            try:
                ends = self._admin.end_offsets(name, len(topic.partitions))
                if topic.held(ends) <= limit:
                    return True
                if topic.retry_at <= self._now():
                    self._purge(topic)
                return topic.held(ends) <= limit or topic.unprocessed(ends) <= limit
            except (CheckpointError, AdminError, OSError):
                return True

    def _purge(self, topic: TopicPurge) -> int:
        try:
            purgeable = {
                partition: offset
                for partition, offset in topic.purgeable().items()
                if offset > topic.low_watermarks.get(partition, 0)
            }
            if not purgeable:
                if topic.refusals:
                    self._note_success(topic)
                return 0
            if self._ownership is not None and (other := self._ownership.other_owner(topic.topic)):
                self._note_refusal(topic, f"{other} has taken it over")
                return 0
            for consumer in topic.consumers:
                consumer.make_durable()
        except (CheckpointError, AdminError, OSError) as error:
            self._note_refusal(topic, str(error))
            return 0
        outcomes = self._admin.delete_before({(topic.topic, number): offset for number, offset in purgeable.items()})
        refused = []
        for (_, partition), outcome in outcomes.items():
            if outcome.low_watermark is not None:  # it may be above the requested offset: retention deletes too
                topic.low_watermarks[partition] = max(outcome.low_watermark, topic.low_watermarks.get(partition, 0))
            else:
                refused.append(f"{topic.topic}-{partition} up to {purgeable[partition]}: {_explained(outcome)}")
        if refused:
            self._note_refusal(topic, "; ".join(refused))
        else:
            self._note_success(topic)
        return len(outcomes) - len(refused)

    def _note_refusal(self, topic: TopicPurge, problem: str) -> None:
        topic.refusals += 1
        pause_s = min(FIRST_PAUSE_S * 2 ** (topic.refusals - 1), LONGEST_PAUSE_S)
        topic.retry_at = self._now() + pause_s
        if problem != topic.problem:  # one line for a problem that stays
            log.warning("topic %s is not purged: %s; next attempt in %.0f s", topic.topic, problem, pause_s)
        topic.problem = problem

    def _note_success(self, topic: TopicPurge) -> None:
        if topic.problem:
            log.info("topic %s is purged again", topic.topic)
        topic.problem, topic.refusals, topic.retry_at = "", 0, 0.0


class PurgeThread:
    """Purges beside the stages: a micro-batch never waits for a purge. The thread checks the checkpoints itself:
    Spark notifies its listeners of a batch before or after the commit can be read."""

    def __init__(self, purger: Purger, *, interval_s: float = 1.0) -> None:
        """At least `interval_s` lie between two purges, because each costs a request and some fsyncs."""
        self._purger = purger
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kmini-purge", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, within_s: float) -> None:
        """Purge a last time, and end the thread. One that still waits for brokers after `within_s` is left behind."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(within_s)
            if self._thread.is_alive():
                log.warning("the last purge has not ended after %g s: the next run purges first", within_s)

    def _run(self) -> None:
        pause_s = CHECK_EVERY_S
        while not self._stop.wait(pause_s):
            try:
                pause_s = max(CHECK_EVERY_S, self._interval_s if self._purger.purge() else 0.0)
            except Exception:  # a bug here must not stop a stream
                log.exception("a purge failed")
                self._stop.wait(FIRST_PAUSE_S)
        try:
            self._purger.purge(at_once=True)
        except Exception:
            log.exception("the last purge failed")


def _explained(outcome: DeletedRecords) -> str:
    error = outcome.error
    if error is not None and error.name == "OFFSET_OUT_OF_RANGE":
        return (
            f"{error} (the log ends before what was processed: it was truncated, or the topic is another one; "
            "right after a change of leader this passes)"
        )
    return str(error)
