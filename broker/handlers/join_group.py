"""JoinGroup, versions 0 to 9: become or stay a member of a group, and wait for its next generation.

From version 4 on a new dynamic member gets its id first, and joins with it (KIP-394). From version 5 on an instance id
makes a member static (KIP-345). Version 9 tells a leader that has returned not to assign again (KIP-814). In version 0
the rebalance time-out is the session time-out.

Three limits are not Apache Kafka's: more than 64 protocols (INCONSISTENT_GROUP_PROTOCOL), protocols that make the group
too large for its log (GROUP_MAX_SIZE_REACHED), and a name of more than 32,767 bytes (INVALID_REQUEST). As in Kafka, a
lost connection ends the wait and not the membership.
"""

from __future__ import annotations

from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.classic.member import Joining, JoinResult
from ..security.guarding import demands
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIPS_ASSIGNMENT_SINCE = 9


@handles(JoinGroupRequest, needs=[whole(AclOperation.READ, ResourceType.GROUP)], guard=demands("group_id"))
async def join_group(request: JoinGroupRequest, context: Context) -> JoinGroupResponse:
    """Join the group, and wait for the other members."""
    version = context.version
    has_timeout = version >= REBALANCE_TIMEOUT_SINCE
    protocols: dict[str, bytes] = {}
    for protocol in request.protocols:
        protocols.setdefault(protocol.name, protocol.metadata)
    joining = Joining(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer[0]}",
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=protocols,
        takes_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
        skips_assignment=version >= SKIPS_ASSIGNMENT_SINCE,
    )
    groups, group_id = context.services.groups, request.group_id
    answer = groups.join(group_id, joining)
    if groups.disconnects is not None:
        groups.disconnects.join_came_by(context.connection, group_id, answer)
    return _answer(await context.answer(answer, f"of group {group_id}"), version)


def _answer(result: JoinResult, version: int) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=result.error_code,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name or (None if version >= NULL_PROTOCOL_SINCE else ""),
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.Member(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
