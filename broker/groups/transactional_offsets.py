"""Offsets that a transaction commits: written to `__consumer_offsets` as a part of it, pending until it has ended.

The marker that ends the transaction in a partition of that topic decides for all groups that the partition keeps.
Where plain commits, or those of another transaction, came in between, what was written last counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import IllegalGeneration
from ..coordinators.coordinator_topic import Producer, Written
from .group import Group

if TYPE_CHECKING:
    from ..broker import Broker
    from ..replication.partition import Partition
    from .group_store import OffsetChanges


class TransactionalOffsets:
    """What transactions are about to commit in the groups that this broker coordinates. Belongs to the broker's
    loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._topic = broker.groups.store.topic
        self._groups: dict[tuple[int, int], set[str]] = {}
        """Ids of the groups for which something is pending, by partition and producer id."""

    def taken(self, group: Group) -> None:
        """Take note of what is pending in a group that has been loaded."""
        for producer_id in group.offsets.pending_producers:
            self._note(group.group_id, producer_id)

    def unload(self, number: int) -> None:
        """The groups of a partition are another broker's."""
        for key in [key for key in self._groups if key[0] == number]:
            del self._groups[key]

    def partition_of(self, group_id: str) -> Partition:
        """The partition that a group is kept in. Raises NotCoordinator."""
        return self._topic.partition_of(group_id)

    def group_for_commit(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> Group:
        """The group in which a client may commit offsets in a transaction (KIP-447); a new one, which `commit` keeps,
        for a client that says it is no member of any. Raises IllegalGeneration, and what `Group.check_commit` does."""
        groups = self._broker.groups.groups
        group = groups.get(group_id)
        if group is None:
            if generation_id >= 0:
                raise IllegalGeneration("there is no such group")
            group = Group(group_id, self._broker.clock.now_ms())
        group.check_commit(member_id, instance_id, generation_id, is_transactional=True)
        return group

    async def commit(self, group: Group, changes: OffsetChanges, producer: Producer) -> None:
        """Write offsets in the name of a transaction, and have them pending; a group that is new comes into being.
        Raises what `GroupStore.write_offsets` does, and InvalidProducerEpoch."""
        if changes:
            await self._topic.append(
                group.group_id,
                changes.records,
                timeout_ms=self._broker.config.offsets_commit_timeout_ms,
                producer=producer,
                applied=partial(self._pend, group, changes, producer),
            )

    def _pend(self, group: Group, changes: OffsetChanges, producer: Producer, written: Written) -> None:
        for record_offset, (topic_partition, committed) in enumerate(changes.outcome, written.first_offset):
            assert committed is not None
            group.offsets.add_pending(producer.producer_id, topic_partition, committed, record_offset)
        self._broker.groups.note_written(group, written)
        self._note(group.group_id, producer.producer_id)

    def _note(self, group_id: str, producer_id: int) -> None:
        key = (self._topic.number_of(group_id), producer_id)
        self._groups.setdefault(key, set()).add(group_id)

    def end(self, number: int, producer_id: int, written: Written, *, is_commit: bool) -> None:
        """The marker of a producer's transaction was written to a partition: have what it committed count, or drop it.
        Readers see what counts when the marker is replicated."""
        for group_id in self._groups.pop((number, producer_id), ()):
            group = self._broker.groups.groups.get(group_id)
            if group is None:
                continue
            if is_commit and not written.is_replicated:
                changed = group.offsets.pending_of(producer_id)
                group.offsets.hold_back(changed)
                written.when_replicated(partial(group.offsets.show_next, changed))
            group.offsets.end_pending(producer_id, is_commit=is_commit)

    def pending_count(self) -> int:
        """In how many groups something is pending, counted once for each producer."""
        return sum(map(len, self._groups.values()))
