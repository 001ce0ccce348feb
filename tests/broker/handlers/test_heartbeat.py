"""Heartbeat on the wire, in every version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import error_name
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.broker.membership_requests import heartbeat, joined

EXAMPLE = HeartbeatRequest(group_id="readers", generation_id=1, member_id="x")

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.mark.parametrize("version", range(5))
async def test_a_heartbeat_is_heard_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    member = (await joined(ask, broker, 9)).member_id
    errors = [
        error_name((await ask(broker, request, version)).error_code)
        for request in (
            heartbeat(member),
            heartbeat(member, 7),
            heartbeat("someone"),
            heartbeat(member, group_id="h"),
            heartbeat(member, group_id=""),
        )
    ]
    assert errors == ["NONE", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "INVALID_GROUP_ID"]


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    answer = await ask(broker, heartbeat("me"))
    assert error_name(answer.error_code) == "NOT_COORDINATOR"
