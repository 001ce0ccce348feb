"""ConsumerGroupHeartbeat, versions 0 and 1: join or leave a consumer group, report, and learn the assignment (KIP-848).

Where the consumer protocol is not offered (`group.version`, `group.coordinator.rebalance.protocols`) the answer is
UNSUPPORTED_VERSION, before anything else is looked at. An error leaves the connection and the group as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...protocol.errors import UnsupportedVersion
from ...protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.consumer.heartbeat_fields import Beat, BeatAnswer
from ..security.guarding import Call
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

Assignment = ConsumerGroupHeartbeatResponse.Assignment


async def guard(call: Call) -> ConsumerGroupHeartbeatResponse:
    """Refuse the request without the group, or without one of the topics that it names."""
    read_group, describe_topic = call.permissions
    request = call.request
    answer: ConsumerGroupHeartbeatResponse
    if call.context.services.offers_consumer_groups:
        if not call.may(read_group, request.group_id):
            return ConsumerGroupHeartbeatResponse(error_code=read_group.code)
        if not all(call.may(describe_topic, name) for name in request.subscribed_topic_names or ()):
            return ConsumerGroupHeartbeatResponse(error_code=describe_topic.code)
    answer = await call.serve()
    return answer


@handles(
    ConsumerGroupHeartbeatRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), whole(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroupHeartbeatResponse:
    """Serve the heartbeat. A regular expression stands for the topics that the client may describe."""
    services = context.services
    try:
        if not services.offers_consumer_groups:
            raise UnsupportedVersion("the consumer protocol is not offered")
        answer = await services.groups.consumer.heartbeat(_beat(request, context), _may_describe(context))
    except Exception as failure:
        error = kafka_error(failure, f"a heartbeat of group {request.group_id!r}")
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    if services.groups.disconnects is not None:
        services.groups.disconnects.came_by(context.connection, request.group_id, answer.member_id)
    return _answer(answer)


def _beat(request: ConsumerGroupHeartbeatRequest, context: Context) -> Beat:
    reported = request.topic_partitions
    owned: dict[bytes, frozenset[int]] | None = None if reported is None else {}
    for topic in reported or ():
        assert owned is not None
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()).union(topic.partitions)
    return Beat(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=request.subscribed_topic_names,
        topic_regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.peer[0]}",
        version=context.version,
    )


def _may_describe(context: Context) -> Callable[[str], bool]:
    authorizer = context.services.authorizer
    if authorizer is None:
        return lambda topic: True
    access = authorizer.access_of(context.connection.principal, context.connection.peer[0])
    return lambda topic: access.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic, is_logged=False)


def _answer(answer: BeatAnswer) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _assignment(answer.assignment),
    )


def _assignment(partitions: Mapping[bytes, Mapping[int, int]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if numbers
        ]
    )
