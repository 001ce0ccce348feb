"""Sessions of members: what extends them, and what their end does."""

from __future__ import annotations

import pytest

from kmini.broker.groups.classic.group_states import COMPLETING, PREPARING, STABLE, GroupState
from kmini.broker.groups.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from kmini.protocol.errors import (
    error_name,
)
from support.broker.group_lab import NONE, SESSION_MS, Lab
from support.broker.groups_in_states import ENTER


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


async def test_log_time_ends_no_session(lab: Lab) -> None:
    await lab.form("a")
    await lab.clock.advance(7 * 24 * 3_600_000)
    assert lab.state == "Stable"


async def test_a_member_that_waits_for_an_answer_needs_no_heartbeats(lab: Lab) -> None:
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


async def test_the_session_of_a_new_member_begins_with_the_answer_to_its_join(lab: Lab) -> None:
    """Not the five minutes for which it may wait for that answer; and neither member sends a SyncGroup here."""
    await lab.leader_and_follower()
    await lab.pass_time(SESSION_MS // 2)
    assert len(lab.group.members) == 2
    await lab.pass_time(SESSION_MS // 2 + 1)
    assert lab.group.members == {}


async def test_a_static_member_that_came_back_has_a_session_too(lab: Lab) -> None:
    ids = await lab.form("static-a")
    back = lab.join(instance="static-a", session_ms=SESSION_MS)
    await lab.pass_time()
    assert (back.result().member_id != ids["static-a"], lab.state) == (True, "Stable")
    await lab.pass_time(SESSION_MS + 1)
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


@pytest.mark.parametrize("state", [PREPARING, COMPLETING, STABLE])
async def test_the_end_of_a_session_removes_a_member_in_every_state(lab: Lab, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    for _ in range(3):
        await lab.pass_time(SESSION_MS // 2)
        lab.heartbeat(ids["leader"])
        lab.heartbeat(ids["static"], instance="static")
    assert ids["follower"] not in lab.group.members
    assert ids["static"] in lab.group.members
