"""ShareGroupHeartbeat, version 1: join or leave a share group, and learn the partitions to read (KIP-932).

Where share groups are not offered (`share.version`) the answer is UNSUPPORTED_VERSION, before anything else is looked
at. The first answers have no partitions: those of a group that begins to read a topic can be assigned once the share
coordinator has made their states, which it is asked for after the answer. An error leaves the connection and the group
as they are.
"""

from __future__ import annotations

from ...protocol.errors import InvalidRequest, UnsupportedVersion
from ...protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.share.heartbeats import MAX_MEMBER_ID, ShareAnswer, ShareBeat
from ..security.guarding import Call
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

Answer = ShareGroupHeartbeatResponse


async def guard(call: Call) -> Answer:
    """Refuse the request without the group, or without one of the topics that it names."""
    read_group, describe_topic = call.permissions
    request = call.request
    answer: Answer
    if call.context.services.offers_share_groups:
        if not call.may(read_group, request.group_id):
            return Answer(error_code=read_group.code)
        names = request.subscribed_topic_names or ()
        if _has_member_id(request) and not all(call.may(describe_topic, name) for name in names):
            return Answer(error_code=describe_topic.code)
    answer = await call.serve()
    return answer


@handles(
    ShareGroupHeartbeatRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), whole(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def share_group_heartbeat(request: ShareGroupHeartbeatRequest, context: Context) -> Answer:
    """Serve the heartbeat."""
    services = context.services
    try:
        if not services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        if not _has_member_id(request):
            raise InvalidRequest(f"a member id has 1 to {MAX_MEMBER_ID} characters")
        answer = await services.groups.share.members.heartbeat(_beat(request, context))
    except Exception as failure:
        error = kafka_error(failure, f"a heartbeat of group {request.group_id!r}")
        return Answer(error_code=error.code, error_message=error.message)
    if services.groups.disconnects is not None:
        services.groups.disconnects.came_by(context.connection, request.group_id, answer.member_id)
    return _answer(answer)


def _has_member_id(request: ShareGroupHeartbeatRequest) -> bool:
    return 0 < len(request.member_id) <= MAX_MEMBER_ID


def _beat(request: ShareGroupHeartbeatRequest, context: Context) -> ShareBeat:
    return ShareBeat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=request.subscribed_topic_names,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer[0]}",
    )


def _answer(answer: ShareAnswer) -> Answer:
    assignment = None
    if answer.assigned is not None:
        places = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in answer.assigned.items()
        ]
        assignment = Answer.Assignment(topic_partitions=places)
    return Answer(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=assignment,
    )
