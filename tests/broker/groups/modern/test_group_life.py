"""The life of groups that the coordinator assigns, of which consumer groups stand for all: sessions, failures,
administration, and what readers are shown meanwhile. `consumer/test_life.py` has
the time in which members must give up partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.groups.modern.group_life import RETRY_MS
from kmini.broker.groups.modern.timers import Wait
from kmini.protocol.errors import NonEmptyGroup, NotEnoughReplicas, UnknownMemberId, error_name
from support.broker.consumer_lab import SESSION_MS, ConsumerLab

NewLab = Callable[..., Awaitable[ConsumerLab]]

ALL = [0, 1, 2, 3]
COMMIT_TIMEOUT_MS = 5_000
"""How long a request waits for the replicas."""


# --- sessions


async def test_a_member_without_heartbeats_is_removed_at_the_end_of_its_session(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(SESSION_MS - 1)
    await lab.join("b", "orders")
    since = lab.end
    await lab.pass_time(1)
    assert [*lab.group.memberships] == ["b"]
    assert lab.types(since) == [(-8, "a"), (-7, "a"), (-5, "a"), (3, "")]
    assert (await lab.beat("a", 2)).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.beat("b", 3))[2:4] == (3, {"orders": [2, 3]})  # what its last target has is free now
    await lab.pass_time(1_000)
    assert (await lab.beat("b", 3))[2:4] == (4, {"orders": ALL})
    (gone,) = lab.group.departures
    assert (gone.member_id, gone.is_expelled) == ("a", True)
    assert "45000 ms" in gone.reason


async def test_heartbeats_keep_a_member(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    for _ in range(4):
        await lab.pass_time(SESSION_MS - 1)
        assert (await lab.beat("a", 2)).error == "NONE"
    await lab.pass_time(SESSION_MS)
    assert lab.state == "Empty"


@pytest.mark.parametrize("wrong", [{"epoch": 9}, {"epoch": 2, "server_assignor": "none"}])
async def test_a_heartbeat_that_is_refused_does_not_extend_the_session(
    consumer_lab: ConsumerLab, wrong: dict[str, Any]
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(SESSION_MS - 1)
    assert (await lab.beat("a", **wrong)).error != "NONE"
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_another_session_timeout_counts_from_the_next_heartbeat(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.set_group_config("consumer.session.timeout.ms", "60000")
    await lab.pass_time(SESSION_MS - 1)
    assert (await lab.beat("a", 2)).error == "NONE"
    await lab.pass_time(59_999)
    assert lab.state == "Stable"
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_a_static_member_that_is_away_goes_a_session_after_its_last_heartbeat(
    consumer_lab: ConsumerLab,
) -> None:
    """Not after it left for a while."""
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    await lab.pass_time(SESSION_MS - 1)
    await lab.leave("a", -2, instance_id="i")
    assert [*lab.group.memberships] == ["a"]
    await lab.pass_time(1)
    assert lab.state == "Empty"
    assert (await lab.join("b", "orders", instance_id="i"))[2:4] == (4, {"orders": ALL})


async def test_the_session_of_a_static_member_that_has_come_back_is_its_own(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    await lab.leave("a", -2, instance_id="i")
    await lab.pass_time(SESSION_MS - 1)
    await lab.join("b", "orders", instance_id="i")
    await lab.pass_time(SESSION_MS - 1)
    assert [*lab.group.memberships] == ["b"]
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_sessions_that_end_together_remove_all_their_members(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    for number in range(5):
        await lab.join(f"m{number}", "orders")
    await lab.pass_time(SESSION_MS)
    assert (lab.state, lab.group.memberships, lab.group.targets) == ("Empty", {}, {})
    assert lab.group.epoch == 11


async def test_the_ends_of_sessions_are_known(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    assert [*lab.groups.session_ends(lab.group)] == [("test", SESSION_MS)]
    await lab.beat("a", 2)
    assert [*lab.groups.session_ends(lab.group)] == [("test", SESSION_MS + 1_000)]


async def test_a_heartbeat_that_came_before_the_end_of_its_session_counts_although_the_group_was_busy(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event
) -> None:
    """A member sends it while the target of the group is computed; the session ends before that is done."""
    lab = consumer_lab
    for name in "ab":
        await lab.join(name, "orders")
    await lab.pass_time(1_000)
    long_computation.clear()
    computing = asyncio.create_task(lab.beat("a", 2))
    in_time = asyncio.create_task(lab.beat("b", 2))
    await asyncio.sleep(0)
    await lab.clock.advance(SESSION_MS - 1_000, liveness=True)
    assert not lab.groups.consumer_life.timers.is_running("g", "b", Wait.SESSION)
    long_computation.set()
    assert (await computing).error == (await in_time).error == "NONE"
    await lab.groups.writes_done()
    assert [*lab.group.memberships] == ["a", "b"]


# --- failures


async def test_a_member_whose_removal_cannot_be_stored_is_removed_a_little_later(
    consumer_lab: ConsumerLab, caplog: pytest.LogCaptureFixture
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    await lab.pass_time(SESSION_MS)
    assert [*lab.group.memberships] == ["a"]
    assert lab.group.departures == ()
    assert "one of two" in caplog.text
    lab.refuse_appends(None)
    await lab.pass_time(RETRY_MS - 1)
    assert [*lab.group.memberships] == ["a"]
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_a_member_that_sends_a_heartbeat_before_that_stays(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    await lab.pass_time(SESSION_MS)
    lab.refuse_appends(None)
    assert (await lab.beat("a", 2)).error == "NONE"
    await lab.pass_time(SESSION_MS - 1)
    assert [*lab.group.memberships] == ["a"]
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_a_group_that_could_not_be_stored_has_no_timers(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    await lab.join("a", "orders")
    assert not lab.groups.consumer_life.timers.is_running("g", "a", Wait.SESSION)
    await lab.pass_time(SESSION_MS)


# --- administration


async def test_a_group_with_members_is_not_deleted(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("a", "orders")
    with pytest.raises(NonEmptyGroup):
        await consumer_lab.groups.delete("g")


async def test_a_deleted_group_is_gone_also_after_a_restart(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.leave("a")
    since = lab.end
    await lab.groups.delete("g")
    assert lab.types(since) == [(-6, ""), (-3, "")]
    assert "g" not in lab.groups.groups
    await lab.restart()
    assert "g" not in lab.groups.groups
    assert (await lab.join("a", "orders"))[2:4] == (2, {"orders": ALL})


async def test_a_group_whose_deletion_fails_is_as_it_was(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.leave("a")
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    with pytest.raises(Exception, match="one of two"):
        await lab.groups.delete("g")
    assert (lab.state, lab.epochs) == ("Empty", (3, 2))
    lab.refuse_appends(None)
    assert (await lab.join("a", "orders")).error == "NONE"


async def test_a_member_is_expelled_on_request(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.groups.expel("g", "a", "the test says so")
    await lab.groups.expel("g", "a", "twice")
    assert lab.state == "Empty"
    assert [gone.reason for gone in lab.group.departures] == ["the test says so"]
    await lab.pass_time(SESSION_MS)
    assert lab.epochs == (3, 2)


async def test_a_rebalance_on_request_begins_an_epoch(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.groups.rebalance("g", "the test says so")
    assert lab.epochs == (3, 2)
    await lab.pass_time(1_000)
    assert (await lab.beat("a", 2))[2:4] == (3, None)
    await lab.leave("a")
    with pytest.raises(UnknownMemberId):
        await lab.groups.rebalance("g", "no members")


# --- replication


async def test_what_is_not_replicated_is_not_answered_and_not_shown(consumer_lab: ConsumerLab) -> None:
    """It is in force, though: the next heartbeat goes on from it, and waits for it as well."""
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.set_group_config("consumer.assignment.interval.ms", "15000")
    with lab.late_replicas():
        for fields in ({"names": []}, {}):
            waiting = asyncio.create_task(lab.beat("a", 2, **fields))
            await lab.wait_for_purgatory()
            assert not waiting.done()
            await lab.clock.advance(COMMIT_TIMEOUT_MS, liveness=True)
            assert (await waiting).error == "COORDINATOR_NOT_AVAILABLE"
            described = await lab.describe()
            assert (described.group_state, described.group_epoch) == ("Stable", 2)
            assert lab.epochs == (3, 2)
    described = await lab.describe()
    assert (described.group_state, described.group_epoch) == ("Assigning", 3)
    assert (await lab.beat("a", 2)).error == "NONE"


async def test_a_heartbeat_is_answered_as_soon_as_it_is_replicated(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    with lab.late_replicas():
        joining = asyncio.create_task(lab.join("a", "orders"))
        await lab.wait_for_purgatory()
        assert not joining.done()
        assert error_name((await lab.describe()).error_code) == "GROUP_ID_NOT_FOUND"
    assert (await joining)[:4] == ("NONE", "a", 2, {"orders": ALL})
    assert (await lab.describe()).group_state == "Stable"
