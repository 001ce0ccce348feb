"""ListGroups: filters by state (KIP-518) and type (KIP-848); the metrics count the same states."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.metrics_text import metrics_text
from kmini.protocol.messages.list_groups import ListGroupsRequest
from support.broker.groups_in_each_state import broker_with_groups

EXAMPLE = ListGroupsRequest()

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    return await broker_with_groups(start_broker, ask)


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, ListGroupsRequest(), version)
    listed = {group.group_id: group for group in answer.groups}
    assert {name: group.protocol_type for name, group in listed.items()} == {
        "stable": "consumer",
        "joined": "consumer",
        "empty": "",
        "simple": "",
    }
    assert listed["stable"].group_state == ("Stable" if version >= 4 else "")
    assert listed["stable"].group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize(
    ("states", "types", "names"),
    [
        (["Stable"], [], ["stable"]),
        (["sTABLE ", "empty"], [], ["empty", "simple", "stable"]),
        (["nonsense"], [], []),
        ([], ["Classic"], ["empty", "joined", "simple", "stable"]),
        ([], ["consumer"], []),
        ([], ["nonsense"], []),
        (["CompletingRebalance"], ["consumer", "classic"], ["joined"]),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    broker: BrokerServer, ask: Ask, states: list[str], types: list[str], names: list[str]
) -> None:
    answer = await ask(broker, ListGroupsRequest(states_filter=states, types_filter=types))
    assert sorted(group.group_id for group in answer.groups) == names


async def test_metrics_count_groups_by_state_and_rebalances(broker: BrokerServer) -> None:
    lines = metrics_text(broker).splitlines()
    manager = "kafka_coordinator_group_groupmetadatamanager"
    for line in (
        f"{manager}_numgroups 4.0",
        f"{manager}_numgroupsstable 1.0",
        f"{manager}_numgroupscompletingrebalance 1.0",
        f"{manager}_numgroupspreparingrebalance 0.0",
        f"{manager}_numgroupsempty 2.0",
        f"{manager}_numoffsets 2.0",
        "kafka_server_group_coordinator_metrics_group_completed_rebalance_count 1.0",
    ):
        assert line in lines


async def test_a_broker_without_the_groups_topic_lists_none(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    assert (await ask(broker, ListGroupsRequest())).groups == []
