"""One member of a group: its protocols, its successor, and the answers that it waits for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kmini.broker.coordinators.coordinator_topic import MAX_NAME_BYTES
from kmini.broker.groups.classic.member import Joining, JoinResult, Member, SyncResult
from support.broker.group_lab import Lab


def a_member(**changes: Any) -> Member:
    fields = {"instance_id": "i", "client_id": "c", "client_host": "/192.0.2.1"}
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000}
    return Member("m", **{**fields, **times, "protocols": {"range": b"r", "sticky": b"s"}, **changes})


async def test_other_metadata_or_another_order_of_protocols_change_a_member(lab: Lab) -> None:
    ids = await lab.form("a", "b", protocols={"x": b"1", "y": b"2"})
    same = lab.join(ids["b"], protocols={"x": b"1", "y": b"2"})
    assert same.result().generation_id == 1
    assert not lab.join(ids["b"], protocols={"y": b"2", "x": b"1"}).done()


def test_a_member_prefers_the_first_of_its_protocols_that_is_a_candidate() -> None:
    member = a_member()
    assert member.vote({"sticky", "range"}) == "range"
    assert member.vote({"sticky"}) == "sticky"
    with pytest.raises(ValueError, match="supports none"):
        member.vote({"roundrobin"})


def test_a_successor_has_another_id_and_all_else_of_a_static_member() -> None:
    member = a_member(assignment=b"partitions")
    successor = member.successor("m2")
    names = ("instance_id", "client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms", "protocols")
    assert successor.member_id == "m2"
    assert successor.assignment == b"partitions"
    assert [getattr(successor, name) for name in names] == [getattr(member, name) for name in names]


async def test_an_answer_reaches_the_request_that_waits_once() -> None:
    member = a_member()
    assert not member.answer_join(JoinResult(0))
    joined: asyncio.Future[JoinResult] = asyncio.get_running_loop().create_future()
    synced: asyncio.Future[SyncResult] = asyncio.get_running_loop().create_future()
    member.join, member.sync = joined, synced
    assert member.has_joined
    assert member.answer_join(JoinResult(0, "m"))
    assert not member.answer_join(JoinResult(1))
    assert (joined.result().member_id, member.has_joined) == ("m", False)
    synced.cancel()  # its connection was lost
    assert member.answer_sync(SyncResult(0))


async def test_a_member_that_waits_is_excused_unless_it_is_new() -> None:
    member = a_member()
    assert not member.is_excused
    member.join = asyncio.get_running_loop().create_future()
    assert member.is_excused
    member.is_new = True
    assert not member.is_excused


@pytest.mark.parametrize("field", ["instance_id", "protocol_type", "protocols"])
def test_a_name_is_kept_if_a_record_has_room_for_it(field: str) -> None:
    def joining(name: str) -> Joining:
        fields: dict[str, Any] = {"instance_id": None, "protocol_type": "consumer", "protocols": {"range": b""}}
        fields[field] = {name: b""} if field == "protocols" else name
        return Joining("", client_id="c", client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=1, **fields)

    assert joining("n" * MAX_NAME_BYTES).can_be_kept
    assert not joining("n" * (MAX_NAME_BYTES + 1)).can_be_kept
