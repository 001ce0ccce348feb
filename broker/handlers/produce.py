"""Produce, versions 0 to 13: append record batches as the leader.

Each partition of a request takes two steps, and has its own outcome:

1. Check what the request claims, in Apache Kafka's order, and find the partition (`_checked`).
2. Validate and append (`RecordAppender`). Which way a batch takes:

   | batch | validated | appended |
   |---|---|---|
   | plain, as nearly every one is | in step 1 (`validate_plain`), which spares `_check_batch` | at once, in `_append` |
   | cheap to validate | in `append_at_once` | at once, in `_append` |
   | long to validate, or a flush may be due after it | in a thread, or on the loop | in `_append_later` |
   | with a transaction to check | after that check | in `_append_later` |
   | of messages, versions 0 to 2 | in `old_versions/old_produce.py` | in `_append_messages` |

   `_append_later` checks the replicas in sync itself, because the check of the transaction comes before that and may
   wait.

From version 12 on, the partitions of transactional batches join the transaction, all together and before step 2
(KIP-890).

With acks=1 the answer comes after the append, with acks=-1 when the high watermark has passed it (`DelayedProduce`),
and with acks=0 never: an error closes the connection, because the client reads no answer. From version 13 on the
request gives topics by id (KIP-516).
"""

import struct
import time
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any, NamedTuple

from ...protocol.errors import (
    NONE,
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    InvalidTopic,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnsupportedCompressionType,
)
from ...protocol.messages.produce import ALL_IN_SYNC, ProduceRequest, ProduceResponse
from ...protocol.primitives import Buffer
from ...protocol.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SMALLEST_MESSAGE,
    iter_batches,
)
from ...protocol.records.compression import Codec
from ...protocol.records.kernels.records import is_transactional, transactional_batches
from ...protocol.schema import maker
from ...protocol.topics import INTERNAL_TOPICS, TopicPartition
from ...storage.append_info import AppendInfo
from ...storage.validation import ValidatedRecords, validate_plain
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import CloseConnection, Context
from ..purgatory import Operation
from ..replication.partition import Partition, check_topic_id
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from .transactional_produce import Transaction, transaction_of

BATCHES_SINCE = 3
TOPIC_IDS_SINCE = 13
ZSTD_SINCE = 7
ADMIN_CLIENT_ID = "__admin_client"
"""The one client id that may write to internal topics, as in Apache Kafka."""

_ACKS = frozenset((0, 1, ALL_IN_SYNC))
_CLAIMS = struct.Struct(f">{LENGTH_AT}xi{MAGIC_AT - LENGTH_AT - 4}xB{ATTRIBUTES_AT - MAGIC_AT - 1}xB")
"""The length, the magic and the low byte of the attributes of a batch, from its first byte on."""

_make_response = maker(ProduceResponse)
_make_topic = maker(ProduceResponse.Topic)
_make_partition = maker(ProduceResponse.Partition)

REFUSED_UNSEEN = (CorruptMessage, MessageTooLarge, RecordListTooLarge)
"""Errors with which Apache Kafka answers no log start offset, although it knows one."""


async def guard(call: Call) -> Any:
    """Refuse transactional batches without the transactional id (CVE-2018-17196), else each topic by itself."""
    by_transactional_id, by_topic = call.permissions
    request = call.request
    if transactional_batches(request.topic_data) and not (
        request.transactional_id is not None and call.may(by_transactional_id, request.transactional_id)
    ):
        return _unless_unanswered(
            request, ProduceResponse(responses=_not_produced(request.topic_data, by_transactional_id.code))
        )
    request.topic_data, denied = call.split(
        by_topic, request.topic_data, lambda topic: call.topic_name(topic, topic.name)
    )
    if not denied:
        return await call.serve()
    answer = await call.serve() if request.topic_data else ProduceResponse(responses=[])
    if answer is not None:
        answer.responses += _not_produced(denied, by_topic.code)
    return _unless_unanswered(request, answer)


def _unless_unanswered(request: ProduceRequest, answer: ProduceResponse | None) -> ProduceResponse | None:
    """Raise CloseConnection where no answer is due: only the closed connection tells the client of a refusal."""
    if request.acks == 0:
        raise CloseConnection("a produce without acknowledgements was not authorized")
    return answer


