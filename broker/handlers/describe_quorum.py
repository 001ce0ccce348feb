"""DescribeQuorum, versions 0 to 2: describe the controllers that keep the cluster's metadata (KIP-595, KIP-836,
KIP-853).

The controller keeps the metadata in a database instead of a log: it is the only voter of a quorum that never changes,
its offsets are 0, and it has no listener of its own.
"""

from __future__ import annotations

from ...protocol.errors import UnknownTopicOrPartition
from ...protocol.messages.describe_quorum import METADATA_TOPIC, DescribeQuorumRequest, DescribeQuorumResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..security.guarding import on_cluster, refused_by_code
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

EPOCH = 1
"""The leader epoch of the only leader that there is."""


@handles(
    DescribeQuorumRequest,
    needs=[whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
    guard=on_cluster(refused_by_code(DescribeQuorumResponse)),
)
async def describe_quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    """Describe the metadata partition, if the request asks for that and nothing else."""
    asked = [(topic.topic_name, p.partition_index) for topic in request.topics for p in topic.partitions]
    is_valid = asked == [(METADATA_TOPIC, 0)]
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponse.Topic(
                topic_name=topic.topic_name,
                partitions=[
                    _metadata_partition(context) if is_valid else _no_such_partition(p.partition_index)
                    for p in topic.partitions
                ],
            )
            for topic in request.topics
        ],
        nodes=[DescribeQuorumResponse.Node(node_id=context.services.controller.controller_id)] if is_valid else [],
    )


def _metadata_partition(context: Context) -> DescribeQuorumResponse.Topic.Partition:
    controller_id, now_ms = context.services.controller.controller_id, context.services.clock.now_ms()
    voter = DescribeQuorumResponse.ReplicaState(
        replica_id=controller_id, log_end_offset=0, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    return DescribeQuorumResponse.Partition(
        partition_index=0, leader_id=controller_id, leader_epoch=EPOCH, high_watermark=0, current_voters=[voter]
    )


def _no_such_partition(number: int) -> DescribeQuorumResponse.Topic.Partition:
    error = UnknownTopicOrPartition("only partition 0 of the metadata can be described, by itself")
    return DescribeQuorumResponse.Partition(
        partition_index=number,
        error_code=error.code,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
    )
