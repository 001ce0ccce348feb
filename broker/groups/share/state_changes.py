"""The changes of a share group: each is one record, and its effect on the group in memory.

`record` gives key and value for the log, `apply` the effect; `read_change` makes the change of a record. A change
without a value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..modern import record_format
from . import share_group_records as records
from .share_group import NO_STATES, Partitions, PartitionStates, ShareAssignment, SharedTopic, ShareMembership
from .share_group_records import ShareGroupStatePartitionMetadataValue, TopicPartitions

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue
    from ..modern.changes import Change
    from .share_group import ShareGroup


class GroupEpoch(NamedTuple):
    """Another group epoch; None deletes the group."""

    epoch: int | None
    metadata_hash: int = 0
    metadata_version: int | None = None
    """The version of the cluster's metadata that the hash was computed of; None if it is not known, because it is not
    stored: the next heartbeat computes the hash again."""

    def record(self, group_id: str) -> KeyValue:
        key = record_format.group_key(records.GROUP_METADATA, group_id)
        if self.epoch is None:
            return key, None
        value = records.ShareGroupMetadataValue(epoch=self.epoch, metadata_hash=self.metadata_hash)
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        if self.epoch is not None:
            group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
            group.metadata_version = self.metadata_version


class MembershipChange(NamedTuple):
    """A member tells something of itself; None removes it."""

    member_id: str
    membership: ShareMembership | None

    def record(self, group_id: str) -> KeyValue:
        key = record_format.member_key(records.MEMBER_METADATA, group_id, self.member_id)
        member = self.membership
        if member is None:
            return key, None
        value = records.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.topic_names),
        )
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        group.put_membership(self.member_id, self.membership)


class AssignmentEpoch(NamedTuple):
    """The target belongs to this group epoch; None if there is none any more."""

    epoch: int | None
    assigned_at_ms: int = 0

    def record(self, group_id: str) -> KeyValue:
        key = record_format.group_key(records.TARGET_ASSIGNMENT_METADATA, group_id)
        if self.epoch is None:
            return key, None
        value = records.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.assigned_at_ms
        )
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        group.put_assignment_epoch(self.epoch, self.assigned_at_ms)


class TargetChange(NamedTuple):
    """A member has another target; None removes it."""

    member_id: str
    target: Partitions | None

    def record(self, group_id: str) -> KeyValue:
        key = record_format.member_key(records.TARGET_ASSIGNMENT_MEMBER, group_id, self.member_id)
        if self.target is None:
            return key, None
        value = records.ShareGroupTargetAssignmentMemberValue(topic_partitions=_encoded(self.target))
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        group.put_target(self.member_id, self.target)


class CurrentChange(NamedTuple):
    """A member was assigned other partitions; None ends its assignment."""

    member_id: str
    current: ShareAssignment | None

    def record(self, group_id: str) -> KeyValue:
        key = record_format.member_key(records.CURRENT_MEMBER_ASSIGNMENT, group_id, self.member_id)
        current = self.current
        if current is None:
            return key, None
        value = records.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state.value,
            assigned_partitions=_encoded(current.assigned),
        )
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        group.put_current(self.member_id, self.current)


class StatesChange(NamedTuple):
    """The states of partitions get further; None removes them all."""

    states: PartitionStates | None

    def record(self, group_id: str) -> KeyValue:
        key = record_format.group_key(records.STATE_PARTITION_METADATA, group_id)
        states = self.states
        if states is None:
            return key, None
        info = ShareGroupStatePartitionMetadataValue.TopicInfo
        value = ShareGroupStatePartitionMetadataValue(
            initializing_topics=_encoded_topics(states.initializing),
            initialized_topics=_encoded_topics(states.initialized),
            deleting_topics=[info(topic_id=topic_id, topic_name=name) for topic_id, name in states.deleting.items()],
        )
        return key, record_format.encode(value)

    def apply(self, group: ShareGroup) -> None:
        group.partition_states = self.states or NO_STATES


def removal_of_members(member_ids: Iterable[str]) -> Iterator[Change[ShareGroup]]:
    """The tombstones of members."""
    for member_id in member_ids:
        yield from (CurrentChange(member_id, None), TargetChange(member_id, None), MembershipChange(member_id, None))


def removal(group: ShareGroup) -> Iterator[Change[ShareGroup]]:
    """The tombstones of everything, in the order in which Kafka writes them."""
    for member_id in group.memberships:
        yield CurrentChange(member_id, None)
    for member_id in group.memberships:
        yield TargetChange(member_id, None)
    yield AssignmentEpoch(None)
    for member_id in group.memberships:
        yield MembershipChange(member_id, None)
    yield StatesChange(None)
    yield GroupEpoch(None)


# --- reading


def read_change(key_type: int, name: str, value: bytes) -> Change[ShareGroup] | None:
    """The change of a record; `name` is the member id of its key. None for a record of a type that is not known. Raises
    CorruptRecord."""
    if key_type == records.GROUP_METADATA:
        metadata = record_format.decode(records.ShareGroupMetadataValue, value)
        return GroupEpoch(metadata.epoch, metadata.metadata_hash)
    if key_type == records.MEMBER_METADATA:
        told = record_format.decode(records.ShareGroupMemberMetadataValue, value)
        names = frozenset(told.subscribed_topic_names)
        return MembershipChange(name, ShareMembership(name, told.rack_id, told.client_id, told.client_host, names))
    if key_type == records.TARGET_ASSIGNMENT_METADATA:
        epoch = record_format.decode(records.ShareGroupTargetAssignmentMetadataValue, value)
        return AssignmentEpoch(epoch.assignment_epoch, epoch.assignment_timestamp)
    if key_type == records.TARGET_ASSIGNMENT_MEMBER:
        target = record_format.decode(records.ShareGroupTargetAssignmentMemberValue, value)
        return TargetChange(name, _decoded(target.topic_partitions))
    if key_type == records.CURRENT_MEMBER_ASSIGNMENT:
        current = record_format.decode(records.ShareGroupCurrentMemberAssignmentValue, value)
        assigned = _decoded(current.assigned_partitions)
        return CurrentChange(name, ShareAssignment(current.member_epoch, current.previous_member_epoch, assigned))
    if key_type == records.STATE_PARTITION_METADATA:
        states = record_format.decode(ShareGroupStatePartitionMetadataValue, value)
        deleting = {topic.topic_id: topic.topic_name for topic in states.deleting_topics}
        initializing, initialized = map(_decoded_topics, (states.initializing_topics, states.initialized_topics))
        return StatesChange(PartitionStates(initializing, initialized, deleting))
    return None


def _encoded(partitions: Partitions) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic_id, partitions=sorted(each)) for topic_id, each in partitions.items()]


def _decoded(stored: Iterable[TopicPartitions]) -> Partitions:
    return {one.topic_id: frozenset(one.partitions) for one in stored}


_Topic = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo


def _encoded_topics(topics: Mapping[bytes, SharedTopic]) -> list[_Topic]:
    return [
        _Topic(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def _decoded_topics(stored: Iterable[_Topic]) -> dict[bytes, SharedTopic]:
    return {one.topic_id: SharedTopic(one.topic_name, frozenset(one.partitions)) for one in stored}
