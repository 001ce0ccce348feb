"""Groups of consumers with their members, asked for many at a time: classic ones, and those of KIP-848."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kmini.client.errors import error_of
from kmini.client.group_descriptions import CONSUMER, consumer_member
from kmini.doctor.asking import Brokers
from kmini.protocol.consumer_protocol import PROTOCOL_TYPE, read_assignment, subscribed_topics
from kmini.protocol.errors import MalformedMessage
from kmini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kmini.protocol.topics import TopicPartition
from kmini.testkit.descriptions import GroupDescription, GroupMember, consumer_of

AT_A_TIME = 100
"""Groups in a request."""
CLASSIC = ("", "classic")
"""The types of the groups that DescribeGroups describes."""

Told = DescribeGroupsResponse.Group | ConsumerGroupDescribeResponse.Group
"""A group, as the request for its kind tells it."""


class Listed(NamedTuple):
    """A group in a list, and the broker that coordinates it."""

    name: str
    node_id: int
    type: str
    state: str

    @property
    def is_described(self) -> bool:
        """Whether a request tells its members."""
        return self.type.lower() in (*CLASSIC, CONSUMER)


async def describe(brokers: Brokers, listed: Sequence[Listed]) -> dict[str, GroupDescription]:
    """Those of the groups whose members a request tells, by name. A group without an answer is missing, and a finding
    says so."""
    found: dict[str, GroupDescription] = {}

    async def at(node_id: int, names: Sequence[str], is_classic: bool) -> None:
        for begin in range(0, len(names), AT_A_TIME):
            some = [*names[begin : begin + AT_A_TIME]]
            for group in await _told(brokers, node_id, some, is_classic):
                error = error_of(group.error_code, group.error_message)
                if error is not None:
                    brokers.refused(error, "members", f"group {group.group_id!r}")
                elif isinstance(group, DescribeGroupsResponse.Group):
                    found[group.group_id] = _described_classic(group, node_id)
                else:
                    found[group.group_id] = _described_consumers(group, node_id)

    classic = [one for one in listed if one.type.lower() in CLASSIC]
    consumer = [one for one in listed if one.type.lower() == CONSUMER]
    await asyncio.gather(
        *(at(node_id, names, is_classic=True) for node_id, names in by_coordinator(classic).items()),
        *(at(node_id, names, is_classic=False) for node_id, names in by_coordinator(consumer).items()),
    )
    return found


async def _told(brokers: Brokers, node_id: int, names: list[str], is_classic: bool) -> Sequence[Told]:
    if is_classic:
        classic: DescribeGroupsResponse | None = await brokers.ask(
            node_id, DescribeGroupsRequest(groups=names), "members of groups"
        )
        return classic.groups if classic is not None else ()
    consumer: ConsumerGroupDescribeResponse | None = await brokers.ask(
        node_id, ConsumerGroupDescribeRequest(group_ids=names), "members of groups"
    )
    return consumer.groups if consumer is not None else ()


def by_coordinator(listed: Sequence[Listed]) -> dict[int, list[str]]:
    """The names of groups by the broker that coordinates them."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for one in listed:
        found[one.node_id].append(one.name)
    return found


def _described_classic(group: DescribeGroupsResponse.Group, node_id: int) -> GroupDescription:
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    members = [
        GroupMember(
            one.member_id,
            one.client_id,
            one.client_host.removeprefix("/"),
            one.group_instance_id,
            _topics(one.member_metadata) if is_consumer else (),
            _assigned(one.member_assignment) if is_consumer else (),
        )
        for one in group.members
    ]
    return GroupDescription(
        group.group_id, "classic", group.group_state, -1, group.protocol_data or None, tuple(members), node_id
    )


def _described_consumers(group: ConsumerGroupDescribeResponse.Group, node_id: int) -> GroupDescription:
    members = tuple(consumer_of(consumer_member(member)) for member in group.members)
    return GroupDescription(
        group.group_id,
        CONSUMER,
        group.group_state,
        group.group_epoch,
        group.assignor_name if members else None,
        members,
        node_id,
        group.assignment_epoch,
    )


def _topics(metadata: bytes) -> tuple[str, ...]:
    """The topics of a subscription; none before the group has chosen its protocol."""
    with contextlib.suppress(MalformedMessage):
        return tuple(sorted(subscribed_topics(metadata)))
    return ()


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    with contextlib.suppress(MalformedMessage):
        topics = read_assignment(assignment).assigned_partitions
        return tuple(sorted(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions))
    return ()
