"""Fetch, versions 0 to 18: return records from an offset on, and wait a while for more.

There are three ways through the handler:

- a `SimpleFetch`, which nearly every consumer of one partition sends, reads once: after its wait, if it has to wait;
- any other fetch that names all its partitions reads at once. If that gives less than `min_bytes` and no error, it
  waits for more and reads again;
- a fetch that continues a session does the same with the partitions that changed, but it skips the first read where
  that would give nothing: for a follower of one partition that has everything.

`delayed_fetch.py` reads a partition; `fetch_sessions.py` lets a reader of many partitions name only those that changed
(KIP-227). From version 13 on the request gives topics by id (KIP-516).
"""

import time
from collections.abc import Awaitable, Iterable
from typing import Any

from ...protocol.errors import (
    NONE,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ...protocol.schema import maker
from ...protocol.topics import TopicPartition
from ..api.registry import handles
from ..api.request_context import Context
from ..purgatory import Operation
from ..replication.delayed_fetch import (
    NOTHING,
    DelayedFetch,
    FetchedData,
    FetchPartition,
    Reader,
    count_fetched,
    must_wait,
    read_all,
    read_at_once,
)
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession
from ..replication.partition import Partition
from ..replication.replica_selection import LEADER
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from ..security.fetch_access import FetchAccess
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from ..settings.replica_selectors import RACK_AWARE

BATCHES_SINCE = 4
STORAGE_ERROR_SINCE = 6
FOLLOWERS_SINCE = 11
TOPIC_IDS_SINCE = 13

UNKNOWN_TOPICS = (UnknownTopicOrPartition.code, UnknownTopicId.code)
"""Error codes with which Apache Kafka answers an empty list of aborted transactions. With other errors the list is
null."""


_make_response = maker(FetchResponse)
_make_topic = maker(FetchResponse.Topic)
_make_partition = maker(FetchResponse.Partition)


class GuardedContext(Context):
    """The context of a fetch whose reader asks for each partition's permission when it is read."""

    __slots__ = ("access",)

    def __init__(self, context: Context, access: FetchAccess) -> None:
        super().__init__(context.services, context.connection, context.version, context.client_id)
        self.access = access


async def guard(call: Call) -> Any:
    """Give the reader the access that it asks (see `FetchAccess`). A session reads partitions that its request does
    not name, so none can be taken out of the request."""
    request = call.request
    replica_id = request.replica_state.replica_id if request.replica_state else request.replica_id
    access = FetchAccess(call.access, is_follower=replica_id >= 0)
    return await call.handler(request, GuardedContext(call.context, access))


@handles(
    FetchRequest,
    needs=[
        each(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, when="as a replica", refused_as=ResourceType.TOPIC),
        each(AclOperation.READ, ResourceType.TOPIC, when="as a consumer"),
    ],
    guard=guard,
)
def fetch(request: FetchRequest, context: Context) -> Awaitable[FetchResponse]:
    """Fetch what a request says that names all its partitions, or continue a session."""
    known: SimpleFetch | None = context.kept  # by `_fetch_anew`, for requests of this version
    if known is not None and known.take_up(request):
        return _fetch_one(request, known, context)
    if context.version < BATCHES_SINCE:
        from .old_versions.old_fetch import fetch_messages  # old clients are rare

        return fetch_messages(request, context)
    reader = Reader.of(
        request,
        names_topics_by_id=context.version >= TOPIC_IDS_SINCE,
        access=context.access,
        may_read_followers=context.version >= FOLLOWERS_SINCE,
        rack=request.rack_id if context.services.config.current.replica_selector_class == RACK_AWARE else "",
    )
    if request.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
        return _continue_session(request, reader, context)
    if request.session_id != NO_SESSION:
        context.services.fetch_sessions.close(request.session_id)
    return _fetch_anew(request, reader, context)


class SimpleFetch(Operation):
    """A consumer's fetch of one partition that is led here, for its first byte, without a session. A connection keeps
    it, because the next fetch is the same but for its offset.

    A read gives records, an error of the log, or nothing. The operation is complete while a read would give one of the
    first two.
    """

    __slots__ = ("_config", "_isolation_level", "_partition", "_services", "topic_partition", "wanted")

    @classmethod
    def of(cls, request: FetchRequest, wanted: list[FetchPartition], context: Context) -> "SimpleFetch | None":
        """The request as a simple fetch; None if it is none."""
        config = context.services.config.current
        if request.session_epoch != FINAL_EPOCH or request.min_bytes > 1 or len(wanted) != 1:
            return None
        (one,) = wanted
        if not one.reader.is_plain or one.asked.last_fetched_epoch >= 0 or not isinstance(one.partition, Partition):
            return None
        if config.replica_selector_class == RACK_AWARE:  # the next request may name a rack
            return None
        return cls(request, one, one.partition, context)

    def __init__(self, request: FetchRequest, wanted: FetchPartition, partition: Partition, context: Context) -> None:
        self.wanted = wanted
        self.topic_partition = partition.topic_partition
        self._partition = partition
        self._services = context.services
        self._config = context.services.config.current
        self._isolation_level = request.isolation_level

    def take_up(self, request: FetchRequest) -> bool:
        """Take up a request that repeats this one: `wanted` then has the offset that it asks for. Return False, with
        nothing changed, if it asks for another partition or in another way, or if what was found is not served here any
        more."""
        topics, known = request.topics, self.wanted
        if len(topics) != 1 or len(topics[0].partitions) != 1 or self._services.config.current is not self._config:
            return False
        topic = topics[0]
        asked = topic.partitions[0]
        return (
            request.session_epoch == FINAL_EPOCH
            and request.session_id == NO_SESSION
            and request.min_bytes <= 1
            and topic.topic == known.topic
            and topic.topic_id == known.topic_id
            and request.isolation_level == self._isolation_level
            and request.replica_id < 0
            and request.replica_state is None
            and asked.last_fetched_epoch < 0
            and known.take_up(asked)
        )

    @property
    def keys(self) -> tuple[TopicPartition]:
        return (self.topic_partition,)

    def is_complete(self) -> bool:
        partition = self._partition
        log = partition.log
        # Where there is nothing to tell: between the first offset that is not shown yet, and the end of the log.
        hidden = self.wanted.limit_offset()
        return not (hidden <= self.wanted.asked.fetch_offset <= log.log_end_offset and partition.is_served)


async def _fetch_anew(request: FetchRequest, reader: Reader, context: Context) -> FetchResponse:
    wanted = _resolve_at_once(request, reader, context) or await resolve(request, reader, context)
    simple = context.kept = SimpleFetch.of(request, wanted, context)
    if simple is not None:
        return await _fetch_one(request, simple, context)
    return await _fetch_all(request, reader, wanted, context)


async def _fetch_one(request: FetchRequest, simple: SimpleFetch, context: Context) -> FetchResponse:
    """Answer a simple fetch: it reads once, after the wait."""
    if request.max_wait_ms > 0 and not simple.is_complete():
        await context.wait_for_change(simple, request.max_wait_ms)
    wanted = simple.wanted
    answer = wanted.read(_max_bytes(request, context), True)
    if not answer.error_code:
        context.services.metrics.fetched(simple.topic_partition.topic, len(answer.records))
    topic = _make_topic(wanted.topic, wanted.topic_id, [_partition_response(wanted, answer)])
    result = _make_response(0, NONE, NO_SESSION, [topic])
    if context.version < STORAGE_ERROR_SINCE:
        hide_storage_errors(result)
    return result


async def _fetch_all(
    request: FetchRequest, reader: Reader, wanted: list[FetchPartition], context: Context
) -> FetchResponse:
    """Answer a fetch of any partitions, and begin a session if it asks for one."""
    limit = _max_bytes(request, context)
    answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
    if reader.is_follower:
        note_fetched(wanted, answers)
    if must_wait(wanted, answers, request):
        await context.wait(DelayedFetch(wanted, request.min_bytes), timeout_ms=request.max_wait_ms)
        answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
    count_fetched(context.services.metrics, wanted, answers)
    result = response(wanted, answers)
    if context.version < STORAGE_ERROR_SINCE:
        hide_storage_errors(result)
    if request.session_epoch == INITIAL_EPOCH:
        session = context.services.fetch_sessions.create(wanted, reader)
        if session is not None:
            session.remember(wanted, answers)
            result.session_id = session.id
    return result


async def _continue_session(request: FetchRequest, reader: Reader, context: Context) -> FetchResponse:
    try:
        session = context.services.fetch_sessions.go_on(request, reader)
        if session is None:
            return FetchResponse()
        return await _fetch_changes(session, request, context)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)


