"""What administrators change in share groups without members: start offsets, and which topics they read (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ....protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    KafkaError,
    NonEmptyGroup,
    UnknownTopicOrPartition,
)
from ...share_state.persister import SharePartitionKey
from .partition_states import with_initializing
from .share_group import SharedTopic, ShareGroup
from .state_changes import StatesChange

if TYPE_CHECKING:
    from .life import ShareGroupLife
    from .partition_states import Outcome, StatesOfPartitions


class ShareOffsets:
    """Changes where share groups are. Belongs to the broker's loop."""

    def __init__(self, life: ShareGroupLife, states: StatesOfPartitions) -> None:
        self._life = life
        self._states = states

    async def alter(self, group_id: str, offsets: Mapping[bytes, Mapping[int, int]]) -> Outcome:
        """Let a group read partitions from these start offsets on, which are given by topic id and partition. A group
        that does not exist is made. Raises GroupIdNotFound, NonEmptyGroup, and what the store does."""
        await self._life.turns.free(group_id)
        group = self._find(group_id) or self._life.new(group_id)
        catalog = self._life.catalog
        wanted = {
            topic_id: SharedTopic(name, frozenset(each))
            for topic_id, each in offsets.items()
            if (name := catalog.name_of(topic_id)) is not None
        }
        if not wanted:
            return {}
        await self._life.write(group, [StatesChange(with_initializing(group.partition_states, wanted))])
        return await self._states.initialize_at(
            group,
            group.epoch,
            {
                SharePartitionKey(group_id, topic_id, number): offset
                for topic_id in wanted
                for number, offset in offsets[topic_id].items()
            },
        )

    async def delete(self, group_id: str, names: Iterable[str]) -> dict[str, KafkaError | None] | None:
        """Let a group forget topics; return what went wrong with each, or None for a group that has no states. Raises
        GroupIdNotFound, NonEmptyGroup, and what the store does."""
        await self._life.turns.free(group_id)
        group = self._find(group_id)
        if group is None:
            raise GroupIdNotFound(f"there is no share group {group_id}")
        if not group.has_states:
            return None
        catalog, states = self._life.catalog, group.partition_states
        initialized, deleting = dict(states.initialized), dict(states.deleting)
        outcome: dict[str, KafkaError | None] = {}
        partitions: dict[bytes, frozenset[int]] = {}
        for name in names:
            topic_id = catalog.id_of(name)
            outcome[name] = None
            if topic_id is None:
                outcome[name] = UnknownTopicOrPartition(f"there is no topic {name}")
            elif topic_id in initialized:
                partitions[topic_id] = initialized.pop(topic_id).partitions
                deleting[topic_id] = name
            elif topic_id in deleting:
                partitions[topic_id] = frozenset(range(catalog.partition_count(topic_id)))
            else:
                outcome[name] = UnknownTopicOrPartition("There is no offset information to delete.")
        await self._states.write(group, states._replace(initialized=initialized, deleting=deleting))
        for (_, topic_id, _), error in (await self._states.delete(group, partitions)).items():
            if error is not None:
                outcome[deleting[topic_id]] = error
        deleted = {topic_id for topic_id in partitions if outcome[deleting[topic_id]] is None}
        if deleted:
            states = group.partition_states
            left = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in deleted}
            await self._states.write(group, states._replace(deleting=left))
        return outcome

    def _find(self, group_id: str) -> ShareGroup | None:
        """The group, if there is one. Raises GroupIdNotFound for one of another kind, NonEmptyGroup for one with
        members, CoordinatorNotAvailable for one that is being deleted, and what the store does."""
        self._life.store.check(group_id)
        group = self._life.groups.get(group_id)
        if group is None:
            return None
        if not isinstance(group, ShareGroup):
            raise GroupIdNotFound(f"group {group_id} is not a share group")
        if group.is_removed:
            raise CoordinatorNotAvailable(f"group {group_id} is being deleted")
        if group.memberships:
            raise NonEmptyGroup(f"group {group_id} has members")
        return group
