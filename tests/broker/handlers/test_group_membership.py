"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup as they go over the wire, in every version."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.protocol.errors import error_name
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.leave_group import LeaveGroupRequest
from kmini.protocol.messages.sync_group import SyncGroupRequest
from kmini.protocol.topics import CONSUMER_OFFSETS

StartBroker = Callable[..., Awaitable[Broker]]
Ask = Callable[..., Awaitable[Any]]

SESSION_MS = 10_000


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


def join(member_id: str = "", *, metadata: bytes = b"wishes", **fields: Any) -> JoinGroupRequest:
    wanted = {
        "group_id": "g",
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequest.Protocol(name="range", metadata=metadata)],
    }
    return JoinGroupRequest(**{**wanted, **fields})


def sync(member_id: str, generation: int = 1, **fields: Any) -> SyncGroupRequest:
    shares = [SyncGroupRequest.Assignment(member_id=member_id, assignment=b"share")]
    return SyncGroupRequest(
        **{
            "group_id": "g",
            "generation_id": generation,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": shares,
            **fields,
        }
    )


def heartbeat(member_id: str, generation: int = 1, **fields: Any) -> HeartbeatRequest:
    return HeartbeatRequest(**{"group_id": "g", "generation_id": generation, "member_id": member_id, **fields})


def leave(*members: str | tuple[str, str | None], version: int = 5) -> LeaveGroupRequest:
    if version < 3:
        (member_id,) = members
        return LeaveGroupRequest(group_id="g", member_id=member_id)
    pairs = [(member, None) if isinstance(member, str) else member for member in members]
    return LeaveGroupRequest(
        group_id="g",
        members=[LeaveGroupRequest.Member(member_id=name, group_instance_id=instance) for name, instance in pairs],
    )


async def joined(ask: Ask, broker: Broker, version: int, **fields: Any) -> Any:
    """The answer to a member that joins, the second time if need be."""
    answer = await ask(broker, join(**fields), version)
    if error_name(answer.error_code) == "MEMBER_ID_REQUIRED":
        answer = await ask(broker, join(answer.member_id, **fields), version)
    return answer


@pytest.mark.parametrize("version", range(10))
async def test_a_member_joins_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
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


async def test_in_version_0_the_rebalance_timeout_is_the_session_timeout(broker: Broker, ask: Ask) -> None:
    await ask(broker, join(), 0)
    (member,) = broker.groups.groups["g"].members.values()
    assert member.rebalance_timeout_ms == SESSION_MS


async def test_of_a_protocol_that_is_named_twice_the_first_counts(broker: Broker, ask: Ask) -> None:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=metadata) for metadata in (b"first", b"second")]
    answer = await joined(ask, broker, 9, protocols=protocols)
    assert [member.metadata for member in answer.members] == [b"first"]


@pytest.mark.parametrize("version", [5, 9])
async def test_a_static_member_needs_no_second_join(broker: Broker, ask: Ask, version: int) -> None:
    answer = await ask(broker, join(group_instance_id="one"), version)
    assert error_name(answer.error_code) == "NONE"
    assert answer.member_id.startswith("one-")
    assert [member.group_instance_id for member in answer.members] == ["one"]


@pytest.mark.parametrize("version", range(6))
async def test_a_member_gets_its_share_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
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


@pytest.mark.parametrize("version", range(5))
async def test_a_heartbeat_is_heard_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
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


@pytest.mark.parametrize("version", range(6))
async def test_a_member_leaves_in_every_version(broker: Broker, ask: Ask, version: int) -> None:
    member = (await joined(ask, broker, 9)).member_id
    for expected in ("NONE", "UNKNOWN_MEMBER_ID"):
        answer = await ask(broker, leave(member, version=version), version)
        errors = [one.error_code for one in answer.members] if version >= 3 else [answer.error_code]
        assert [*map(error_name, errors)] == [expected]
    assert not broker.groups.groups["g"].members


async def test_many_leave_at_once_and_each_is_told_its_own(broker: Broker, ask: Ask) -> None:
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
async def test_nobody_leaves_a_group_that_there_is_not(broker: Broker, ask: Ask, version: int) -> None:
    answer = await ask(broker, leave("someone", version=version), version)
    errors = [one.error_code for one in answer.members] if version >= 3 else [answer.error_code]
    assert [*map(error_name, errors)] == ["UNKNOWN_MEMBER_ID"]
    assert (answer.error_code == 0) == (version >= 3)


async def test_nobody_is_a_member_before_there_is_a_place_to_keep_groups(start_broker: StartBroker, ask: Ask) -> None:
    broker = await start_broker()
    for request in (join(), sync("me"), heartbeat("me"), leave("me")):
        answer = await ask(broker, request)
        assert error_name(answer.error_code) == "NOT_COORDINATOR"


async def test_a_group_is_there_again_after_a_restart(broker: Broker, start_broker: StartBroker, ask: Ask) -> None:
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


async def test_a_connection_that_is_lost_takes_its_wait_along(broker: Broker) -> None:
    """Nothing waits in the name of a client that is gone; the member stays until its session ends."""
    host, port = broker.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for version, request in ((3, join(group_id="g")), (3, join(group_id="g"))):
        body = b"".join(request.encode(version))
        header = b"\0\x0b" + version.to_bytes(2, "big") + b"\0\0\0\1\0\0"
        writer.write((len(header) + len(body)).to_bytes(4, "big") + header + body)
    size = int.from_bytes(await reader.readexactly(4), "big")
    await reader.readexactly(size)  # the first has joined; the second, of the same connection, waits for the first
    for _ in range(3_000):
        if len(broker.groups.groups["g"].members) == 2:
            break
        await asyncio.sleep(0.01)
    assert broker.groups.groups["g"].joined == 1
    writer.close()
    for _ in range(3_000):
        if not broker.server.connections:
            break
        await asyncio.sleep(0.01)
    assert not broker.server.connections
    assert len(broker.groups.groups["g"].members) == 2