async def _fetch_changes(session: FetchSession, request: FetchRequest, context: Context) -> FetchResponse:
    limit = _max_bytes(request, context)
    wanted = session.to_read()
    if len(wanted) == 1 and wanted[0].has_all():  # it waits next, most of the time
        answers = [NOTHING]
    else:
        answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
    if session.reader.is_follower:
        note_fetched(wanted, answers)
    if must_wait(session, answers, request):
        delayed = DelayedFetch(session.pending, request.min_bytes, session)
        await context.wait(delayed, timeout_ms=request.max_wait_ms)
        wanted = session.to_read()
        answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
    context.services.fetch_sessions.check_accepted(session, request.session_epoch)
    count_fetched(context.services.metrics, wanted, answers)
    result = response(*session.changed_since_sent(wanted, answers))
    result.session_id = session.id
    return result


def _max_bytes(request: FetchRequest, context: Context) -> int:
    limit: int = context.services.config.current.fetch_max_bytes
    return min(request.max_bytes, limit)


def _resolve_at_once(request: FetchRequest, reader: Reader, context: Context) -> list[FetchPartition] | None:
    """What `resolve` returns for a request for one partition. None for others, whose turn may end meanwhile."""
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    return [FetchPartition(context.services.replica_manager, topics[0], topics[0].partitions[0], reader)]


