"""SyncGroup on the wire, in every version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import error_name
from kmini.protocol.messages.sync_group import SyncGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.broker.membership_requests import joined, sync

EXAMPLE = SyncGroupRequest(
    group_id="readers", generation_id=1, member_id="x", protocol_type="consumer", protocol_name="range"
)

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.mark.parametrize("version", range(6))
async def test_a_member_gets_its_share_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    member = (await joined(ask, broker, 9)).member_id
    answer = await ask(broker, sync(member), version)
    assert (answer.error_code, answer.assignment) == (0, b"share")
    assert (answer.protocol_type, answer.protocol_name) == (("consumer", "range") if version >= 5 else (None, None))
    late = await ask(broker, sync(member, 0), version)
    assert error_name(late.error_code) == "ILLEGAL_GENERATION"
    if version >= 5:
        for other in ({"protocol_name": "sticky"}, {"protocol_type": None}, {"protocol_name": None}):
            refused = await ask(broker, sync(member, **other), version)
            assert error_name(refused.error_code) == "INCONSISTENT_GROUP_PROTOCOL"


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    answer = await ask(broker, sync("me"))
    assert error_name(answer.error_code) == "NOT_COORDINATOR"
