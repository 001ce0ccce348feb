"""ShareFetch, versions 1 and 2: a member of a share group acknowledges records, and acquires others (KIP-932).

1. The share session says which partitions are read (`share_fetch/share_sessions.py`).
2. Records are acquired and read, if there are `min_bytes`. They may be more than what was acquired: the client takes
   the acquired ones.
3. The acknowledgements begin to be stored: so a record that is released comes again with a later fetch.
4. If there was nothing to acquire, the fetch waits for it, for `max_wait_ms` at most.
5. The answer waits for the acknowledgements. The first one of a session names all its partitions, later ones those with
   records, errors or acknowledgements.

A request that renews locks (version 2, KIP-1222) reads nothing. With session epoch -1 nothing is read either; the
session ends, and what the member has acquired is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ...protocol.errors import InvalidRequest, KafkaError, ShareSessionLimitReached, UnsupportedVersion
from ...protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from ..scheduler import run_now
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from ..share_fetch.delayed_share_fetch import Acquired, DelayedShareFetch, SessionLimit, Wishes, acquire_all
from ..share_fetch.share_partition_manager import LedSharePartition
from ..share_fetch.share_sessions import MemberKey, ShareSession
from ..share_state.persister import SharePartitionKey
from . import share_acknowledgements
from .share_acknowledgements import Leaders, Outcome, acknowledge, check_topic, keys_of, member_of

Answer = ShareFetchResponse
AnsweredPartition = ShareFetchResponse.Topic.Partition

WHOLE_BATCHES = 0
"""The acquire mode in which records are acquired in whole batches; in the other one never more than asked for."""


async def guard(call: Call) -> Any:
    """See `share_acknowledgements.guard`."""
    return await share_acknowledgements.guard(call, Answer)


@handles(
    ShareFetchRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def share_fetch(request: ShareFetchRequest, context: Context) -> Answer:
    """Acknowledge and acquire; see above."""
    services = context.services
    try:
        if not services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        _check_renewal(request)
        member = member_of(request)
        session = await _session(request, member, context)
    except Exception as failure:
        error = kafka_error(failure, "a fetch of a member of a share group")
        return Answer(error_code=error.code, error_message=error.message)
    errors: dict[SharePartitionKey, KafkaError] = {}
    is_reading = request.share_session_epoch != FINAL_EPOCH and not request.is_renew_ack and request.max_records > 0
    wanted = _open(session, context, errors) if is_reading else []
    wishes = _wishes(request, member, context)
    is_enough = request.max_wait_ms <= 0 or DelayedShareFetch(wanted, request.min_bytes).is_complete()
    acquired: Mapping[LedSharePartition, Acquired] = acquire_all(wanted, wishes) if is_enough else {}
    acknowledged = _acknowledge(request, member, context)
    if not acquired:
        acquired = await _wait(request, wanted, wishes, context)
    for led, got in acquired.items():
        services.metrics.fetched(led.partition.topic_partition.topic, len(got.records))
    errors.update({led.key: led.error for led in wanted if led.error is not None and led not in acquired})
    outcomes = {key: await waits for key, waits in acknowledged.items()}
    if request.share_session_epoch == FINAL_EPOCH:
        services.share_sessions.end(session)
    by_key = {led.key: got for led, got in acquired.items()}
    leaders = Leaders(context)
    return Answer(
        acquisition_lock_timeout_ms=services.group_configs.of(member.group_id).share_record_lock_duration_ms,
        responses=_answers(session, by_key, errors, outcomes, leaders),
        node_endpoints=leaders.endpoints,
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    limits = (request.max_bytes, request.min_bytes, request.max_records, request.max_wait_ms)
    if request.is_renew_ack and any(limits):
        raise InvalidRequest("a request that renews locks reads nothing: its limits and its wait are 0")


async def _session(request: ShareFetchRequest, member: MemberKey, context: Context) -> ShareSession:
    """The session of the request, with the partitions that it reads now. Raises InvalidRequest, ShareSessionNotFound,
    InvalidShareSessionEpoch, and ShareSessionLimitReached after the time that the client waits for records."""
    sessions, config = context.services.share_sessions, context.services.config.current
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        if any(asked.acknowledgement_batches for topic in request.topics for asked in topic.partitions):
            raise InvalidRequest("a request that begins a share session acknowledges nothing")
        try:
            session = sessions.begin(member, context.connection, config.group_share_max_share_sessions)
        except ShareSessionLimitReached:
            await context.wait(SessionLimit(), timeout_ms=request.max_wait_ms)
            raise
    else:
        session = sessions.accept(member, epoch)
    if epoch != FINAL_EPOCH:
        forgotten = [
            SharePartitionKey(member.group_id, topic.topic_id, number)
            for topic in request.forgotten_topics_data
            for number in topic.partitions
        ]
        sessions.change(session, keys_of(member.group_id, request.topics), forgotten)
    return session


def _acknowledge(
    request: ShareFetchRequest, member: MemberKey, context: Context
) -> dict[SharePartitionKey, asyncio.Future[Outcome]]:
    """Begin to store the acknowledgements; their outcomes by partition."""
    return {
        key: run_now(
            acknowledge(context, key, member.member_id, asked.acknowledgement_batches, is_renewing=request.is_renew_ack)
        )
        for topic in request.topics
        for asked in topic.partitions
        if asked.acknowledgement_batches
        for key in [SharePartitionKey(member.group_id, topic.topic_id, asked.partition_index)]
    }


def _open(
    session: ShareSession, context: Context, errors: dict[SharePartitionKey, KafkaError]
) -> list[LedSharePartition]:
    """The share partitions that the session reads, in its order; the others' errors are added to `errors`."""
    wanted = []
    for key in session.rotated:
        try:
            check_topic(context, key)
            wanted.append(context.services.share_partitions.open(key))
        except Exception as error:
            errors[key] = kafka_error(error, f"a fetch of {key}")
    return wanted