def _not_produced(topics: list[ProduceRequest.Topic], code: int) -> list[ProduceResponse.Topic]:
    Topic = ProduceResponse.Topic
    return [
        Topic(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[Topic.Partition(index=part.index, error_code=code) for part in topic.partition_data],
        )
        for topic in topics
    ]


@handles(
    ProduceRequest,
    needs=[
        whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, when="transactional batches"),
        each(AclOperation.WRITE, ResourceType.TOPIC),
    ],
    guard=guard,
)
async def produce(request: ProduceRequest, context: Context) -> ProduceResponse | None:
    """Append to every partition, and wait for the replicas with acks=-1."""
    try:
        transaction = transaction_of(request, context.services, context.version)
    except KafkaError as error:
        return _refuse_all(request, error)
    if transaction is not None and transaction.joins:
        await transaction.join(_transactional(request, context))
    acks = request.acks
    outcomes: list[Outcome] = []
    turn_ends_s = 0.0
    for topic in request.topic_data:
        for partition in topic.partition_data:
            if outcomes:  # the turn of one append needs no end
                turn_ends_s = turn_ends_s or end_of_turn_s()
                if time.perf_counter() >= turn_ends_s:
                    turn_ends_s = await end_of_next_turn_s()
            outcome = _append(topic, partition, acks, transaction, context)
            outcomes.append(outcome if isinstance(outcome, Outcome) else await outcome)
    if acks == 0:
        failed = next((outcome.error for outcome in outcomes if outcome.error), None)
        if failed is not None:
            raise CloseConnection(f"a produce with acks=0 failed: {failed}")
        return None
    if acks == ALL_IN_SYNC:
        delayed = DelayedProduce(outcomes)
        if not delayed.is_complete():
            await context.wait_for_change(delayed, request.timeout_ms)
            delayed.time_out()  # fails what is pending yet: nothing, unless the time ran out
    return _response(request, outcomes)


class Outcome(NamedTuple):
    """The outcome of one partition of the request."""

    partition: Partition | None
    appended: AppendInfo | None = None
    error: KafkaError | None = None


