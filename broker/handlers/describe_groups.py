"""DescribeGroups, versions 0 to 6: list state, members and assignments of groups.

Only a Stable group shows the metadata and the protocol of its members. An unknown group is Dead, and GROUP_ID_NOT_FOUND
from version 6 on (KIP-1043); so is a group of another kind, and one whose records are all above the high watermark.
"""

from __future__ import annotations

from functools import partial

from ...protocol.errors import GroupIdNotFound, KafkaError
from ...protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.classic.classic_group import ClassicGroup
from ..groups.classic.group_states import GroupState
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from .group_descriptions import described, tell_operations

NOT_FOUND_SINCE = 6

Description = DescribeGroupsResponse.Group


async def guard(call: Call) -> DescribeGroupsResponse:
    """Describe the groups that the client may describe, and tell what else it may do to them."""
    (describe,) = call.permissions
    request = call.request
    request.groups, denied = call.split(describe, request.groups, lambda group_id: group_id)
    answer: DescribeGroupsResponse = await call.serve()
    tell_operations(call, answer.groups)
    answer.groups += [
        DescribeGroupsResponse.Group(group_id=group_id, error_code=describe.code) for group_id in dict.fromkeys(denied)
    ]
    return answer


@handles(DescribeGroupsRequest, needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP)], guard=guard)
async def describe_groups(request: DescribeGroupsRequest, context: Context) -> DescribeGroupsResponse:
    """Describe each group."""
    operations = request.include_authorized_operations
    groups = await described(request.groups, partial(_describe, context), with_operations=operations)
    return DescribeGroupsResponse(groups=groups)


def _describe(context: Context, group_id: str) -> DescribeGroupsResponse.Group:
    try:
        group = context.services.groups.find(group_id, shown_only=True)
        if not isinstance(group, ClassicGroup):
            raise GroupIdNotFound(f"group {group_id} is not a classic group")
    except GroupIdNotFound as error:
        nothing = Description(group_id=group_id, group_state=GroupState.DEAD.value)
        if context.version >= NOT_FOUND_SINCE:
            nothing.error_code, nothing.error_message = error.code, error.message
        return nothing
    except KafkaError as error:
        return Description(group_id=group_id, error_code=error.code)
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return Description(
        group_id=group_id,
        group_state=group.shown_state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=_members(group, protocol),
    )


def _members(group: ClassicGroup, protocol: str | None) -> list[DescribeGroupsResponse.Group.Member]:
    return [
        Description.Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=b"" if protocol is None else member.protocols[protocol],
            member_assignment=member.assignment,
        )
        for member in group.shown_members()
    ]