def _wishes(request: ShareFetchRequest, member: MemberKey, context: Context) -> Wishes:
    return Wishes(
        member.member_id,
        min(request.max_bytes, context.services.config.current.fetch_max_bytes),
        request.max_records,
        request.batch_size,
        request.share_acquire_mode == WHOLE_BATCHES,
    )


async def _wait(
    request: ShareFetchRequest, wanted: list[LedSharePartition], wishes: Wishes, context: Context
) -> Mapping[LedSharePartition, Acquired]:
    """Wait for records that can be acquired, and acquire them. Another member may be faster: then it waits again."""
    clock = context.services.clock
    until_ms = clock.liveness_ms() + request.max_wait_ms
    acquired: Mapping[LedSharePartition, Acquired] = {}
    left_ms = request.max_wait_ms
    while wanted and left_ms > 0 and not acquired and not any(led.error for led in wanted):
        await context.wait(DelayedShareFetch(wanted, request.min_bytes), timeout_ms=left_ms)
        acquired = acquire_all(wanted, wishes)
        left_ms = until_ms - clock.liveness_ms()
    return acquired


def _answers(
    session: ShareSession,
    acquired: Mapping[SharePartitionKey, Acquired],
    errors: Mapping[SharePartitionKey, KafkaError],
    outcomes: Mapping[SharePartitionKey, Outcome],
    leaders: Leaders,
) -> list[Answer.Topic]:
    """What the answer says of each partition, by topic."""
    told = [key for key, is_told in session.partitions.items() if not is_told]
    session.partitions.update(dict.fromkeys(told, True))
    topics: dict[bytes, Answer.Topic] = {}
    for key in dict.fromkeys((*told, *acquired, *errors, *outcomes)):
        topic = topics.get(key.topic_id)
        if topic is None:
            topic = topics[key.topic_id] = Answer.Topic(topic_id=key.topic_id, partitions=[])
        got, error, outcome = acquired.get(key), errors.get(key), outcomes.get(key, Outcome())
        code = 0 if error is None else error.code
        topic.partitions.append(
            AnsweredPartition(
                partition_index=key.partition,
                error_code=code,
                error_message=None if error is None else error.message,
                acknowledge_error_code=outcome.code,
                acknowledge_error_message=outcome.message,
                current_leader=leaders.of(key, code or outcome.code),
                records=b"" if got is None else got.records,
                acquired_records=[
                    AnsweredPartition.AcquiredRecords(
                        first_offset=record.first, last_offset=record.last, delivery_count=record.count
                    )
                    for record in (() if got is None else got.ranges)
                ],
            )
        )
    return [*topics.values()]
