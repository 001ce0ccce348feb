"""A consumer group and its members, as its coordinator describes them.

DescribeGroups describes classic groups, and says of those of the consumer protocol (KIP-848) that there are none;
ConsumerGroupDescribe does it the other way round. A broker that is too old for the latter has classic groups only.
"""

from __future__ import annotations

from typing import NamedTuple

from ..protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, subscribed_topics
from ..protocol.errors import GroupIdNotFound, MalformedMessage, UnsupportedVersion
from ..protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from ..protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
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
"""Types of groups, and group protocols of members."""

_MEMBER_TYPES = {0: CLASSIC}
"""By what a description tells; brokers that do not tell it yet have no classic members in such groups."""

Told = DescribeGroupsResponse.Group | ConsumerGroupDescribeResponse.Group
"""A group, as the request for its kind tells it."""


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    """Its assignment, with what it has not given up yet; empty if that is not in the format of consumers."""
    type: str = CLASSIC
    """The group protocol that it speaks: "classic" or "consumer"."""
    epoch: int | None = None
    """Its member epoch; None in a classic group."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that it is to have; None in a classic group."""
    topics: tuple[str, ...] | None = None
    """The topics that it subscribes to by name; None in a classic group whose subscriptions were not read."""
    topic_regex: str = ""
    """The regular expression that it subscribes to; empty for none."""


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
    """The group protocol: "classic" or "consumer" (KIP-848)."""
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
        except GroupIdNotFound as missing:
            try:
                return await _consumer_group(connection, group_id, deadline)
            except (GroupIdNotFound, UnsupportedVersion):
                raise missing from None

    group = await cluster.at_coordinator(group_id, deadline, attempt)
    return described(group, await cluster.coordinator_of(group_id, deadline))


async def _classic_group(connection: Connection, group_id: str, deadline: Deadline) -> DescribeGroupsResponse.Group:
    request = DescribeGroupsRequest(groups=[group_id])
    response: DescribeGroupsResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
    group = response.groups[0]
    check(group.error_code, group.error_message)
    if group.group_state == DEAD:
        raise GroupIdNotFound(f"there is no group {group_id}")
    return group


async def _consumer_group(
    connection: Connection, group_id: str, deadline: Deadline
) -> ConsumerGroupDescribeResponse.Group:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id])
    response: ConsumerGroupDescribeResponse = await connection.send(request, timeout_ms=deadline.remaining_ms)
    group = response.groups[0]
    check(group.error_code, group.error_message)
    return group


def described(group: Told, coordinator: Coordinator, *, reads_subscriptions: bool = False) -> GroupDescription:
    """A group as its coordinator has told it. With `reads_subscriptions` the members of a classic group have the topics
    that they subscribe to."""
    if isinstance(group, ConsumerGroupDescribeResponse.Group):
        return GroupDescription(
            group.group_id,
            group.group_state,
            PROTOCOL_TYPE,
            group.assignor_name,
            coordinator,
            tuple(map(_consumer_member, group.members)),
            CONSUMER,
            group.group_epoch,
            group.assignment_epoch,
        )
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
