"""The states of share partitions, as the group coordinator sees them: initialized, deleted and described (KIP-932).

A partition that a group reads for the first time goes to `initializing` (record 15), the share coordinator makes its
state, and then it is `initialized`, and can be assigned. If that fails it is taken out again, so the next heartbeat
begins anew; if no answer comes, the first heartbeat after `group.share.initialize.retry.interval.ms` does. A topic
whose state is being deleted is `deleting` until the share coordinator has done so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...api.error_mapping import kafka_error
from ...network.peer_log import PeerLog
from ...share_state.persister import NO_OFFSET, SharePartitionKey
from ..modern.changes import Change
from .life import ShareGroupLife
from .share_group import Partitions, PartitionStates, SharedTopic, ShareGroup
from .state_changes import GroupEpoch, MembershipChange, StatesChange

if TYPE_CHECKING:
    from ....protocol.errors import KafkaError
    from ...share_state.persister import Persister

log = PeerLog(logging.getLogger("kmini.groups"))

Topics = Mapping[bytes, SharedTopic]
Outcome = Mapping[SharePartitionKey, "KafkaError | None"]
"""What went wrong with the state of each partition; None where nothing did."""


class Initialization(NamedTuple):
    """States that are to be initialized."""

    wanted: Topics
    state_epoch: int
    """The group epoch."""
    after: PartitionStates
    """The group's states with them."""


