"""OffsetForLeaderEpoch, versions 0 to 4: find where a leader epoch ends in a log, for readers that may have to
truncate.

An epoch unknown to the log is no error: epoch and offset are -1, and the reader starts over by its own rules.
"""

from typing import Any

from ...protocol.errors import NONE
from ...protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ...protocol.topics import TopicPartition
from ...storage.leader_epochs import UNDEFINED_EPOCH, UNDEFINED_OFFSET
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, suffices
from ..security.resources import AclOperation, ResourceType


async def guard(call: Call) -> Any:
    """Serve brokers; refuse other clients each topic that they may not describe."""
    as_broker, by_topic = call.permissions
    if call.may(as_broker, is_logged=False):
        return await call.serve()
    request = call.request
    request.topics, denied = call.split(by_topic, request.topics, lambda topic: topic.topic)
    answer: OffsetForLeaderEpochResponse = await call.serve()
    Topic = OffsetForLeaderEpochResponse.Topic
    answer.topics += [
        Topic(
            topic=topic.topic,
            partitions=[
                Topic.Partition(partition=part.partition, error_code=by_topic.code) for part in topic.partitions
            ],
        )
        for topic in denied
    ]
    return answer


@handles(
    OffsetForLeaderEpochRequest,
    needs=[
        suffices(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
        each(AclOperation.DESCRIBE, ResourceType.TOPIC),
    ],
    guard=guard,
)
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    """Look every partition up; each has its own outcome."""
    turn = Turn()
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            if turn.is_over:
                await turn.next()
            answers.append(_answer(context, TopicPartition(topic.topic, asked.partition), asked))
        topics.append(OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


def _answer(
    context: Context, topic_partition: TopicPartition, asked: OffsetForLeaderEpochRequest.Topic.Partition
) -> OffsetForLeaderEpochResponse.Topic.Partition:
    error_code, epoch, end_offset = NONE, UNDEFINED_EPOCH, UNDEFINED_OFFSET
    try:
        partition = context.services.replica_manager.leader_of(topic_partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.log.leader_epochs.end_offset_for(asked.leader_epoch, partition.log.log_end_offset)
    except Exception as error:
        error_code = kafka_error(error, f"the look-up of a leader epoch in {topic_partition}").code
    return OffsetForLeaderEpochResponse.Partition(
        error_code=error_code, partition=topic_partition.partition, leader_epoch=epoch, end_offset=end_offset
    )