def _refuse_all(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """The answer to a request of which nothing was appended."""
    if request.acks == 0:
        raise CloseConnection(f"a produce with acks=0 failed: {error}")
    return _response(
        request, [Outcome(None, None, error) for topic in request.topic_data for _ in topic.partition_data]
    )


def _transactional(request: ProduceRequest, context: Context) -> list[tuple[Partition, memoryview]]:
    """The transactional batches that pass the first step, with their partitions. `_append` refuses the others."""
    found = []
    now_ms = context.services.clock.now_ms()
    for topic in request.topic_data:
        for data in topic.partition_data:
            try:
                partition, records, _ = _checked(topic, data, request.acks, context, now_ms)
            except Exception:
                continue
            if is_transactional(records):
                found.append((partition, records))
    return found


def _append(
    topic: ProduceRequest.Topic,
    data: ProduceRequest.Topic.Partition,
    acks: int,
    transaction: Transaction | None,
    context: Context,
) -> Outcome | Awaitable[Outcome]:
    """Take both steps for one partition. Returns the outcome, or an outcome to await where the append may have to wait.
    Apache Kafka tells the log start offset with the errors of the second step, so that their outcome has the
    partition."""
    if context.version < BATCHES_SINCE:
        return _append_messages(topic, data, acks, context)
    services = context.services
    now_ms = services.clock.now_ms()
    try:
        partition, records, validated = _checked(topic, data, acks, context, now_ms)
    except Exception as error:
        return _failed(None, error, topic, data)
    if transaction is not None and is_transactional(records):  # it is never plain: its attributes are not 0
        return _append_later(partition, topic, data, records, acks, transaction, context)
    try:
        if acks == ALL_IN_SYNC:
            partition.check_min_isr()
        appended = services.appender.append_at_once(partition, records, validated, now_ms)
    except Exception as error:
        return _failed(partition, error, topic, data)
    if appended is None:  # nothing was done: it may have to wait
        return _append_later(partition, topic, data, records, acks, None, context)  # in no transaction
    return tuple.__new__(Outcome, (partition, appended, None))  # cheap (COSTS.md)


def _checked(
    topic: ProduceRequest.Topic, data: ProduceRequest.Topic.Partition, acks: int, context: Context, now_ms: int
) -> tuple[Partition, memoryview, ValidatedRecords | None]:
    """Check what the request claims, in Apache Kafka's order. Returns the partition, its batch, and the batch as
    validated, which is None unless it is plain."""
    replica_manager, version = context.services.replica_manager, context.version
    name = replica_manager.topic_name(topic.topic_id) if version >= TOPIC_IDS_SINCE else topic.name
    partition = replica_manager.partitions.get((name, data.index))  # type: ignore[call-overload]  # equal, and cheaper
    if partition is None:
        replica_manager.check_partition_exists(TopicPartition(name, data.index))
    elif version >= TOPIC_IDS_SINCE:
        check_topic_id(partition.log, topic.topic_id)
    records: memoryview = data.records  # type: ignore[assignment]  # decoded, they are a view; None is refused below
    validated = None
    if partition is not None and records is not None:
        # It refuses nothing, so the order of the errors stays. What is plain passes `_check_batch`, too.
        validated = validate_plain(records, partition.log.config, now_ms)
    if validated is None:
        records = _check_batch(records, version)
    if acks not in _ACKS or name in INTERNAL_TOPICS:  # else the call finds nothing
        _check_acks_and_name(acks, name, context)
    if partition is None:
        partition = replica_manager.leader_of(TopicPartition(name, data.index))
    return partition, records, validated


def _check_acks_and_name(acks: int, name: str, context: Context) -> None:
    if acks not in _ACKS:
        raise InvalidRequiredAcks(f"acks is {acks}; it may be 0, 1 or -1")
    if name in INTERNAL_TOPICS and context.client_id != ADMIN_CLIENT_ID:
        raise InvalidTopic(f"{name} is internal: only the broker writes to it")


def _failed(
    partition: Partition | None, error: Exception, topic: ProduceRequest.Topic, data: ProduceRequest.Topic.Partition
) -> Outcome:
    return Outcome(partition, None, kafka_error(error, f"the append to partition {data.index} of {topic.name!r}"))


async def _append_later(
    leader: Partition,
    topic: ProduceRequest.Topic,
    data: ProduceRequest.Topic.Partition,
    records: memoryview,
    acks: int,
    transaction: Transaction | None,
    context: Context,
) -> Outcome:
    """Append a batch that may have to wait: for its transaction, for its validation, or for the disk. `transaction` is
    None for a batch that is in none."""
    partition = None  # as the outcome of a refused transaction has it
    try:
        if transaction is not None:
            transaction.check(leader, records)
        partition = leader
        if acks == ALL_IN_SYNC:
            partition.check_min_isr()
        check_again = None if transaction is None else partial(transaction.check, partition, records)
        connection, appender = context.connection, context.services.appender
        return Outcome(partition, await appender.validate_and_append(partition, records, connection, check_again))
    except Exception as error:
        return _failed(partition, error, topic, data)


async def _append_messages(
    topic: ProduceRequest.Topic, data: ProduceRequest.Topic.Partition, acks: int, context: Context
) -> Outcome:
    """Take both steps for messages of an old version, which `append_messages` checks itself."""
    from .old_versions.old_produce import append_messages  # old clients are rare

    replica_manager, topic_partition = context.services.replica_manager, TopicPartition(topic.name, data.index)
    partition = None  # as the outcome of the first step has it
    try:
        replica_manager.check_partition_exists(topic_partition)
        _check_acks_and_name(acks, topic.name, context)
        partition = replica_manager.leader_of(topic_partition)
        if acks == ALL_IN_SYNC:
            partition.check_min_isr()
        return Outcome(partition, await append_messages(partition, data.records, context))
    except Exception as error:
        return _failed(partition, error, topic, data)


def _check_batch(records: Buffer | None, version: int) -> memoryview:
    """Check that the records are one whole batch of magic 2, in a codec that the version knows. Validation would find
    most of this too; here it is refused before the partition is looked up."""
    if not records or len(records) <= ATTRIBUTES_AT:
        raise InvalidRecord("the records hold no complete batch")
    length, magic, attributes = _CLAIMS.unpack_from(records)
    size = length + LOG_OVERHEAD
    if magic > MAGIC or size < LOG_OVERHEAD + SMALLEST_MESSAGE or (magic == MAGIC and size < HEADER_SIZE):
        raise CorruptMessage(f"there is no batch of magic {magic} and {size} bytes")
    if magic < MAGIC:
        raise InvalidRecord(f"the records have magic {magic}; version {version} of Produce takes magic {MAGIC}")
    if size > len(records):
        raise InvalidRecord("the records hold no complete batch")
    if size < len(records) and next(iter_batches(memoryview(records)[size:]), None) is not None:
        raise InvalidRecord("a partition of a produce request holds exactly one batch")
    if version < ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
        raise UnsupportedCompressionType(f"zstd needs version {ZSTD_SINCE} of Produce; this is {version}")
    return records if isinstance(records, memoryview) else memoryview(records)


class DelayedProduce(Operation):
    """Complete when the high watermark has passed every append of the request. The outcome of an append then stays,
    even if a replica leaves the ISR later. `outcomes` are those of the appends, and are replaced where the wait fails
    them."""

    def __init__(self, outcomes: list[Outcome]) -> None:
        self._outcomes = outcomes
        self._pending: Sequence[int] = range(len(outcomes))

    @property
    def keys(self) -> list[TopicPartition]:
        appended = [self._outcomes[number].partition for number in self._pending]
        return [partition.topic_partition for partition in appended if partition is not None]

    def is_complete(self) -> bool:
        pending = []
        for number in self._pending:
            partition, appended, _ = self._outcomes[number]
            if partition is None or appended is None:
                continue
            if not partition.is_served:
                self._fail(number, NotLeaderOrFollower("leadership moved while the append waited"))
            elif partition.log.high_watermark <= appended.last_offset:
                pending.append(number)
            elif partition.is_under_min_isr:
                self._fail(number, NotEnoughReplicasAfterAppend("replicas fell out of sync while the append waited"))
        self._pending = pending
        return not pending

    def _fail(self, number: int, error: KafkaError) -> None:
        self._outcomes[number] = self._outcomes[number]._replace(appended=None, error=error)

    def time_out(self) -> None:
        """The wait is over: an append that is pending yet has failed, and stays in the log."""
        if not self.is_complete():
            for number in self._pending:
                self._fail(number, RequestTimedOut("the replicas did not follow in time"))


def _response(request: ProduceRequest, outcomes: list[Outcome]) -> ProduceResponse:
    following = iter(outcomes)
    topics = []
    for topic in request.topic_data:
        partitions = []
        for data in topic.partition_data:
            partition, appended, _ = outcome = next(following)
            if partition is not None and appended is not None:
                first_offset, log_start_offset = appended.first_offset, partition.log.log_start_offset
                # index, error_code, base_offset, log_append_time_ms, log_start_offset
                partitions.append(
                    _make_partition(data.index, NONE, first_offset, appended.log_append_time_ms, log_start_offset)
                )
            else:
                partitions.append(_refused(data.index, outcome))
        topics.append(_make_topic(topic.name, topic.topic_id, partitions))  # name, topic_id, partition_responses
    return _make_response(topics)  # responses


def _refused(index: int, outcome: Outcome) -> ProduceResponse.Topic.Partition:
    partition, _, error = outcome
    assert error is not None
    log_start_offset = -1
    if partition is not None and not isinstance(error, REFUSED_UNSEEN):
        log_start_offset = partition.log.log_start_offset
    return ProduceResponse.Topic.Partition(
        index=index,
        error_code=error.code,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=log_start_offset,
        record_errors=[
            ProduceResponse.Topic.Partition.RecordError(batch_index=batch_index, batch_index_error_message=message)
            for batch_index, message in getattr(error, "record_errors", ())
        ],
        error_message=error.message or None,
    )
