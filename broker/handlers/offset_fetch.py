"""OffsetFetch, versions 0 to 10: return the committed offsets of groups.

An answer has the offsets below the high watermark. With `require_stable` (version 7, KIP-447) it has all offsets in the
log, and waits until the replicas have them; an offset that an open transaction is about to replace is
UNSTABLE_OFFSET_COMMIT. A partition without a committed offset, and an unknown group, is no error: its offset is -1.
From version 2 on null asks for all partitions with a committed offset. From version 8 on a request may ask for many
groups, each with its own error.

From version 10 on the request gives topics by id, and an offset committed for another topic of the same name does not
count. Member id and epoch (version 9) belong to the consumer protocol (KIP-848) and are ignored for a classic group.
Apache Kafka 4 has no version 0, and 3.9 looks into ZooKeeper for it; here it is like version 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...protocol.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    KafkaError,
    NotCoordinator,
    UnknownTopicId,
    UnstableOffsetCommit,
)
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from ..api.registry import handles
from ..api.request_context import Context
from ..groups.committed_offsets import CommittedOffset, CommittedOffsets
from ..scheduler import Turn
from ..security.guarding import Call
from ..security.permission_kinds import each
from ..security.resources import AclOperation, ResourceType

GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10
GROUP_ERROR_SINCE = 2
"""The first version with an error code for the group. Before it each partition carries the error."""

MOST_UNNAMED = 1_000_000
"""Offsets that a request may be answered with that it does not name: a few bytes name a group, and a request may name
it many times."""

Request = OffsetFetchRequest.Group
Answer = OffsetFetchResponse.Group
Topic = OffsetFetchResponse.Group.Topic
Partition = OffsetFetchResponse.Group.Topic.Partition


async def guard(call: Call) -> Any:
    """Refuse each group, and in it each named topic, that the client may not describe. A group asked for without
    topics shows only those that it may describe."""
    if call.context.version < GROUPS_SINCE:
        return await _guard_one_group(call)
    describe, describe_topic = call.permissions
    request = call.request
    request.groups, denied = call.split(describe, request.groups, lambda group: group.group_id)
    refused: dict[str, list[Any]] = {}
    asked_for_all = set()
    for group in request.groups:
        if group.topics is None:
            asked_for_all.add(group.group_id)
        else:
            group.topics, refused[group.group_id] = call.split(
                describe_topic, group.topics, lambda topic: call.topic_name(topic, topic.name)
            )
    answer = await call.serve() if request.groups else OffsetFetchResponse(groups=[])
    Group = OffsetFetchResponse.Group
    for group in answer.groups:
        if group.group_id in asked_for_all:
            group.topics = _shown(call, group.topics)
        elif not group.error_code:
            group.topics += _not_fetched(Group.Topic, refused[group.group_id], describe_topic.code)
    answer.groups += [Group(group_id=group.group_id, topics=[], error_code=describe.code) for group in denied]
    return answer


async def _guard_one_group(call: Call) -> Any:
    describe, describe_topic = call.permissions
    request = call.request
    Topic = OffsetFetchResponse.Topic
    if not call.may(describe, request.group_id):
        if call.context.version < GROUP_ERROR_SINCE:
            return OffsetFetchResponse(topics=_not_fetched(Topic, request.topics or [], describe.code))
        return OffsetFetchResponse(topics=[], error_code=describe.code)
    answer: OffsetFetchResponse
    if request.topics is None:
        answer = await call.serve()
        answer.topics = _shown(call, answer.topics)
        return answer
    request.topics, denied = call.split(describe_topic, request.topics, lambda topic: topic.name)
    answer = await call.serve()
    if not answer.error_code:
        answer.topics = [*(answer.topics or ()), *_not_fetched(Topic, denied, describe_topic.code)]
    return answer


def _shown(call: Call, topics: list[Any]) -> list[Any]:
    describe_topic = call.permissions[1]
    shown = []
    for topic in topics:
        name = call.topic_name(topic, topic.name)
        if name is not None and call.may(describe_topic, name, is_logged=False):
            shown.append(topic)
    return shown


def _not_fetched(kind: Any, topics: list[Any], code: int) -> list[Any]:
    refused = []
    for topic in topics:
        partitions = [kind.Partition(partition_index=number, error_code=code) for number in topic.partition_indexes]
        given = {"topic_id": topic.topic_id} if kind is OffsetFetchResponse.Group.Topic else {}
        refused.append(kind(name=topic.name, partitions=partitions, **given))
    return refused


@handles(
    OffsetFetchRequest,
    needs=[each(AclOperation.DESCRIBE, ResourceType.GROUP), each(AclOperation.DESCRIBE, ResourceType.TOPIC)],
    guard=guard,
)
async def offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Answer for each group in the form of the newest version. Older versions ask for a single group."""
    reader = Reader(context, require_stable=request.require_stable)
    if context.version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=[await reader.answer(group) for group in request.groups])
    topics = request.topics
    asked = Request(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [Request.Topic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    answer = await reader.answer(asked)
    if answer.error_code and context.version < GROUP_ERROR_SINCE:
        answer.topics = [_topic_error(topic, answer.error_code) for topic in asked.topics or ()]
    return OffsetFetchResponse(error_code=answer.error_code, topics=[_of_one_group(topic) for topic in answer.topics])


class Reader:
    """Reads the offsets that one request asks for."""

    def __init__(self, context: Context, *, require_stable: bool) -> None:
        self._context = context
        self._require_stable = require_stable
        self._turn = Turn()
        self._room = MOST_UNNAMED

    async def answer(self, asked: Request) -> Answer:
        """The committed offsets of one group."""
        coordinator = self._context.services.groups
        answer = Answer(group_id=asked.group_id)
        try:
            if self._context.version == 0:
                coordinator.store.coordinator_of(asked.group_id)  # such clients never ask FindCoordinator
            coordinator.store.check(asked.group_id, allow_empty=True)
            group = coordinator.groups.get(asked.group_id)
            if group is not None:
                group.check_fetch(asked.member_id, asked.member_epoch)
            offsets = CommittedOffsets() if group is None else group.offsets
            topics = await (self._everything(offsets) if asked.topics is None else self._these(asked, offsets))
            if self._require_stable:
                await coordinator.store.replicated(asked.group_id)
            answer.topics = topics
        except CoordinatorNotAvailable:
            answer.error_code = NotCoordinator.code  # as Apache Kafka answers: older consumers know no other one
        except KafkaError as error:
            answer.error_code = error.code
        return answer

    async def _everything(self, offsets: CommittedOffsets) -> list[Topic]:
        """All committed offsets. Where topics go by their ids, deleted topics are left out, as in Kafka."""
        by_topic = offsets.by_topic if self._require_stable else offsets.shown_by_topic()
        self._room -= sum(map(len, by_topic.values()))
        if self._room < 0:
            raise InvalidRequest(f"these groups have more than {MOST_UNNAMED} offsets; ask for fewer groups at a time")
        answers = []
        for name, partitions in list(by_topic.items()):
            topic_id = self._id_of(name, partitions.values())
            if self._context.version >= TOPIC_IDS_SINCE and topic_id == ZERO_UUID:
                continue
            answers.append(
                Topic(name=name, topic_id=topic_id, partitions=await self._read(offsets, name, list(partitions)))
            )
        return answers

    def _id_of(self, name: str, committed: Iterable[CommittedOffset]) -> bytes:
        known = next((offset.topic_id for offset in committed if offset.topic_id != ZERO_UUID), ZERO_UUID)
        topic = self._context.services.controller.topic(name)
        return topic.id if known == ZERO_UUID and topic is not None else known

    async def _these(self, asked: Request, offsets: CommittedOffsets) -> list[Topic]:
        answers, unknown = [], []
        for topic in asked.topics or ():
            name = topic.name
            if self._context.version >= TOPIC_IDS_SINCE:
                try:
                    name = self._context.services.replica_manager.topic_name(topic.topic_id)
                except UnknownTopicId as error:
                    unknown.append(_topic_error(topic, error.code))
                    continue
            partitions = await self._read(offsets, name, topic.partition_indexes, topic.topic_id)
            answers.append(Topic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return answers + unknown  # in Kafka's order

    async def _read(
        self, offsets: CommittedOffsets, name: str, numbers: Sequence[int], topic_id: bytes = ZERO_UUID
    ) -> list[Partition]:
        must_be_stable = self._require_stable and offsets.has_pending
        read = offsets.get if self._require_stable else offsets.shown
        answers = []
        for number in numbers:
            if self._turn.is_over:
                await self._turn.next()
            topic_partition = TopicPartition(name, number)
            if must_be_stable and offsets.is_pending(topic_partition):
                answers.append(Partition(partition_index=number, error_code=UnstableOffsetCommit.code))
                continue
            committed = read(topic_partition)
            if committed is None or committed.is_of_another_topic(topic_id):
                answers.append(Partition(partition_index=number))
                continue
            answers.append(
                Partition(
                    partition_index=number,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                )
            )
        return answers


def _topic_error(topic: Request.Topic, error_code: int) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[Partition(partition_index=number, error_code=error_code) for number in topic.partition_indexes],
    )


def _of_one_group(topic: Topic) -> OffsetFetchResponse.Topic:
    """The answer in the form of the versions below 8."""
    return OffsetFetchResponse.Topic(
        name=topic.name,
        partitions=[
            OffsetFetchResponse.Partition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
