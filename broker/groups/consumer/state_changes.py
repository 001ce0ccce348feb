"""The changes of a consumer group: each is one record, and its effect on the group in memory.

`record` gives key and value for the log, `apply` the effect; `read_change` makes the change of a record. A change
without a value is a tombstone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..modern.changes import Change as ChangeOf
from ..modern.record_format import decode, encode, group_key, member_key, with_epochs
from . import consumer_group_records as records
from .members import ClassicMetadata, CurrentAssignment, Expression, Membership, MemberState, Partitions

if TYPE_CHECKING:
    from ...coordinators.coordinator_topic import KeyValue
    from .consumer_group import ConsumerGroup

Change = ChangeOf["ConsumerGroup"]
"""A change of a consumer group."""


class GroupEpoch(NamedTuple):
    """Another group epoch; None deletes the group."""

    epoch: int | None
    metadata_hash: int = 0
    metadata_version: int | None = None
    """The version of the cluster's metadata that the hash was computed of; None if it is not known, because it is not
    stored: the next heartbeat computes the hash again."""

    def record(self, group_id: str) -> KeyValue:
        key = group_key(records.GROUP_METADATA, group_id)
        if self.epoch is None:
            return key, None
        return key, encode(records.ConsumerGroupMetadataValue(epoch=self.epoch, metadata_hash=self.metadata_hash))

    def apply(self, group: ConsumerGroup) -> None:
        if self.epoch is not None:
            group.epoch, group.metadata_hash = self.epoch, self.metadata_hash
            group.metadata_version = self.metadata_version


class MembershipChange(NamedTuple):
    """A member tells something of itself; None removes it."""

    member_id: str
    membership: Membership | None

    def record(self, group_id: str) -> KeyValue:
        key = member_key(records.MEMBER_METADATA, group_id, self.member_id)
        member = self.membership
        if member is None:
            return key, None
        value = records.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=list(member.topic_names),
            subscribed_topic_regex=member.topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=_encoded_classic(member.classic),
        )
        return key, encode(value)

    def apply(self, group: ConsumerGroup) -> None:
        group.put_membership(self.member_id, self.membership)


class AssignmentEpoch(NamedTuple):
    """The target assignment belongs to this group epoch; None if there is none any more."""

    epoch: int | None
    assigned_at_ms: int = 0

    def record(self, group_id: str) -> KeyValue:
        key = group_key(records.TARGET_ASSIGNMENT_METADATA, group_id)
        if self.epoch is None:
            return key, None
        value = records.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=self.epoch, assignment_timestamp=self.assigned_at_ms
        )
        return key, encode(value)

    def apply(self, group: ConsumerGroup) -> None:
        group.put_assignment_epoch(self.epoch, self.assigned_at_ms)


class TargetChange(NamedTuple):
    """A member has another target assignment; None removes it."""

    member_id: str
    target: Mapping[bytes, Collection[int]] | None

    def record(self, group_id: str) -> KeyValue:
        key = member_key(records.TARGET_ASSIGNMENT_MEMBER, group_id, self.member_id)
        if self.target is None:
            return key, None
        value = records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                records.ConsumerGroupTargetAssignmentMemberValue.TopicPartition(
                    topic_id=topic_id, partitions=sorted(partitions)
                )
                for topic_id, partitions in self.target.items()
            ]
        )
        return key, encode(value)

    def apply(self, group: ConsumerGroup) -> None:
        group.put_target(self.member_id, self.target)


class CurrentChange(NamedTuple):
    """A member was assigned something else; None ends its assignment."""

    member_id: str
    current: CurrentAssignment | None

    def record(self, group_id: str) -> KeyValue:
        key = member_key(records.CURRENT_MEMBER_ASSIGNMENT, group_id, self.member_id)
        current = self.current
        if current is None:
            return key, None
        value = records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=current.epoch,
            previous_member_epoch=current.previous_epoch,
            state=current.state.value,
            assigned_partitions=_encoded(current.assigned),
            partitions_pending_revocation=_encoded(current.revoking),
        )
        return key, encode(value)

    def apply(self, group: ConsumerGroup) -> None:
        group.put_current(self.member_id, self.current)


class ExpressionChange(NamedTuple):
    """A regular expression was resolved; None if no member subscribes to it any more."""

    regex: str
    expression: Expression | None

    def record(self, group_id: str) -> KeyValue:
        key = member_key(records.REGULAR_EXPRESSION, group_id, self.regex)
        resolved = self.expression
        if resolved is None:
            return key, None
        value = records.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
        )
        return key, encode(value)

    def apply(self, group: ConsumerGroup) -> None:
        if self.expression is None:
            group.expressions.pop(self.regex, None)
        else:
            group.expressions[self.regex] = self.expression


def removal_of_members(group: ConsumerGroup, member_ids: Iterable[str]) -> Iterator[Change]:
    """The tombstones of members, and of the expressions that no other member subscribes to."""
    member_ids = list(member_ids)
    for member_id in member_ids:
        yield from (CurrentChange(member_id, None), TargetChange(member_id, None), MembershipChange(member_id, None))
    yield from unused_expressions(group, member_ids)


def unused_expressions(group: ConsumerGroup, leaving: Collection[str]) -> Iterator[Change]:
    """The tombstones of the expressions that only these members subscribe to."""
    left = group.expression_subscribers.copy()
    for member_id in leaving:
        left[group.memberships[member_id].topic_regex] -= 1
    for regex in group.expressions:
        if left[regex] <= 0:
            yield ExpressionChange(regex, None)


def removal(group: ConsumerGroup) -> Iterator[Change]:
    """The tombstones of everything, in the order on which Kafka's reader insists."""
    for member_id in group.memberships:
        yield CurrentChange(member_id, None)
    for member_id in group.memberships:
        yield TargetChange(member_id, None)
    yield AssignmentEpoch(None)
    for member_id in group.memberships:
        yield MembershipChange(member_id, None)
    for regex in group.expressions:
        yield ExpressionChange(regex, None)
    yield GroupEpoch(None)


