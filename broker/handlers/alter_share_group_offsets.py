"""AlterShareGroupOffsets, version 0: let a share group without members read partitions from other offsets (KIP-932).

A group that does not exist is made. Unknown topics and partitions are UNKNOWN_TOPIC_OR_PARTITION one by one, and the
others are altered all the same; what goes wrong with the state of one partition is told of that one.
"""

from __future__ import annotations

from ...protocol.errors import NONE, UnknownTopicOrPartition, UnsupportedVersion
from ...protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
from ...protocol.uuids import ZERO_UUID
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey

Answer = AlterShareGroupOffsetsResponse


async def guard(call: Call) -> Answer:
    """Refuse the request without the group, else each topic that the client may not read."""
    read_group, read_topic = call.permissions
    request = call.request
    answer: Answer
    if not call.context.services.offers_share_groups:
        answer = await call.serve()
        return answer
    if not call.may(read_group, request.group_id):
        return Answer(error_code=read_group.code)
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.topic_name)
    answer = await call.serve()
    if not answer.error_code:
        answer.responses += [
            Answer.Topic(
                topic_name=topic.topic_name,
                partitions=[
                    Answer.Partition(partition_index=one.partition_index, error_code=read_topic.code)
                    for one in topic.partitions
                ],
            )
            for topic in denied
        ]
    return answer


@handles(
    AlterShareGroupOffsetsRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def alter_share_group_offsets(request: AlterShareGroupOffsetsRequest, context: Context) -> Answer:
    """Check the topics, then alter the offsets of all that exist."""
    services = context.services
    offsets: dict[bytes, dict[int, int]] = {}
    for topic in request.topics:
        known = services.controller.topic(topic.topic_name)
        for one in topic.partitions:
            if known is not None and 0 <= one.partition_index < len(known.partitions):
                offsets.setdefault(known.id, {})[one.partition_index] = one.start_offset
    try:
        if not services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        outcome = await services.groups.share.offsets.alter(request.group_id, offsets)
    except Exception as failure:
        error = kafka_error(failure, f"altering the offsets of group {request.group_id!r}")
        return Answer(error_code=error.code, error_message=error.message)
    topics = []
    for topic in request.topics:
        known = services.controller.topic(topic.topic_name)
        topic_id = ZERO_UUID if known is None else known.id
        partitions = []
        for one in topic.partitions:
            key = SharePartitionKey(request.group_id, topic_id, one.partition_index)
            wrong = outcome[key] if key in outcome else UnknownTopicOrPartition("there is no such partition")
            partitions.append(
                Answer.Partition(
                    partition_index=one.partition_index,
                    error_code=NONE if wrong is None else wrong.code,
                    error_message=None if wrong is None else wrong.message,
                )
            )
        topics.append(Answer.Topic(topic_name=topic.topic_name, topic_id=topic_id, partitions=partitions))
    return Answer(responses=topics)
