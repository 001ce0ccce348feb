"""A group and its members, as its coordinator describes them.

DescribeGroups describes classic groups, and says of those of other types that there are none. Each other type has a
request of its own: consumer (KIP-848), share (KIP-932), streams (KIP-1071). A broker that is too old for a request has
no groups of its type.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from ..protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, subscribed_topics
from ..protocol.errors import GroupIdNotFound, MalformedMessage, UnsupportedVersion
from ..protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ..protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ..protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from ..protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ..protocol.messages.streams_group_describe import Assignment as Tasks
from ..protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from ..protocol.schema import Request
from ..protocol.topics import TopicPartition
from .cluster_connections import ClusterConnections, Coordinator
from .connection import Connection
from .deadline import Deadline
from .errors import check

STABLE = "Stable"
"""The state of a group in which no rebalance is in progress."""
EMPTY = "Empty"
DEAD = "Dead"
"""The states of a group without members. Below DescribeGroups v6 a group that does not exist is dead."""

CLASSIC = "classic"
CONSUMER = "consumer"
SHARE = "share"
STREAMS = "streams"
"""Types of groups, and group protocols of members."""

_MEMBER_TYPES = {0: CLASSIC}
"""By what a description tells; brokers that do not tell it yet have no classic members in such groups."""

Told = (
    DescribeGroupsResponse.Group
    | ConsumerGroupDescribeResponse.Group
    | ShareGroupDescribeResponse.Group
    | StreamsGroupDescribeResponse.Group
)
"""A group, as the request for its type tells it."""

_MODERN = (ConsumerGroupDescribeRequest, ShareGroupDescribeRequest, StreamsGroupDescribeRequest)
"""The requests for groups that are not classic."""


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    """Its assignment, with what it has not given up yet; empty if that is not in the format of consumers. In a streams
    group the partitions that its active tasks read."""
    type: str = CLASSIC
    """The group protocol that it speaks: "classic", "consumer", "share" or "streams"."""
    epoch: int | None = None
    """Its member epoch; None in a classic group."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that it is to have; None in a classic group, and in a share group, which does not tell it."""
    topics: tuple[str, ...] | None = None
    """The topics that it subscribes to by name; None in a classic group whose subscriptions were not read."""
    topic_regex: str = ""
    """The regular expression that it subscribes to; empty for none."""


class ShareGroupOffset(NamedTuple):
    """Where a share group is in a partition."""

    offset: int | None
    """The first offset whose delivery has not ended; None until a member has begun to read the partition."""
    lag: int | None
    """Offsets up to the end of the partition whose delivery has not ended; None if that is not known."""


class GroupDescription(NamedTuple):
    """A group and its members."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    """The name of the assignor, for consumers. Of a classic group it is empty unless the group is stable."""
    coordinator: Coordinator
    members: tuple[GroupMember, ...]
    type: str = CLASSIC
    """The group protocol: "classic", "consumer" (KIP-848), "share" (KIP-932) or "streams" (KIP-1071)."""
    epoch: int | None = None
    """The group epoch, which each change of members, subscriptions or topics raises; None of a classic group."""
    assignment_epoch: int | None = None
    """The group epoch that the target assignment was computed for; None of a classic group."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no members, so that offsets may be committed and deleted from outside."""
        return self.state in (EMPTY, DEAD)


async def describe_group(cluster: ClusterConnections, group_id: str, deadline: Deadline) -> GroupDescription:
    """See `Client.describe_group`."""

    async def attempt(connection: Connection) -> Told:
        try:
            return await _classic_group(connection, group_id, deadline)
        except GroupIdNotFound:
            for request in _MODERN:
                with contextlib.suppress(GroupIdNotFound, UnsupportedVersion):
                    return await _modern_group(connection, request(group_ids=[group_id]), deadline)
            raise

    told = await cluster.at_coordinator(group_id, deadline, attempt)
    group = described(told, await cluster.coordinator_of(group_id, deadline))
    return await _without_missing(cluster, group, deadline) if group.type == STREAMS else group


async def _without_missing(
    cluster: ClusterConnections, group: GroupDescription, deadline: Deadline
) -> GroupDescription:
    """A streams group whose members read no partitions that do not exist: of the topics of a subtopology, one may have
    fewer partitions than there are tasks."""
    topics = {topic for member in group.members for topic in member.topics or ()}
    if not topics:
        return group
    metadata = await cluster.refresh(sorted(topics), deadline)
    existing = {
        TopicPartition(topic.name or "", partition.partition_index)
        for topic in metadata.topics
        for partition in topic.partitions
    }
    members = tuple(
        member._replace(
            partitions=tuple(place for place in member.partitions if place in existing),
            target=tuple(place for place in member.target or () if place in existing),
        )
        for member in group.members
    )
    return group._replace(members=members)


async def _classic_group(connection: Connection, group_id: str, deadline: Deadline) -> DescribeGroupsResponse.Group:
    request = DescribeGroupsRequest(groups=[group_id])
    response: DescribeGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
    group = response.groups[0]
    check(group.error_code, group.error_message)
    if group.group_state == DEAD:
        raise GroupIdNotFound(f"there is no group {group_id}")
    return group


