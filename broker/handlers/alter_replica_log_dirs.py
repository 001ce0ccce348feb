"""AlterReplicaLogDirs, versions 0 to 2: move replicas to another directory of the broker (KIP-113).

The broker has one log directory: a move to it has no effect, and a move to another is LOG_DIR_NOT_FOUND.
"""

from __future__ import annotations

from ...protocol.errors import NONE, KafkaError, LogDirNotFound
from ...protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..scheduler import Turn
from ..security.guarding import on_cluster
from ..security.permission_kinds import whole
from ..security.resources import AclOperation, ResourceType
from .describe_log_dirs import told_log_dir


def refused(request: AlterReplicaLogDirsRequest, code: int) -> AlterReplicaLogDirsResponse:
    """Refuse every partition, by topic."""
    Topic = AlterReplicaLogDirsResponse.Topic
    by_topic: dict[str, list[AlterReplicaLogDirsResponse.Topic.Partition]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            partitions = by_topic.setdefault(topic.name, [])
            partitions += [Topic.Partition(partition_index=number, error_code=code) for number in topic.partitions]
    topics = [Topic(topic_name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return AlterReplicaLogDirsResponse(results=topics)


@handles(AlterReplicaLogDirsRequest, needs=[whole(AclOperation.ALTER, ResourceType.CLUSTER)], guard=on_cluster(refused))
async def alter_replica_log_dirs(request: AlterReplicaLogDirsRequest, context: Context) -> AlterReplicaLogDirsResponse:
    """Check every move. Of several moves of one partition the last counts."""
    wanted = {
        TopicPartition(topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    log_dir = told_log_dir(context.services.logs)
    answers: dict[str, list[AlterReplicaLogDirsResponse.Topic.Partition]] = {}
    turn = Turn()
    for topic_partition, path in wanted.items():
        if turn.is_over:
            await turn.next()
        error_code = NONE
        try:
            if path != log_dir:
                raise LogDirNotFound(f"{path} is no log directory of this broker")
            context.services.replica_manager.leader_of(topic_partition)
        except KafkaError as error:
            error_code = error.code
        answers.setdefault(topic_partition.topic, []).append(
            AlterReplicaLogDirsResponse.Partition(partition_index=topic_partition.partition, error_code=error_code)
        )
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponse.Topic(topic_name=name, partitions=partitions)
            for name, partitions in answers.items()
        ]
    )
