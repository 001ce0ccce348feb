"""The upgrade of a classic group with members: the first member of the consumer protocol makes it a consumer group.

The members stay, as members of the classic protocol, at their generation as member epoch, and keep what they were
assigned. They learn by their heartbeats that they have to join again, and give up partitions one after the other
(KIP-848, "online upgrade"). `downgrade.py` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ....protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, read_subscription
from ....protocol.errors import GroupIdNotFound, MalformedMessage
from ..classic.classic_group import ClassicGroup
from ..classic.member import Member
from ..modern.topic_catalog import Catalog
from .members import ClassicMetadata, CurrentAssignment, Membership, MemberState
from .state_changes import AssignmentEpoch, Change, CurrentChange, GroupEpoch, MembershipChange, TargetChange

POLICIES = ("upgrade", "bidirectional")
"""The values of `group.consumer.migration.policy` that allow it."""


def conversion(group: ClassicGroup, policy: str, max_size: int, catalog: Catalog) -> list[Change]:
    """The changes that make a consumer group of this classic one, in Kafka's order. Raises GroupIdNotFound if it cannot
    be upgraded."""
    if policy not in POLICIES:
        raise _cannot(group, "stays classic by group.consumer.migration.policy")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _cannot(group, "is not one of consumers")
    if len(group.members) > max_size:
        raise _cannot(group, f"has more than group.consumer.max.size={max_size} members")
    try:
        converted = [_converted(group, member, catalog) for member in group.members.values()]
    except MalformedMessage as error:
        raise _cannot(group, "has subscriptions or assignments that are none of consumers") from error
    return [*_changes(group.generation_id, converted)]


def _changes(generation_id: int, converted: Iterable[tuple[Membership, CurrentAssignment]]) -> Iterator[Change]:
    for member, _ in converted:
        yield MembershipChange(member.member_id, member)
    yield GroupEpoch(generation_id)
    for member, current in converted:
        yield TargetChange(member.member_id, {topic_id: tuple(each) for topic_id, each in current.assigned.items()})
    yield AssignmentEpoch(generation_id)
    for member, current in converted:
        yield CurrentChange(member.member_id, current)


def _converted(group: ClassicGroup, member: Member, catalog: Catalog) -> tuple[Membership, CurrentAssignment]:
    """A member, and what the leader has assigned to it. Raises MalformedMessage, GroupIdNotFound."""
    name = group.protocol_name
    subscription = read_subscription(next(iter(member.protocols.values())) if name is None else member.protocols[name])
    assignment = read_assignment(member.assignment)
    if assignment.user_data:
        raise _cannot(group, "has an assignor of its own, which gives its members more than partitions")
    generation_id = group.generation_id
    assigned: dict[bytes, dict[int, int]] = {}
    for one in assignment.assigned_partitions:
        topic_id = catalog.id_of(one.topic)
        if topic_id is not None:
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(sorted(one.partitions), generation_id))
    membership = Membership(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=tuple(sorted({*subscription.topics})),
        classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols.items())),
    )
    return membership, CurrentAssignment(generation_id, generation_id, MemberState.STABLE, assigned)


def _cannot(group: ClassicGroup, reason: str) -> GroupIdNotFound:
    return GroupIdNotFound(f"the classic group {group.group_id} cannot become a consumer group: it {reason}")
