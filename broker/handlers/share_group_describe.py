"""ShareGroupDescribe, version 1: state, epochs, members and partitions of share groups (KIP-932).

A group of another kind, an unknown one, and one whose records are all above the high watermark are GROUP_ID_NOT_FOUND.
With an authorizer, a group with a member that has a topic which the client may not describe is refused as a whole.
"""

from __future__ import annotations

from functools import partial

from ...protocol.errors import KafkaError
from ...protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.share.share_group import ASSIGNOR, ShareGroup, ShareMembership
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from .group_descriptions import assignment, described, guard_topics, modern_group

Description = ShareGroupDescribeResponse.Group


async def guard(call: Call) -> ShareGroupDescribeResponse:
    """Describe the groups that the client may describe, with all their topics, and tell what else it may do to them."""
    offered = call.context.services.offers_share_groups
    answer: ShareGroupDescribeResponse = await guard_topics(call, Description, _topics, is_offered=offered, members=[])
    return answer


def _topics(group: Description) -> set[str]:
    return {topic.topic_name for member in group.members for topic in member.assignment.topic_partitions}


@handles(
    ShareGroupDescribeRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP), each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def share_group_describe(request: ShareGroupDescribeRequest, context: Context) -> ShareGroupDescribeResponse:
    """Describe each group."""
    operations = request.include_authorized_operations
    groups = await described(request.group_ids, partial(_describe, context), with_operations=operations)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(context: Context, group_id: str) -> Description:
    try:
        offered = context.services.offers_share_groups
        group = modern_group(
            context, group_id, ShareGroup, is_offered=offered, otherwise="share groups are not offered"
        )
    except KafkaError as error:
        return Description(group_id=group_id, error_code=error.code, error_message=error.message)
    shown = group.shown
    return Description(
        group_id=group_id,
        group_state=group.shown_state.value,
        group_epoch=shown.epoch,
        assignment_epoch=shown.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(shown, member, context) for member in shown.memberships.values()],
    )


def _member(group: ShareGroup, member: ShareMembership, context: Context) -> Description.Member:
    current = group.current(member.member_id)
    return Description.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=assignment(current.assigned, context),
    )
