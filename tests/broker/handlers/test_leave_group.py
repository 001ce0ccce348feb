"""LeaveGroup on the wire, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import error_name
from kmini.protocol.messages.leave_group import LeaveGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.broker.membership_requests import join, joined, leave

EXAMPLE = LeaveGroupRequest(group_id="readers", member_id="x", members=[LeaveGroupRequest.Member(member_id="x")])

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.mark.parametrize("version", range(6))
async def test_a_member_leaves_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    member = (await joined(ask, broker, 9)).member_id
    for expected in ("NONE", "UNKNOWN_MEMBER_ID"):
        answer = await ask(broker, leave(member, version=version), version)
        errors = [one.error_code for one in answer.members] if version >= 3 else [answer.error_code]
        assert [*map(error_name, errors)] == [expected]
    assert not broker.groups.groups["g"].members


async def test_many_members_leave_at_once_each_with_its_own_outcome(broker: BrokerServer, ask: Ask) -> None:
    dynamic, static = await asyncio.gather(ask(broker, join(), 3), ask(broker, join(group_instance_id="static"), 9))
    wanted = [dynamic.member_id, ("", "static"), "someone", ("someone", "static"), *["nobody"] * 2_000]
    answer = await ask(broker, leave(*wanted), 5)
    assert [error_name(one.error_code) for one in answer.members[:4]] == [
        "NONE",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert len(answer.members) == len(wanted)
    assert answer.members[1].group_instance_id == "static"
    assert static.member_id not in broker.groups.groups["g"].members


@pytest.mark.parametrize("version", [2, 5])
async def test_no_member_leaves_an_unknown_group(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, leave("someone", version=version), version)
    errors = [one.error_code for one in answer.members] if version >= 3 else [answer.error_code]
    assert [*map(error_name, errors)] == ["UNKNOWN_MEMBER_ID"]
    assert (answer.error_code == 0) == (version >= 3)


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    answer = await ask(broker, leave("me"))
    assert error_name(answer.error_code) == "NOT_COORDINATOR"
