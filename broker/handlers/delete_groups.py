"""DeleteGroups, versions 0 to 2: delete groups without members, and their offsets (KIP-229)."""

from __future__ import annotations

from ...protocol.errors import NONE
from ...protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType


async def guard(call: Call) -> DeleteGroupsResponse:
    """Refuse each group that the client may not delete."""
    (delete,) = call.permissions
    request = call.request
    request.groups_names, denied = call.split(delete, request.groups_names, lambda group_id: group_id)
    answer: DeleteGroupsResponse = await call.serve()
    answer.results += [
        DeleteGroupsResponse.Result(group_id=group_id, error_code=delete.code) for group_id in dict.fromkeys(denied)
    ]
    return answer


@handles(DeleteGroupsRequest, needs=[each(AclOperation.DELETE, ResourceType.GROUP)], guard=guard)
async def delete_groups(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Delete each group; each has its own outcome. A group that is named twice is answered once."""
    results = []
    turn = Turn()
    for group_id in dict.fromkeys(request.groups_names):
        if turn.is_over:
            await turn.next()
        results.append(DeleteGroupsResponse.Result(group_id=group_id, error_code=await _delete(group_id, context)))
    return DeleteGroupsResponse(results=results)


async def _delete(group_id: str, context: Context) -> int:
    try:
        await context.services.groups.delete(group_id)
    except Exception as error:
        return kafka_error(error, "the deletion of a group").code
    return NONE
