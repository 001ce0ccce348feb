"""From generation to generation: who is waited for, for how long, and what everybody is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.group import Group
from kmini.broker.groups.group_states import EMPTY, PREPARING, STABLE
from kmini.broker.groups.joins import MAX_PENDING_MEMBERS, MAX_PROTOCOLS
from kmini.broker.groups.member import JoinedMember
from kmini.broker.groups.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS, PENDING_MEMBER_WAIT_MS
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidRequest,
    KafkaError,
    UnknownServerError,
    error_name,
)
from support.broker.group_lab import NONE, REBALANCE_MS, SESSION_MS, Lab

NewLab = Callable[..., Lab]


# --- the course of a rebalance


async def test_a_new_member_is_told_its_id_and_joins_with_it(lab: Lab) -> None:
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


async def test_a_group_is_stored_when_it_is_made_when_it_is_stable_and_when_it_is_empty(lab: Lab) -> None:
    lab.leave(lab.join().result().member_id)
    made = lab.store.groups["g"]
    assert (made.protocol_type, made.generation_id, made.protocol_name, made.leader_id) == ("", 0, None, None)
    ids = await lab.form("a", "b")
    stored = lab.store.groups["g"]
    assert (stored.generation_id, stored.leader_id, stored.protocol_name) == (1, ids["a"], "range")
    assert [(member.member_id, member.assignment) for member in stored.members] == [(ids["a"], b"a"), (ids["b"], b"b")]
    lab.leave(*ids.values())
    gone = lab.store.groups["g"]
    assert (gone.protocol_type, gone.generation_id, gone.protocol_name, gone.leader_id) == ("consumer", 2, None, None)
    assert gone.members == []


async def test_every_member_gets_its_own_share_and_whom_the_leader_forgets_nothing(lab: Lab) -> None:
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


async def test_the_leader_is_told_of_static_members_first(lab: Lab) -> None:
    ids = await lab.form("a", "b", "static-1", "c", "static-2")
    listed = [member.member_id for member in lab.group.metadata_of_all()]
    assert listed == [ids[name] for name in ("static-1", "static-2", "a", "b", "c")]


async def test_a_newcomer_waits_for_the_others_to_join_again(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    newcomer = lab.join(version=3)
    assert lab.heartbeat(ids["a"]) == "REBALANCE_IN_PROGRESS"
    a, b = lab.join(ids["a"]), lab.join(ids["b"])
    assert [error_name(answer.result().error_code) for answer in (a, b, newcomer)] == [NONE] * 3
    assert a.result().generation_id == 2
    assert len(a.result().members) == 3


async def test_members_that_do_not_join_again_in_time_are_out(lab: Lab) -> None:
    ids = await lab.form("a", "b", "c", rebalance_ms=20_000, session_ms=30_000)
    again = lab.join(ids["b"], protocols={"range": b"more"}, rebalance_ms=20_000, session_ms=30_000)
    await lab.pass_time(19_000)
    assert not again.done()
    await lab.pass_time(1_001)
    assert again.result().leader_id == ids["b"]
    assert [*lab.group.members] == [ids["b"]]
    assert lab.heartbeat(ids["a"]) == "UNKNOWN_MEMBER_ID"


async def test_the_most_patient_member_says_how_long_a_rebalance_waits(lab: Lab) -> None:
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


async def test_a_follower_that_never_asks_for_its_share_is_out_though_the_group_is_stable(lab: Lab) -> None:
    leader, follower = await lab.leader_and_follower(session_ms=REBALANCE_MS * 2)
    lab.sync(leader)
    assert lab.state == "Stable"
    await lab.pass_time(REBALANCE_MS)
    assert [*lab.group.members] == [leader]
    assert follower not in lab.group.members
    assert lab.state == "PreparingRebalance"


async def test_a_rebalance_takes_what_was_not_handed_out_back(lab: Lab) -> None:
    _, follower = await lab.leader_and_follower()
    waiting = lab.sync(follower)
    lab.join(version=3)
    assert error_name(waiting.result().error_code) == "REBALANCE_IN_PROGRESS"
    assert lab.state == "PreparingRebalance"


async def test_a_reserved_id_holds_a_rebalance_up_until_its_session_is_over(lab: Lab) -> None:
    ids = await lab.form("a", session_ms=30_000)
    lab.join(session_ms=6_000)
    again = lab.join(ids["a"], session_ms=30_000)
    assert not again.done()
    await lab.pass_time(6_001)
    assert again.result().generation_id == 2


async def test_a_reserved_id_can_be_given_back(lab: Lab) -> None:
    ids = await lab.form("a")
    reserved = lab.join().result().member_id
    again = lab.join(ids["a"])
    assert lab.leave(reserved) == [NONE]
    assert again.result().generation_id == 2
    assert error_name(lab.join(reserved).result().error_code) == "UNKNOWN_MEMBER_ID"


async def test_whoever_joins_twice_is_answered_twice(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    first, second = lab.join(ids["a"]), lab.join(ids["a"])
    assert error_name(first.result().error_code) == "REBALANCE_IN_PROGRESS"
    lab.join(ids["b"])
    assert second.result().generation_id == 2
    first_sync, second_sync = lab.sync(ids["b"]), lab.sync(ids["b"])
    assert error_name(first_sync.result().error_code) == "REBALANCE_IN_PROGRESS"
    lab.sync(ids["a"])
    assert error_name(second_sync.result().error_code) == NONE


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


# --- sessions


async def test_heartbeats_keep_a_member_and_set_no_timers(lab: Lab) -> None:
    ids = await lab.form("a")
    timer = lab.group.members[ids["a"]].timer
    for _ in range(20):
        await lab.pass_time(SESSION_MS // 4)
        before = lab.group.members[ids["a"]].timer
        assert lab.heartbeat(ids["a"]) == NONE
        assert lab.group.members[ids["a"]].timer is before
    assert lab.group.members[ids["a"]].timer is not timer  # set anew when it fired, which is once a session
    await lab.pass_time(SESSION_MS + 1)
    assert lab.state == "Empty"


async def test_a_commit_is_a_sign_of_life(lab: Lab) -> None:
    ids = await lab.form("a")
    for _ in range(4):
        await lab.pass_time(SESSION_MS * 3 // 4)
        lab.coordinator.group_for_commit("g", ids["a"], None, 1, 8)
    assert lab.state == "Stable"


async def test_log_time_ends_no_session(lab: Lab) -> None:
    await lab.form("a")
    await lab.clock.advance(7 * 24 * 3_600_000)
    assert lab.state == "Stable"


async def test_who_waits_for_an_answer_is_not_expected_to_send_heartbeats(lab: Lab) -> None:
    ids = await lab.form("a", "b", session_ms=6_000)
    waiting = lab.join(ids["a"], session_ms=6_000)
    for _ in range(5):
        await lab.pass_time(3_000)
        lab.heartbeat(ids["b"])
    assert not waiting.done()
    assert ids["a"] in lab.group.members
    lab.join(ids["b"], session_ms=6_000)
    waiting_sync = lab.sync(ids["b"])
    for _ in range(5):
        await lab.pass_time(3_000)
        lab.heartbeat(ids["a"])
    assert not waiting_sync.done()
    lab.sync(ids["a"])
    await lab.pass_time(5_000)
    assert ids["b"] in lab.group.members
    await lab.pass_time(1_001)
    assert lab.state == "Empty"


async def test_a_first_join_that_is_not_answered_in_five_minutes_is_forgotten(lab: Lab) -> None:
    ids = await lab.form("a", session_ms=60_000, rebalance_ms=600_000)
    newcomer = lab.join(version=3, session_ms=6_000)
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 50_000 - 1):
        await lab.pass_time(50_000)
        lab.heartbeat(ids["a"])
    assert not newcomer.done()
    await lab.pass_time(50_001)
    assert error_name(newcomer.result().error_code) == "UNKNOWN_MEMBER_ID"
    assert [*lab.group.members] == [ids["a"]]


# --- static members


async def test_a_static_member_comes_back_to_its_share_without_a_rebalance(lab: Lab) -> None:
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


async def test_a_static_leader_that_comes_back_is_told_not_to_assign(lab: Lab) -> None:
    await lab.form("static", "b")
    back = lab.join(instance="static", version=9).result()
    assert back.skip_assignment
    assert back.leader_id == back.member_id
    assert len(back.members) == 2


async def test_an_older_static_leader_is_told_that_somebody_else_leads(lab: Lab) -> None:
    ids = await lab.form("static", "b")
    back = lab.join(instance="static", version=8).result()
    assert (back.leader_id, back.members, back.skip_assignment) == (ids["static"], (), False)
    assert lab.group.leader_id == back.member_id


async def test_a_static_member_that_comes_back_with_another_protocol_makes_the_group_choose_again(lab: Lab) -> None:
    both = {"range": b"", "sticky": b""}
    await lab.form("static", protocols=both)
    back = lab.join(instance="static", protocols={"sticky": b""})
    assert back.result().protocol_name == "sticky"
    assert back.result().generation_id == 2


async def test_who_acts_under_the_old_id_of_a_static_member_is_fenced(lab: Lab) -> None:
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


async def test_a_failure_that_nobody_thought_of_is_answered_too(lab: Lab) -> None:
    answer = lab.join(version=3)
    await lab.pass_time(100)
    lab.store.failure = RuntimeError("boom")  # type: ignore[assignment]
    assert lab.sync(answer.result().member_id).result().error_code == UnknownServerError.code


async def test_work_that_fails_for_no_reason_we_know_is_told_in_the_log(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(waits: int) -> None:
        for _ in range(waits):
            await asyncio.sleep(0)
        raise RuntimeError("boom")

    for waits in (0, 2):
        caplog.clear()
        lab.coordinator._rebalancer.start_write(fail(waits))
        await lab.coordinator._rebalancer.writes_done()
        await asyncio.sleep(0)
        assert "keeping a group failed" in caplog.text


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


async def test_a_group_that_cannot_be_stored_is_none(new_lab: NewLab) -> None:
    lab = new_lab(group_initial_rebalance_delay_ms=3_000)
    lab.store.failure = CoordinatorNotAvailable()
    assert error_name(lab.join(version=3).result().error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert lab.coordinator.groups == {}


async def test_a_group_that_is_not_replicated_in_time_stays_without_members_and_is_not_shown(new_lab: NewLab) -> None:
    lab = new_lab(group_initial_rebalance_delay_ms=3_000)
    lab.store.gate = asyncio.Event()
    waiting = lab.join(version=3)  # which waits for the initial rebalance, too
    lab.store.failure = CoordinatorNotAvailable()
    lab.store.gate.set()
    await asyncio.wait([waiting])
    assert error_name(waiting.result().error_code) == "COORDINATOR_NOT_AVAILABLE"
    assert (lab.state, lab.group.members) == ("Empty", {})
    assert lab.coordinator.shown() == []


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


async def test_a_group_whose_deletion_fails_is_as_it_was(lab: Lab) -> None:
    ids = await lab.form("a")
    lab.leave(ids["a"])
    lab.store.failure = CoordinatorNotAvailable()
    with pytest.raises(CoordinatorNotAvailable):
        await lab.coordinator.delete("g")
    assert (lab.group.state, lab.group.generation_id, lab.group.protocol_type) == (EMPTY, 2, "consumer")
    lab.store.failure = None
    await lab.coordinator.delete("g")
    with pytest.raises(GroupIdNotFound):
        lab.coordinator.find("g")


# --- agreeing


async def test_the_protocol_that_most_like_best_of_those_that_all_support_is_chosen(lab: Lab) -> None:
    answers = [
        lab.join(version=3, protocols=dict.fromkeys(protocols, b""))
        for protocols in (("a", "b", "x"), ("b", "a"), ("c", "b", "a"))
    ]
    await lab.pass_time(100)
    assert answers[0].result().protocol_name == "b"


async def test_a_member_that_would_leave_nothing_in_common_is_refused(lab: Lab) -> None:
    ids = await lab.form("a", "b", protocols={"x": b"", "y": b""})
    lab.join(ids["a"], protocols={"x": b""})
    assert error_name(lab.join(ids["b"], protocols={"y": b""}).result().error_code) == "INCONSISTENT_GROUP_PROTOCOL"
    lab.join(ids["b"], protocols={"x": b"", "y": b""})
    assert lab.group.protocol_name == "x"


async def test_an_empty_group_may_become_one_of_another_type(lab: Lab) -> None:
    ids = await lab.form("a")
    lab.leave(ids["a"])
    answer = lab.join(version=3, protocol_type="connect", protocols={"v1": b""})
    await lab.pass_time(100)
    assert answer.result().protocol_type == "connect"


async def test_the_order_of_protocols_and_their_metadata_are_what_a_member_says(lab: Lab) -> None:
    ids = await lab.form("a", "b", protocols={"x": b"1", "y": b"2"})
    same = lab.join(ids["b"], protocols={"x": b"1", "y": b"2"})
    assert same.result().generation_id == 1
    assert not lab.join(ids["b"], protocols={"y": b"2", "x": b"1"}).done()


# --- limits


async def test_a_full_group_takes_nobody_but_its_members(new_lab: NewLab) -> None:
    lab = new_lab(group_max_size=2)
    ids = await lab.form("a", "b")
    assert error_name(lab.join(version=3).result().error_code) == "GROUP_MAX_SIZE_REACHED"
    again = [lab.join(ids["a"]), lab.join(ids["b"])]
    assert [error_name(answer.result().error_code) for answer in again] == [NONE, NONE]


async def test_a_group_that_is_too_large_loses_those_who_join_last(new_lab: NewLab) -> None:
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


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001, 2**31 - 1])
async def test_a_session_timeout_outside_the_limits_is_refused(lab: Lab, session_ms: int) -> None:
    answer = lab.join("me", session_ms=session_ms).result()
    assert (error_name(answer.error_code), answer.member_id) == ("INVALID_SESSION_TIMEOUT", "me")
    assert lab.coordinator.groups == {}


async def test_a_group_has_a_name(lab: Lab) -> None:
    assert error_name(lab.join(group="").result().error_code) == "INVALID_GROUP_ID"


async def test_nobody_makes_us_remember_ids_without_end(lab: Lab) -> None:
    for _ in range(MAX_PENDING_MEMBERS):
        lab.join()
    assert error_name(lab.join().result().error_code) == "GROUP_MAX_SIZE_REACHED"
    assert len(lab.group.pending_members) == MAX_PENDING_MEMBERS
    await lab.pass_time(SESSION_MS)
    assert not lab.group.pending_members


async def test_nobody_makes_us_count_protocols_without_end(lab: Lab) -> None:
    many = {str(number): b"" for number in range(MAX_PROTOCOLS + 1)}
    assert error_name(lab.join(version=3, protocols=many).result().error_code) == "INCONSISTENT_GROUP_PROTOCOL"


async def test_nobody_makes_us_keep_what_could_never_be_stored(lab: Lab) -> None:
    answers = [lab.join(version=3, protocols={"range": bytes(1 << 20)}) for _ in range(20)]
    refused = [answer for answer in answers if answer.done()]
    assert len(refused) == 4
    assert {error_name(answer.result().error_code) for answer in refused} == {"GROUP_MAX_SIZE_REACHED"}


# --- starting again


async def test_a_group_is_what_it_was_when_the_broker_starts_again(lab: Lab, new_lab: NewLab) -> None:
    ids = await lab.form("a", "static")
    again = new_lab()
    again.load(lab.store.groups)
    assert again.group.state is STABLE
    assert (again.group.leader_id, again.group.protocol_name) == (ids["a"], "range")
    assert again.heartbeat(ids["a"]) == NONE
    assert again.sync(ids["static"], instance="static").result().assignment == b"static"
    await again.pass_time(SESSION_MS // 2)
    again.heartbeat(ids["a"])
    await again.pass_time(SESSION_MS // 2 + 1)
    assert [*again.group.members] == [ids["a"]]


async def test_a_restored_group_without_members_is_empty_since_when_it_was(lab: Lab) -> None:
    ids = await lab.form("a")
    lab.leave(ids["a"])
    group = Group.restored("g", lab.store.groups["g"], CommittedOffsets())
    assert (group.state, group.protocol_type, group.generation_id) == (EMPTY, "consumer", 2)
    assert group.state_timestamp_ms == lab.group.state_timestamp_ms
    assert Group.restored("g", None, CommittedOffsets()).state is EMPTY


# --- commits from outside, and what members read


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGeneration), (9, GroupIdNotFound)])
async def test_a_commit_of_a_generation_needs_a_group(lab: Lab, version: int, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        lab.coordinator.group_for_commit("g", "me", None, 1, version)
    assert lab.coordinator.groups == {}


async def test_a_member_id_says_whose_it_is_but_not_at_any_length(lab: Lab) -> None:
    assert lab.join(version=4, client="client-7").result().member_id.startswith("client-7-")
    for joined in (lab.join(version=4, client="c" * 0x7FFF), lab.join(instance="i" * 0x7FFF)):
        await lab.pass_time(100)
        assert len(joined.result().member_id) < 0x7FFF


@pytest.mark.parametrize(
    "names", [{"instance": "i" * 0x8000}, {"protocol_type": "t" * 0x8000}, {"protocols": {"ä" * 0x4000: b""}}]
)
async def test_who_has_a_name_that_no_record_has_room_for_is_refused(lab: Lab, names: dict[str, Any]) -> None:
    assert lab.join(**names).result().error_code == InvalidRequest.code
    assert not lab.coordinator.groups


async def test_a_commit_without_a_generation_makes_a_group_without_a_type(lab: Lab) -> None:
    group = lab.coordinator.group_for_commit("g", "", None, -1, 8)
    assert (group.state, group.protocol_type) == (EMPTY, None)
    assert lab.store.writes == 0


async def test_the_topics_that_consumers_want_are_known_and_those_of_others_are_not(lab: Lab) -> None:
    def wants(*topics: str) -> dict[str, bytes]:
        names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
        return {"range": b"\0\1" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"}

    answers = [lab.join(version=3, protocols=wants("a", "b")), lab.join(version=3, protocols=wants("b", "c"))]
    assert lab.group.is_subscribed_to("z")  # nobody knows yet
    await lab.pass_time(100)
    assert lab.group.subscribed_topics() == {"a", "b", "c"}
    assert not lab.group.is_subscribed_to("z")
    lab.leave(*(answer.result().member_id for answer in answers))
    assert lab.group.subscribed_topics() == set()
    unreadable = lab.join(version=3, protocols={"range": b"\0\0\x7f\xff\xff\xff"})
    await lab.pass_time(100)
    assert unreadable.done()
    assert lab.group.subscribed_topics() is None
    assert lab.group.is_subscribed_to("z")
