"""ConsumerGroupDescribe, versions 0 and 1: state, epochs, members and assignments of consumer groups (KIP-848).

A group of another kind, an unknown one, and one whose records are all above the high watermark are GROUP_ID_NOT_FOUND.
With an authorizer, a group that names a topic that the client may not describe is refused as a whole.
"""

from __future__ import annotations

from functools import partial

from ...protocol.errors import KafkaError
from ...protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.consumer.consumer_group import ConsumerGroup
from ..groups.consumer.members import Membership
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from .group_descriptions import assignment, described, guard_topics, modern_group

Description = ConsumerGroupDescribeResponse.Group

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


async def guard(call: Call) -> ConsumerGroupDescribeResponse:
    """Describe the groups that the client may describe, with all their topics, and tell what else it may do to them."""
    offered = call.context.services.offers_consumer_groups
    answer: ConsumerGroupDescribeResponse = await guard_topics(
        call, Description, _topics, is_offered=offered, members=[]
    )
    return answer


def _topics(group: Description) -> set[str]:
    return {
        topic.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for topic in assignment.topic_partitions
    }


@handles(
    ConsumerGroupDescribeRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP), each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: Context
) -> ConsumerGroupDescribeResponse:
    """Describe each group."""
    operations = request.include_authorized_operations
    groups = await described(request.group_ids, partial(_describe, context), with_operations=operations)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(context: Context, group_id: str) -> Description:
    try:
        offered = context.services.offers_consumer_groups
        group = modern_group(
            context, group_id, ConsumerGroup, is_offered=offered, otherwise="the consumer protocol is not offered"
        )
    except KafkaError as error:
        return Description(group_id=group_id, error_code=error.code, error_message=error.message)
    shown = group.shown
    return Description(
        group_id=group_id,
        group_state=group.shown_state.value,
        group_epoch=shown.epoch,
        assignment_epoch=shown.assignment_epoch,
        assignor_name=shown.assignor(),
        members=[_member(shown, member, context) for member in shown.memberships.values()],
    )


def _member(group: ConsumerGroup, member: Membership, context: Context) -> Description.Member:
    current = group.current(member.member_id)
    duty = {
        topic_id: [*current.assigned.get(topic_id, ()), *current.revoking.get(topic_id, ())]
        for topic_id in {**current.assigned, **current.revoking}
    }
    return Description.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=assignment(duty, context),
        target_assignment=assignment(group.targets.get(member.member_id, {}), context),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )
