"""Committed offsets of one group, in memory: what `__consumer_offsets` says, and what transactions have not decided."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID


class CommittedOffset(NamedTuple):
    """How far a group has come in a partition."""

    offset: int
    """The next one to read."""
    leader_epoch: int
    """Of the last record that was read; -1 if the client did not say."""
    metadata: str
    """What the client wants to keep with it; never null."""
    commit_timestamp_ms: int
    """Log time."""
    expire_timestamp_ms: int | None = None
    """Log time; set by OffsetCommit v2 to v4 with a retention time. Otherwise `offsets.retention.minutes` counts."""
    topic_id: bytes = ZERO_UUID
    """Of the topic that it was committed for. Zero if that is not known: it was kept by an older Kafka, or with a time
    of expiry."""

    def is_of_another_topic(self, topic_id: bytes) -> bool:
        """Whether it was committed for a topic of the same name that had another id."""
        return topic_id not in (ZERO_UUID, self.topic_id) and self.topic_id != ZERO_UUID


class PendingOffset(NamedTuple):
    """What a transaction that is not decided wants to commit."""

    record_offset: int
    """Where it is in the log: what was written last counts in the end."""
    committed: CommittedOffset | None
    """None if something that was written later counts already."""


class CommittedOffsets:
    """By topic and partition: as the log end has them, and, where readers may see less, as the high watermark has them.

    What a transaction wants to commit is *pending* under its producer id until its marker comes (`transactions`).
    Whoever asks for stable offsets is told to wait meanwhile, and what it will replace does not expire.
    """

    __slots__ = ("_by_topic", "_pending", "_shown")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self._pending: dict[int, dict[TopicPartition, PendingOffset]] = {}
        self._shown: dict[TopicPartition, deque[CommittedOffset | None]] = {}
        """For partitions with changes that are not replicated yet: the value before each of these changes."""

    def __len__(self) -> int:
        return sum(map(len, self._by_topic.values()))

    def __bool__(self) -> bool:
        return bool(self._by_topic)

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, partitions in self._by_topic.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return self.get(topic_partition) is not None

    def get(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        partitions = self._by_topic.get(topic_partition[0])
        return None if partitions is None else partitions.get(topic_partition[1])

    def set(self, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        topic, partition = topic_partition
        partitions = self._by_topic.get(topic)
        if partitions is None:
            self._by_topic[topic] = {partition: committed}
        else:
            partitions[partition] = committed
        if self._pending:
            self._supersede(topic_partition)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Forget it, if it is there, and what is pending for it."""
        partitions = self._by_topic.get(topic_partition.topic)
        if partitions is not None:
            partitions.pop(topic_partition.partition, None)
            if not partitions:
                del self._by_topic[topic_partition.topic]
        for offsets in self._pending.values():
            offsets.pop(topic_partition, None)

    def clear(self) -> Iterator[None]:
        """Forget all of them, a topic at each step."""
        while self._by_topic:
            self._by_topic.popitem()
            yield

    def partitions(self, topic: str) -> dict[int, CommittedOffset]:
        """Those of a topic, to be filled by whoever has very many of them. At least one must follow."""
        return self._by_topic.setdefault(topic, {})

    @property
    def by_topic(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All of them; to be read only."""
        return self._by_topic

    # --- what the high watermark covers

    def hold_back(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Show readers the present values of these partitions on, whatever changes now, until `show_next`."""
        for topic_partition in topic_partitions:
            self._shown.setdefault(topic_partition, deque()).append(self.get(topic_partition))

    def show_next(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """The oldest change of each that `hold_back` holds back is replicated: show its outcome."""
        for topic_partition in topic_partitions:
            values = self._shown[topic_partition]
            values.popleft()
            if not values:
                del self._shown[topic_partition]

    def shown(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        """The offset that the high watermark covers."""
        values = self._shown.get(topic_partition) if self._shown else None
        return self.get(topic_partition) if values is None else values[0]

    def shown_by_topic(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets that the high watermark covers; to be read only."""
        if not self._shown:
            return self._by_topic
        shown = {topic: dict(self._by_topic.get(topic, {})) for topic, _ in self._shown}
        for (topic, partition), values in self._shown.items():
            if values[0] is None:
                shown[topic].pop(partition, None)
            else:
                shown[topic][partition] = values[0]
        return {topic: partitions for topic, partitions in {**self._by_topic, **shown}.items() if partitions}

    # --- of transactions that are not decided

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Whether some transaction is about to replace this offset."""
        return any(topic_partition in offsets for offsets in self._pending.values())

    @property
    def pending_producers(self) -> Iterable[int]:
        """Those with a transaction that is not decided."""
        return self._pending

    def pending_partitions(self) -> frozenset[TopicPartition]:
        """Those for which anything is pending."""
        return frozenset().union(*self._pending.values())

    def add_pending(
        self,
        producer_id: int,
        topic_partition: TopicPartition,
        committed: CommittedOffset | None,
        record_offset: int = 0,
    ) -> None:
        """A transaction wants to commit this, in the record at `record_offset`; None if that does not count already."""
        self._pending.setdefault(producer_id, {})[topic_partition] = PendingOffset(record_offset, committed)

    def pending_of(self, producer_id: int) -> list[TopicPartition]:
        """The partitions whose offset changes if this producer commits."""
        pending = self._pending.get(producer_id, {})
        return [topic_partition for topic_partition, (_, committed) in pending.items() if committed is not None]

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """A transaction has ended: what it wanted counts now, or never."""
        for topic_partition, (record_offset, committed) in self._pending.pop(producer_id, {}).items():
            if is_commit and committed is not None:
                self._by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = committed
                self._supersede(topic_partition, record_offset)

    def _supersede(self, topic_partition: TopicPartition, record_offset: int | None = None) -> None:
        """An offset counts that was written at `record_offset`, or just now: what was before it no longer can. It stays
        pending, for whoever wants stable offsets cannot know."""
        for offsets in self._pending.values():
            pending = offsets.get(topic_partition)
            if pending is not None and (record_offset is None or pending.record_offset < record_offset):
                offsets[topic_partition] = pending._replace(committed=None)
