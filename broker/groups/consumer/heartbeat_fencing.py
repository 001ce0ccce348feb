"""Which member sends a request, and whether its epoch counts: the fences of a heartbeat, in Kafka's order (KIP-848).

| member                                    | epoch 0                                     | another epoch             |
|-------------------------------------------|---------------------------------------------|---------------------------|
| dynamic, known                            | joins again, goes on from what it has       | its epoch is checked      |
| dynamic, unknown                          | new                                         | UNKNOWN_MEMBER_ID         |
| static, instance id unknown               | new                                         | UNKNOWN_MEMBER_ID         |
| static, instance id of another member id  | takes its place if that is away, else       | FENCED_INSTANCE_ID        |
|                                           | UNRELEASED_INSTANCE_ID                      |                           |

An epoch that is too high is FENCED_MEMBER_EPOCH. So is a lower one, unless it is the one before, and the member reports
no more than it was assigned: its last answer was lost.
"""

from __future__ import annotations

from ....protocol.errors import FencedInstanceId, FencedMemberEpoch, UnknownMemberId, UnreleasedInstanceId
from .consumer_group import ConsumerGroup
from .heartbeat_fields import Beat
from .members import JOINS, LEAVES_FOR_A_WHILE, CurrentAssignment, Membership, Owned
from .state_changes import Change, CurrentChange, MembershipChange, TargetChange


def identify(group: ConsumerGroup, beat: Beat) -> Membership | None:
    """The member that sends the heartbeat; None if it is new. A static member that has come back with another member id
    is the one whose place it takes. Raises UnknownMemberId, FencedInstanceId, UnreleasedInstanceId,
    FencedMemberEpoch."""
    if beat.instance_id is not None:
        known = _static(group, beat, beat.instance_id)
    else:
        known = group.memberships.get(beat.member_id)
        if known is None and beat.member_epoch != JOINS:
            raise UnknownMemberId(f"group {group.group_id} has no member {beat.member_id}")
    if known is not None and beat.member_epoch != JOINS:
        _check_epoch(group.current(known.member_id), beat.member_epoch, beat.owned)
    return known


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Membership:
    """The member of this id, whose instance id this is. Raises UnknownMemberId, FencedInstanceId."""
    if instance_id is not None:
        return _holder(group, member_id, instance_id)
    known = group.memberships.get(member_id)
    if known is None:
        raise UnknownMemberId(f"group {group.group_id} has no member {member_id}")
    return known


def take_place(
    group: ConsumerGroup, known: Membership, member_id: str, changes: list[Change]
) -> tuple[Membership, CurrentAssignment]:
    """A static member that has come back, and what it has: it keeps its target and its partitions, mostly under another
    member id, by changes that are added to `changes`."""
    current = group.current(known.member_id)
    successor = known._replace(member_id=member_id)
    current = CurrentAssignment(0, 0, current.state, current.assigned, current.revoking)
    changes += [
        CurrentChange(known.member_id, None),
        TargetChange(known.member_id, None),
        MembershipChange(known.member_id, None),
        MembershipChange(member_id, successor),
        TargetChange(member_id, group.targets.get(known.member_id, {})),
        CurrentChange(member_id, current),
    ]
    return successor, current


def check_classic(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Membership:
    """The member of the classic protocol that sends a request. Raises UnknownMemberId, FencedInstanceId."""
    known = member_of(group, member_id, instance_id)
    if known.classic is None:
        raise UnknownMemberId(f"member {known.member_id} speaks the consumer protocol")
    return known


def _static(group: ConsumerGroup, beat: Beat, instance_id: str) -> Membership | None:
    if beat.member_epoch != JOINS:
        return _holder(group, beat.member_id, instance_id)
    holder = group.static_members.get(instance_id)
    if holder is None:
        return group.memberships.get(beat.member_id)
    known = group.memberships[holder]
    if known.classic is None and group.current(holder).epoch != LEAVES_FOR_A_WHILE:
        raise UnreleasedInstanceId(
            f"member {holder} has the instance id {instance_id} and has not left, so {beat.member_id} cannot have it"
        )
    return known


def _holder(group: ConsumerGroup, member_id: str, instance_id: str) -> Membership:
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise UnknownMemberId(f"no member has the instance id {instance_id}")
    if holder != member_id:
        raise FencedInstanceId(f"member {holder} has taken over the instance id {instance_id} from {member_id}")
    return group.memberships[holder]


def _check_epoch(current: CurrentAssignment, epoch: int, owned: Owned | None) -> None:
    if epoch > current.epoch:
        raise FencedMemberEpoch(
            f"the member epoch is {current.epoch}, not {epoch}: give up all partitions, and join again"
        )
    if epoch < current.epoch and (epoch != current.previous_epoch or not _is_within(owned, current)):
        raise FencedMemberEpoch(
            f"the member epoch is {current.epoch}, not {epoch}: give up all partitions, and join again"
        )


def _is_within(owned: Owned | None, current: CurrentAssignment) -> bool:
    if owned is None:
        return False
    return all(partitions <= current.assigned.get(topic_id, {}).keys() for topic_id, partitions in owned.items())
