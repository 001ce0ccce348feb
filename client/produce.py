"""Producing one batch of records to one partition.

A batch that may have been written is not sent again: without sequence numbers the log would have it twice. So a produce
is retried if the broker says that it wrote nothing, or if it could not be reached; a time-out, and a connection that
breaks after the request, are errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..protocol.errors import (
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordsRefused,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_for,
)
from ..protocol.messages.produce import ALL_IN_SYNC, ProduceRequest, ProduceResponse
from ..protocol.primitives import Buffer
from ..protocol.records.batch import build_batch
from ..protocol.records.compression import Codec
from ..protocol.records.record import Record
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Deadline
from .errors import check

NOTHING_WRITTEN = (
    KafkaStorageError,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
"""Errors after which the same records may be sent again."""


class Unacknowledged(Exception):
    """Wraps an error so that `at_leader` does not retry it, although its class is retriable."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error)
        self.error = error


class ProduceResult(NamedTuple):
    """The broker's answer for a batch. With acks 0 there is none: all fields are -1."""

    base_offset: int = -1
    """The offset of the first record; the other records follow without gaps."""
    log_append_time_ms: int = -1
    """The timestamp that the broker gave the records, if the topic uses LogAppendTime; else -1."""
    log_start_offset: int = -1


def record(
    value: bytes | None,
    *,
    key: bytes | None = None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    timestamp_ms: int | None = None,
) -> Record:
    """Return a record to produce, with the present time unless given. A value of None is a tombstone."""
    timestamp = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    return Record(offset=0, timestamp=timestamp, key=key, value=value, headers=tuple(headers))


async def produce(
    cluster: ClusterConnections,
    topic_partition: TopicPartition,
    records: Sequence[Record],
    deadline: Deadline,
    *,
    acks: int = ALL_IN_SYNC,
    codec: Codec = Codec.NONE,
) -> ProduceResult:
    """Append the records as one batch. See `Client.produce`."""
    return await produce_batch(cluster, topic_partition, build_batch(records, codec=codec), deadline, acks=acks)


async def produce_batch(
    cluster: ClusterConnections,
    topic_partition: TopicPartition,
    batch: Buffer,
    deadline: Deadline,
    *,
    acks: int = ALL_IN_SYNC,
) -> ProduceResult:
    """Append a batch. See `Client.produce`."""

    async def attempt(connection: Connection) -> ProduceResult:
        data = ProduceRequest.Topic.Partition(index=topic_partition.partition, records=batch)
        topic = ProduceRequest.Topic(
            name=topic_partition.topic, topic_id=cluster.topic_id(topic_partition.topic), partition_data=[data]
        )
        request = ProduceRequest(acks=acks, timeout_ms=deadline.remaining_ms, topic_data=[topic])
        try:
            answer = await connection.send(request, timeout_ms=deadline.remaining_ms, expects_answer=acks != 0)
            return ProduceResult() if answer is None else _result(answer)
        except NOTHING_WRITTEN:
            raise
        except KafkaError as error:
            raise Unacknowledged(error) from error

    try:
        return await cluster.at_leader(topic_partition, deadline, attempt, create_missing=True)
    except Unacknowledged as unacknowledged:
        raise unacknowledged.error from unacknowledged.__cause__


def _result(response: ProduceResponse) -> ProduceResult:
    answer = response.responses[0].partition_responses[0]
    if answer.record_errors:
        kind = error_for(answer.error_code)
        if issubclass(kind, RecordsRefused):
            refused = [(one.batch_index, one.batch_index_error_message or "") for one in answer.record_errors]
            raise kind(answer.error_message or "", refused)
    check(answer.error_code, answer.error_message)
    return ProduceResult(answer.base_offset, answer.log_append_time_ms, answer.log_start_offset)
