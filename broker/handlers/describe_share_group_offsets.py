"""DescribeShareGroupOffsets, versions 0 and 1: where share groups are in partitions (KIP-932).

Without topics a group is asked for all partitions that it has begun to read, and with an authorizer the topics that the
client may not describe are left out. A topic that there is not, and a partition that the group has not begun to read,
have the start offset -1 and no error; a group that does not exist has begun to read nothing. The lag counts the offsets
up to the high watermark whose delivery has not ended (KIP-1226); it is -1 where that is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ...protocol.errors import KafkaError, LeaderNotAvailable, UnsupportedVersion
from ...protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ...protocol.topics import TopicPartition
from ..api.error_mapping import kafka_error
from ..api.registry import handles
from ..api.request_context import Context
from ..controller.topology import Topic
from ..groups.share.share_group import ShareGroup
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType
from ..share_state.persister import NO_OFFSET, NOT_COUNTED, SharePartitionKey

UNKNOWN_LEADER_EPOCH = -1

Asked = DescribeShareGroupOffsetsRequest.Group
Answered = DescribeShareGroupOffsetsResponse.Group
Place = Answered.Topic.Partition


async def guard(call: Call) -> DescribeShareGroupOffsetsResponse:
    """Describe the groups that the client may describe, in the topics that it may describe."""
    describe_group, describe_topic = call.permissions
    request = call.request
    asks_for_all = {group.group_id for group in request.groups if group.topics is None}
    request.groups, denied = call.split(describe_group, request.groups, lambda group: group.group_id)
    refused: dict[int, list[Answered.Topic]] = {}
    for number, group in enumerate(request.groups):
        if group.topics is not None:
            group.topics, topics = call.split(describe_topic, group.topics, lambda topic: topic.topic_name)
            refused[number] = [_refused(topic, describe_topic.code) for topic in topics]
    answer: DescribeShareGroupOffsetsResponse = await call.serve()
    for number, described in enumerate(answer.groups):
        if number in refused:
            described.topics += refused[number]
        elif described.group_id in asks_for_all:
            described.topics = [
                topic for topic in described.topics if call.may(describe_topic, topic.topic_name, is_logged=False)
            ]
    answer.groups += [Answered(group_id=group.group_id, error_code=describe_group.code) for group in denied]
    return answer


def _refused(topic: Asked.Topic, code: int) -> Answered.Topic:
    partitions = [Place(partition_index=number, error_code=code) for number in topic.partitions]
    return Answered.Topic(topic_name=topic.topic_name, partitions=partitions)


@handles(
    DescribeShareGroupOffsetsRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP), each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, context: Context
) -> DescribeShareGroupOffsetsResponse:
    """Describe each group."""
    return DescribeShareGroupOffsetsResponse(groups=[await _describe(group, context) for group in request.groups])


async def _describe(asked: Asked, context: Context) -> Answered:
    try:
        if not context.services.offers_share_groups:
            raise UnsupportedVersion("share groups are not offered")
        if asked.topics is None:
            wanted = _initialized(asked.group_id, context)
        else:
            wanted = [(topic.topic_name, topic.partitions) for topic in asked.topics]
        topics = [await _topic(asked.group_id, name, numbers, context) for name, numbers in wanted]
    except Exception as failure:
        error = kafka_error(failure, f"describing the offsets of group {asked.group_id!r}")
        return Answered(group_id=asked.group_id, error_code=error.code, error_message=error.message)
    return Answered(group_id=asked.group_id, topics=topics)


def _initialized(group_id: str, context: Context) -> list[tuple[str, list[int]]]:
    """The partitions that a group has begun to read, by topic."""
    services = context.services
    services.groups.store.check(group_id)
    group = services.groups.groups.get(group_id)
    if not isinstance(group, ShareGroup):
        return []
    return [
        (topic.name, sorted(topic.partitions))
        for topic_id, topic in group.shown.partition_states.initialized.items()
        if services.controller.topic_by_id(topic_id) is not None
    ]


async def _topic(group_id: str, name: str, numbers: Iterable[int], context: Context) -> Answered.Topic:
    topic = context.services.controller.topic(name)
    if topic is None:
        return Answered.Topic(topic_name=name, partitions=[Place(partition_index=number) for number in numbers])
    places = await asyncio.gather(*(_place(group_id, topic, number, context) for number in numbers))
    return Answered.Topic(topic_name=name, topic_id=topic.id, partitions=[*places])


async def _place(group_id: str, topic: Topic, number: int, context: Context) -> Place:
    key = SharePartitionKey(group_id, topic.id, number)
    try:
        persister = context.services.groups.share.states.persister()
        summary = await persister.summary(key, UNKNOWN_LEADER_EPOCH)
    except KafkaError:  # as in Kafka, where the error is in the broker's log only
        return Place(partition_index=number)
    place = Place(partition_index=number, start_offset=summary.start_offset, leader_epoch=summary.leader_epoch)
    if (
        summary.start_offset == NO_OFFSET
        or number >= len(topic.partitions)
        or summary.delivery_complete_count == NOT_COUNTED
    ):
        return place
    end = _end_offset(topic, number, context)
    if end is None:
        place.error_code, place.error_message = LeaderNotAvailable.code, "the end of the partition is not known"
    else:
        place.lag = end - summary.start_offset - summary.delivery_complete_count
    return place


def _end_offset(topic: Topic, number: int, context: Context) -> int | None:
    """The high watermark of a partition, whichever broker leads it; None if its leader cannot be reached."""
    manager, place = context.services.replica_manager, TopicPartition(topic.name, number)
    leader = topic.partitions[number].leader
    if leader == manager.node_id:
        return manager.high_watermark(place)
    peer = manager.peers.get(leader)
    return None if peer is None else peer.replica_manager.high_watermark(place)
