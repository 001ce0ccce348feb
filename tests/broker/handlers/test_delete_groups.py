"""DeleteGroups: groups without members go, with their offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import error_name
from kmini.protocol.messages.delete_groups import DeleteGroupsRequest
from kmini.protocol.messages.list_groups import ListGroupsRequest
from kmini.protocol.messages.offset_fetch import OffsetFetchRequest
from support.broker.groups_in_each_state import broker_with_groups

EXAMPLE = DeleteGroupsRequest(groups_names=["readers"])

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    return await broker_with_groups(start_broker, ask)


@pytest.mark.parametrize("version", range(3))
async def test_groups_without_members_are_deleted_with_their_offsets(
    broker: BrokerServer, start_broker: StartBroker, ask: Ask, version: int
) -> None:
    names = ["stable", "empty", "absent", "simple", "empty"]
    answer = await ask(broker, DeleteGroupsRequest(groups_names=names), version)
    assert {result.group_id: error_name(result.error_code) for result in answer.results} == {
        "stable": "NON_EMPTY_GROUP",
        "empty": "NONE",
        "absent": "GROUP_ID_NOT_FOUND",
        "simple": "NONE",
    }
    await broker.stop()
    again = await start_broker()
    listed = await ask(again, ListGroupsRequest())
    assert sorted(group.group_id for group in listed.groups) == ["joined", "stable"]
    fetched = await ask(again, OffsetFetchRequest(group_id="simple", topics=None), 7)
    assert fetched.topics == []


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    deleted = await ask(broker, DeleteGroupsRequest(groups_names=["g"]))
    assert error_name(deleted.results[0].error_code) == "NOT_COORDINATOR"
