"""ListOffsets, version 0: list where the segments begin that were last written before a time.

EARLIEST is the log start offset; LATEST is the log end offset, and the start of every segment before it. Other negative
timestamps are UNSUPPORTED_VERSION. A consumer gets the high watermark in place of offsets above it. A partition that is
named twice is answered twice. All this is as in Kafka 3.9, except that a negative number of offsets is INVALID_REQUEST
instead of an unknown error.
"""

from ....protocol.errors import NONE, InvalidRequest, UnsupportedVersion
from ....protocol.messages.list_offsets import EARLIEST, LATEST, ListOffsetsRequest, ListOffsetsResponse
from ....protocol.topics import TopicPartition
from ....storage.config_key import MAX_LONG
from ....storage.timestamp_search import segment_starts_before
from ...api.error_mapping import kafka_error
from ...api.request_context import Context
from ...replication.partition import Partition
from ...scheduler import Turn

CONSUMER = -1


async def list_segment_starts(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Look every partition up; each has its own outcome."""
    turn = Turn()
    topics = []
    for topic in request.topics:
        answers = []
        for asked in topic.partitions:
            if turn.is_over:
                await turn.next()
            answers.append(_answer(TopicPartition(topic.name, asked.partition_index), asked, request, context))
        topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _answer(
    topic_partition: TopicPartition,
    asked: ListOffsetsRequest.Topic.Partition,
    request: ListOffsetsRequest,
    context: Context,
) -> ListOffsetsResponse.Topic.Partition:
    answer = ListOffsetsResponse.Topic.Partition(partition_index=asked.partition_index, error_code=NONE)
    try:
        if asked.timestamp < 0 and asked.timestamp not in (LATEST, EARLIEST):
            raise UnsupportedVersion(f"timestamp {asked.timestamp} has no meaning in version 0")
        partition = context.services.replica_manager.leader_of(topic_partition)
        if asked.max_num_offsets < 0:
            raise InvalidRequest(f"{asked.max_num_offsets} offsets cannot be told")
        starts = _starts(partition, asked.timestamp, context.services.clock.now_ms())[: asked.max_num_offsets]
        if request.replica_id == CONSUMER:
            starts = _seen_by_consumers(starts, partition.log.high_watermark)
        answer.old_style_offsets = starts
    except Exception as error:
        answer.error_code = kafka_error(error, f"the look-up in {topic_partition}").code
    return answer


def _starts(partition: Partition, timestamp: int, now_ms: int) -> list[int]:
    """Newest first."""
    if timestamp == EARLIEST:
        return [partition.log.log_start_offset]
    return segment_starts_before(partition.log, MAX_LONG if timestamp == LATEST else timestamp, now_ms)


def _seen_by_consumers(starts: list[int], high_watermark: int) -> list[int]:
    seen = [offset for offset in starts if offset <= high_watermark]
    return seen if len(seen) == len(starts) else [high_watermark, *seen]
