"""OffsetCommit, versions 0 to 10: store the offsets that a group has consumed up to.

Unknown partitions are refused one by one. The other offsets are checked against the group and written to
`__consumer_offsets` in one batch, all or none. The answer goes out when every in-sync replica has the batch. A commit
renews the member's session. A commit without a generation (-1), and every commit of version 0, comes from outside of
the group, which must have no members; an unknown group is created.

From version 10 on the request gives topics by id. In every version the id is stored with the offset, so that it does
not count for a later topic of the same name. Apache Kafka 4 has no versions 0 and 1, and 3.9 keeps the offsets of
version 0 in ZooKeeper; here they are like the others, with the commit time that version 1 gives.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ...protocol.errors import NONE, UnknownTopicId, UnknownTopicOrPartition
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ...protocol.records.batch import NO_TIMESTAMP
from ...protocol.topics import TopicPartition
from ...storage.config_key import MAX_LONG
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.topology import Topic
from ..groups.commits import Commit
from ..groups.committed_offsets import CommittedOffset
from ..groups.group import Committer
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType

TOPIC_IDS_SINCE = 10

NO_RETENTION_TIME = -1


async def guard(call: Call) -> Any:
    """Refuse everything without the group, else each topic that the client may not read."""
    read_group, read_topic = call.permissions
    request = call.request
    if not call.may(read_group, request.group_id):
        return OffsetCommitResponse(topics=_not_committed(request.topics, read_group.code))
    request.topics, denied = call.split(read_topic, request.topics, lambda topic: call.topic_name(topic, topic.name))
    answer = await call.serve() if request.topics or not denied else OffsetCommitResponse(topics=[])
    answer.topics += _not_committed(denied, read_topic.code)
    return answer


def _not_committed(topics: list[OffsetCommitRequest.Topic], code: int) -> list[OffsetCommitResponse.Topic]:
    Topic = OffsetCommitResponse.Topic
    return [
        Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                Topic.Partition(partition_index=part.partition_index, error_code=code) for part in topic.partitions
            ],
        )
        for topic in topics
    ]


@handles(
    OffsetCommitRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def offset_commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Refuse the offsets that cannot be committed, write the others together, and answer for each."""
    commit = Commit(context.services.groups.store, request.group_id)
    answers = await _gather(request, commit, context)
    await commit.settle(partial(_write, request, commit, context), f"a commit of group {request.group_id!r}")
    return OffsetCommitResponse(topics=answers)


async def _gather(request: OffsetCommitRequest, commit: Commit, context: Context) -> list[OffsetCommitResponse.Topic]:
    """The answers for unknown partitions, and as far as they are known yet for the others."""
    answers = []
    now_ms = context.services.clock.now_ms()
    turn = Turn()
    for asked in request.topics:
        topic, refusal = _find(asked, context)
        partitions = []
        for partition in asked.partitions:
            if turn.is_over:
                await turn.next()
            number = partition.partition_index
            answer = OffsetCommitResponse.Partition(partition_index=number, error_code=NONE)
            partitions.append(answer)
            if topic is None or not 0 <= number < len(topic.partitions):
                answer.error_code = refusal
                continue
            committed = _committed(partition, topic.id, now_ms, request.retention_time_ms)
            commit.add(TopicPartition(topic.name, number), committed, answer)
        if partitions or topic is None:  # as Apache Kafka answers
            answers.append(OffsetCommitResponse.Topic(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
    return answers


def _find(asked: OffsetCommitRequest.Topic, context: Context) -> tuple[Topic | None, int]:
    """The topic, and the error code for partitions that it does not have."""
    controller = context.services.controller
    if context.version < TOPIC_IDS_SINCE:
        return controller.topic(asked.name), UnknownTopicOrPartition.code
    topic = controller.topic_by_id(asked.topic_id)
    return topic, (UnknownTopicId if topic is None else UnknownTopicOrPartition).code


def _committed(
    partition: OffsetCommitRequest.Topic.Partition, topic_id: bytes, now_ms: int, retention_ms: int
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp,
        None if retention_ms == NO_RETENTION_TIME else min(now_ms + retention_ms, MAX_LONG),
        topic_id,
    )


async def _write(request: OffsetCommitRequest, commit: Commit, context: Context) -> None:
    """Check the member that commits, and store its offsets. Raises KafkaError."""
    coordinator = context.services.groups
    if context.version == 0:
        coordinator.store.coordinator_of(request.group_id)  # such clients never ask FindCoordinator
    coordinator.store.check(request.group_id, allow_empty=True)
    changes = commit.changes
    committer = Committer(
        request.member_id, request.group_instance_id, request.generation_id_or_member_epoch, context.version
    )
    await coordinator.commit(coordinator.group_for_commit(committer, changes), changes)
