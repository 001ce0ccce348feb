"""ListOffsets: the first and last offsets of partitions, and offsets by timestamp."""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Deadline
from .errors import check


class OffsetAndTimestamp(NamedTuple):
    offset: int
    """-1 if no record has such a late timestamp."""
    timestamp: int
    """The timestamp of the record found; -1 for EARLIEST, LATEST and the like."""
    leader_epoch: int


async def list_offset(
    cluster: ClusterConnections,
    topic_partition: TopicPartition,
    timestamp: int,
    deadline: Deadline,
    *,
    isolation_level: int = 0,
) -> OffsetAndTimestamp:
    """Return the offset of the first record at or after a time in ms, or of `EARLIEST`, `LATEST` and the like.

    With isolation level 1 (read_committed) the latest offset is the last stable offset.
    """

    async def attempt(connection: Connection) -> OffsetAndTimestamp:
        partition = ListOffsetsRequest.Topic.Partition(partition_index=topic_partition.partition, timestamp=timestamp)
        topic = ListOffsetsRequest.Topic(name=topic_partition.topic, partitions=[partition])
        request = ListOffsetsRequest(isolation_level=isolation_level, topics=[topic], timeout_ms=deadline.remaining_ms)
        response: ListOffsetsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        answer = response.topics[0].partitions[0]
        check(answer.error_code, f"{topic_partition}: no offset")
        return OffsetAndTimestamp(answer.offset, answer.timestamp, answer.leader_epoch)

    return await cluster.at_leader(topic_partition, deadline, attempt)
