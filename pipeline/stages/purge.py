"""Delete what every consumer of a topic has processed for good (KIP-107).

The rule, in one sentence: a partition is purged up to the smallest offset that any registered consumer of it has
durably processed, and not at all while one of them has not said how far it is.

For a stage that is what its checkpoint has *committed* (see checkpoint.py): not what a batch planned to read, which is
in the checkpoint too, and not what a progress event told, which comes before or after the fact, or never. For a
consumer group it is what the group has committed.

A purge never stops a stream: what is refused is remembered, reported, and tried again, after a pause that grows.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .admin import AdminError, Deleted
from .checkpoint import CheckpointError, CheckpointFiles, last_commit, read_processed

log = logging.getLogger("kmini.pipeline")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
LOOK_EVERY_S = 0.1
"""Between looks into the checkpoints; a look that finds no new commit is one listing of a folder."""
ASK_GROUPS_EVERY_S = 1.0


class DeletesRecords(Protocol):
    """As much of `admin.Admin` as a purge needs."""

    def delete_before(self, offsets: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], Deleted]: ...

    def committed(self, group: str, topic: str, partitions: Iterable[int]) -> dict[int, int]: ...


class Consumer(Protocol):
    """Somebody who reads a topic."""

    name: str

    def processed(self, topic: str) -> Mapping[int, int]:
        """Of each partition, up to where everything was processed, never to be read again. A partition that is missing
        may be read from its beginning. Raises `CheckpointError`, `AdminError` or OSError where it cannot be known."""

    def make_durable(self) -> None:
        """Have what `processed` told survive a loss of power. Raises OSError."""


class StageConsumer:
    """A stage, by its checkpoint."""

    def __init__(self, name: str, files: CheckpointFiles, make_durable: Callable[[], None] = lambda: None) -> None:
        self.name = f"stage {name}"
        self._files = files
        self._make_durable = make_durable
        self._commit: int | None = None
        self._offsets: Mapping[tuple[str, int], int] = {}
        self._is_durable = False

    def processed(self, topic: str) -> dict[int, int]:
        commit = last_commit(self._files)
        if commit != self._commit:
            found = read_processed(self._files)
            self._commit, self._offsets = (found.batch_id, found.offsets) if found else (None, {})
            self._is_durable = False
        return {partition: offset for (name, partition), offset in self._offsets.items() if name == topic}

    def make_durable(self) -> None:
        if not self._is_durable:
            self._make_durable()
            self._is_durable = True


class GroupConsumer:
    """A consumer group, by its commits, which the broker keeps. It is asked once a second at most."""

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

    def make_durable(self) -> None:
        """The broker's business."""


@dataclass
class TopicPurge:
    """A topic that is purged, and how far that has come."""

    topic: str
    partitions: Sequence[int]
    consumers: Sequence[Consumer]
    low_watermarks: dict[int, int] = field(default_factory=dict)
    """What the broker answered last: raised by purges, never lowered. Nothing before it is there any more."""
    waits_for: dict[int, str] = field(default_factory=dict)
    """Partitions that are not purged, and the consumers that have not said how far they are."""
    trouble: str = ""
    """Why the last attempt failed; empty after one that did not."""
    refusals: int = 0
    """Since the last attempt that was not refused."""
    retry_at: float = 0.0

    def purgeable(self) -> dict[int, int]:
        """Of each partition, up to where it can be purged. Raises what `Consumer.processed` does."""
        told = [(consumer.name, consumer.processed(self.topic)) for consumer in self.consumers]
        self.waits_for = {}
        offsets = {}
        for partition in self.partitions:
            silent = [name for name, processed in told if partition not in processed]
            if silent or not told:
                self.waits_for[partition] = ", ".join(silent)
            else:
                offsets[partition] = min(processed[partition] for _, processed in told)
        return offsets


class Purger:
    """Purges topics, whenever it is asked to."""

    def __init__(
        self, admin: DeletesRecords, topics: Sequence[TopicPurge], now: Callable[[], float] = time.monotonic
    ) -> None:
        self.topics = topics
        self._admin = admin
        self._now = now

    def purge(self, *, at_once: bool = False) -> int:
        """Delete what can be deleted; return of how many partitions. `at_once`: even after a refusal a moment ago."""
        return sum(self._purge(topic) for topic in self.topics if at_once or topic.retry_at <= self._now())

    def _purge(self, topic: TopicPurge) -> int:
        try:
            wanted = {
                partition: offset
                for partition, offset in topic.purgeable().items()
                if offset > topic.low_watermarks.get(partition, 0)
            }
            if not wanted:
                if topic.refusals:
                    self._is_well(topic)
                return 0
            for consumer in topic.consumers:
                consumer.make_durable()
        except (CheckpointError, AdminError, OSError) as error:
            self._is_refused(topic, str(error))
            return 0
        outcomes = self._admin.delete_before({(topic.topic, number): offset for number, offset in wanted.items()})
        refused = []
        for (_, partition), outcome in outcomes.items():
            if outcome.low_watermark is not None:  # it may be beyond what was asked for: retention deletes too
                topic.low_watermarks[partition] = max(outcome.low_watermark, topic.low_watermarks.get(partition, 0))
            else:
                refused.append(f"{topic.topic}-{partition} up to {wanted[partition]}: {_explained(outcome)}")
        if refused:
            self._is_refused(topic, "; ".join(refused))
        else:
            self._is_well(topic)
        return len(outcomes) - len(refused)

    def _is_refused(self, topic: TopicPurge, trouble: str) -> None:
        topic.refusals += 1
        pause_s = min(FIRST_PAUSE_S * 2 ** (topic.refusals - 1), LONGEST_PAUSE_S)
        topic.retry_at = self._now() + pause_s
        if trouble != topic.trouble:  # the same thing again is not said again
            log.warning("topic %s is not purged: %s; next attempt in %.0f s", topic.topic, trouble, pause_s)
        topic.trouble = trouble

    def _is_well(self, topic: TopicPurge) -> None:
        if topic.trouble:
            log.info("topic %s is purged again", topic.topic)
        topic.trouble, topic.refusals, topic.retry_at = "", 0, 0.0


class PurgeThread:
    """Purges beside the stages: a micro-batch never waits for it. It looks at the checkpoints by itself, since a
    listener of Spark's is told of a batch whether or not its commit can be read yet."""

    def __init__(self, purger: Purger, *, interval_s: float = 1.0) -> None:
        """Where batches are committed faster than `interval_s`, one purge does for several: each costs a request and
        some fsyncs."""
        self._purger = purger
        self._interval_s = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kmini-purge", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when the purge that is under way is done."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause_s = LOOK_EVERY_S
        while not self._stop.wait(pause_s):
            try:
                pause_s = max(LOOK_EVERY_S, self._interval_s if self._purger.purge() else 0.0)
            except Exception:  # a fault of ours is no reason to stop a stream
                log.exception("a purge failed")
                self._stop.wait(FIRST_PAUSE_S)


def _explained(outcome: Deleted) -> str:
    error = outcome.error
    if error is not None and error.name == "OFFSET_OUT_OF_RANGE":
        return (
            f"{error} (the log ends before what was processed: it was truncated, or the topic is another one; "
            "right after a change of leader this passes)"
        )
    return str(error)
