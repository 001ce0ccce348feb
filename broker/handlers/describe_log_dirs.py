"""DescribeLogDirs, versions 0 to 5: list the size of each partition's log (KIP-113, KIP-827).

A broker has one log directory here. The answer leaves out partitions that are not in it, without an error, as in Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ...protocol.errors import NONE
from ...protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ...protocol.topics import TopicPartition
from ...storage.log import PartitionLog
from ...storage.log_manager import LogManager
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn, in_thread
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType

UNKNOWN = (-1, -1)
"""Total and usable bytes of a volume that reports neither."""


@handles(
    DescribeLogDirsRequest,
    needs=[whole(AclOperation.DESCRIBE, ResourceType.CLUSTER)],
    guard=on_cluster(lambda request, code: DescribeLogDirsResponse(error_code=code, results=[])),
)
async def describe_log_dirs(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """List the sizes of the logs asked for, or of all, and the size of their volume."""
    logs = context.services.logs
    topics = await _topics(logs.logs, request)
    total, usable = UNKNOWN
    if context.version >= 4:
        try:
            total, usable = await in_thread(logs.filesystem.space, logs.directory)
        except OSError:
            pass  # the sizes of the logs are worth an answer of their own
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResponse.Result(
                error_code=NONE,
                log_dir=told_log_dir(logs),
                topics=topics,
                total_bytes=total,
                usable_bytes=usable,
            )
        ]
    )


def told_log_dir(logs: LogManager) -> str:
    """The log directory in the form that clients know."""
    return os.path.abspath(logs.directory)


async def _topics(
    logs: Mapping[TopicPartition, PartitionLog], request: DescribeLogDirsRequest
) -> list[DescribeLogDirsResponse.Result.Topic]:
    partitions: dict[str, list[DescribeLogDirsResponse.Result.Topic.Partition]] = {}
    turn = Turn()
    for topic_partition in _wanted(logs, request):
        if turn.is_over:
            await turn.next()
        log = logs.get(topic_partition)
        if log is not None:
            partitions.setdefault(topic_partition.topic, []).append(
                DescribeLogDirsResponse.Partition(
                    partition_index=topic_partition.partition,
                    partition_size=log.size_bytes,
                    offset_lag=max(log.high_watermark - log.log_end_offset, 0),
                )
            )
    return [DescribeLogDirsResponse.Topic(name=name, partitions=found) for name, found in partitions.items()]


def _wanted(logs: Mapping[TopicPartition, PartitionLog], request: DescribeLogDirsRequest) -> Iterable[TopicPartition]:
    """Each partition once. A list, because logs come and go while other requests are served."""
    if request.topics is None:
        return list(logs)
    return dict.fromkeys(
        TopicPartition(topic.topic, partition) for topic in request.topics for partition in topic.partitions
    )
