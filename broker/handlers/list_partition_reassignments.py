"""ListPartitionReassignments, version 0 (KIP-455): list the partitions whose replicas are being changed."""

from __future__ import annotations

from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.reassignments import under_way
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType


@handles(
    ListPartitionReassignmentsRequest,
    needs=[whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(ListPartitionReassignmentsResponse)),
)
async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """List the reassignments of the partitions asked for; null asks for all."""
    asked = None
    if request.topics is not None:
        asked = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    topics: dict[str, ListPartitionReassignmentsResponse.Topic] = {}
    for (name, number), state in under_way(context.services.controller):
        if asked is None or (name, number) in asked:
            topic = topics.setdefault(name, ListPartitionReassignmentsResponse.Topic(name=name, partitions=[]))
            topic.partitions.append(
                ListPartitionReassignmentsResponse.Partition(
                    partition_index=number,
                    replicas=list(state.replicas),
                    adding_replicas=list(state.adding),
                    removing_replicas=list(state.removing),
                )
            )
    return ListPartitionReassignmentsResponse(topics=list(topics.values()))
