"""ListGroups, versions 0 to 5: list the groups that this broker coordinates, by state (KIP-518) and type (KIP-848).

A group is listed once the high watermark covers one of its records. An empty filter
matches every group; a filter of unknown names matches none.
"""

from __future__ import annotations

from ...protocol.errors import CoordinatorLoadInProgress
from ...protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import shown, suffices
from ..security.resources import AclOperation, ResourceType


async def guard(call: Call) -> ListGroupsResponse:
    """Leave out the groups that the client may not describe."""
    describe_cluster, describe = call.permissions
    answer: ListGroupsResponse = await call.serve()
    if not call.may(describe_cluster, is_logged=False):
        answer.groups = [group for group in answer.groups if call.may(describe, group.group_id, is_logged=False)]
    return answer


@handles(
    ListGroupsRequest,
    needs=[suffices(AclOperation.DESCRIBE, ResourceType.CLUSTER), shown(AclOperation.DESCRIBE, ResourceType.GROUP)],
    guard=guard,
)
async def list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """List the groups that match both filters; none while a partition of groups is loading, as in Kafka."""
    try:
        context.services.groups.store.topic.check_all_loaded()
    except CoordinatorLoadInProgress as error:
        return ListGroupsResponse(error_code=error.code)
    states = {state.strip().lower() for state in request.states_filter}
    types = {group_type.lower() for group_type in request.types_filter}
    listed = []
    turn = Turn()
    for group in context.services.groups.shown():
        if turn.is_over:
            await turn.next()
        if types and group.group_type not in types:
            continue
        if not states or group.shown_state.value.lower() in states:
            listed.append(
                ListGroupsResponse.Group(
                    group_id=group.group_id,
                    protocol_type=group.shown_protocol_type,
                    group_state=group.shown_state.value,
                    group_type=group.group_type,
                )
            )
    return ListGroupsResponse(groups=listed)
