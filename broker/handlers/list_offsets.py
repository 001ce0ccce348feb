"""ListOffsets, versions 0 to 11: find the offset of a timestamp, or of the place that a negative timestamp names.

The version decides which negative timestamps have a meaning; another one is UNSUPPORTED_VERSION for its partition.
Version 0 is older than timestamps of records: it asks where segments begin (`old_versions/old_list_offsets.py`). There
is no tiered storage: a request for the local log is answered for the whole log, and a request for the remote log finds
nothing.
"""

from collections import Counter
from functools import partial

from ...protocol.errors import (
    NONE,
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    UnsupportedVersion,
)
from ...protocol.messages.fetch import READ_COMMITTED
from ...protocol.messages.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from ...protocol.records.compression import Codec
from ...protocol.topics import TopicPartition
from ...storage.log import PartitionLog
from ...storage.timestamp_search import StoredBatch, TimestampedOffset, batches_since, newest_batch
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..replication.partition import Partition
from ..scheduler import Turn
from ..security.guarding import refused_partitions, topic_by_topic
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType

SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version in which a negative timestamp has its meaning (KIP-734, KIP-405, KIP-1005, KIP-1023)."""

TIMESTAMPS_SINCE = 1
OFFSET_NOT_AVAILABLE_SINCE = 5
CONSUMER = -1
"""The replica id of a debugging consumer, which may read above the high watermark."""

UNKNOWN = (-1, -1, -1)
"""Timestamp, offset and leader epoch of an answer that finds nothing."""


@handles(
    ListOffsetsRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=topic_by_topic(refused_partitions(ListOffsetsResponse.Topic)),
)
async def list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Look every partition up; each has its own outcome. A partition that is named twice is refused, once."""
    if context.version < TIMESTAMPS_SINCE:
        from .old_versions.old_list_offsets import list_segment_starts  # old clients are rare

        return await list_segment_starts(request, context)
    times_asked = Counter((topic.name, p.partition_index) for topic in request.topics for p in topic.partitions)
    turn = Turn()
    topics = []
    for topic in request.topics:
        answers = []
        for p in topic.partitions:
            if turn.is_over:
                await turn.next()
            topic_partition = TopicPartition(topic.name, p.partition_index)
            if times_asked.get(topic_partition):
                answers.append(await _answer(context, topic_partition, p, request, times_asked.pop(topic_partition)))
        topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


async def _answer(
    context: Context,
    topic_partition: TopicPartition,
    asked: ListOffsetsRequest.Topic.Partition,
    request: ListOffsetsRequest,
    times_asked: int,
) -> ListOffsetsResponse.Topic.Partition:
    error_code = NONE
    timestamp, offset, leader_epoch = UNKNOWN
    try:
        if times_asked > 1:
            raise InvalidRequest(f"{topic_partition} is asked for twice")
        if asked.timestamp < 0 and context.version < SINCE_VERSION.get(asked.timestamp, 1 << 15):
            raise UnsupportedVersion(f"timestamp {asked.timestamp} has no meaning in version {context.version}")
        partition = context.services.replica_manager.leader_of(topic_partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        timestamp, offset, leader_epoch = await look_up(partition, asked.timestamp, request, context)
    except Exception as error:
        error_code = kafka_error(error, f"the look-up in {topic_partition}").code
    return ListOffsetsResponse.Topic.Partition(
        partition_index=topic_partition.partition,
        error_code=error_code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


async def look_up(
    partition: Partition, timestamp: int, request: ListOffsetsRequest, context: Context
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch of the record that `timestamp` asks for; UNKNOWN if there is none. Raises
    OffsetNotAvailable while a new leader does not know the high watermark (KIP-207)."""
    log = partition.log
    end = _end_for(log, request)
    if timestamp == LATEST:
        _check_end_is_known(partition, request, context)
        return -1, end, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        first = log.leader_epochs.earliest_entry
        reaches_start = first is not None and first.start_offset <= log.log_start_offset
        return -1, log.log_start_offset, first.epoch if first and reaches_start else -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN
    if timestamp == MAX_TIMESTAMP:
        newest = newest_batch(log)
        found = newest and await _search(newest, newest.header.max_timestamp, 0, context)
    else:
        found = None
        for batch in batches_since(log, timestamp):
            found = await _search(batch, timestamp, log.log_start_offset, context)
            if found is not None:
                break
    if found is None:
        return UNKNOWN
    if found.offset >= end:
        _check_end_is_known(partition, request, context)
        return UNKNOWN
    return found.timestamp, found.offset, found.leader_epoch


def _end_for(log: PartitionLog, request: ListOffsetsRequest) -> int:
    """The first offset that this reader may not read. Replicas and debugging consumers may read the whole log."""
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark


def _check_end_is_known(partition: Partition, request: ListOffsetsRequest, context: Context) -> None:
    if request.replica_id == CONSUMER and not partition.has_caught_up:
        error = OffsetNotAvailable if context.version >= OFFSET_NOT_AVAILABLE_SINCE else LeaderNotAvailable
        raise error("the high watermark has not reached the start of the leader's epoch yet")


async def _search(batch: StoredBatch, timestamp: int, offset: int, context: Context) -> TimestampedOffset | None:
    """Search in a batch, in a thread if it has to be decompressed."""
    limit = context.services.config.current.kmini_max_decompressed_message_bytes
    if batch.header.codec == Codec.NONE:
        return batch.first_since(timestamp, offset, limit)
    search = partial(batch.first_since, timestamp, offset)
    return await context.services.long_work.run(search, limit, context.connection)
