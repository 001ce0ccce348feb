"""Groups of consumers with their members, asked for many at a time: classic ones, and those of KIP-848."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kmini.client.cluster_connections import Coordinator
from kmini.client.errors import error_of
from kmini.client.group_descriptions import CONSUMER, Told, described
from kmini.doctor.asking import Brokers
from kmini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kmini.testkit.descriptions import GroupDescription, group_of

AT_A_TIME = 100
"""Groups in a request."""
CLASSIC = ("", "classic")
"""The types of the groups that DescribeGroups describes."""


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
                else:
                    coordinator = Coordinator(node_id, brokers.routes[node_id])
                    found[group.group_id] = group_of(described(group, coordinator, reads_subscriptions=True))

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
