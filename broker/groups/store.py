"""Where groups are kept: writing to `__consumer_offsets`, and finding in it what a group was.

A group belongs to one partition, by a hash of its id, and its coordinator is that partition's leader. Whatever changes
a group is appended there first and shows in memory afterwards, in the same breath: memory is what the log says. Who
asked is answered when every in-sync replica has it (acks=-1), within `offsets.commit.timeout.ms`.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...protocol.errors import InvalidGroupId, UnknownServerError
from ...protocol.records.batch import HEADER_SIZE
from ...protocol.topics import CONSUMER_OFFSETS, TopicPartition
from ..background import Turn
from ..internal_topic import MAX_NAME_BYTES, InternalTopic, KeyValue
from .loading import LoadedGroup, replay
from .offsets import CommittedOffset, CommittedOffsets
from .records import GroupMetadata, encode_group, encode_offset, group_key, offset_key, offset_key_prefix

if TYPE_CHECKING:
    from ..broker import Broker

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

    def apply_to(self, offsets: CommittedOffsets) -> None:
        """Make `offsets` what the log says now."""
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
        """Raise unless this broker coordinates the group: InvalidGroupId for an id that no group can have, and
        NotCoordinator if its partition is led elsewhere or there is none.

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

    def load(self, number: int | None = None) -> dict[str, LoadedGroup]:
        """The groups in the partitions that this broker leads, or in one of them. Blocks, for a fraction of a second
        where there are 100,000 offsets."""
        with _no_garbage():
            return self.topic.load(replay, number)

    # --- writing

    async def write_group(self, group_id: str, metadata: GroupMetadata) -> None:
        """Keep a group as it is now. Raises CoordinatorNotAvailable, NotCoordinator or UnknownServerError."""
        await self._append(group_id, [(group_key(group_id), encode_group(metadata))])

    async def write_tombstone(self, group_id: str, offsets: CommittedOffsets) -> None:
        """Forget a group and all its offsets, which leave `offsets`. Raises what `write_group` does; some of them may
        be gone then.

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
        await self._append(group_id, [*changes.records, (group_key(group_id), None)], changes, offsets)

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

    async def write_offsets(self, changes: OffsetChanges, offsets: CommittedOffsets) -> None:
        """Write, and make `offsets` follow. Raises what `write_group` does, and then `offsets` are as they were, unless
        the replicas did not follow in time."""
        if changes:
            await self._append(changes.group_id, changes.records, changes, offsets)

    async def _append(
        self,
        group_id: str,
        records: Collection[KeyValue],
        changes: OffsetChanges | None = None,
        offsets: CommittedOffsets | None = None,
    ) -> None:
        def applied(_: int) -> None:
            if changes is not None and offsets is not None:
                changes.apply_to(offsets)

        timeout_ms = self._broker.config.offsets_commit_timeout_ms
        await self.topic.append(group_id, records, timeout_ms=timeout_ms, applied=applied)


@contextmanager
def _no_garbage() -> Iterator[None]:
    """While very much is made of which nothing goes: the collector would look at all of it over and over."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
