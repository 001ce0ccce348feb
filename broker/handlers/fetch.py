"""Fetch, versions 4 to 18: records from an offset on, waiting a while where there are too few.

Every answer says that it has no session (id 0): clients then send full requests, which is legal in every version
(KIP-227). From version 13 topics are named by id (KIP-516). The first batch is always sent whole, whatever the limits
(KIP-74); a batch that begins below the asked offset, or below the log start offset, is too, and clients skip what they
did not ask for.
"""

from typing import NamedTuple

from ...protocol.errors import (
    NONE,
    FetchSessionIdNotFound,
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.topics import TopicPartition
from ..background import Turn
from ..context import Context
from ..failures import kafka_error
from ..partition import Partition
from ..purgatory import Operation
from ..registry import handles
from .list_offsets import READ_COMMITTED, check_leader_epoch

TOPIC_IDS_SINCE = 13

UNKNOWN_TOPICS = (UnknownTopicOrPartition.code, UnknownTopicId.code)
"""With these Apache Kafka answers an empty list of aborted transactions, whoever asks; with other errors none."""

_LARGEST_READ = 8 * 1024 * 1024
"""Bytes read from a partition at once. A larger limit of the client is met by its next fetch: a read holds the loop."""


@handles(FetchRequest, versions="4-18")
async def fetch(request: FetchRequest, context: Context) -> FetchResponse:
    """Read now; if that is less than `min_bytes` and nothing failed, wait for more and read again."""
    session_error = _session_error(request)
    if session_error:
        return FetchResponse(error_code=session_error)
    wanted = await _resolve(request, context)
    answers = await _read_all(wanted, request, context)
    if _must_wait(answers, request):
        await context.wait(DelayedFetch(wanted, request), timeout_ms=request.max_wait_ms)
        answers = await _read_all(wanted, request, context)
    context.broker.metrics.fetched(wanted, answers)
    return _response(wanted, answers)


def _session_error(request: FetchRequest) -> int:
    """A session that we never gave cannot be gone on with; a full request (epoch 0 or -1) may name any."""
    return NONE if request.session_epoch in (0, -1) else FetchSessionIdNotFound.code


async def _resolve(request: FetchRequest, context: Context) -> "list[Wanted]":
    """What is asked for, in order. A partition that is named again is answered once, as it was named last: that is
    Kafka's rule, and it bounds what a wait costs others by the partitions that there are."""
    wanted: dict[tuple[str, bytes, int], Wanted] = {}
    turn = Turn()
    for topic in request.topics:
        for partition in topic.partitions:
            if turn.is_over:
                await turn.next()
            key = (topic.topic, topic.topic_id, partition.partition)
            wanted[key] = Wanted(context, topic, partition, request)
    return list(wanted.values())


class Wanted:
    """One partition of a fetch: what was asked for it, and what it resolved to."""

    __slots__ = ("_context", "asked", "error", "is_read_committed", "partition", "topic", "topic_partition")

    def __init__(
        self, context: Context, topic: FetchRequest.Topic, asked: FetchRequest.Topic.Partition, request: FetchRequest
    ) -> None:
        self.topic = topic
        self.asked = asked
        self.is_read_committed = request.isolation_level == READ_COMMITTED
        self.error: KafkaError | None = None
        self.partition: Partition | None = None
        self._context = context
        broker = context.broker
        try:
            name = broker.topic_name(topic.topic_id) if context.version >= TOPIC_IDS_SINCE else topic.topic
            self.topic_partition = TopicPartition(name, asked.partition)
            self.partition = broker.leader_of(self.topic_partition)
            check_leader_epoch(self.partition, asked.current_leader_epoch)
            _refuse_followers(request, asked)
        except KafkaError as error:
            self.error = error

    @property
    def limit_offset(self) -> int:
        """The first offset this reader may not have."""
        assert self.partition is not None
        log = self.partition.log
        return log.last_stable_offset if self.is_read_committed else log.high_watermark

    def is_led_here(self) -> bool:
        return self._context.broker.partitions.get(self.topic_partition) is self.partition

    def read(self, max_bytes: int, *, whole_first_batch: bool) -> "Answer":
        """What the partition has for this reader now."""
        if self.error is None and not self.is_led_here():
            self.error = NotLeaderOrFollower("leadership moved while the fetch waited")
        if self.error is not None or self.partition is None:
            return Answer(self.error.code if self.error else NONE)
        log = self.partition.log
        try:
            diverging = self._diverging_epoch()
            if diverging is not None:
                return Answer(NONE, diverging=diverging)
            records = log.read(
                self.asked.fetch_offset,
                max(min(self.asked.partition_max_bytes, max_bytes, _LARGEST_READ), 0),
                limit_offset=self.limit_offset,
                min_one_batch=whole_first_batch,
            )
        except Exception as error:
            return Answer(kafka_error(error, f"the read of {self.topic_partition}").code)
        return Answer(NONE, records)

    def _diverging_epoch(self) -> tuple[int, int] | None:
        """Where this reader's log left ours, by the epoch it fetched last (KIP-595); None where it did not."""
        assert self.partition is not None
        asked = self.asked
        if asked.last_fetched_epoch < 0:
            return None
        log = self.partition.log
        epoch, end_offset = log.leader_epochs.end_offset_for(asked.last_fetched_epoch, log.log_end_offset)
        if epoch < 0 or asked.fetch_offset < log.log_start_offset:
            raise OffsetOutOfRange(f"no offset is known to end epoch {asked.last_fetched_epoch}")
        if epoch < asked.last_fetched_epoch or end_offset < asked.fetch_offset:
            return epoch, end_offset
        return None


class Answer(NamedTuple):
    """What one partition answers."""

    error_code: int
    records: bytes | memoryview = b""
    diverging: tuple[int, int] | None = None


class DelayedFetch(Operation):
    """Complete when `min_bytes` can be read, or a partition has something else to say."""

    def __init__(self, wanted: list[Wanted], request: FetchRequest) -> None:
        self._wanted = wanted
        self._min_bytes = request.min_bytes

    @property
    def keys(self) -> list[TopicPartition]:
        return [wanted.topic_partition for wanted in self._wanted]

    def is_complete(self) -> bool:
        available = 0
        for wanted in self._wanted:
            if wanted.partition is None or not wanted.is_led_here():
                return True
            log = wanted.partition.log
            offset, limit = wanted.asked.fetch_offset, wanted.limit_offset
            if offset < log.log_start_offset or offset > log.log_end_offset:
                return True
            if offset < limit:
                available += min(log.bytes_between(offset, limit), wanted.asked.partition_max_bytes)
        return available >= self._min_bytes


async def _read_all(wanted: list[Wanted], request: FetchRequest, context: Context) -> list[Answer]:
    """Read the partitions in the order of the request, within its limits."""
    left = max(min(request.max_bytes, context.broker.config.fetch_max_bytes), 0)
    nothing_yet = True
    turn = Turn()
    answers = []
    for partition in wanted:
        if turn.is_over:
            await turn.next()
        answer = partition.read(left, whole_first_batch=nothing_yet)
        size = len(answer.records)
        if size:
            nothing_yet = False
            left = max(left - size, 0)
        answers.append(answer)
    return answers


def _must_wait(answers: list[Answer], request: FetchRequest) -> bool:
    if request.max_wait_ms <= 0 or not answers:
        return False
    size = 0
    for answer in answers:
        if answer.error_code or answer.diverging:
            return False
        size += len(answer.records)
    return size < request.min_bytes


def _refuse_followers(request: FetchRequest, asked: FetchRequest.Topic.Partition) -> None:
    """Only brokers may read as replicas, and there is no other broker."""
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    if replica_id >= 0:
        error = NotLeaderOrFollower if asked.current_leader_epoch < 0 else UnknownLeaderEpoch
        raise error("the replica id belongs to no replica of this partition")


def _response(wanted: list[Wanted], answers: list[Answer]) -> FetchResponse:
    topics: list[FetchResponse.Topic] = []
    of: FetchRequest.Topic | None = None
    for one, answer in zip(wanted, answers, strict=True):
        if one.topic is not of:
            of = one.topic
            topics.append(FetchResponse.Topic(topic=of.topic, topic_id=of.topic_id, partitions=[]))
        topics[-1].partitions.append(_partition_response(one, answer))
    return FetchResponse(responses=topics)


def _partition_response(wanted: Wanted, answer: Answer) -> FetchResponse.Topic.Partition:
    index = wanted.asked.partition
    if answer.error_code or wanted.partition is None:
        return FetchResponse.Topic.Partition(
            partition_index=index,
            error_code=answer.error_code,
            aborted_transactions=[] if answer.error_code in UNKNOWN_TOPICS else None,
            records=b"",
        )
    log = wanted.partition.log
    response = FetchResponse.Topic.Partition(
        partition_index=index,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[] if wanted.is_read_committed else None,
        records=answer.records,
    )
    if answer.diverging:
        response.diverging_epoch = FetchResponse.Topic.Partition.EpochEndOffset(
            epoch=answer.diverging[0], end_offset=answer.diverging[1]
        )
    return response
