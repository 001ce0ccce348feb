"""JoinGroup on the wire, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import error_name
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.broker.membership_requests import SESSION_MS, heartbeat, join, joined, sync
from support.until import until_async

EXAMPLE = JoinGroupRequest(
    group_id="readers",
    session_timeout_ms=10000,
    rebalance_timeout_ms=10000,
    member_id="",
    protocol_type="consumer",
    protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"")],
)

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_in_every_version(broker: BrokerServer, ask: Ask, version: int) -> None:
    first = await ask(broker, join(), version)
    assert error_name(first.error_code) == ("MEMBER_ID_REQUIRED" if version >= 4 else "NONE")
    assert first.member_id.startswith("test-")
    if version >= 4:
        assert (first.generation_id, first.leader, first.members) == (-1, "", [])
        assert first.protocol_name == (None if version >= 7 else "")
        first = await ask(broker, join(first.member_id), version)
    assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
    assert first.protocol_type == ("consumer" if version >= 7 else None)
    assert first.leader == first.member_id
    assert [(member.member_id, member.metadata) for member in first.members] == [(first.member_id, b"wishes")]
    assert not first.skip_assignment


async def test_in_version_0_the_rebalance_timeout_is_the_session_timeout(broker: BrokerServer, ask: Ask) -> None:
    await ask(broker, join(), 0)
    (member,) = broker.groups.groups["g"].members.values()
    assert member.rebalance_timeout_ms == SESSION_MS


async def test_of_a_protocol_that_is_named_twice_the_first_counts(broker: BrokerServer, ask: Ask) -> None:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=metadata) for metadata in (b"first", b"second")]
    answer = await joined(ask, broker, 9, protocols=protocols)
    assert [member.metadata for member in answer.members] == [b"first"]


@pytest.mark.parametrize("version", [5, 9])
async def test_a_static_member_needs_no_second_join(broker: BrokerServer, ask: Ask, version: int) -> None:
    answer = await ask(broker, join(group_instance_id="one"), version)
    assert error_name(answer.error_code) == "NONE"
    assert answer.member_id.startswith("one-")
    assert [member.group_instance_id for member in answer.members] == ["one"]


async def test_a_group_is_there_again_after_a_restart(
    broker: BrokerServer, start_broker: StartBroker, ask: Ask
) -> None:
    member = (await joined(ask, broker, 9)).member_id
    await ask(broker, sync(member))
    static = await joined(ask, broker, 9, group_id="h", group_instance_id="one")
    await ask(broker, sync(static.member_id, group_id="h", group_instance_id="one"))
    await broker.stop()
    again = await start_broker()
    assert error_name((await ask(again, heartbeat(member))).error_code) == "NONE"
    assert (await ask(again, sync(member))).assignment == b"share"
    back = await ask(again, join(group_id="h", group_instance_id="one"))
    assert (back.generation_id, back.skip_assignment, back.members[0].metadata) == (1, True, b"wishes")


@pytest.mark.sockets
async def test_a_connection_that_is_lost_takes_its_wait_along(broker: BrokerServer) -> None:
    """Nothing waits in the name of a client that is gone; the member stays until its session ends."""
    host, port = broker.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for version, request in ((3, join(group_id="g")), (3, join(group_id="g"))):
        body = b"".join(request.encode(version))
        header = b"\0\x0b" + version.to_bytes(2, "big") + b"\0\0\0\1\0\0"
        writer.write((len(header) + len(body)).to_bytes(4, "big") + header + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    await reader.readexactly(size)  # the first has joined; the second, of the same connection, waits for the first
    await until_async(lambda: len(broker.groups.groups["g"].members) == 2)
    assert broker.groups.groups["g"].joined == 1
    writer.close()
    await until_async(lambda: not broker.server.connections)
    assert not broker.server.connections
    assert len(broker.groups.groups["g"].members) == 2


async def test_a_broker_without_the_groups_topic_is_not_coordinator(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    answer = await ask(broker, join())
    assert error_name(answer.error_code) == "NOT_COORDINATOR"
