"""DeleteShareGroupOffsets, version 0: let a share group without members forget topics (KIP-932).

A topic that there is not, and one that the group has not begun to read, are UNKNOWN_TOPIC_OR_PARTITION; the others are
forgotten all the same. A group that never began to read anything is answered without topics, as in Kafka.
"""

from __future__ import annotations

from ...protocol.errors import UnsupportedVersion
from ...protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType

Answer = DeleteShareGroupOffsetsResponse


async def guard(call: Call) -> Answer:
    """Refuse the request without the group, else each topic that the client may not read."""
    delete_group, read_topic = call.permissions
    request = call.request
    answer: Answer
    if not call.context.services.offers_share_groups:
        answer = await call.serve()
        return answer
    if not call.may(delete_group, request.group_id):
        return Answer(error_code=delete_group.code)
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.topic_name)
    answer = await call.serve()
    if not answer.error_code:
        answer.responses += [Answer.Topic(topic_name=topic.topic_name, error_code=read_topic.code) for topic in denied]
    return answer


@handles(
    DeleteShareGroupOffsetsRequest,
    needs=[whole(AclOperation.DELETE, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def delete_share_group_offsets(request: DeleteShareGroupOffsetsRequest, context: Context) -> Answer:
    """Forget the topics; each has its own outcome. A topic that is named twice is answered once."""
    services = context.services
    names = [*dict.fromkeys(topic.topic_name for topic in request.topics)]
    ids = {name: topic.id for name in names if (topic := services.controller.topic(name)) is not None}
    try:
        if not services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        outcome = await services.groups.share.offsets.delete(request.group_id, names)
    except Exception as failure:
        error = kafka_error(failure, f"deleting offsets of group {request.group_id!r}")
        return Answer(error_code=error.code, error_message=error.message)
    topics = []
    for name, wrong in (outcome or {}).items():
        if wrong is None:
            topics.append(Answer.Topic(topic_name=name, topic_id=ids[name]))
        else:
            topics.append(Answer.Topic(topic_name=name, error_code=wrong.code, error_message=wrong.message))
    return Answer(responses=topics)
