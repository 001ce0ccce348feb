"""DeleteRecords, versions 0 to 2 (KIP-107): raise log start offsets, and answer when every live replica has followed.

Apache Kafka leaves the files and the checkpoint to periodic tasks. Here the request removes whole segments below the
new log start offset, and the offset is in the checkpoint file before the answer: deleted records stay deleted after a
kill. What an offset means (-1 is the high watermark) and which are refused: `Partition.delete_records`
(`replication/partition.py`).
"""

from collections.abc import Callable

from ...protocol.errors import (
    NONE,
    InvalidTopic,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ...protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ...protocol.topics import TopicPartition, is_internal
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..purgatory import Operation
from ..replication.replica_manager import ReplicaManager
from ..scheduler import CheckpointWriter, Turn
from ..security.guarding import refused_partitions, topic_by_topic
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType


@handles(
    DeleteRecordsRequest,
    needs=[each(AclOperation.DELETE, ResourceType.TOPIC)],
    guard=topic_by_topic(refused_partitions(DeleteRecordsResponse.Topic)),
)
async def delete_records(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Start every deletion, then respond when each has reached every live replica or failed (KIP-107)."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    services = context.services
    turn = Turn()
    deletions = []
    for topic_partition, offset in wanted.items():
        if turn.is_over:
            await turn.next()
        deletions.append(Deletion(services.replica_manager, topic_partition, offset))
    if any(deletion.error is None for deletion in deletions):
        await persist(services.log_start_checkpoint, deletions)
    for deletion in deletions:
        if turn.is_over:
            await turn.next()
        deletion.delete_files()
    await context.wait(DelayedDelete(deletions), timeout_ms=request.timeout_ms)
    return answer(deletions)


class Deletion:
    """The deletion in one partition, from its start to its outcome."""

    def __init__(self, replica_manager: ReplicaManager, topic_partition: TopicPartition, offset: int) -> None:
        self.topic_partition = topic_partition
        self.error: KafkaError | None = None
        self._replica_manager = replica_manager
        self._offset = offset
        self._outcome: tuple[int, int] | None = None
        self._after_checkpoint: list[Callable[[], object]] = []
        try:
            self._start()
        except Exception as error:
            self.error = kafka_error(error, f"the deletion in {topic_partition}")

    def _start(self) -> None:
        """Raise the log start offset. The files follow once it is in the checkpoint: `delete_files`."""
        if is_internal(self.topic_partition.topic) and self._replica_manager.controller.topic(
            self.topic_partition.topic
        ):
            raise InvalidTopic(f"{self.topic_partition.topic} is internal: its records are the broker's own")
        self._partition = self._replica_manager.leader_of(self.topic_partition)
        self._offset = self._partition.delete_records(self._offset, self._after_checkpoint.append)

    def delete_files(self) -> None:
        """Remove the segments below the log start offset from the log. If the deletion failed or leadership moved,
        retention removes them later."""
        if self.error is not None or self._lost() is not None:
            return
        try:
            for delete_files in self._after_checkpoint:
                delete_files()
        except Exception as error:
            self.error = kafka_error(error, f"the deletion in {self.topic_partition}")
        self._replica_manager.offsets_changed(self.topic_partition)

    def is_pending(self) -> bool:
        """Whether the deletion has neither failed nor reached every live replica. Its outcome then stays, while
        the request waits for other partitions."""
        if self._outcome is None:
            error = self.error or self._lost()
            if error is not None:
                self._outcome = -1, error.code
            elif (low_watermark := self._partition.low_watermark) >= self._offset:
                self._outcome = low_watermark, NONE
        return self._outcome is None

    def _lost(self) -> KafkaError | None:
        """The error if this broker no longer leads the partition, else None."""
        if self._partition.is_served:
            return None
        if self._replica_manager.controller.topic(self.topic_partition.topic) is None:
            return UnknownTopicOrPartition("the topic was deleted meanwhile")
        return NotLeaderOrFollower("leadership moved while the deletion waited")

    def outcome(self) -> tuple[int, int]:
        """The low watermark and error code to answer. With REQUEST_TIMED_OUT the low watermark shows how far the
        slowest replica has followed; the deletion stays in effect."""
        self.is_pending()
        return self._outcome or (self._partition.low_watermark, RequestTimedOut.code)


class DelayedDelete(Operation):
    """Complete when no deletion is pending: each has failed, or all its live replicas have followed."""

    def __init__(self, deletions: list[Deletion]) -> None:
        self._pending = deletions

    @property
    def keys(self) -> list[TopicPartition]:
        return [deletion.topic_partition for deletion in self._pending]

    def is_complete(self) -> bool:
        self._pending = [deletion for deletion in self._pending if deletion.is_pending()]
        return not self._pending


async def persist(checkpoint: CheckpointWriter, deletions: list[Deletion]) -> None:
    """Write the new offsets to the checkpoint before they are answered. Requests at the same time share the write."""
    try:
        await checkpoint.write()
    except OSError as error:
        for deletion in deletions:
            if deletion.error is None:
                deletion.error = KafkaStorageError(f"the log start offset could not be written: {error}")


def answer(deletions: list[Deletion]) -> DeleteRecordsResponse:
    """The outcomes, by topic in the order of the request."""
    topics: dict[str, DeleteRecordsResponse.Topic] = {}
    for deletion in deletions:
        name, partition_index = deletion.topic_partition
        low_watermark, error_code = deletion.outcome()
        topic = topics.setdefault(name, DeleteRecordsResponse.Topic(name=name, partitions=[]))
        topic.partitions.append(
            DeleteRecordsResponse.Topic.Partition(
                partition_index=partition_index, low_watermark=low_watermark, error_code=error_code
            )
        )
    return DeleteRecordsResponse(topics=list(topics.values()))