# --- reading


def read_change(key_type: int, name: str, value: bytes) -> Change | None:
    """The change of a record; `name` is the member id or the expression of its key. None for a record of an old version
    that means nothing any more. Raises CorruptRecord."""
    if key_type == records.GROUP_METADATA:
        metadata = decode(records.ConsumerGroupMetadataValue, value)
        return GroupEpoch(metadata.epoch, metadata.metadata_hash)
    if key_type == records.MEMBER_METADATA:
        return MembershipChange(name, _read_membership(name, value))
    if key_type == records.TARGET_ASSIGNMENT_METADATA:
        epoch = decode(records.ConsumerGroupTargetAssignmentMetadataValue, value)
        return AssignmentEpoch(epoch.assignment_epoch, epoch.assignment_timestamp)
    if key_type == records.TARGET_ASSIGNMENT_MEMBER:
        target = decode(records.ConsumerGroupTargetAssignmentMemberValue, value)
        return TargetChange(name, {one.topic_id: tuple(one.partitions) for one in target.topic_partitions})
    if key_type == records.CURRENT_MEMBER_ASSIGNMENT:
        return CurrentChange(name, _read_current(value))
    if key_type == records.REGULAR_EXPRESSION:
        resolved = decode(records.ConsumerGroupRegularExpressionValue, value)
        return ExpressionChange(name, Expression(frozenset(resolved.topics), resolved.version, resolved.timestamp))
    return None


def _read_membership(member_id: str, value: bytes) -> Membership:
    read = decode(records.ConsumerGroupMemberMetadataValue, value)
    classic = read.classic_member_metadata
    return Membership(
        member_id,
        instance_id=read.instance_id,
        rack_id=read.rack_id,
        client_id=read.client_id,
        client_host=read.client_host,
        rebalance_timeout_ms=read.rebalance_timeout_ms,
        topic_names=tuple(read.subscribed_topic_names),
        topic_regex=read.subscribed_topic_regex or "",
        assignor=read.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms, tuple((one.name, one.metadata) for one in classic.supported_protocols)
        ),
    )


def _read_current(value: bytes) -> CurrentAssignment:
    read = decode(records.ConsumerGroupCurrentMemberAssignmentValue, value)
    try:
        state = MemberState(read.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return CurrentAssignment(
        read.member_epoch,
        read.previous_member_epoch,
        state,
        _decoded(read.assigned_partitions, read.member_epoch),
        _decoded(read.partitions_pending_revocation, read.member_epoch),
    )


_Places = records.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions


def _encoded(partitions: Partitions) -> list[_Places]:
    return [
        _Places(topic_id=topic_id, partitions=sorted(epochs), assignment_epochs=[epochs[one] for one in sorted(epochs)])
        for topic_id, epochs in partitions.items()
    ]


def _decoded(places: Iterable[_Places], member_epoch: int) -> Partitions:
    return {one.topic_id: with_epochs(one.partitions, one.assignment_epochs, member_epoch) for one in places}


def _encoded_classic(
    classic: ClassicMetadata | None,
) -> records.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None:
    if classic is None:
        return None
    metadata = records.ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
    return metadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            metadata.ClassicProtocol(name=name, metadata=protocol) for name, protocol in classic.protocols
        ],
    )
