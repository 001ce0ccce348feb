"""DescribeTopicPartitions, version 0: list topics in the order of their names, a page at a time (KIP-966).

A page ends after as many partitions as the request and `max.request.partition.size.limit` allow, and has at least one;
the cursor says where the next page begins. Unknown topics do not count. A request for named topics needs a cursor
within one of them; a request for all topics may have a cursor whose topic was deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...protocol.errors import InvalidRequest
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ...protocol.messages.metadata import NOT_ASKED_FOR
from ...protocol.topics import is_internal
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.controller import Controller
from ..controller.topic_descriptions import described_partition, why_missing
from ..controller.topology import PartitionState
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import TOPIC_OPERATIONS, AclOperation, ResourceType


async def guard(call: Call) -> Any:
    """Refuse each named topic that the client may not describe. A request for all topics becomes one for those that it
    may describe, so that the end of a page never names another."""
    (describe,) = call.permissions
    request = call.request
    Asked, Topic = DescribeTopicPartitionsRequest.Topic, DescribeTopicPartitionsResponse.Topic
    denied: list[DescribeTopicPartitionsRequest.Topic] = []
    if request.topics:
        request.topics, denied = call.split(describe, request.topics, lambda topic: topic.name)
    else:
        turn = Turn()
        for name in sorted(call.context.services.controller.topics):
            if turn.is_over:
                await turn.next()
            if call.may(describe, name, is_logged=False) and (
                request.cursor is None or name >= request.cursor.topic_name
            ):
                request.topics.append(Asked(name=name))
        if request.topics and request.cursor is not None and request.topics[0].name != request.cursor.topic_name:
            request.cursor = None  # its topic was deleted meanwhile; the topics before it are left out already
    answer = await call.serve() if request.topics else DescribeTopicPartitionsResponse(topics=[])
    for described in answer.topics:
        if described.topic_authorized_operations != NOT_ASKED_FOR:
            described.topic_authorized_operations = call.access.operations(ResourceType.TOPIC, described.name or "")
    answer.topics += [Topic(error_code=describe.code, name=name) for name in sorted({topic.name for topic in denied})]
    return answer


@handles(DescribeTopicPartitionsRequest, needs=[each(AclOperation.DESCRIBE, ResourceType.TOPIC)], guard=guard)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: Context
) -> DescribeTopicPartitionsResponse:
    """Describe the topics asked for, or all, from the cursor on."""
    controller, cursor = context.services.controller, request.cursor
    names = sorted({topic.name for topic in request.topics} or controller.topics)
    first = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        is_there = names[:1] == [cursor.topic_name]
        if cursor.partition_index < 0 or (request.topics and not is_there):
            return _refusal(request)
        first = cursor.partition_index if is_there else 0
    limit = min(request.response_partition_limit, context.services.config.current.max_request_partition_size_limit)
    return await _page(names, first, max(limit, 1), controller)


def _refusal(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """INVALID_REQUEST has no place of its own: every topic carries it."""
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponse.Topic(error_code=InvalidRequest.code, name=topic.name)
            for topic in request.topics
        ]
    )


async def _page(names: Iterable[str], first: int, room: int, controller: Controller) -> DescribeTopicPartitionsResponse:
    """Up to `room` partitions of the topics `names`, from partition `first` of the first one."""
    page = DescribeTopicPartitionsResponse(topics=[])
    turn = Turn()
    for name in names:
        if turn.is_over:
            await turn.next()
        if room == 0:
            page.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = controller.topic(name)
        described = DescribeTopicPartitionsResponse.Topic(name=name, topic_authorized_operations=TOPIC_OPERATIONS)
        page.topics.append(described)
        if topic is None:
            described.error_code = why_missing(name)
        else:
            end = min(first + room, len(topic.partitions))
            described.topic_id, described.is_internal = topic.id, is_internal(name)
            described.partitions = [
                _partition(number, topic.partitions[number], controller) for number in range(first, end)
            ]
            room -= len(described.partitions)
            if first < end < len(topic.partitions):
                page.next_cursor = Cursor(topic_name=name, partition_index=end)
                break
        first = 0
    return page


def _partition(
    number: int, state: PartitionState, controller: Controller
) -> DescribeTopicPartitionsResponse.Topic.Partition:
    """The partition as Metadata describes it, without eligible leader replicas."""
    described = described_partition(DescribeTopicPartitionsResponse.Partition, number, state, controller)
    described.eligible_leader_replicas, described.last_known_elr = [], []
    return described
