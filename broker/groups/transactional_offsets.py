"""Offsets that transactions commit: written to `__consumer_offsets` as part of a transaction, pending until it ends.

The marker that ends the transaction in a partition of that topic decides for all groups in the partition. Of several
commits of an offset, plain or transactional, the one written last counts. `committed_offsets.py` knows which are
pending, and `../handlers/offset_fetch.py` what a client is told of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ...protocol.topics import TopicPartition
from ..coordinators.coordinator_topic import AppendedBatch, Producer

if TYPE_CHECKING:
    from ..replication.partition import Partition
    from .group import Group
    from .group_coordinator import GroupCoordinator
    from .group_store import OffsetChanges


class TransactionalOffsets:
    """The pending offsets of the groups that this broker coordinates. Belongs to the broker's loop."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self._topic = coordinator.store.topic
        self._groups: dict[tuple[int, int], set[str]] = {}
        """Ids of the groups with pending offsets, by partition number and producer id."""

    def group_loaded(self, group: Group) -> None:
        """Register the pending offsets of a group that has been loaded."""
        for producer_id in group.offsets.pending_producers:
            self._register(group.group_id, producer_id)

    def unload(self, number: int) -> None:
        """Forget the groups of a partition that this broker no longer leads."""
        for key in [key for key in self._groups if key[0] == number]:
            del self._groups[key]

    def partition_of(self, group_id: str) -> Partition:
        """The partition that holds a group. Raises NotCoordinator."""
        return self._topic.partition_of(group_id)

    async def commit(self, group: Group, changes: OffsetChanges, producer: Producer) -> None:
        """Write offsets as part of a producer's transaction, and make them pending; a new group is kept in memory then.
        Raises what `GroupStore.write_offsets` does, and InvalidProducerEpoch."""
        applied = partial(self._add_pending, group, changes, producer)
        await self._coordinator.store.write_pending(changes, producer, applied)

    def _add_pending(self, group: Group, changes: OffsetChanges, producer: Producer, batch: AppendedBatch) -> None:
        for record_offset, (topic_partition, committed) in enumerate(changes.outcome, batch.first_offset):
            assert committed is not None
            group.offsets.add_pending(producer.producer_id, topic_partition, committed, record_offset)
        self._coordinator.record_appended(group, batch)
        self._register(group.group_id, producer.producer_id)

    def _register(self, group_id: str, producer_id: int) -> None:
        key = (self._topic.number_of(group_id), producer_id)
        self._groups.setdefault(key, set()).add(group_id)

    def end(self, number: int, producer_id: int, batch: AppendedBatch, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, whose marker was appended to a partition. Readers are shown
        committed offsets once the marker is replicated."""
        for group_id in self._groups.pop((number, producer_id), ()):
            group = self._coordinator.groups.get(group_id)
            if group is None:
                continue
            if is_commit and not batch.is_replicated:
                changed = group.offsets.pending_of(producer_id)
                group.offsets.hold_back(changed)
                batch.when_replicated(partial(self._show_next, group, changed))
            group.offsets.end_pending(producer_id, is_commit=is_commit)
            self._coordinator.changed(group_id)

    def _show_next(self, group: Group, changed: list[TopicPartition]) -> None:
        group.offsets.show_next(changed)
        self._coordinator.changed(group.group_id)
