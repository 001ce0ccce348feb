"""Heartbeat, versions 0 to 4: keep a member's session alive, and tell the member whether to join again.

Every member of every group sends one every few seconds, so a heartbeat is only two look-ups and one new deadline.
"""

from __future__ import annotations

from ...protocol.errors import NONE, KafkaError
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import demands
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


@handles(HeartbeatRequest, needs=[whole(AclOperation.READ, ResourceType.GROUP)], guard=demands("group_id"))
async def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    """Renew the member's session."""
    groups = context.services.groups
    try:
        groups.heartbeat(request.group_id, request.member_id, request.group_instance_id, request.generation_id)
    except KafkaError as error:
        return HeartbeatResponse(error_code=error.code)
    if groups.disconnects is not None:
        groups.disconnects.came_by(context.connection, request.group_id, request.member_id)
    return HeartbeatResponse(error_code=NONE)
