"""OffsetCommit, versions 0 to 10: remember how far a group has come.

Partitions that there are not are refused by themselves. What remains is checked against the group, and written to
`__consumer_offsets` as one batch: all or nothing. The answer goes out when every in-sync replica has it. A commit is a
sign of life of its member.

Without a generation (-1), and before version 1 always, it comes from outside of the group, which must have no members
then; a group that is not known comes into being. From version 10 on topics are given by id; in every version the id is
kept with the offset, so that it is not taken for one of a later topic of that name. Apache Kafka 4 has no versions 0
and 1, and 3.9 keeps offsets of version 0 in ZooKeeper; here they are like the others, with the commit time that version
1 gives.
"""

from __future__ import annotations

from ...protocol.errors import (
    NONE,
    KafkaError,
    OffsetMetadataTooLarge,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ...protocol.topics import TopicPartition
from ...storage.config_key import MAX_LONG
from ..background import Turn
from ..context import Context
from ..controller import Topic
from ..failures import kafka_error
from ..groups.offsets import CommittedOffset
from ..registry import handles

TOPIC_IDS_SINCE = 10

NO_RETENTION_TIME = -1
NO_TIMESTAMP = -1


@handles(OffsetCommitRequest)
async def offset_commit(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Sort out what cannot be committed, write the rest together, answer for each."""
    commit = Commit(request, context)
    await commit.prepare()
    if commit.wanted:
        try:
            await commit.write()
        except Exception as failure:
            error = kafka_error(failure, f"a commit of group {request.group_id!r}")
            for answer in commit.wanted:
                answer.error_code = error.code
    return OffsetCommitResponse(topics=commit.answers)


class Commit:
    """One request: `prepare` does all that may take long, so that nothing has to wait between the checks of the group
    and the append in `write`."""

    def __init__(self, request: OffsetCommitRequest, context: Context) -> None:
        self.answers: list[OffsetCommitResponse.Topic] = []
        self.wanted: list[OffsetCommitResponse.Topic.Partition] = []
        """The answers for partitions that there are: the group's errors are theirs."""
        self._request = request
        self._context = context
        self._now_ms = context.broker.clock.now_ms()
        self._changes = context.broker.groups.store.changes(request.group_id)
        self._error: KafkaError | None = None
        """Why the changes, being too many, cannot be written."""

    async def prepare(self) -> None:
        """Answer for what there is not, and encode what is to be kept."""
        turn = Turn()
        for asked in self._request.topics:
            topic, refusal = self._find(asked)
            partitions = []
            for partition in asked.partitions:
                if turn.is_over:
                    await turn.next()
                partitions.append(self._prepare(partition, topic, refusal))
            if partitions or topic is None:  # as Apache Kafka answers
                self.answers.append(
                    OffsetCommitResponse.Topic(name=asked.name, topic_id=asked.topic_id, partitions=partitions)
                )

    def _find(self, asked: OffsetCommitRequest.Topic) -> tuple[Topic | None, int]:
        """The topic, and the error code of partitions that it has not."""
        controller = self._context.broker.controller
        if self._context.version < TOPIC_IDS_SINCE:
            return controller.topic(asked.name), UnknownTopicOrPartition.code
        topic = controller.topic_by_id(asked.topic_id)
        return topic, (UnknownTopicId if topic is None else UnknownTopicOrPartition).code

    def _prepare(
        self, partition: OffsetCommitRequest.Topic.Partition, topic: Topic | None, refusal: int
    ) -> OffsetCommitResponse.Topic.Partition:
        number = partition.partition_index
        answer = OffsetCommitResponse.Partition(partition_index=number, error_code=NONE)
        if topic is None or not 0 <= number < len(topic.partitions):
            answer.error_code = refusal
            return answer
        self.wanted.append(answer)
        if len(partition.committed_metadata or "") > self._context.broker.config.offset_metadata_max_bytes:
            answer.error_code = OffsetMetadataTooLarge.code
        elif self._error is None:
            try:
                self._changes.set(TopicPartition(topic.name, number), self._committed(partition, topic.id))
            except UnknownServerError as error:
                self._error = error
        return answer

    def _committed(self, partition: OffsetCommitRequest.Topic.Partition, topic_id: bytes) -> CommittedOffset:
        retention_ms, now_ms = self._request.retention_time_ms, self._now_ms
        return CommittedOffset(
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
            now_ms if partition.commit_timestamp == NO_TIMESTAMP else partition.commit_timestamp,
            None if retention_ms == NO_RETENTION_TIME else min(now_ms + retention_ms, MAX_LONG),
            topic_id,
        )

    async def write(self) -> None:
        """Check who commits, and keep what they commit. Raises KafkaError."""
        request, coordinator = self._request, self._context.broker.groups
        if self._context.version == 0:
            coordinator.store.coordinator_of(request.group_id)  # such clients never ask FindCoordinator
        coordinator.store.check(request.group_id, allow_empty=True)
        group = coordinator.group_for_commit(
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            self._context.version,
        )
        if self._error is not None:
            raise self._error
        await coordinator.store.write_offsets(self._changes, group.offsets)
