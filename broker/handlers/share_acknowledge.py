"""ShareAcknowledge, versions 1 and 2: a member of a share group says what has become of records (KIP-932).

It needs a share session, which ShareFetch begins, and counts in its epochs; with epoch -1 it ends the session, and what
the member has acquired is released. The answer waits until the outcomes are stored. Version 2 may renew the locks of
records (KIP-1222).
"""

from __future__ import annotations

from typing import Any

from ...protocol.errors import InvalidShareSessionEpoch, UnsupportedVersion
from ...protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..replication.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH
from ..scheduler import run_now
from ..security.guarding import Call
from ..security.permission_kinds import each, whole
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import SharePartitionKey
from . import share_acknowledgements
from .share_acknowledgements import Leaders, acknowledge, member_of

Answer = ShareAcknowledgeResponse


async def guard(call: Call) -> Any:
    """See `share_acknowledgements.guard`."""
    return await share_acknowledgements.guard(call, Answer)


@handles(
    ShareAcknowledgeRequest,
    needs=[whole(AclOperation.READ, ResourceType.GROUP), each(AclOperation.READ, ResourceType.TOPIC)],
    guard=guard,
)
async def share_acknowledge(request: ShareAcknowledgeRequest, context: Context) -> Answer:
    """Acknowledge records of each partition; each has its own outcome."""
    services = context.services
    try:
        if not services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        member = member_of(request)
        if request.share_session_epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpoch("only a fetch begins a share session")
        session = services.share_sessions.accept(member, request.share_session_epoch)
    except Exception as failure:
        error = kafka_error(failure, "acknowledgements of a member of a share group")
        return Answer(error_code=error.code, error_message=error.message)
    waiting = [
        [
            run_now(
                acknowledge(
                    context,
                    SharePartitionKey(member.group_id, topic.topic_id, asked.partition_index),
                    member.member_id,
                    asked.acknowledgement_batches,
                    is_renewing=request.is_renew_ack,
                )
            )
            for asked in topic.partitions
        ]
        for topic in request.topics
    ]
    leaders = Leaders(context)
    topics = []
    for topic, outcomes in zip(request.topics, waiting, strict=True):
        partitions = []
        for asked, waits in zip(topic.partitions, outcomes, strict=True):
            outcome = await waits
            key = SharePartitionKey(member.group_id, topic.topic_id, asked.partition_index)
            partitions.append(
                Answer.Topic.Partition(
                    partition_index=asked.partition_index,
                    error_code=outcome.code,
                    error_message=outcome.message,
                    current_leader=leaders.of(key, outcome.code),
                )
            )
        topics.append(Answer.Topic(topic_id=topic.topic_id, partitions=partitions))
    if request.share_session_epoch == FINAL_EPOCH:
        services.share_sessions.end(session)
    return Answer(
        acquisition_lock_timeout_ms=services.group_configs.of(member.group_id).share_record_lock_duration_ms,
        responses=topics,
        node_endpoints=leaders.endpoints,
    )
