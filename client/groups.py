"""Consumer groups from outside: list, delete, committed offsets, and rebalances. `group_descriptions.py` describes
groups.

A request about one group goes to its coordinator (`ClusterConnections.at_coordinator`), a listing to every broker. The
client is no member of a group, but for the moment in which it begins a rebalance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..protocol.consumer_protocol import PROTOCOL_TYPE, VERSION_BYTES, ConsumerProtocolSubscription
from ..protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InconsistentGroupProtocol,
    KafkaError,
    MemberIdRequired,
    NotCoordinator,
    UnknownMemberId,
)
from ..protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ..protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ..protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ..protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ..protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ..protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ..protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ..protocol.schema import Request
from ..protocol.topics import TopicPartition
from ..protocol.uuids import format_uuid, random_uuid
from .cluster_connections import ClusterConnections
from .connection import Connection
from .deadline import Backoff, Deadline
from .errors import NoBrokerAnswers, check, error_of
from .group_descriptions import CLASSIC, CONSUMER, STABLE, GroupDescription, describe_group
from .topics import Outcomes

V = TypeVar("V")

ASK_ELSEWHERE = (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)
"""Errors of a partition that concern the coordinator, and so all partitions: the request is retried."""

JOINED_MS = 10_000
"""The session and the rebalance time-out of this client as a member."""

REASON = "a rebalance was asked for"
"""Why it joins and leaves, for the broker's log."""

LAST_VERSION_WITH_NAMES = 9
"""The last version of OffsetCommit and OffsetFetch with topic names. Later ones have topic ids, and a group may have
offsets of deleted topics."""


class GroupListing(NamedTuple):
    """A group in a list. State and type are empty where the broker is too old to tell."""

    group_id: str
    protocol_type: str
    """"consumer", or another use of groups. Empty for a group that only has committed offsets."""
    state: str
    type: str
    """The group protocol of its members: "classic", "consumer", "share" or "streams"."""


class CommittedOffset(NamedTuple):
    """The committed offset of a group in a partition."""

    offset: int
    """The offset of the next record to read."""
    metadata: str = ""
    leader_epoch: int = -1


PartitionOutcomes = dict[TopicPartition, "KafkaError | None"]
"""The error of each partition; None for success."""


