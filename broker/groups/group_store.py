"""Where groups are kept: writing to `__consumer_offsets`, and finding in it what a group was.

A group belongs to one partition, by a hash of its id, and its coordinator is that partition's leader. A change of a
group is appended there and applied to memory in the same turn of the loop. A request is answered when every in-sync
replica has its change (acks=-1), within `offsets.commit.timeout.ms`, and OffsetFetch, DescribeGroups and ListGroups
show the change from then on (`internal_topic`).
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidGroupId, UnknownServerError
from ...protocol.records.batch import HEADER_SIZE
from ...protocol.topics import CONSUMER_OFFSETS, TopicPartition
from ..coordinators.coordinator_topic import MAX_NAME_BYTES, Applied, InternalTopic, KeyValue, Take, Written
from ..scheduler import Turn
from .committed_offsets import CommittedOffset, CommittedOffsets
from .group_records import GroupMetadata, encode_group, encode_offset, group_key, offset_key, offset_key_prefix
from .loading import LoadedGroup, replay_in_steps

if TYPE_CHECKING:
    from ..broker import Broker
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition

_RECORD_OVERHEAD = 16
"""The most that a record has besides key and value."""
_LONGEST_KEY = MAX_NAME_BYTES + 512
"""A group id, a topic name, and what goes with them."""


class OffsetChanges:
    """Committed offsets of one group to be set and removed, as one batch: all or none."""

    def __init__(self, group_id: str, limit: int) -> None:
        """`limit` is about what a batch may have in bytes; see `GroupStore.changes`."""
        self.group_id = group_id
        self.records: list[KeyValue] = []
        self.outcome: list[tuple[TopicPartition, CommittedOffset | None]] = []
        """What they amount to, in order."""
        self._room = limit - HEADER_SIZE
        self._topic: str | None = None
        self._prefix = b""

    def __bool__(self) -> bool:
        return bool(self.records)

    @property
    def is_full(self) -> bool:
        """Whether there are some, and maybe no room for one more removal."""
        return bool(self.records) and self._room < _LONGEST_KEY

    def set(self, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        """Raises UnknownServerError, as in Apache Kafka, if they are more than a batch can take, or the group id is
        more than a key can."""
        self._add(topic_partition, committed, encode_offset(committed))

    def remove(self, topic_partition: TopicPartition) -> None:
        """Raises UnknownServerError, as `set` does."""
        self._add(topic_partition, None, None)

    def _add(self, topic_partition: TopicPartition, committed: CommittedOffset | None, value: bytes | None) -> None:
        topic, partition = topic_partition
        if topic != self._topic:
            if len(self.group_id.encode()) > MAX_NAME_BYTES:
                raise UnknownServerError("a record has no room for this group id")
            self._topic, self._prefix = topic, offset_key_prefix(self.group_id, topic)
        key = offset_key(self._prefix, partition)
        self._room -= len(key) + (0 if value is None else len(value)) + _RECORD_OVERHEAD
        if self._room < 0:
            raise UnknownServerError("these offsets are more than one batch of __consumer_offsets can take")
        self.records.append((key, value))
        self.outcome.append((topic_partition, committed))

    def apply_to(self, offsets: CommittedOffsets, written: Written) -> None:
        """Make `offsets` what the log says now; readers see it when it is replicated."""
        if not written.is_replicated:
            changed = [topic_partition for topic_partition, _ in self.outcome]
            offsets.hold_back(changed)
            written.when_replicated(partial(offsets.show_next, changed))
        for topic_partition, committed in self.outcome:
            if committed is None:
                offsets.remove(topic_partition)
            else:
                offsets.set(topic_partition, committed)


class GroupStore:
    """The log side of the group coordinator. Belongs to the broker's loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.topic = InternalTopic(broker, CONSUMER_OFFSETS)

    # --- places

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that the group belongs to; of the topic to be, if there is none yet."""
        return self.topic.number_of(group_id)

    def coordinator_of(self, group_id: str) -> int:
        """The node that coordinates the group; the topic is made if it is missing. CoordinatorNotAvailable if that
        cannot be, or if the partition has no leader."""
        return self.topic.coordinator_of(group_id)

    def check(self, group_id: str, *, allow_empty: bool = False) -> None:
        """Raise unless this broker coordinates the group: InvalidGroupId for an id that no group can have,
        NotCoordinator if its partition is led elsewhere or there is none, and CoordinatorLoadInProgress while that is
        being loaded.

        Offsets have been committed without a group id since before there were groups; `allow_empty` is for them.
        """
        if not group_id and not allow_empty:
            raise InvalidGroupId("a group has a name")
        if len(group_id.encode()) > MAX_NAME_BYTES:
            raise InvalidGroupId(f"the name of a group has at most {MAX_NAME_BYTES} bytes")
        self.topic.partition_of(group_id)

    def leads(self, group_id: str) -> bool:
        """Whether this broker leads the partition of the group."""
        return self.topic.leads(group_id)

    # --- reading

    def load(self, partition: Partition, take: Take[LoadedGroup]) -> Steps:
        """Read the groups of a partition that this broker leads, in steps, and give them to `take`."""
        return self.topic.load(partition, replay_in_steps, take)

    # --- writing

    async def write_group(self, group_id: str, metadata: GroupMetadata, applied: Applied | None = None) -> None:
        """Keep a group as it is now; `applied` is called if that was appended. Raises CoordinatorNotAvailable,
        CoordinatorLoadInProgress, NotCoordinator or UnknownServerError."""
        await self._append(group_id, [(group_key(group_id), encode_group(metadata))], applied)

    async def write_tombstone(self, group_id: str, offsets: CommittedOffsets, applied: Applied | None = None) -> None:
        """Forget a group and all its offsets, which leave `offsets`; `applied` is called if the group's own tombstone
        was appended. Raises what `write_group` does; some of the offsets may be gone then.

        A group with very many offsets takes several batches; what is committed meanwhile goes too.
        """
        turn = Turn()
        await self._drop_pending(group_id, offsets, turn)
        while True:
            changes = self.changes(group_id)
            for topic_partition in offsets:
                if changes.is_full:
                    break
                changes.remove(topic_partition)
            if len(changes.records) == len(offsets) and not changes.is_full:
                break
            await self.write_offsets(changes, offsets)
            if turn.is_over:
                await turn.next()
        records = [*changes.records, (group_key(group_id), None)]
        await self._append(group_id, records, _both(partial(changes.apply_to, offsets), applied))

    async def _drop_pending(self, group_id: str, offsets: CommittedOffsets, turn: Turn) -> None:
        """Forget what transactions want to commit, and say so in the log: their markers are still to come."""
        changes = self.changes(group_id)
        for topic_partition in offsets.pending_partitions():
            if changes.is_full:
                await self.write_offsets(changes, offsets)
                changes = self.changes(group_id)
                if turn.is_over:
                    await turn.next()
            changes.remove(topic_partition)
        await self.write_offsets(changes, offsets)

    def changes(self, group_id: str) -> OffsetChanges:
        """To be filled, and given to `write_offsets`."""
        topic = self._broker.partitions.get(TopicPartition(CONSUMER_OFFSETS, self.partition_of(group_id)))
        limit = (
            self._broker.config.log_config.max_message_bytes if topic is None else topic.log.config.max_message_bytes
        )
        return OffsetChanges(group_id, limit)

    async def write_offsets(
        self, changes: OffsetChanges, offsets: CommittedOffsets, applied: Applied | None = None
    ) -> None:
        """Write, and make `offsets` follow; `applied` is called if that was appended. Raises what `write_group` does,
        and then `offsets` are as they were, unless the replicas did not follow in time."""
        if changes:
            await self._append(changes.group_id, changes.records, _both(partial(changes.apply_to, offsets), applied))

    async def replicated(self, group_id: str) -> None:
        """Return when all that was written of the group is on every in-sync replica. Raises what `write_group` does."""
        await self.topic.replicated(group_id, timeout_ms=self._broker.config.offsets_commit_timeout_ms)

    async def _append(self, group_id: str, records: Collection[KeyValue], applied: Applied | None) -> None:
        timeout_ms = self._broker.config.offsets_commit_timeout_ms
        await self.topic.append(group_id, records, timeout_ms=timeout_ms, applied=applied)


def _both(first: Applied, second: Applied | None) -> Applied:
    if second is None:
        return first

    def applied(written: Written) -> None:
        first(written)
        second(written)

    return applied
