"""Fetch, versions 0 to 18: return records from an offset on, and wait a while for more.

Every fetch takes four steps, in this order:

1. Resolve: find the partitions that are asked for (`FetchPartition`). A follower's offset is noted in them: it has all
   records before it, which may be what a produce waits for.
2. Wait until `min_bytes` can be read or a partition has something else to say (`DelayedFetch`), for `max_wait_ms` at
   most.
3. Read the partitions, once (`replication/fetch_byte_limits.py`): the first batch whole, whatever the limits.
4. Answer.

A request that names all its partitions takes these steps in `_fetch_named`. Of two kinds of requests something is kept,
so that they need not name, or not resolve, what they ask for:

- A request that continues a fetch session (KIP-227) names only what it reads from elsewhere than before, and is
  answered only with what has changed (`_continue_session`). The broker keeps the session, for any connection, until it
  is closed or pushed out (`fetch_sessions.py`).
- A request that repeats the last one of its connection with another offset has nothing to resolve (`fetch_kept`).
  Nearly all requests of consumers of one partition do. The connection keeps the partition until it is idle or sends
  another kind of request, and only as long as the partition is served here. The first such request takes the four
  steps in `_fetch_named`, and what it resolved to is kept. The answers are those of `_fetch_named`, so a first reading
  may skip `kept_fetch.py`.

From version 13 on the request gives topics by id (KIP-516). Versions 0 to 3 return messages instead of batches
(`old_versions/old_fetch.py`).
"""

import time
from collections.abc import Awaitable, Iterable
from typing import Any

from ...protocol.errors import KafkaError
from ...protocol.messages.fetch import FetchRequest, FetchResponse
from ..api.registry import handles
from ..api.request_context import Context
from ..replication.delayed_fetch import DelayedFetch
from ..replication.fetch_byte_limits import count_fetched, read_all, read_at_once
from ..replication.fetch_partition import FetchPartition, Reader
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, TOPIC_IDS_SINCE
from ..scheduler import end_of_next_turn_s, end_of_turn_s
from ..security.fetch_access import FetchAccess
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from ..settings.replica_selectors import RACK_AWARE
from .fetch_response import max_bytes, response
from .kept_fetch import KeptFetch, fetch_kept

BATCHES_SINCE = 4
FOLLOWERS_SINCE = 11


class GuardedContext(Context):
    """The context of a fetch whose reader asks for each partition's permission when it is read."""

    __slots__ = ("access",)

    def __init__(self, context: Context, access: FetchAccess) -> None:
        super().__init__(context.services, context.connection, context.version, context.client_id)
        self.access = access
        self.charge = context.charge


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
        return fetch_kept(request, kept, context)
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
    context.kept = KeptFetch.of(request, wanted, context)  # for requests that repeat this one
    if reader.is_follower:
        note_fetched(wanted, reader, context)
    if request.max_wait_ms > 0 and wanted:
        delayed = DelayedFetch(wanted, request.min_bytes)
        if not delayed.is_complete():
            await context.wait_for_change(delayed, request.max_wait_ms)
    limit = max_bytes(request, context)
    answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
    result = response(wanted, answers, context.version)
    if context.charge is not None and context.charge.is_over(result):
        return context.charge.empty_fetch()
    count_fetched(context.services.metrics, wanted, answers)
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
            note_fetched(wanted, reader, context)
        if request.max_wait_ms > 0:
            delayed = DelayedFetch(session.pending, request.min_bytes, session)
            if not delayed.is_complete():
                await context.wait_for_change(delayed, request.max_wait_ms)
                wanted = session.to_read()
        limit = max_bytes(request, context)
        answers = read_at_once(wanted, limit) or await read_all(wanted, limit)
        sessions.check_accepted(session, request.session_epoch)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    if context.charge is not None and context.charge.is_over(
        response(*session.news_in(wanted, answers), context.version)
    ):
        return context.charge.empty_fetch(session.id)
    count_fetched(context.services.metrics, wanted, answers)
    result = response(*session.changed_since_sent(wanted, answers), context.version)
    result.session_id = session.id
    return result


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


def note_fetched(wanted: Iterable[FetchPartition], reader: Reader, context: Context) -> None:
    """Note in the partitions how far the follower has fetched. A fetch from before the last start of its broker does
    not say what that has now: it may have lost records (KIP-903)."""
    if reader.replica_epoch in (-1, context.services.controller.broker_epoch(reader.replica_id)):
        for one in wanted:
            one.note_fetched()
