"""The life of consumer groups: the time to give up partitions, and restarts. `test_heartbeats.py` has
the members that join, leave or go away for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmini.broker.groups.modern.timers import Wait
from support.broker.consumer_lab import REBALANCE_MS, SESSION_MS, ConsumerLab

NewLab = Callable[..., Awaitable[ConsumerLab]]

ALL = [0, 1, 2, 3]
COMMIT_TIMEOUT_MS = 5_000
"""How long a request waits for the replicas."""


# --- sessions


async def test_heartbeats_keep_a_member_and_the_silence_of_a_session_removes_it(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    for _ in range(3):
        await lab.pass_time(SESSION_MS - 1)
        assert (await lab.beat("a", lab.group.current("a").epoch)).error == "NONE"
    await lab.pass_time(SESSION_MS)
    assert "a" not in lab.group.memberships


# --- time to give up partitions


async def test_a_member_that_does_not_give_up_partitions_is_removed_although_it_sends_heartbeats(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    await lab.beat("a", 2)
    for _ in range(REBALANCE_MS // 10_000 - 1):
        await lab.pass_time(10_000)
        assert (await lab.beat("a", 2)).error == "NONE"
        assert (await lab.beat("b", 3))[2:4] == (3, None)
    await lab.pass_time(9_999)
    assert "a" in lab.group.memberships
    await lab.pass_time(1)
    assert (await lab.beat("a", 2)).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.beat("b", 3))[2:4] == (4, {"orders": ALL})
    (gone,) = lab.group.departures
    assert "revocation" in gone.reason


async def test_a_member_that_has_given_them_up_in_time_stays(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    await lab.beat("a", 2)
    await lab.pass_time(30_000)
    await lab.beat("a", 2, owned={"orders": [0, 1]})
    assert not lab.groups.consumer_life.timers.is_running("g", "a", Wait.REBALANCE)
    await lab.beat("b", 3)
    await lab.pass_time(30_000)
    assert [*lab.group.memberships] == ["a", "b"]


async def test_a_member_that_is_asked_for_more_has_its_time_again(consumer_lab: ConsumerLab) -> None:
    """It is waited for at the same epoch, since it was asked last."""
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    await lab.beat("a", 2)
    await lab.pass_time(30_000)
    await lab.beat("a", 2, names=[])
    await lab.pass_time(30_000)
    assert "a" in lab.group.memberships
    await lab.beat("a", 2)
    await lab.pass_time(30_000)
    assert "a" not in lab.group.memberships


# --- restarts


async def grown(lab: ConsumerLab) -> None:
    """A group with members in every state: one away, one that gives up partitions, one that waits for some."""
    lab.add_topics("others")
    await lab.join("s", "orders", instance_id="i", rack_id="r", server_assignor="range")
    await lab.join("a", "orders", "others", regex="oth.*")
    await lab.groups.writes_done()
    await lab.settle("s", "a")
    await lab.leave("s", -2, instance_id="i")
    await lab.pass_time(1_000)
    await lab.join("b", "orders", "others")
    await lab.beat("a", lab.group.current("a").epoch)
    await lab.beat("b", lab.group.current("b").epoch)
    states = [lab.group.current(name).state.name for name in "sab"]
    assert states == ["STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS"]


async def test_a_restart_brings_everything_back(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await grown(lab)
    before = lab.in_memory()
    end = lab.end
    await lab.restart()
    assert lab.in_memory() == before
    assert lab.end == end
    assert lab.group.is_shown


async def test_members_go_on_after_a_restart(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await grown(lab)
    await lab.restart()
    assert (await lab.join("s2", "orders", instance_id="i")).error == "NONE"
    has = await lab.settle("a", "b", "s2")
    for topic in ("orders", "others"):
        assert sorted(number for each in has.values() for number in each.get(topic, ())) == ALL


async def test_sessions_begin_anew_with_their_full_time_after_a_restart(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(SESSION_MS - 1)
    await lab.restart()
    await lab.pass_time(SESSION_MS - 1)
    assert lab.state == "Stable"
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_the_time_to_give_up_partitions_begins_anew_after_a_restart(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    await lab.beat("a", 2)
    await lab.pass_time(30_000)
    await lab.restart()
    await lab.pass_time(30_000)
    await lab.beat("a", 2)
    await lab.pass_time(29_999)
    assert "a" in lab.group.memberships
    await lab.pass_time(1)
    assert "a" not in lab.group.memberships


async def test_a_restart_does_not_begin_an_epoch(consumer_lab: ConsumerLab) -> None:
    """The hash of the topics is compared with the first heartbeat, and is the same."""
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.restart()
    end = lab.end
    assert (await lab.beat("a", 2))[2:4] == (2, None)
    assert (lab.epochs, lab.end) == ((2, 2), end)


async def test_a_topic_that_has_grown_while_the_group_was_not_watched_counts_with_the_first_heartbeat(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.add_partitions("orders", 1)
    await lab.restart()
    assert (await lab.beat("a", 2))[2:4] == (3, {"orders": [*range(5)]})


async def test_a_group_without_members_comes_back_with_its_epoch(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.leave("a")
    await lab.restart()
    assert (lab.state, lab.epochs) == ("Empty", (3, 2))


async def test_a_group_that_is_too_large_after_a_restart_keeps_its_members(new_consumer_lab: NewLab) -> None:
    lab = await new_consumer_lab()
    for name in "abc":
        await lab.join(name)
    lab._config = lab._config.replace(group_consumer_max_size=1)
    await lab.restart()
    assert [*lab.group.memberships] == ["a", "b", "c"]
    assert (await lab.join("b")).error == "NONE"
    assert (await lab.join("d")).error == "GROUP_MAX_SIZE_REACHED"
