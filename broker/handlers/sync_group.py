"""SyncGroup, versions 0 to 5: take the assignment of a generation from the leader, and give each member its share.

The assignment is in force once it is stored. From version 5 on the member states the protocol that it was told
(KIP-559).
"""

from __future__ import annotations

from ...protocol.errors import InconsistentGroupProtocol
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.classic.classic_groups import Syncing
from ..security.guarding import demands
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

PROTOCOL_SINCE = 5


@handles(SyncGroupRequest, needs=[whole(AclOperation.READ, ResourceType.GROUP)], guard=demands("group_id"))
async def sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    """Wait for the leader's assignment, unless this member is the leader."""
    if context.version >= PROTOCOL_SINCE and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=InconsistentGroupProtocol.code)
    syncing = Syncing(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation_id=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={assigned.member_id: assigned.assignment for assigned in request.assignments},
    )
    groups, group_id = context.services.groups, request.group_id
    if groups.disconnects is not None:
        groups.disconnects.came_by(context.connection, group_id, request.member_id)
    result = await context.answer(groups.sync(group_id, syncing), f"of group {group_id}")
    return SyncGroupResponse(
        error_code=result.error_code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
