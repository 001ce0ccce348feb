"""Committed offsets of one group in memory, as `__consumer_offsets` holds them, and pending offsets of transactions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID


class CommittedOffset(NamedTuple):
    """The position of a group in a partition."""

    offset: int
    """The next offset to read."""
    leader_epoch: int
    """The leader epoch of the last record that was read; -1 if the client gave none."""
    metadata: str
    """A text that the client stores with the offset; never null."""
    commit_timestamp_ms: int
    """Log time."""
    expire_timestamp_ms: int | None = None
    """Log time; set by OffsetCommit v2 to v4 with a retention time. Otherwise `offsets.retention.minutes` counts."""
    topic_id: bytes = ZERO_UUID
    """The id of the topic. Zero if it is unknown: an older Kafka stored the offset, or it has a time of expiry."""

    def is_of_another_topic(self, topic_id: bytes) -> bool:
        """Whether it was committed for a topic of the same name with another id."""
        return topic_id not in (ZERO_UUID, self.topic_id) and self.topic_id != ZERO_UUID


class PendingOffset(NamedTuple):
    """An offset that an open transaction commits."""

    record_offset: int
    """The offset of its record in the log: of several commits, the record written last counts."""
    committed: CommittedOffset | None
    """None if a record that was written later counts already."""


class CommittedOffsets:
    """Offsets by topic and partition, up to the log end; and, where these differ, up to the high watermark.

    The offsets of an open transaction are *pending* under its producer id until its marker is written. Meanwhile a
    client that requires stable offsets has to wait, and the offsets that they will replace do not expire.
    """

    __slots__ = ("_by_topic", "_pending", "_shown")

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self._pending: dict[int, dict[TopicPartition, PendingOffset]] = {}
        self._shown: dict[TopicPartition, deque[CommittedOffset | None]] = {}
        """For partitions with changes that are not replicated: the value before each of these changes."""

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
        """Remove the offset of a partition, if it has one, and its pending offsets."""
        partitions = self._by_topic.get(topic_partition.topic)
        if partitions is not None:
            partitions.pop(topic_partition.partition, None)
            if not partitions:
                del self._by_topic[topic_partition.topic]
        for offsets in self._pending.values():
            offsets.pop(topic_partition, None)

    def clear(self) -> Iterator[None]:
        """Remove all offsets, one topic at each step."""
        while self._by_topic:
            self._by_topic.popitem()
            yield

    def partitions(self, topic: str) -> dict[int, CommittedOffset]:
        """The offsets of a topic, to be filled in place by a caller with very many; it must add at least one."""
        return self._by_topic.setdefault(topic, {})

    @property
    def by_topic(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets; to be read only."""
        return self._by_topic

    # --- offsets up to the high watermark

    def hold_back(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Keep showing readers the present values of these partitions through the next change, until `show_next`."""
        for topic_partition in topic_partitions:
            self._shown.setdefault(topic_partition, deque()).append(self.get(topic_partition))

    def show_next(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Show the outcome of the oldest change that `hold_back` holds back: it is replicated."""
        for topic_partition in topic_partitions:
            values = self._shown[topic_partition]
            values.popleft()
            if not values:
                del self._shown[topic_partition]

    def shown(self, topic_partition: TopicPartition) -> CommittedOffset | None:
        """The offset up to the high watermark."""
        values = self._shown.get(topic_partition) if self._shown else None
        return self.get(topic_partition) if values is None else values[0]

    def shown_by_topic(self) -> Mapping[str, Mapping[int, CommittedOffset]]:
        """All offsets up to the high watermark; to be read only."""
        if not self._shown:
            return self._by_topic
        shown = {topic: dict(self._by_topic.get(topic, {})) for topic, _ in self._shown}
        for (topic, partition), values in self._shown.items():
            if values[0] is None:
                shown[topic].pop(partition, None)
            else:
                shown[topic][partition] = values[0]
        return {topic: partitions for topic, partitions in {**self._by_topic, **shown}.items() if partitions}

    # --- pending offsets of open transactions

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        """Whether an open transaction may replace this offset. OffsetFetch with `require_stable` answers
        UNSTABLE_OFFSET_COMMIT then (`handlers/offset_fetch.py`)."""
        return any(topic_partition in offsets for offsets in self._pending.values())

    @property
    def pending_producers(self) -> Iterable[int]:
        """The ids of producers with an open transaction that commits offsets."""
        return self._pending

    def pending_partitions(self) -> frozenset[TopicPartition]:
        """The partitions with pending offsets."""
        return frozenset().union(*self._pending.values())

    def add_pending(
        self,
        producer_id: int,
        topic_partition: TopicPartition,
        committed: CommittedOffset | None,
        record_offset: int = 0,
    ) -> None:
        """Add the offset that a transaction commits in the record at `record_offset`; None if a later record counts
        already."""
        self._pending.setdefault(producer_id, {})[topic_partition] = PendingOffset(record_offset, committed)

    def pending_of(self, producer_id: int) -> list[TopicPartition]:
        """The partitions whose offset changes if this producer commits its transaction."""
        pending = self._pending.get(producer_id, {})
        return [topic_partition for topic_partition, (_, committed) in pending.items() if committed is not None]

    def end_pending(self, producer_id: int, *, is_commit: bool) -> None:
        """End a transaction: commit its pending offsets, or drop them."""
        for topic_partition, (record_offset, committed) in self._pending.pop(producer_id, {}).items():
            if is_commit and committed is not None:
                self._by_topic.setdefault(topic_partition.topic, {})[topic_partition.partition] = committed
                self._supersede(topic_partition, record_offset)

    def _supersede(self, topic_partition: TopicPartition, record_offset: int | None = None) -> None:
        """Void pending offsets of records before `record_offset`, or before now: a later record counts. They stay
        pending, because their transaction is still open for clients that require stable offsets."""
        for offsets in self._pending.values():
            pending = offsets.get(topic_partition)
            if pending is not None and (record_offset is None or pending.record_offset < record_offset):
                offsets[topic_partition] = pending._replace(committed=None)