class StatesOfPartitions:
    """Initializes and deletes the states of share partitions. Belongs to the broker's loop."""

    def __init__(self, life: ShareGroupLife, persister: Callable[[], Persister]) -> None:
        self._life = life
        self.persister = persister
        """Gives what reaches the share coordinators. Raises KafkaError."""

    async def _each(
        self, act: Callable[[Persister, SharePartitionKey], Awaitable[None]], keys: Iterable[SharePartitionKey]
    ) -> Outcome:
        """Do something with each of these states."""

        async def one(key: SharePartitionKey) -> KafkaError | None:
            try:
                await act(self.persister(), key)
            except Exception as error:
                return kafka_error(error, "the state of a share partition")
            return None

        keys = [*keys]
        return dict(zip(keys, await asyncio.gather(*map(one, keys)), strict=True))

    # --- initializing

    def to_initialize(self, group: ShareGroup, changes: Iterable[Change[ShareGroup]]) -> Initialization | None:
        """What a heartbeat that makes these changes has to initialize; None for nothing."""
        members, epoch = dict(group.memberships), group.epoch
        for change in changes:
            if isinstance(change, MembershipChange) and change.membership is not None:
                members[change.member_id] = change.membership
            elif isinstance(change, GroupEpoch) and change.epoch is not None:
                epoch = change.epoch
        states, catalog, config = group.partition_states, self._life.catalog, self._life.config
        retry_ms = max(config.group_share_initialize_retry_interval_ms, config.offsets_commit_timeout_ms)
        is_late = self._life.clock.now_ms() - group.states_written_ms >= retry_ms
        under_way: Topics = {} if is_late else states.initializing
        wanted: dict[bytes, SharedTopic] = {}
        for name in sorted(group.topics_of(members.values())):
            topic_id = catalog.id_of(name)
            if topic_id is not None:
                done = _partitions_of(states.initialized, topic_id) | _partitions_of(under_way, topic_id)
                missing = frozenset(range(catalog.partition_count(topic_id))) - done
                if missing:
                    wanted[topic_id] = SharedTopic(name, missing)
        return Initialization(wanted, epoch, with_initializing(states, wanted)) if wanted else None

    def initialize(self, group: ShareGroup, initialization: Initialization) -> None:
        """Initialize states in the background."""
        self._life.writes.start(self._initialize(group, initialization))

    async def _initialize(self, group: ShareGroup, initialization: Initialization) -> None:
        partitions = {topic_id: topic.partitions for topic_id, topic in initialization.wanted.items()}
        offsets = dict.fromkeys(_keys(group, partitions), NO_OFFSET)
        outcome = await self.initialize_at(group, initialization.state_epoch, offsets)
        failed = next((error for error in outcome.values() if error is not None), None)
        try:
            if failed is not None:
                log.warning("group %s: states of partitions were not initialized: %s", group.group_id, failed)
                await self._take_out(group, partitions)
        except Exception as error:
            log.warning("group %s: %s", group.group_id, kafka_error(error, "noting states of partitions"))

    async def initialize_at(
        self, group: ShareGroup, state_epoch: int, offsets: Mapping[SharePartitionKey, int]
    ) -> Outcome:
        """Initialize states with these start offsets, and note it. As in Kafka, if one fails none is noted."""
        outcome = await self._each(lambda persister, key: persister.initialize(key, state_epoch, offsets[key]), offsets)
        if any(error is not None for error in outcome.values()):
            return outcome
        partitions: dict[bytes, frozenset[int]] = {}
        for _, topic_id, number in offsets:
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | {number}
        try:
            await self._note_initialized(group, partitions)
        except Exception as error:
            return dict.fromkeys(outcome, kafka_error(error, "noting states of partitions"))
        return outcome

    async def _note_initialized(self, group: ShareGroup, partitions: Partitions) -> None:
        states = group.partition_states
        initialized = dict(states.initialized)
        for topic_id, numbers in partitions.items():
            name = self._life.catalog.name_of(topic_id)
            if name is not None:
                initialized[topic_id] = SharedTopic(name, numbers | _partitions_of(initialized, topic_id))
        initializing = dict(_without(states.initializing, partitions))
        await self.write(group, states._replace(initializing=initializing, initialized=initialized))

    async def _take_out(self, group: ShareGroup, partitions: Partitions) -> None:
        states = group.partition_states
        if states.initializing:
            await self.write(group, states._replace(initializing=dict(_without(states.initializing, partitions))))

    async def write(self, group: ShareGroup, states: PartitionStates) -> None:
        """Store how far the states of a group are, unless it is gone. Raises what the store does."""
        if self._life.keeps(group) and not group.is_removed:
            await self._life.write(group, [StatesChange(states)])

    # --- deleting

    async def delete(self, group: ShareGroup, partitions: Partitions) -> Outcome:
        """Delete states; nothing is noted."""
        return await self._each(lambda persister, key: persister.delete(key), _keys(group, partitions))

    async def delete_all(self, group: ShareGroup) -> None:
        """Delete all states of a group that is to be deleted. Topics that were being deleted are deleted again,
        because some of their states may still be there. Raises what the share coordinator or the store does."""
        if not group.has_states:
            return
        states, catalog = group.partition_states, self._life.catalog
        deleting: dict[bytes, str] = {}
        partitions: dict[bytes, frozenset[int]] = {}
        for topics in (states.initialized, states.initializing):
            for topic_id, topic in topics.items():
                deleting[topic_id] = topic.name
                partitions[topic_id] = partitions.get(topic_id, frozenset()) | topic.partitions
        for topic_id in states.deleting:
            name = catalog.name_of(topic_id)
            if name is not None:
                deleting[topic_id] = name
                partitions[topic_id] = frozenset(range(catalog.partition_count(topic_id)))
        await self.write(group, PartitionStates(deleting=deleting))
        for error in (await self.delete(group, partitions)).values():
            if error is not None:
                raise error

    async def forget_topics(self, group: ShareGroup, topic_ids: Collection[bytes]) -> None:
        """Forget topics that were deleted; the share coordinator deletes their states by itself. Raises what the store
        does."""
        initializing, initialized, deleting = group.partition_states
        after = PartitionStates(
            {topic_id: topic for topic_id, topic in initializing.items() if topic_id not in topic_ids},
            {topic_id: topic for topic_id, topic in initialized.items() if topic_id not in topic_ids},
            {topic_id: name for topic_id, name in deleting.items() if topic_id not in topic_ids},
        )
        if after != group.partition_states:
            await self.write(group, after)


def _keys(group: ShareGroup, partitions: Partitions) -> Iterator[SharePartitionKey]:
    for topic_id, numbers in partitions.items():
        for number in sorted(numbers):
            yield SharePartitionKey(group.group_id, topic_id, number)


def with_initializing(states: PartitionStates, wanted: Topics) -> PartitionStates:
    """The states with more partitions that are being initialized; a topic that was being deleted is not any more."""
    initializing = {
        **states.initializing,
        **{
            topic_id: SharedTopic(topic.name, topic.partitions | _partitions_of(states.initializing, topic_id))
            for topic_id, topic in wanted.items()
        },
    }
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
    return states._replace(initializing=initializing, deleting=deleting)


def _partitions_of(topics: Topics, topic_id: bytes) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _without(topics: Topics, partitions: Partitions) -> Iterator[tuple[bytes, SharedTopic]]:
    """The topics without these partitions; without those of which none is left."""
    for topic_id, topic in topics.items():
        left = topic.partitions - partitions.get(topic_id, frozenset())
        if left:
            yield topic_id, topic._replace(partitions=left)
