"""AlterPartitionReassignments, versions 0 and 1: give partitions other replicas (KIP-455, KIP-860).

The answer comes when the reassignments have begun; ListPartitionReassignments lists those that go on.
"""

from __future__ import annotations

from ...protocol.errors import NONE, RequestTimedOut
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ...protocol.topics import TopicPartition
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.reassignments import reassign
from ..scheduler import Turn
from ..security.guarding import on_cluster, refused_partitions
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


def refused(request: AlterPartitionReassignmentsRequest, code: int) -> AlterPartitionReassignmentsResponse:
    """Refuse the request, and every partition that it names."""
    response = AlterPartitionReassignmentsResponse
    partitions = refused_partitions(response.Topic)
    return response(error_code=code, responses=[partitions(topic, code) for topic in request.topics])


@handles(
    AlterPartitionReassignmentsRequest,
    needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)],
    guard=on_cluster(refused),
)
async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Begin each reassignment; each has its own outcome."""
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
                reassign(
                    context.services.controller,
                    topic_partition,
                    partition.replicas,
                    may_change_count=request.allow_replication_factor_change,
                )
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
