"""OffsetDelete, version 0: delete committed offsets of topics that a group does not consume any more (KIP-496).

Unknown partitions are refused one by one, and topics that members subscribe to with GROUP_SUBSCRIBED_TO_TOPIC. A
partition without a committed offset is no error. All deletions are written in one batch.
"""

from __future__ import annotations

from ...protocol.errors import (
    NONE,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    KafkaError,
    UnknownTopicOrPartition,
)
from ...protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.group import Group
from ..groups.group_store import OffsetChanges
from ..scheduler import Turn
from ..security.guarding import Call, refused_partitions
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType


async def guard(call: Call) -> OffsetDeleteResponse:
    """Refuse the request without the group, else each topic that the client may not read."""
    delete_group, read_topic = call.permissions
    request = call.request
    call.demand(delete_group, request.group_id)
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: topic.name)
    answer: OffsetDeleteResponse
    answer = await call.serve() if request.topics or not denied else OffsetDeleteResponse(topics=[])
    if not answer.error_code:
        refused = refused_partitions(OffsetDeleteResponse.Topic)
        answer.topics += [refused(topic, read_topic.code) for topic in denied]
    return answer


@handles(
    OffsetDeleteRequest,
    needs=[whole(AclOperation.DELETE, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def offset_delete(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Check the group, then every partition, and write the tombstones together. An error of the group is the only
    answer."""
    coordinator = context.services.groups
    try:
        coordinator.store.check(request.group_id)
        group = coordinator.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound("there is no such group")
        group.check_delete_offsets()
        changes = coordinator.store.changes(request.group_id)
        topics = await _answers(request, group, changes, context)
        await coordinator.store.write_offsets(changes, group.offsets)
    except KafkaError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return OffsetDeleteResponse(topics=topics)


async def _answers(
    request: OffsetDeleteRequest, group: Group, changes: OffsetChanges, context: Context
) -> list[OffsetDeleteResponse.Topic]:
    """The outcome of each partition; `changes` gets the offsets to delete."""
    turn = Turn()
    answers = []
    for topic in request.topics:
        partitions = []
        is_subscribed = group.is_subscribed_to(topic.name)
        for partition in topic.partitions:
            if turn.is_over:
                await turn.next()
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            code = _refusal(topic_partition, is_subscribed, context)
            if code == NONE and topic_partition in group.offsets:
                changes.remove(topic_partition)
            partitions.append(
                OffsetDeleteResponse.Partition(partition_index=topic_partition.partition, error_code=code)
            )
        if partitions or context.services.controller.topic(topic.name) is None:  # as Apache Kafka answers
            answers.append(OffsetDeleteResponse.Topic(name=topic.name, partitions=partitions))
    return answers


def _refusal(topic_partition: TopicPartition, is_subscribed: bool, context: Context) -> int:
    try:
        context.services.replica_manager.check_partition_exists(topic_partition)
    except UnknownTopicOrPartition as error:
        return error.code
    return GroupSubscribedToTopic.code if is_subscribed else NONE
