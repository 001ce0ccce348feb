"""DescribeGroups: state, members and authorized operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.protocol.errors import error_name
from kmini.protocol.messages.describe_groups import DescribeGroupsRequest
from kmini.protocol.messages.metadata import NOT_ASKED_FOR
from support.broker.groups_in_each_state import broker_with_groups

EXAMPLE = DescribeGroupsRequest(groups=["readers"])

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]

DESCRIBE, DELETE, READ = 8, 6, 3


@pytest.fixture
async def broker(start_broker: StartBroker, ask: Ask) -> BrokerServer:
    return await broker_with_groups(start_broker, ask)


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    names = ["stable", "joined", "empty", "simple", "absent", "stable"]
    answer = await ask(broker, DescribeGroupsRequest(groups=names, include_authorized_operations=version >= 3), version)
    described = {group.group_id: group for group in answer.groups}
    assert [*described] == names[:5]
    assert [group.group_state for group in answer.groups] == ["Stable", "CompletingRebalance", "Empty", "Empty", "Dead"]
    stable, joined, absent = described["stable"], described["joined"], described["absent"]
    assert (stable.protocol_type, stable.protocol_data) == ("consumer", "range")
    (member,) = stable.members
    assert (member.client_id, member.client_host) == ("test", "/192.0.2.7")
    assert (member.member_metadata, member.member_assignment) == (b"wishes", b"share")
    assert member.group_instance_id == ("one" if version >= 4 else None)
    assert (joined.protocol_type, joined.protocol_data) == ("consumer", "")
    assert [member.member_metadata for member in joined.members] == [b""]
    assert described["simple"].protocol_type == ""
    assert error_name(absent.error_code) == ("GROUP_ID_NOT_FOUND" if version >= 6 else "NONE")
    if version >= 3:
        assert stable.authorized_operations & (1 << DESCRIBE | 1 << DELETE | 1 << READ)
        assert (absent.authorized_operations == NOT_ASKED_FOR) == (version >= 6)
        unasked = await ask(broker, DescribeGroupsRequest(groups=["stable"]), version)
        assert unasked.groups[0].authorized_operations == NOT_ASKED_FOR


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    described = await ask(broker, DescribeGroupsRequest(groups=["g"]))
    assert error_name(described.groups[0].error_code) == "NOT_COORDINATOR"