async def resolve(request: FetchRequest, reader: Reader, context: Context) -> list[FetchPartition]:
    """The partitions asked for, in order. A partition that is named twice is answered once, as it was named last. That
    is Kafka's rule, and it bounds the cost of a wait by the number of partitions."""
    wanted: dict[tuple[str, bytes, int], FetchPartition] = {}
    turn_ends_s = end_of_turn_s()
    for topic in request.topics:
        for partition in topic.partitions:
            if time.perf_counter() >= turn_ends_s:
                turn_ends_s = await end_of_next_turn_s()
            key = (topic.topic, topic.topic_id, partition.partition)
            wanted[key] = FetchPartition(context.services.replica_manager, topic, partition, reader)
    return list(wanted.values())


def note_fetched(wanted: Iterable[FetchPartition], answers: Iterable[FetchedData]) -> None:
    """Note in the partitions how far the follower has fetched, unless its log diverges from the leader's."""
    for one, answer in zip(wanted, answers, strict=True):
        if not answer.error_code and answer.diverging is None and isinstance(one.partition, Partition):
            asked = one.asked
            one.partition.follower_fetched(one.reader.replica_id, asked.fetch_offset, asked.log_start_offset)


def response(wanted: Iterable[FetchPartition], answers: Iterable[FetchedData]) -> FetchResponse:
    """The response with the answers, in their order."""
    topics: list[FetchResponse.Topic] = []
    topic: FetchResponse.Topic | None = None
    for one, answer in zip(wanted, answers):  # noqa: B905 (they are of the same length, and this is the hot path)
        if topic is None or one.topic != topic.topic or one.topic_id != topic.topic_id:
            topic = _make_topic(one.topic, one.topic_id, [])
            topics.append(topic)
        topic.partitions.append(_partition_response(one, answer))
    return _make_response(0, NONE, NO_SESSION, topics)


def hide_storage_errors(result: FetchResponse) -> None:
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
