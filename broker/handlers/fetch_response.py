"""The response to a fetch: how large it may be, and what it says of each partition."""

from collections.abc import Iterable

from ...protocol.errors import (
    NONE,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.schema import maker
from ..api.request_context import Context
from ..replication.fetch_partition import FetchedData, FetchPartition
from ..replication.fetch_sessions import NO_SESSION
from ..replication.replica_selection import LEADER

STORAGE_ERROR_SINCE = 6

UNKNOWN_TOPICS = (UnknownTopicOrPartition.code, UnknownTopicId.code)
"""Error codes with which Apache Kafka answers an empty list of aborted transactions. With other errors the list is
null."""

_make_response = maker(FetchResponse)
_make_topic = maker(FetchResponse.Topic)
_make_partition = maker(FetchResponse.Partition)


def max_bytes(request: FetchRequest, context: Context) -> int:
    """Bytes of records that the response may have: no more than its client asks for, and than `fetch.max.bytes`."""
    limit: int = context.services.config.current.fetch_max_bytes
    return min(request.max_bytes, limit)


def response(wanted: Iterable[FetchPartition], answers: Iterable[FetchedData], version: int) -> FetchResponse:
    """The response with the answers, in their order, for a client of this version."""
    topics: list[FetchResponse.Topic] = []
    topic: FetchResponse.Topic | None = None
    for one, answer in zip(wanted, answers):  # noqa: B905 (they are of the same length, and this is the hot path)
        if topic is None or one.topic != topic.topic or one.topic_id != topic.topic_id:
            topic = _make_topic(one.topic, one.topic_id, [])  # topic, topic_id, partitions
            topics.append(topic)
        topic.partitions.append(_partition_response(one, answer))
    result = _make_response(0, NONE, NO_SESSION, topics)  # throttle_time_ms, error_code, session_id, responses
    if version < STORAGE_ERROR_SINCE:
        _hide_storage_errors(result)
    return result


def response_of_one(wanted: FetchPartition, answer: FetchedData, version: int) -> FetchResponse:
    """What `response` returns for one partition, without its loops: nearly every consumer's fetch is for one."""
    topic = _make_topic(wanted.topic, wanted.topic_id, [_partition_response(wanted, answer)])  # as in `response`
    result = _make_response(0, NONE, NO_SESSION, [topic])  # as in `response`
    if version < STORAGE_ERROR_SINCE:
        _hide_storage_errors(result)
    return result


def _hide_storage_errors(result: FetchResponse) -> None:
    """Replace KAFKA_STORAGE_ERROR by NOT_LEADER_OR_FOLLOWER for clients that do not know it (KIP-112)."""
    for topic in result.responses:
        for partition in topic.partitions:
            if partition.error_code == KafkaStorageError.code:
                partition.error_code = NotLeaderOrFollower.code


def _partition_response(wanted: FetchPartition, answer: FetchedData) -> FetchResponse.Topic.Partition:
    index = wanted.asked.partition
    if answer.error_code or wanted.partition is None:
        return FetchResponse.Topic.Partition(
            partition_index=index,
            error_code=answer.error_code,
            aborted_transactions=[] if answer.error_code in UNKNOWN_TOPICS else None,
            records=b"",
        )
    log = wanted.partition.log
    # partition_index, error_code, high_watermark, last_stable_offset, log_start_offset
    response = _make_partition(index, NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset)
    response.records = answer.records
    if wanted.reader.is_read_committed:
        response.aborted_transactions = _skipped(answer) if answer.aborted else []
    if answer.preferred_replica != LEADER:
        response.preferred_read_replica = answer.preferred_replica
    if answer.diverging:
        response.diverging_epoch = FetchResponse.Topic.Partition.EpochEndOffset(
            epoch=answer.diverging[0], end_offset=answer.diverging[1]
        )
    return response


def _skipped(answer: FetchedData) -> list[FetchResponse.Topic.Partition.AbortedTransaction]:
    return [
        FetchResponse.Topic.Partition.AbortedTransaction(
            producer_id=aborted.producer_id, first_offset=aborted.first_offset
        )
        for aborted in answer.aborted
    ]
