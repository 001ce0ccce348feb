"""LeaveGroup, versions 0 to 5: remove members from a group.

A request names one member before version 3, and its error is the answer's. From version 3 on it names many, static ones
by their instance id, each with its own outcome (KIP-345). Hundreds of members leave at a time, so that other requests
are served in between.
"""

from __future__ import annotations

from ...protocol.errors import NONE, KafkaError, UnknownMemberId
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.classic.member import Leaving
from ..scheduler import Turn
from ..security.guarding import demands
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

MANY_SINCE = 3

_AT_A_TIME = 500


@handles(LeaveGroupRequest, needs=[whole(AclOperation.READ, ResourceType.GROUP)], guard=demands("group_id"))
async def leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Remove the members, wait for the replicas if a change was written, and answer for each."""
    answer = await _leave(request, context)
    if answer.error_code == NONE:
        try:
            await context.services.groups.store.replicated(request.group_id)
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)
    return answer


async def _leave(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    coordinator = context.services.groups
    if context.version < MANY_SINCE:
        try:
            (error_code,) = await coordinator.leave(request.group_id, [Leaving(request.member_id)])
        except KafkaError as error:
            error_code = error.code
        return LeaveGroupResponse(error_code=error_code)
    outcomes: list[int] = []
    turn = Turn()
    for begin in range(0, len(request.members) or 1, _AT_A_TIME):  # also if there are none: the group has to be right
        batch = request.members[begin : begin + _AT_A_TIME]
        leaving = [Leaving(member.member_id, member.group_instance_id, member.reason or "") for member in batch]
        try:
            outcomes += await coordinator.leave(request.group_id, leaving)
        except UnknownMemberId as error:  # there is no such group
            outcomes += [error.code] * len(leaving)
        except KafkaError as error:
            return LeaveGroupResponse(error_code=error.code)
        if turn.is_over:
            await turn.next()
    return LeaveGroupResponse(
        error_code=NONE,
        members=[
            LeaveGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error_code
            )
            for member, error_code in zip(request.members, outcomes, strict=True)
        ],
    )