async def _modern_group(connection: Connection, request: Request, deadline: Deadline) -> Told:
    response: Any = await connection.send(request, timeout_ms=deadline.remaining_ms)
    group: Told = response.groups[0]
    check(group.error_code, group.error_message)
    return group


async def share_group_offsets(
    cluster: ClusterConnections, group_id: str, deadline: Deadline
) -> dict[TopicPartition, ShareGroupOffset]:
    """See `Client.share_group_offsets`."""

    async def attempt(connection: Connection) -> dict[TopicPartition, ShareGroupOffset]:
        Asked = DescribeShareGroupOffsetsRequest.Group
        request = DescribeShareGroupOffsetsRequest(groups=[Asked(group_id=group_id, topics=None)])
        response: DescribeShareGroupOffsetsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
        group = response.groups[0]
        check(group.error_code, group.error_message)
        found = {}
        for topic in group.topics:
            for answer in topic.partitions:
                offset, lag = (None if one < 0 else one for one in (answer.start_offset, answer.lag))
                found[TopicPartition(topic.topic_name, answer.partition_index)] = ShareGroupOffset(offset, lag)
        return dict(sorted(found.items()))

    return await cluster.at_coordinator(group_id, deadline, attempt)


def described(group: Told, coordinator: Coordinator, *, reads_subscriptions: bool = False) -> GroupDescription:
    """A group as its coordinator has told it. With `reads_subscriptions` the members of a classic group have the topics
    that they subscribe to."""
    if isinstance(group, ConsumerGroupDescribeResponse.Group):
        consumers = tuple(map(_consumer_member, group.members))
        return _modern(group, coordinator, CONSUMER, PROTOCOL_TYPE, group.assignor_name, consumers)
    if isinstance(group, ShareGroupDescribeResponse.Group):
        return _modern(group, coordinator, SHARE, SHARE, group.assignor_name, tuple(map(_share_member, group.members)))
    if isinstance(group, StreamsGroupDescribeResponse.Group):
        instances = tuple(_streams_member(group.topology, member) for member in group.members)
        return _modern(group, coordinator, STREAMS, STREAMS, "", instances)
    are_consumers = group.protocol_type == PROTOCOL_TYPE
    members = tuple(
        GroupMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host.removeprefix("/"),
            _assigned(member.member_assignment) if are_consumers else (),
            topics=_subscribed(member.member_metadata) if are_consumers and reads_subscriptions else None,
        )
        for member in group.members
    )
    return GroupDescription(
        group.group_id, group.group_state, group.protocol_type, group.protocol_data, coordinator, members
    )


def _modern(
    group: Any, coordinator: Coordinator, kind: str, protocol_type: str, assignor: str, members: tuple[GroupMember, ...]
) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        protocol_type,
        assignor,
        coordinator,
        members,
        kind,
        group.group_epoch,
        group.assignment_epoch,
    )


def _share_member(member: ShareGroupDescribeResponse.Group.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        None,
        member.client_id,
        member.client_host.removeprefix("/"),
        _places(member.assignment),
        SHARE,
        member.member_epoch,
        topics=tuple(sorted(member.subscribed_topic_names)),
    )


def _streams_member(
    topology: StreamsGroupDescribeResponse.Group.Topology | None, member: StreamsGroupDescribeResponse.Group.Member
) -> GroupMember:
    read = {
        one.subtopology_id: sorted({*one.source_topics, *(topic.name for topic in one.repartition_source_topics)})
        for one in (topology.subtopologies if topology is not None else None) or ()
    }
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        _read_by(member.assignment, read),
        STREAMS,
        member.member_epoch,
        _read_by(member.target_assignment, read),
        tuple(sorted({topic for topics in read.values() for topic in topics})),
    )


def _read_by(tasks: Tasks, read: Mapping[str, Collection[str]]) -> tuple[TopicPartition, ...]:
    """The partitions that active tasks read; a task reads the partition of its number of each topic."""
    return tuple(
        sorted(
            TopicPartition(topic, number)
            for task in tasks.active_tasks
            for topic in read.get(task.subtopology_id, ())
            for number in task.partitions
        )
    )


def _consumer_member(member: ConsumerGroupDescribeResponse.Group.Member) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        _places(member.assignment),
        _MEMBER_TYPES.get(member.member_type, CONSUMER),
        member.member_epoch,
        _places(member.target_assignment),
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or "",
    )


def _subscribed(metadata: bytes) -> tuple[str, ...]:
    """The topics of a subscription; none before the group has chosen its protocol."""
    try:
        return tuple(sorted(subscribed_topics(metadata)))
    except MalformedMessage:
        return ()


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        topics = read_assignment(assignment).assigned_partitions
    except MalformedMessage:
        return ()
    return tuple(sorted(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions))


def _places(assignment: Assignment) -> tuple[TopicPartition, ...]:
    topics = assignment.topic_partitions
    return tuple(sorted(TopicPartition(topic.topic_name, index) for topic in topics for index in topic.partitions))
