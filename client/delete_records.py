"""DeleteRecords in the client (KIP-107, steps 1, 2 and 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ..protocol.errors import KafkaError, OffsetOutOfRange, PolicyViolation, RequestTimedOut
from ..protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import LONGEST_PAUSE_MS, Deadline
from .errors import Disconnected, NoBrokerAnswers, error_of

_ANSWER_EARLIER_MS = 100
"""Milliseconds before the client's deadline at which a leader must answer, so that the outcomes of its other partitions
arrive in time."""


class DeleteRecordsResult(NamedTuple):
    """The outcome for one partition."""

    low_watermark: int
    """The smallest log start offset among its live replicas; -1 with most errors."""
    error: KafkaError | None = None
    """None if no live replica serves a record below the offset any more."""


Results = dict[TopicPartition, DeleteRecordsResult]


async def delete_records_before(
    cluster: ClusterConnections, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> Results:
    """Send each leader a request for its partitions; return when the result of every partition is known.

    Looking up leaders and connecting is retried until the deadline. A request is sent once, because -1 would mean a
    later high watermark the second time: a leader's answer is the result, and the partitions of a leader that does not
    answer in time have RequestTimedOut. Raises NoBrokerAnswers if no broker can be reached.
    """
    for topic_partition in offsets:
        cluster.forget_leader(topic_partition)
    try:
        by_leader, errors = await cluster.leaders(offsets, deadline)
    except NoBrokerAnswers as error:
        if not deadline.has_passed:
            raise
        return dict.fromkeys(offsets, _timed_out(error))
    requests = [
        _delete_at(cluster, leader, {partition: offsets[partition] for partition in partitions}, deadline)
        for leader, partitions in by_leader.items()
    ]
    results = {partition: _not_asked(error) for partition, error in errors.items()}
    for answered in await asyncio.gather(*requests):
        results.update(answered)
    return results


async def _delete_at(
    cluster: ClusterConnections, leader: int, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> Results:
    try:
        connection = await cluster.open_connection(leader, deadline)
    except Disconnected as error:
        if deadline.has_passed:
            return dict.fromkeys(offsets, _timed_out(error))
        await asyncio.sleep(min(LONGEST_PAUSE_MS // 10, deadline.remaining_ms) / 1000)
        return await delete_records_before(cluster, offsets, deadline)  # another broker may lead them by now
    try:
        return await _ask(connection, offsets, deadline)
    except (Disconnected, RequestTimedOut) as error:
        return dict.fromkeys(offsets, _timed_out(error))
    finally:
        await connection.close()


async def _ask(connection: Connection, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> Results:
    topics: dict[str, DeleteRecordsRequest.Topic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, DeleteRecordsRequest.Topic(name=name, partitions=[]))
        topic.partitions.append(DeleteRecordsRequest.Topic.Partition(partition_index=index, offset=offset))
    remaining_ms = deadline.remaining_ms
    request = DeleteRecordsRequest(
        topics=list(topics.values()), timeout_ms=max(0, remaining_ms - min(_ANSWER_EARLIER_MS, remaining_ms // 10))
    )
    response: DeleteRecordsResponse = await connection.send(request, timeout_ms=remaining_ms)
    answers = {
        TopicPartition(topic.name, answer.partition_index): DeleteRecordsResult(
            answer.low_watermark, error_of(answer.error_code, _explanation(answer.error_code, topic.name))
        )
        for topic in response.topics
        for answer in topic.partitions
    }
    unanswered = DeleteRecordsResult(-1, RequestTimedOut(f"{connection.address} did not answer for this partition"))
    return {topic_partition: answers.get(topic_partition, unanswered) for topic_partition in offsets}


def _explanation(error_code: int, topic: str) -> str:
    """Return the meaning of a code for this request, whose answer has no field for a message; empty for most codes."""
    if error_code == PolicyViolation.code:
        return (
            f"the cleanup.policy of {topic} is compact, so its records are deleted by key; "
            "cleanup.policy=compact,delete allows both"
        )
    if error_code == OffsetOutOfRange.code:
        return "the offset is above the high watermark; -1 stands for the high watermark itself"
    return ""


def _not_asked(error: KafkaError) -> DeleteRecordsResult:
    """Return the result of a partition whose leader was not found: the cluster's error, or a time-out."""
    return _timed_out(error) if isinstance(error, Disconnected) else DeleteRecordsResult(-1, error)


def _timed_out(why: KafkaError) -> DeleteRecordsResult:
    return DeleteRecordsResult(-1, RequestTimedOut(why.message))
