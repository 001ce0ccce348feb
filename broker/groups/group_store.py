"""The group store: writes groups and committed offsets to `__consumer_offsets`, and reads them again.

A group belongs to one partition, by a hash of its id; the leader of that partition is its coordinator. A change of a
group is appended there, then applied to memory in the same turn of the loop. A request is answered when every in-sync
replica has its change (acks=-1), within `offsets.commit.timeout.ms`; OffsetFetch, DescribeGroups and ListGroups show
the change from then on (`coordinators/coordinator_topic.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidGroupId, UnknownServerError
from ...protocol.records.batch import HEADER_SIZE
from ...protocol.topics import CONSUMER_OFFSETS, TopicPartition
from ..coordinators.coordinator_topic import (
    MAX_NAME_BYTES,
    NO_PRODUCER,
    AppendedBatch,
    Applied,
    CoordinatorTopic,
    KeyValue,
    Producer,
    Take,
)
from ..scheduler import Turn
from .committed_offsets import CommittedOffset, CommittedOffsets
from .group_loader import LoadedGroup, replay_in_steps
from .group_records import GroupMetadata, encode_group, encode_offset, group_key, offset_key, offset_key_prefix

if TYPE_CHECKING:
    from ..coordinators.loader import Steps
    from ..replication.partition import Partition
    from ..replication.replica_manager import ReplicaManager

_RECORD_OVERHEAD = 16
"""Most bytes that a record takes besides key and value."""
_MAX_KEY_BYTES = MAX_NAME_BYTES + 512
"""Most bytes of a key: a group id, a topic name, and numbers."""


class OffsetChanges:
    """Committed offsets of one group to be set and removed, as one batch: all or none."""

    def __init__(self, group_id: str, limit: int) -> None:
        """`limit` is the approximate size of a batch in bytes; see `GroupStore.changes`."""
        self.group_id = group_id
        self.records: list[KeyValue] = []
        self.outcome: list[tuple[TopicPartition, CommittedOffset | None]] = []
        """The changes as values, in order; None removes an offset."""
        self._room = limit - HEADER_SIZE
        self._topic: str | None = None
        self._prefix = b""

    def __bool__(self) -> bool:
        return bool(self.records)

    @property
    def is_full(self) -> bool:
        """Whether there are changes, and the batch may lack room for one more removal."""
        return bool(self.records) and self._room < _MAX_KEY_BYTES

    def set(self, topic_partition: TopicPartition, committed: CommittedOffset) -> None:
        """Set an offset. Raises UnknownServerError, as Apache Kafka does, if a batch has no room for all offsets, or a
        key none for the group id."""
        self._add(topic_partition, committed, encode_offset(committed))

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove an offset. Raises UnknownServerError, as `set` does."""
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

    def apply_to(self, offsets: CommittedOffsets, written: AppendedBatch) -> None:
        """Apply the appended changes to `offsets`; readers are shown them once they are replicated."""
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

    def __init__(self, replica_manager: ReplicaManager, create_topic: Callable[[str], object]) -> None:
        self._replica_manager = replica_manager
        self.topic = CoordinatorTopic(CONSUMER_OFFSETS, replica_manager, create_topic)

    # --- places

    def partition_of(self, group_id: str) -> int:
        """The number of the partition of `__consumer_offsets` that holds the group, or will once the topic exists."""
        return self.topic.number_of(group_id)

    def coordinator_of(self, group_id: str) -> int:
        """The node id of the group's coordinator; creates the topic if it is missing. Raises CoordinatorNotAvailable if
        that fails, or if the partition has no leader."""
        return self.topic.coordinator_of(group_id)

    def check(self, group_id: str, *, allow_empty: bool = False) -> None:
        """Check that this broker coordinates the group. Raises InvalidGroupId for an invalid id, NotCoordinator if
        another broker leads its partition or the partition does not exist, CoordinatorLoadInProgress while it is
        loading.

        `allow_empty` permits the empty group id, in which very old clients commit offsets.
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
        """Read the groups of a partition that this broker leads, in steps; `take` is called with each."""
        return self.topic.load(partition, replay_in_steps, take)

    # --- writing

    async def write_group(
        self,
        group_id: str,
        metadata: GroupMetadata,
        applied: Applied | None = None,
        before: Collection[KeyValue] = (),
    ) -> None:
        """Store a classic group; `applied` is called once the record is appended. `before` has tombstones of another
        kind of group. Raises CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator or
        UnknownServerError."""
        await self.write(group_id, [*before, (group_key(group_id), encode_group(metadata))], applied)

    async def write_tombstones(
        self, group_id: str, offsets: CommittedOffsets, tombstones: Collection[KeyValue], applied: Applied | None = None
    ) -> None:
        """Delete a group and all its offsets from the log and from `offsets`; `applied` is called once the group's own
        `tombstones` are appended. Raises what `write_group` does; some of the offsets may be deleted then.

        A group with very many offsets takes several batches; offsets that are committed meanwhile are deleted, too.
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
        records = [*changes.records, *tombstones]
        await self.write(group_id, records, _both(partial(changes.apply_to, offsets), applied))

    async def _drop_pending(self, group_id: str, offsets: CommittedOffsets, turn: Turn) -> None:
        """Delete pending offsets, also in the log: the markers of their transactions come later."""
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
        """Empty changes, to be filled and given to `write_offsets`."""
        replica_manager = self._replica_manager
        partition = replica_manager.partitions.get(TopicPartition(CONSUMER_OFFSETS, self.partition_of(group_id)))
        config = replica_manager.config.current.log_config if partition is None else partition.log.config
        limit = config.max_message_bytes
        return OffsetChanges(group_id, limit)

    async def write_offsets(
        self, changes: OffsetChanges, offsets: CommittedOffsets, applied: Applied | None = None
    ) -> None:
        """Append changes and apply them to `offsets`; `applied` is called once they are appended. Raises what
        `write_group` does; `offsets` are unchanged then, unless only the replicas were late."""
        if changes:
            await self.write(changes.group_id, changes.records, _both(partial(changes.apply_to, offsets), applied))

    async def replicated(self, group_id: str) -> None:
        """Wait until every in-sync replica has all that was written of the group. Raises what `write_group` does."""
        await self.topic.replicated(group_id, timeout_ms=self._replica_manager.config.current.offsets_commit_timeout_ms)

    async def write_pending(self, changes: OffsetChanges, producer: Producer, applied: Applied) -> None:
        """Append changes as part of a producer's transaction; `applied` is called once they are appended. Raises what
        `write_group` does, and InvalidProducerEpoch."""
        if changes:
            await self.write(changes.group_id, changes.records, applied, producer)

    async def write(
        self,
        group_id: str,
        records: Collection[KeyValue],
        applied: Applied | None,
        producer: Producer = NO_PRODUCER,
    ) -> None:
        """Append records of a group as one batch; `applied` is called once they are appended. Raises what `write_group`
        does."""
        timeout_ms = self._replica_manager.config.current.offsets_commit_timeout_ms
        await self.topic.append(group_id, records, timeout_ms=timeout_ms, producer=producer, applied=applied)

    @property
    def max_metadata_characters(self) -> int:
        """Most characters of the metadata of a committed offset (offset.metadata.max.bytes)."""
        return self._replica_manager.config.current.offset_metadata_max_bytes


def _both(first: Applied, second: Applied | None) -> Applied:
    if second is None:
        return first

    def applied(batch: AppendedBatch) -> None:
        first(batch)
        second(batch)

    return applied
