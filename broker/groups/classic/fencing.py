"""Fences of a group: a request of a client that is no member any more, or of an earlier generation, is refused.

| request               | member id, instance id | generation | the state of the group, also                          |
|-----------------------|------------------------|------------|-------------------------------------------------------|
| Heartbeat, SyncGroup  | checked                | checked    | HEARTBEAT and SYNC (group_states.py)                  |
| LeaveGroup            | checked                | not given  | not when it was removed                               |
| OffsetCommit          | checked, if any member | likewise   | COMMIT: refused while members get their assignment    |
| TxnOffsetCommit       | checked, if it is told | likewise   | not: a transaction may end in a rebalance (KIP-447)   |

In a group without members, a client that names no generation may commit: a consumer that assigns partitions itself, or
an administrator. An instance id that another member has taken over is FENCED_INSTANCE_ID (KIP-345).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocol.errors import FencedInstanceId, IllegalGeneration, UnknownMemberId
from .group_states import COMMIT, DEAD, EMPTY

if TYPE_CHECKING:
    from .classic_group import ClassicGroup
    from .member import Member


def check_member(group: ClassicGroup, member_id: str, instance_id: str | None) -> Member:
    """Return the member of this id. Raises UnknownMemberId, and FencedInstanceId if the instance id belongs to
    another."""
    if instance_id is not None:
        owner = group.static_members.get(instance_id)
        if owner is None:
            raise UnknownMemberId(f"no member has the instance id {instance_id!r}")
        if owner != member_id:
            raise FencedInstanceId(f"another member has taken over the instance id {instance_id!r}")
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberId(f"there is no member {member_id!r}")
    return member


def check_generation(group: ClassicGroup, generation_id: int) -> None:
    """Raise IllegalGeneration unless the group is in this generation."""
    if generation_id != group.generation_id:
        raise IllegalGeneration(f"the generation is {group.generation_id}, not {generation_id}")


def check_commit(
    group: ClassicGroup, member_id: str, instance_id: str | None, generation_id: int, *, is_transactional: bool = False
) -> None:
    """Check whether a client that gives these fields may commit offsets. Raises CoordinatorNotAvailable,
    UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress."""
    refusal = COMMIT[group.state]
    if group.state is DEAD and refusal is not None:
        raise refusal("the group was removed")
    if generation_id < 0 and group.state is EMPTY:
        return
    if generation_id >= 0 or member_id or instance_id is not None:
        check_member(group, member_id, instance_id)
        check_generation(group, generation_id)
    elif not is_transactional:
        raise UnknownMemberId("the group has members, and this is none of them")
    if refusal is not None and not is_transactional:
        raise refusal("the members are getting a new assignment")
