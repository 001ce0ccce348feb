"""JoinGroup: member ids, pending members, static members that return, and the limits of a group."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kmini.broker.groups.classic.group_states import PREPARING
from kmini.broker.groups.classic.joins import MAX_PENDING_MEMBERS, MAX_PROTOCOLS
from kmini.broker.groups.classic.member import JoinedMember
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    error_name,
)
from support.broker.group_lab import NONE, REBALANCE_MS, SESSION_MS, Lab

NewLab = Callable[..., Lab]


async def test_a_new_member_gets_its_id_and_joins_with_it(lab: Lab) -> None:
    first = lab.join(client="app").result()
    assert error_name(first.error_code) == "MEMBER_ID_REQUIRED"
    assert first.member_id.startswith("app-")
    assert lab.state == "Empty"
    second = lab.join(first.member_id)
    assert lab.state == "PreparingRebalance"
    await lab.pass_time(100)
    assert second.result() == (
        *(0, first.member_id, 1, "consumer", "range", first.member_id, False),
        (JoinedMember(first.member_id, None, b"all"),),
    )
    assert lab.state == "CompletingRebalance"


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
async def test_a_session_timeout_outside_the_limits_is_refused(lab: Lab, session_ms: int) -> None:
    answer = lab.join("me", session_ms=session_ms).result()
    assert (error_name(answer.error_code), answer.member_id) == ("INVALID_SESSION_TIMEOUT", "me")
    assert lab.coordinator.groups == {}


async def test_a_pending_member_delays_a_rebalance_until_its_session_ends(lab: Lab) -> None:
    ids = await lab.form("a", session_ms=30_000)
    lab.join(session_ms=6_000)
    again = lab.join(ids["a"], session_ms=30_000)
    assert not again.done()
    await lab.pass_time(6_001)
    assert again.result().generation_id == 2


async def test_a_pending_member_can_leave(lab: Lab) -> None:
    ids = await lab.form("a")
    reserved = lab.join().result().member_id
    again = lab.join(ids["a"])
    assert lab.leave(reserved) == [NONE]
    assert again.result().generation_id == 2
    assert error_name(lab.join(reserved).result().error_code) == "UNKNOWN_MEMBER_ID"


async def test_a_member_that_joins_twice_is_answered_twice(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    first, second = lab.join(ids["a"]), lab.join(ids["a"])
    assert error_name(first.result().error_code) == "REBALANCE_IN_PROGRESS"
    lab.join(ids["b"])
    assert second.result().generation_id == 2
    first_sync, second_sync = lab.sync(ids["b"]), lab.sync(ids["b"])
    assert error_name(first_sync.result().error_code) == "REBALANCE_IN_PROGRESS"
    lab.sync(ids["a"])
    assert error_name(second_sync.result().error_code) == NONE


async def test_a_static_member_returns_to_its_assignment_without_a_rebalance(lab: Lab) -> None:
    ids = await lab.form("a", "static")
    back = lab.join(instance="static").result()
    assert (error_name(back.error_code), back.generation_id, back.leader_id) == (NONE, 1, ids["a"])
    assert back.member_id != ids["static"]
    assert not back.skip_assignment
    assert lab.state == "Stable"
    assert lab.sync(back.member_id, instance="static").result().assignment == b"static"
    assert lab.heartbeat(ids["static"], instance="static") == "FENCED_INSTANCE_ID"
    assert lab.heartbeat(back.member_id, instance="static") == NONE
    stored = {member.group_instance_id: member.member_id for member in lab.store.groups["g"].members}
    assert stored == {None: ids["a"], "static": back.member_id}


async def test_a_static_leader_that_returns_is_asked_to_skip_the_assignment(lab: Lab) -> None:
    await lab.form("static", "b")
    back = lab.join(instance="static", version=9).result()
    assert back.skip_assignment
    assert back.leader_id == back.member_id
    assert len(back.members) == 2


async def test_an_older_static_leader_that_returns_sees_its_old_id_as_the_leader(lab: Lab) -> None:
    ids = await lab.form("static", "b")
    back = lab.join(instance="static", version=8).result()
    assert (back.leader_id, back.members, back.skip_assignment) == (ids["static"], (), False)
    assert lab.group.leader_id == back.member_id


async def test_a_static_member_that_returns_with_another_protocol_makes_the_group_choose_again(lab: Lab) -> None:
    both = {"range": b"", "sticky": b""}
    await lab.form("static", protocols=both)
    back = lab.join(instance="static", protocols={"sticky": b""})
    assert back.result().protocol_name == "sticky"
    assert back.result().generation_id == 2


async def test_the_old_id_of_a_static_member_is_fenced(lab: Lab) -> None:
    ids = await lab.form("a", "static")
    old = lab.join(ids["static"], instance="static", protocols={"range": b"changed"})
    new = lab.join(instance="static")
    assert error_name(old.result().error_code) == "FENCED_INSTANCE_ID"
    lab.join(ids["a"])
    member_id = new.result().member_id
    old_sync = lab.sync(member_id, instance="static")
    newer = lab.join(instance="static")
    assert error_name(old_sync.result().error_code) == "FENCED_INSTANCE_ID"
    assert not newer.done()
    assert lab.state == "PreparingRebalance"


async def test_a_static_member_whose_new_id_cannot_be_stored_keeps_the_old_one(lab: Lab) -> None:
    ids = await lab.form("a", "static")
    lab.store.failure = CoordinatorNotAvailable()
    refused = lab.join(instance="static", protocols={"range": b"changed"}).result()
    assert error_name(refused.error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert lab.heartbeat(ids["static"], instance="static") == NONE
    member = lab.group.members[ids["static"]]
    assert (member.assignment, member.protocols) == (b"static", {"range": b"all"})
    assert lab.state == "Stable"
    assert lab.group.joined == 0


async def test_a_full_group_takes_only_its_members(new_lab: NewLab) -> None:
    lab = new_lab(group_max_size=2)
    ids = await lab.form("a", "b")
    assert error_name(lab.join(version=3).result().error_code) == "GROUP_MAX_SIZE_REACHED"
    again = [lab.join(ids["a"]), lab.join(ids["b"])]
    assert [error_name(answer.result().error_code) for answer in again] == [NONE, NONE]


async def test_a_group_that_is_too_large_loses_the_members_that_join_last(new_lab: NewLab) -> None:
    big = new_lab()
    ids = await big.form("a", "b", "c")
    lab = new_lab(group_max_size=2)
    lab.load(big.store.groups)
    assert lab.group.state is PREPARING
    first, second = lab.join(ids["a"]), lab.join(ids["b"])
    assert error_name(lab.join(ids["c"]).result().error_code) == "GROUP_MAX_SIZE_REACHED"
    await lab.pass_time(REBALANCE_MS + 1)
    assert [error_name(answer.result().error_code) for answer in (first, second)] == [NONE, NONE]
    assert {*lab.group.members} == {ids["a"], ids["b"]}


async def test_pending_members_are_bounded(lab: Lab) -> None:
    for _ in range(MAX_PENDING_MEMBERS):
        lab.join()
    assert error_name(lab.join().result().error_code) == "GROUP_MAX_SIZE_REACHED"
    assert len(lab.group.pending_members) == MAX_PENDING_MEMBERS
    await lab.pass_time(SESSION_MS)
    assert not lab.group.pending_members


async def test_protocols_of_a_member_are_bounded(lab: Lab) -> None:
    many = {str(number): b"" for number in range(MAX_PROTOCOLS + 1)}
    assert error_name(lab.join(version=3, protocols=many).result().error_code) == "INCONSISTENT_GROUP_PROTOCOL"


async def test_subscriptions_of_a_group_are_bounded(lab: Lab) -> None:
    answers = [lab.join(version=3, protocols={"range": bytes(1 << 20)}) for _ in range(20)]
    refused = [answer for answer in answers if answer.done()]
    assert len(refused) == 4
    assert {error_name(answer.result().error_code) for answer in refused} == {"GROUP_MAX_SIZE_REACHED"}


async def test_a_member_id_begins_with_the_client_id_shortened(lab: Lab) -> None:
    assert lab.join(version=4, client="client-7").result().member_id.startswith("client-7-")
    for joined in (lab.join(version=4, client="c" * 0x7FFF), lab.join(instance="i" * 0x7FFF)):
        await lab.pass_time(100)
        assert len(joined.result().member_id) < 0x7FFF
