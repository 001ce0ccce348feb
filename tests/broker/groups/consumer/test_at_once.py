"""Requests of a consumer group that come at once: members, administrators, and the end of leadership."""

from __future__ import annotations

import asyncio

import pytest

from kmini.protocol.errors import GroupIdNotFound, NotCoordinator
from support.broker.consumer_lab import ConsumerLab

ALL = [0, 1, 2, 3]


async def test_many_members_join_at_once_and_each_partition_has_one_owner(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("wide", partitions=23)
    names = [f"m{number}" for number in range(10)]
    answers = await asyncio.gather(*(lab.join(name, "wide") for name in names))
    assert [answer.error for answer in answers] == ["NONE"] * 10
    owners = await lab.settle(*names)
    assert sorted(number for has in owners.values() for number in has["wide"]) == [*range(23)]
    assert sorted(len(has["wide"]) for has in owners.values()) == [2] * 7 + [3] * 3


async def test_heartbeats_of_one_member_at_once_are_served_one_after_the_other(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    answers = await asyncio.gather(*(lab.beat("a", 2) for _ in range(3)))
    assert [answer[2:4] for answer in answers] == [(2, {"orders": [0, 1]}), (2, None), (2, None)]
    answers = await asyncio.gather(*(lab.beat("a", 2, owned={"orders": [0, 1]}) for _ in range(2)))
    assert [answer[2:4] for answer in answers] == [(3, None), (3, None)]  # the second one has the previous epoch


async def test_a_member_that_leaves_and_joins_at_once_is_served_in_order(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    for name in "ab":
        await lab.join(name, "orders")
    await lab.settle("a", "b")
    left, joined, late = await asyncio.gather(lab.leave("a"), lab.join("a", "orders"), lab.beat("a", 3))
    assert left.error == "NONE"
    assert joined[:4] == ("NONE", "a", 5, {"orders": [0, 1]})
    assert late.error == "FENCED_MEMBER_EPOCH"
    await lab.settle("a", "b")


async def test_the_first_members_of_a_group_join_one_after_the_other(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event
) -> None:
    """The group is not in memory while the target of the first one is computed."""
    lab = consumer_lab
    long_computation.clear()
    joining = [asyncio.create_task(lab.join(name, "orders")) for name in "abc"]
    await asyncio.sleep(0)
    assert "g" not in lab.groups.groups
    long_computation.set()
    answers = await asyncio.gather(*joining)
    assert [answer[:4] for answer in answers] == [
        ("NONE", "a", 2, {"orders": ALL}),
        ("NONE", "b", 2, {}),
        ("NONE", "c", 2, {}),
    ]
    assert lab.epochs == (4, 2)
    await lab.settle("a", "b", "c")


async def test_a_group_that_is_deleted_during_a_computation_is_made_anew(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.leave("a")
    await lab.pass_time(1_000)
    former = lab.group
    long_computation.clear()
    joining = asyncio.create_task(lab.join("b", "orders"))
    await asyncio.sleep(0)
    await lab.groups.delete("g")
    with pytest.raises(GroupIdNotFound):
        lab.groups.find("g")
    long_computation.set()
    assert (await joining)[:4] == ("NONE", "b", 2, {"orders": ALL})
    assert lab.group is not former
    assert lab.epochs == (2, 2)
    await lab.restart()
    assert (lab.epochs, lab.state) == ((2, 2), "Stable")


async def test_a_group_that_is_coordinated_elsewhere_after_a_computation_is_not_written(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(*_: object, **__: object) -> None:
        raise NotCoordinator("another broker leads")

    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    long_computation.clear()
    joining = asyncio.create_task(lab.join("b", "orders"))
    waiting = asyncio.create_task(lab.beat("a", 2))
    await asyncio.sleep(0)
    end = lab.end
    lab.groups.unload()
    monkeypatch.setattr(type(lab.groups.store), "check", check)
    long_computation.set()
    assert [answer.error for answer in await asyncio.gather(joining, waiting)] == ["NOT_COORDINATOR"] * 2
    assert lab.end == end
    assert "g" not in lab.groups.groups


async def test_an_expelled_member_is_removed_after_a_computation(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    long_computation.clear()
    joining = asyncio.create_task(lab.join("b", "orders"))
    await asyncio.sleep(0)
    expelling = asyncio.create_task(lab.groups.expel("g", "a", "the test says so"))
    await asyncio.sleep(0)
    assert "a" in lab.group.memberships
    long_computation.set()
    assert (await joining)[:4] == ("NONE", "b", 3, {})
    await expelling
    assert [*lab.group.memberships] == ["b"]
    assert (await lab.settle("b")) == {"b": {"orders": ALL}}