async def list_groups(
    cluster: ClusterConnections, deadline: Deadline, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[GroupListing]:
    """See `Client.list_groups`."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))

    async def attempt(connection: Connection) -> list[GroupListing]:
        response: ListGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        return [GroupListing(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in response.groups]

    answers = await cluster.at_every_broker(deadline, attempt)
    return sorted({group.group_id: group for answer in answers.values() for group in answer}.values())


async def delete_groups(cluster: ClusterConnections, group_ids: Iterable[str], deadline: Deadline) -> Outcomes:
    """See `Client.delete_groups`. Raises NoBrokerAnswers."""

    async def delete(group_id: str) -> KafkaError | None:
        async def attempt(connection: Connection) -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            response: DeleteGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
            check(response.results[0].error_code)

        try:
            await cluster.at_coordinator(group_id, deadline, attempt)
        except NoBrokerAnswers:
            raise
        except KafkaError as error:
            return error
        return None

    wanted = list(dict.fromkeys(group_ids))
    return dict(zip(wanted, await asyncio.gather(*map(delete, wanted)), strict=True))


async def rebalance(cluster: ClusterConnections, group_id: str, deadline: Deadline) -> None:
    """See `Client.rebalance`."""
    group = await describe_group(cluster, group_id, deadline)
    if not group.members:
        raise UnknownMemberId(f"group {group_id} is {group.state}: a rebalance needs members")
    if group.type == CONSUMER:
        await _pass_by(cluster, group_id, deadline)
    elif group.type != CLASSIC or group.protocol_type != PROTOCOL_TYPE:
        raise InconsistentGroupProtocol(f"group {group_id} is one of {group.protocol_type}, not of consumers")
    elif group.state == STABLE:
        await _rejoin(cluster, group, deadline)


async def _rejoin(cluster: ClusterConnections, group: GroupDescription, deadline: Deadline) -> None:
    """Join a classic group, and leave before its members have joined again: these get all partitions between them."""
    subscription = b"".join(ConsumerProtocolSubscription(topics=[]).encode(0, bytearray(VERSION_BYTES)))
    request = JoinGroupRequest(
        group_id=group.group_id,
        session_timeout_ms=JOINED_MS,
        rebalance_timeout_ms=JOINED_MS,
        member_id="",
        protocol_type=group.protocol_type,
        protocols=[JoinGroupRequest.Protocol(name=group.protocol, metadata=subscription)],
        reason=REASON,
    )
    connection = await cluster.open_connection(group.coordinator.node_id, deadline)
    try:
        answer: JoinGroupResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        if answer.error_code != MemberIdRequired.code:  # below v4 the first request joins
            check(answer.error_code)
        request.member_id = answer.member_id
        joining = asyncio.ensure_future(connection.send(request, timeout_ms=deadline.remaining_ms))
        try:
            backoff = Backoff(deadline)
            while not joining.done() and (await describe_group(cluster, group.group_id, deadline)).state == STABLE:
                if not await backoff.pause():
                    break
            await _leave(cluster, group.group_id, answer.member_id, deadline)
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
    finally:
        await connection.close()


async def _leave(cluster: ClusterConnections, group_id: str, member_id: str, deadline: Deadline) -> None:
    member = LeaveGroupRequest.Member(member_id=member_id, reason=REASON)
    request = LeaveGroupRequest(group_id=group_id, member_id=member_id, members=[member])

    async def attempt(connection: Connection) -> None:
        response: LeaveGroupResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)

    await cluster.at_coordinator(group_id, deadline, attempt)


async def _pass_by(cluster: ClusterConnections, group_id: str, deadline: Deadline) -> None:
    """Join a consumer group without topics, and leave it: each raises its epoch, and its target is computed anew."""

    async def attempt(connection: Connection) -> None:
        member_id = format_uuid(random_uuid())
        for epoch in (0, -1):
            request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)
            if epoch == 0:
                request.rebalance_timeout_ms = JOINED_MS
                request.subscribed_topic_names, request.topic_partitions = [], []
            response: ConsumerGroupHeartbeatResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
            check(response.error_code, response.error_message)
            member_id = response.member_id or member_id

    await cluster.at_coordinator(group_id, deadline, attempt)


async def committed_offsets(
    cluster: ClusterConnections, group_id: str, deadline: Deadline
) -> dict[TopicPartition, CommittedOffset]:
    """See `Client.committed_offsets`."""
    request = OffsetFetchRequest(
        group_id=group_id, topics=None, groups=[OffsetFetchRequest.Group(group_id=group_id, topics=None)]
    )

    async def attempt(connection: Connection) -> dict[TopicPartition, CommittedOffset]:
        response: OffsetFetchResponse = await _send_with_names(connection, request, deadline)
        group = response.groups[0] if response.groups else response
        check(group.error_code)
        found = {}
        for topic in group.topics:
            for answer in topic.partitions:
                at = TopicPartition(topic.name, answer.partition_index)
                check(answer.error_code, str(at))
                if answer.committed_offset >= 0:
                    found[at] = CommittedOffset(
                        answer.committed_offset, answer.metadata or "", answer.committed_leader_epoch
                    )
        return dict(sorted(found.items()))

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def commit_offsets(
    cluster: ClusterConnections, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset], deadline: Deadline
) -> PartitionOutcomes:
    """See `Client.commit_offsets`."""
    Topic = OffsetCommitRequest.Topic
    topics = [
        Topic(
            name=name,
            partitions=[
                Topic.Partition(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    committed_metadata=committed.metadata,
                )
                for index, committed in partitions.items()
            ],
        )
        for name, partitions in _by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group_id, topics=topics)

    async def attempt(connection: Connection) -> PartitionOutcomes:
        response: OffsetCommitResponse = await _send_with_names(connection, request, deadline)
        return _outcomes(
            (topic.name, answer.partition_index, answer.error_code)
            for topic in response.topics
            for answer in topic.partitions
        )

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def delete_offsets(
    cluster: ClusterConnections, group_id: str, partitions: Iterable[TopicPartition], deadline: Deadline
) -> PartitionOutcomes:
    """See `Client.delete_offsets`."""
    Topic = OffsetDeleteRequest.Topic
    topics = [
        Topic(name=name, partitions=[Topic.Partition(partition_index=index) for index in indexes])
        for name, indexes in _by_topic(dict.fromkeys(partitions)).items()
    ]
    request = OffsetDeleteRequest(group_id=group_id, topics=topics)

    async def attempt(connection: Connection) -> PartitionOutcomes:
        response: OffsetDeleteResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        check(response.error_code)
        return _outcomes(
            (topic.name, answer.partition_index, answer.error_code)
            for topic in response.topics
            for answer in topic.partitions
        )

    return await cluster.at_coordinator(group_id, deadline, attempt)


async def _send_with_names(connection: Connection, request: Request, deadline: Deadline) -> Any:
    version = min(connection.version_for(type(request)), LAST_VERSION_WITH_NAMES)
    return await connection.send(request, version=version, timeout_ms=deadline.remaining_ms)


def _by_topic(partitions: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = {}
    for (name, index), value in partitions.items():
        topics.setdefault(name, {})[index] = value
    return topics


def _outcomes(answers: Iterable[tuple[str, int, int]]) -> PartitionOutcomes:
    """Collect the outcomes by partition. Raises an error that concerns the coordinator, so that the request is
    retried."""
    outcomes: PartitionOutcomes = {}
    for name, index, code in answers:
        error = error_of(code)
        if isinstance(error, ASK_ELSEWHERE):
            raise error
        outcomes[TopicPartition(name, index)] = error
    return outcomes
