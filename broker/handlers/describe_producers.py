"""DescribeProducers, version 0: list the producer ids that a partition knows, and their open transactions (KIP-664).

A partition that is named twice is described once, unlike in Apache Kafka: a description may be ten thousand times as
large as the name.
"""

from __future__ import annotations

from ...protocol.errors import NONE
from ...protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ...protocol.topics import TopicPartition, validate_topic_name
from ...storage.producers.producer_entry import ProducerEntry
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import topic_by_topic
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType

NO_TRANSACTION = -1
"""The start offset of a producer without an open transaction."""


def refused(topic: DescribeProducersRequest.Topic, code: int) -> DescribeProducersResponse.Topic:
    """Refuse every partition of a topic."""
    Topic = DescribeProducersResponse.Topic
    return Topic(
        name=topic.name,
        partitions=[Topic.Partition(partition_index=number, error_code=code) for number in topic.partition_indexes],
    )


@handles(DescribeProducersRequest, needs=[each(AclOperation.READ, ResourceType.TOPIC)], guard=topic_by_topic(refused))
async def describe_producers(request: DescribeProducersRequest, context: Context) -> DescribeProducersResponse:
    """List the producers that each partition knows; each has its own outcome."""
    turn = Turn()
    topics: dict[str, dict[int, DescribeProducersResponse.Topic.Partition]] = {}
    for topic in request.topics:
        answers = topics.setdefault(topic.name, {})
        for number in topic.partition_indexes:
            if number not in answers:
                answers[number] = await _answer(context, TopicPartition(topic.name, number), turn)
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.Topic(name=name, partitions=list(answers.values()))
            for name, answers in topics.items()
        ]
    )


async def _answer(
    context: Context, topic_partition: TopicPartition, turn: Turn
) -> DescribeProducersResponse.Topic.Partition:
    answer = DescribeProducersResponse.Partition(partition_index=topic_partition.partition, error_code=NONE)
    try:
        validate_topic_name(topic_partition.topic)
        partition = context.services.replica_manager.leader_of(topic_partition)
        for entry in partition.log.producers.entries():
            if turn.is_over:
                await turn.next()
            answer.active_producers.append(_producer(entry))
    except Exception as failure:
        error = kafka_error(failure, f"the description of the producers of {topic_partition}")
        answer.error_code, answer.error_message = error.code, error.message
    if turn.is_over:
        await turn.next()
    return answer


def _producer(entry: ProducerEntry) -> DescribeProducersResponse.Topic.Partition.ProducerState:
    first_offset = entry.transaction_first_offset
    return DescribeProducersResponse.ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=NO_TRANSACTION if first_offset is None else first_offset,
    )
