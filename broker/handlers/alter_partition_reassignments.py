"""AlterPartitionReassignments, versions 0 and 1: give partitions other replicas (KIP-455, KIP-860).

One broker has nothing to move: what is assigned can be asked for, and anything else names a broker that there is not.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.errors import (
    NONE,
    InvalidReplicaAssignment,
    NoReassignmentInProgress,
    RequestTimedOut,
)
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ...protocol.topics import TopicPartition
from ..background import Turn
from ..context import Context
from ..failures import kafka_error
from ..registry import handles


@handles(AlterPartitionReassignmentsRequest)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Judge each assignment by itself."""
    refusal = RequestTimedOut("the request allows no time") if request.timeout_ms <= 0 else None
    turn = Turn()
    topics = []
    for topic in request.topics:
        answers = []
        for partition in topic.partitions:
            if turn.is_over:
                await turn.next()
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            answer = AlterPartitionReassignmentsResponse.Partition(partition_index=partition.partition_index)
            try:
                if refusal is not None:
                    raise refusal
                _check(context, topic_partition, partition.replicas)
            except Exception as failure:
                error = kafka_error(failure, f"the reassignment of {topic_partition}")
                answer.error_code, answer.error_message = error.code, error.message
            answers.append(answer)
        topics.append(AlterPartitionReassignmentsResponse.Topic(name=topic.name, partitions=answers))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=refusal.code if refusal else NONE,
        responses=topics,
    )


def _check(context: Context, topic_partition: TopicPartition, replicas: Sequence[int] | None) -> None:
    """Raise KafkaError unless the partition has these replicas; null asks to call off what was never begun."""
    context.broker.check_partition_exists(topic_partition)
    if replicas is None:
        raise NoReassignmentInProgress(f"{topic_partition} is not being reassigned")
    if not replicas:
        raise InvalidReplicaAssignment("the assignment names no broker")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"the assignment names a broker twice: {replicas[:10]}")
    controller = context.broker.controller
    missing = next((node_id for node_id in replicas if not controller.is_live(node_id)), None)
    if missing is not None:
        raise InvalidReplicaAssignment(f"there is no broker {missing}")
