"""Rebalances: the waits between generations, their time-outs, and writes that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kmini.broker.groups.classic.rebalance import PENDING_MEMBER_WAIT_MS
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    UnknownServerError,
    error_name,
)
from support.broker.group_lab import NONE, REBALANCE_MS, SESSION_MS, Lab

NewLab = Callable[..., Lab]


# --- the course of a rebalance


async def test_every_member_gets_its_own_assignment_or_an_empty_one(lab: Lab) -> None:
    a, b, c = (lab.join(version=3) for _ in "abc")
    await lab.pass_time(100)
    a, b, c = (answer.result() for answer in (a, b, c))
    assert [len(joined.members) for joined in (a, b, c)] == [3, 0, 0]
    waiting = [lab.sync(b.member_id), lab.sync(c.member_id)]
    assert not any(answer.done() for answer in waiting)
    leading = lab.sync(a.member_id, assignments={a.member_id: b"one", b.member_id: b"two", "someone": b"lost"})
    assert leading.result() == (0, "consumer", "range", b"one")
    assert [answer.result().assignment for answer in waiting] == [b"two", b""]
    assert lab.state == "Stable"
    assert lab.sync(b.member_id).result().assignment == b"two"
    assert lab.coordinator.completed_rebalances == 1


async def test_a_newcomer_waits_for_the_others_to_join_again(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    newcomer = lab.join(version=3)
    assert lab.heartbeat(ids["a"]) == "REBALANCE_IN_PROGRESS"
    a, b = lab.join(ids["a"]), lab.join(ids["b"])
    assert [error_name(answer.result().error_code) for answer in (a, b, newcomer)] == [NONE] * 3
    assert a.result().generation_id == 2
    assert len(a.result().members) == 3


async def test_members_that_do_not_join_again_in_time_are_removed(lab: Lab) -> None:
    ids = await lab.form("a", "b", "c", rebalance_ms=20_000, session_ms=30_000)
    again = lab.join(ids["b"], protocols={"range": b"more"}, rebalance_ms=20_000, session_ms=30_000)
    await lab.pass_time(19_000)
    assert not again.done()
    await lab.pass_time(1_001)
    assert again.result().leader_id == ids["b"]
    assert [*lab.group.members] == [ids["b"]]
    assert lab.heartbeat(ids["a"]) == "UNKNOWN_MEMBER_ID"


async def test_the_longest_rebalance_timeout_of_a_member_bounds_a_rebalance(lab: Lab) -> None:
    await lab.form("a", session_ms=300_000, rebalance_ms=5_000)
    newcomer = lab.join(version=3, rebalance_ms=50_000)
    await lab.pass_time(49_000)
    assert not newcomer.done()
    await lab.pass_time(1_001)
    assert newcomer.result().leader_id == newcomer.result().member_id


async def test_the_leader_stays_when_it_joins_again_and_another_takes_over_when_it_leaves(lab: Lab) -> None:
    ids = await lab.form("a", "b", "c")
    for name in "cba":
        answer = lab.join(ids[name], protocols={"range": b"2"})
    assert answer.result().leader_id == ids["a"]
    await lab.synced(ids)
    lab.leave(ids["a"])
    assert lab.group.leader_id in (ids["b"], ids["c"])


async def test_a_generation_whose_leader_never_assigns_ends_with_the_rebalance_timeout(lab: Lab) -> None:
    leader, follower = await lab.leader_and_follower(session_ms=REBALANCE_MS * 2)
    waiting = lab.sync(follower)
    await lab.pass_time(REBALANCE_MS)
    assert error_name(waiting.result().error_code) == "REBALANCE_IN_PROGRESS"
    assert [*lab.group.members] == [follower]
    assert lab.heartbeat(leader) == "UNKNOWN_MEMBER_ID"
    assert lab.state == "PreparingRebalance"


async def test_a_follower_that_never_syncs_is_removed_though_the_group_is_stable(lab: Lab) -> None:
    leader, follower = await lab.leader_and_follower(session_ms=REBALANCE_MS * 2)
    lab.sync(leader)
    assert lab.state == "Stable"
    await lab.pass_time(REBALANCE_MS)
    assert [*lab.group.members] == [leader]
    assert follower not in lab.group.members
    assert lab.state == "PreparingRebalance"


async def test_all_followers_that_never_sync_are_removed_together(lab: Lab) -> None:
    waiting = [lab.join(version=3, session_ms=REBALANCE_MS * 2) for _ in range(4)]
    await lab.pass_time(100)
    leader, second, *_ = (answer.result().member_id for answer in waiting)
    lab.sync(leader)
    lab.sync(second)
    await lab.pass_time(REBALANCE_MS)
    assert [*lab.group.members] == [leader, second]


async def test_a_rebalance_withdraws_an_assignment_that_was_not_answered(lab: Lab) -> None:
    _, follower = await lab.leader_and_follower()
    waiting = lab.sync(follower)
    lab.join(version=3)
    assert error_name(waiting.result().error_code) == "REBALANCE_IN_PROGRESS"
    assert lab.state == "PreparingRebalance"


async def test_a_lost_connection_ends_the_wait_and_not_the_membership(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    lab.join(ids["a"]).cancel()
    again = lab.join(ids["b"])
    assert again.result().generation_id == 2
    assert ids["a"] in lab.group.members
    waiting = lab.sync(ids["b"])
    lab.sync(ids["a"]).cancel()
    assert error_name(waiting.result().error_code) == NONE
    await lab.pass_time(SESSION_MS - 1_000)
    lab.heartbeat(ids["b"])
    await lab.pass_time(1_001)
    assert [*lab.group.members] == [ids["b"]]


# --- the first generation


async def test_the_initial_rebalance_lasts_its_delay_and_longer_when_members_come(new_lab: NewLab) -> None:
    lab = new_lab(group_initial_rebalance_delay_ms=3_000)
    first = lab.join(version=3, rebalance_ms=8_000)
    await lab.pass_time(2_000)
    second = lab.join(version=3, rebalance_ms=8_000)
    await lab.pass_time(3_900)
    assert not first.done()
    await lab.pass_time(200)
    assert first.result().generation_id == second.result().generation_id == 1


async def test_the_initial_rebalance_ends_with_the_rebalance_timeout_at_the_latest(new_lab: NewLab) -> None:
    lab = new_lab(group_initial_rebalance_delay_ms=3_000)
    first = lab.join(version=3, rebalance_ms=8_000)
    for _ in range(4):
        await lab.pass_time(1_990)
        lab.join(version=3, rebalance_ms=8_000)
    assert not first.done()
    await lab.pass_time(100)
    assert first.result().generation_id == 1


async def test_members_that_start_together_share_their_first_generation(lab: Lab) -> None:
    ids = [lab.join().result().member_id for _ in "abc"]
    answers = [lab.join(ids[0])]
    await lab.pass_time(5)
    answers += [lab.join(member_id) for member_id in ids[1:]]
    assert [answer.result().generation_id for answer in answers] == [1, 1, 1]


async def test_a_first_member_waits_only_briefly_for_one_that_does_not_come(lab: Lab) -> None:
    first, _ = (lab.join().result().member_id for _ in "ab")
    answer = lab.join(first)
    await lab.pass_time(5)
    assert not answer.done()
    await lab.pass_time(PENDING_MEMBER_WAIT_MS)
    assert answer.result().generation_id == 1


async def test_an_initial_rebalance_whose_only_member_leaves_ends_empty(new_lab: NewLab) -> None:
    lab = new_lab(group_initial_rebalance_delay_ms=3_000)
    member = lab.join(lab.join().result().member_id)
    assert lab.leave(*lab.group.members) == [NONE]
    assert error_name(member.result().error_code) == "UNKNOWN_MEMBER_ID"
    await lab.pass_time(3_001)
    assert lab.state == "Empty"


# --- static members


async def test_static_members_stay_through_a_rebalance_that_they_miss_until_their_session_is_over(lab: Lab) -> None:
    ids = await lab.form("a", "static", rebalance_ms=8_000, session_ms=20_000)
    again = lab.join(ids["a"], rebalance_ms=8_000, session_ms=20_000)
    await lab.pass_time(8_001)
    assert len(again.result().members) == 2
    assert ids["static"] in lab.group.members


async def test_a_rebalance_to_which_only_static_members_could_come_waits_for_them(lab: Lab) -> None:
    ids = await lab.form("a", "static", rebalance_ms=500, session_ms=20_000)
    lab.leave(ids["a"])
    assert lab.state == "PreparingRebalance"
    await lab.pass_time(5_000)
    assert lab.state == "PreparingRebalance"
    await lab.pass_time(15_001)
    assert lab.state == "Empty"


# --- writes that fail, and writes that take their time


async def test_an_assignment_that_cannot_be_stored_is_not_handed_out(lab: Lab) -> None:
    leader, follower = await lab.leader_and_follower()
    waiting = lab.sync(follower)
    lab.store.failure = CoordinatorNotAvailable("too few replicas")
    leading = lab.sync(leader, assignments={follower: b"x"})
    assert [error_name(answer.result().error_code) for answer in (leading, waiting)] == [
        "COORDINATOR_NOT_AVAILABLE"
    ] * 2
    assert lab.state == "PreparingRebalance"
    lab.store.failure = None
    for member_id in (leader, follower):
        lab.join(member_id)
    await lab.synced({"a": leader, "b": follower})


async def test_an_unexpected_failure_is_answered(lab: Lab) -> None:
    answer = lab.join(version=3)
    await lab.pass_time(100)
    lab.store.failure = RuntimeError("boom")  # type: ignore[assignment]
    assert lab.sync(answer.result().member_id).result().error_code == UnknownServerError.code


async def test_a_write_that_fails_unexpectedly_is_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(waits: int) -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise RuntimeError("boom")

    for waits in (0, 2):
        caplog.clear()
        lab.coordinator.writes.start(fail(waits))
        await lab.coordinator.writes_done()
        await asyncio.sleep(0)
        assert "a write that no request waits for failed" in caplog.text


async def test_an_assignment_that_is_overtaken_by_a_rebalance_is_dropped(lab: Lab) -> None:
    leader, follower = await lab.leader_and_follower()
    lab.store.gate = asyncio.Event()
    leading = lab.sync(leader, assignments={leader: b"old"})
    assert lab.state == "CompletingRebalance"
    assert not leading.done()
    lab.join(follower, protocols={"range": b"changed"})
    assert error_name(leading.result().error_code) == "REBALANCE_IN_PROGRESS"
    lab.store.gate.set()
    await lab.pass_time(10)
    assert lab.state == "PreparingRebalance"
    assert lab.group.members[leader].assignment == b""


async def test_the_first_generation_waits_until_its_group_is_replicated(lab: Lab) -> None:
    lab.store.gate = asyncio.Event()
    waiting = lab.join(version=3)
    await lab.pass_time(1_000)
    assert not waiting.done()
    assert lab.coordinator.shown() == []
    lab.store.gate.set()
    await asyncio.wait([waiting])
    assert waiting.result().generation_id == 1
    assert lab.coordinator.shown() == [lab.group]
