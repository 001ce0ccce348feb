"""Fetch, versions 0 to 18: return records from an offset on, and wait a while for more.

Every fetch takes four steps, in this order:

1. Resolve: find the partitions that are asked for (`FetchPartition`). A follower's offset is noted in them: it has all
   records before it, which may be what a produce waits for.
2. Wait until `min_bytes` can be read or a partition has something else to say (`DelayedFetch`), for `max_wait_ms` at
   most.
3. Read the partitions, once.
4. Answer.

A request that names all its partitions takes these steps in `_fetch_named`. Of two kinds of requests something is kept,
so that they need not name, or not resolve, what they ask for:

- A request that continues a fetch session (KIP-227) names only what it reads from elsewhere than before, and is
  answered only with what has changed (`_continue_session`). The broker keeps the session, for any connection, until it
  is closed or pushed out (`fetch_sessions.py`).
- A request that repeats the last one of its connection with another offset has nothing to resolve (`_fetch_kept`).
  Nearly all requests of consumers of one partition do. The connection keeps the partition until it is idle or sends
  another kind of request, and only as long as the partition is served here (`KeptFetch`). The first such request is
  answered in this way too, once it is resolved. The answer is that of `_fetch_named`: on a first reading, skip
  `_fetch_kept` and `KeptFetch`.

From version 13 on the request gives topics by id (KIP-516). Versions 0 to 3 return messages instead of batches
(`old_versions/old_fetch.py`).
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
from ..replication.delayed_fetch import DelayedFetch, count_fetched, read_all, read_at_once
from ..replication.fetch_partition import FetchedData, FetchPartition, Reader
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
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
    """Decide which way a fetch takes; see above."""
    kept: KeptFetch | None = context.kept
    if kept is not None and kept.take_up(request):
        return _fetch_kept(request, kept, context)
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
    return _fetch_named(request, reader, context)


async def _fetch_named(request: FetchRequest, reader: Reader, context: Context) -> FetchResponse:
    """Answer a fetch that names all its partitions, and begin a session if it asks for one."""
    wanted = await resolve(request, reader, context)
    kept = context.kept = KeptFetch.of(request, wanted, context)
    if kept is not None:
        return await _fetch_kept(request, kept, context)
    if reader.is_follower:
        note_fetched(wanted)
    if request.max_wait_ms > 0 and wanted:
        delayed = DelayedFetch(wanted, request.min_bytes)
        if not delayed.is_complete():
            await context.wait_for_change(delayed, request.max_wait_ms)
    limit = _max_bytes(request, context)
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
    """Answer a fetch of the partitions of a session that may have changed."""
    sessions = context.services.fetch_sessions
    try:
        session = sessions.accept(request, reader)
        if session is None:
            return FetchResponse()
        wanted = session.to_read()
        if reader.is_follower:
            note_fetched(wanted)
        if request.max_wait_ms > 0:
            delayed = DelayedFetch(session.pending, request.min_bytes, session)
            if not delayed.is_complete():
                await context.wait_for_change(delayed, request.max_wait_ms)
                wanted = session.to_read()
        limit = _max_bytes(request, context)
        answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
        sessions.check_accepted(session, request.session_epoch)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    count_fetched(context.services.metrics, wanted, answers)
    result = response(*session.changed_since_sent(wanted, answers))
    result.session_id = session.id
    return result


async def _fetch_kept(request: FetchRequest, kept: "KeptFetch", context: Context) -> FetchResponse:
    """Answer a fetch whose partition was kept: what `_fetch_named` does, for one partition and a consumer."""
    if request.max_wait_ms > 0 and not kept.is_complete():
        await context.wait_for_change(kept, request.max_wait_ms)
    wanted = kept.wanted
    answer = wanted.read(_max_bytes(request, context), True)
    if not answer.error_code:
        context.services.metrics.fetched(kept.topic_partition.topic, len(answer.records))
    topic = _make_topic(wanted.topic, wanted.topic_id, [_partition_response(wanted, answer)])
    result = _make_response(0, NONE, NO_SESSION, [topic])
    if context.version < STORAGE_ERROR_SINCE:
        hide_storage_errors(result)
    return result


class KeptFetch(Operation):
    """A consumer's fetch of one partition that is led here, for its first byte and without a session.

    A connection keeps it for the next fetch, which most of the time is the same but for the offset. It is in the
    connection's `Context`, which also says that version and client are the same; a fetch that has to be resolved
    replaces it.
    """

    __slots__ = ("_config", "_isolation_level", "_partition", "_rack_id", "_services", "topic_partition", "wanted")

    @classmethod
    def of(cls, request: FetchRequest, wanted: list[FetchPartition], context: Context) -> "KeptFetch | None":
        """The request, which has just been resolved, as a fetch to keep. None if it is another kind of fetch."""
        if len(wanted) != 1:
            return None
        (one,) = wanted
        if one.reader.asks_at_each_read or not isinstance(one.partition, Partition):
            return None
        kept = cls(request, one, one.partition, context)
        return kept if kept.take_up(request) else None

    def __init__(self, request: FetchRequest, wanted: FetchPartition, partition: Partition, context: Context) -> None:
        self.wanted = wanted
        self.topic_partition = partition.topic_partition
        self._partition = partition
        self._services = context.services
        self._config = context.services.config.current
        self._isolation_level = request.isolation_level
        self._rack_id = request.rack_id

    def take_up(self, request: FetchRequest) -> bool:
        """Take up a request that repeats this one: `wanted` then has what it asks for. Return False, with nothing
        changed, if the request has to be resolved."""
        topics, known = request.topics, self.wanted
        if len(topics) != 1 or len(topics[0].partitions) != 1 or self._services.config.current is not self._config:
            return False
        topic = topics[0]
        asked = topic.partitions[0]
        return (
            request.session_epoch == FINAL_EPOCH  # it wants no session, which would keep the partition, too
            and request.session_id == NO_SESSION  # there is none to close
            and request.replica_id < 0  # a follower's offset has to be noted
            and request.replica_state is None
            and request.isolation_level == self._isolation_level  # with the rack, the rest of what makes a Reader
            and request.rack_id == self._rack_id
            and request.min_bytes == 1  # `is_complete` counts no bytes
            and asked.last_fetched_epoch < 0  # and looks for no divergence
            and topic.topic == known.topic
            and topic.topic_id == known.topic_id
            and known.ask_again(asked)  # the same partition, which is served yet
        )

    @property
    def keys(self) -> tuple[TopicPartition]:
        return (self.topic_partition,)

    def is_complete(self) -> bool:
        """What `DelayedFetch` finds for such a fetch: there is nothing to read, and no error, while its offset lies
        between the first one that it may not have and the end of the log."""
        wanted, partition = self.wanted, self._partition
        may_wait = wanted.limit_offset() <= wanted.asked.fetch_offset <= partition.log.log_end_offset
        return not (may_wait and partition.is_served)


def _max_bytes(request: FetchRequest, context: Context) -> int:
    limit: int = context.services.config.current.fetch_max_bytes
    return min(request.max_bytes, limit)


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


def note_fetched(wanted: Iterable[FetchPartition]) -> None:
    """Note in the partitions how far the follower has fetched."""
    for one in wanted:
        one.note_fetched()


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
