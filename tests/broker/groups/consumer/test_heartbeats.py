"""Heartbeats of consumer groups: joining, staying, leaving, static members, and the checks in Kafka's order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.groups.classic.member import Joining
from kmini.broker.groups.group import Committer
from kmini.protocol.errors import (
    CoordinatorLoadInProgress,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
)
from kmini.protocol.topics import TopicPartition
from support.broker.consumer_lab import REBALANCE_MS, ConsumerLab
from support.broker.stored_groups import OFFSET

NewLab = Callable[..., Awaitable[ConsumerLab]]

ALL = [0, 1, 2, 3]


async def two_members(lab: ConsumerLab) -> None:
    """The members "a" and "b" with two partitions each, at epoch 3."""
    await lab.join("a", "orders")
    await lab.join("b", "orders")
    assert sorted((await lab.settle("a", "b")).items()) == [("a", {"orders": [0, 1]}), ("b", {"orders": [2, 3]})]
    assert (lab.epochs, lab.state) == ((3, 3), "Stable")


# --- joining


async def test_a_second_member_gets_its_share_step_by_step(consumer_lab: ConsumerLab) -> None:
    """As it was seen on Apache Kafka 4.3.1."""
    lab = consumer_lab
    assert (await lab.join("a", "orders"))[2:4] == (2, {"orders": ALL})
    await lab.pass_time(1_000)
    assert (await lab.join("b", "orders"))[2:4] == (3, {})
    assert lab.state == "Reconciling"
    assert (await lab.beat("a", 2))[2:4] == (2, {"orders": [0, 1]})
    assert (await lab.beat("a", 2))[2:4] == (2, None)  # it is not told twice
    assert (await lab.beat("b", 3))[2:4] == (3, None)
    assert (await lab.beat("a", 2, owned={"orders": [0, 1]}))[2:4] == (3, None)
    assert lab.state == "Reconciling"
    assert (await lab.beat("b", 3))[2:4] == (3, {"orders": [2, 3]})
    assert lab.state == "Stable"


async def test_a_full_heartbeat_is_answered_with_the_assignment(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    full = {"rebalance_timeout_ms": REBALANCE_MS, "names": ["orders"], "owned": {"orders": ALL}}
    assert (await lab.beat("a", 2, **full)).assigned == {"orders": ALL}
    for missing in full:
        partial = {name: value for name, value in full.items() if name != missing}
        assert (await lab.beat("a", 2, **partial)).assigned is None


async def test_a_member_that_joins_again_goes_on_with_all_that_it_has(consumer_lab: ConsumerLab) -> None:
    """It owns nothing any more, so nothing is to be given up."""
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.join("b", "orders")
    await lab.beat("a", 2)
    assert lab.revoking("a") == {"orders": [2, 3]}
    assert (await lab.join("a", "orders"))[:4] == ("NONE", "a", 3, {"orders": [0, 1]})
    assert lab.revoking("a") == {}
    assert lab.epochs == (3, 3)
    assert (await lab.beat("b", 3)).assigned == {"orders": [2, 3]}


async def test_a_rejoin_needs_no_epoch(consumer_lab: ConsumerLab) -> None:
    await two_members(consumer_lab)
    assert (await consumer_lab.join("a", "orders"))[:4] == ("NONE", "a", 3, {"orders": [0, 1]})
    assert consumer_lab.epochs == (3, 3)


async def test_members_without_topics_have_no_partitions(consumer_lab: ConsumerLab) -> None:
    """A subscription to no topic begins no epoch: the group keeps its first one."""
    assert (await consumer_lab.join("a"))[2:4] == (1, {})
    assert (consumer_lab.epochs, consumer_lab.state) == ((1, 1), "Stable")
    assert (await consumer_lab.join("b", "absent"))[2:4] == (2, {})
    assert consumer_lab.epochs == (2, 2)


# --- checks of a group


async def test_only_a_member_that_joins_makes_a_group(consumer_lab: ConsumerLab) -> None:
    for epoch in (1, -1):
        assert (await consumer_lab.beat("a", epoch)).error == "GROUP_ID_NOT_FOUND"
    assert (await consumer_lab.beat("a", -2, instance_id="i")).error == "GROUP_ID_NOT_FOUND"
    assert "g" not in consumer_lab.groups.groups


async def test_a_group_that_is_full_takes_its_own_members_only(new_consumer_lab: NewLab) -> None:
    lab = await new_consumer_lab(group_consumer_max_size=2)
    lab.add_topics("orders")
    for member_id in ("a", "b"):
        await lab.join(member_id, "orders")
    assert (await lab.join("c", "orders")).error == "GROUP_MAX_SIZE_REACHED"
    assert (await lab.beat("c", 5)).error == "GROUP_MAX_SIZE_REACHED"  # before it is found to be unknown
    assert (await lab.leave("c")).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.join("a", "orders")).error == "NONE"
    await lab.leave("a")
    assert (await lab.join("c", "orders")).error == "NONE"


async def test_a_member_is_fenced_by_its_epoch(consumer_lab: ConsumerLab) -> None:
    await two_members(consumer_lab)
    assert (await consumer_lab.beat("a", 4)).error == "FENCED_MEMBER_EPOCH"
    assert (await consumer_lab.beat("a", 2)).error == "FENCED_MEMBER_EPOCH"
    assert (await consumer_lab.beat("a", 2, owned={"orders": [0, 1, 2]})).error == "FENCED_MEMBER_EPOCH"
    assert (await consumer_lab.beat("a", 2, owned={"orders": [0]}))[:4] == ("NONE", "a", 3, None)
    assert (await consumer_lab.beat("c", 3)).error == "UNKNOWN_MEMBER_ID"
    assert consumer_lab.state == "Stable"


async def test_the_size_of_the_group_is_looked_at_before_its_members(new_consumer_lab: NewLab) -> None:
    """And members before the expression."""
    lab = await new_consumer_lab(group_consumer_max_size=1)
    await lab.join("a", "orders")
    assert (await lab.join("b", regex="(")).error == "GROUP_MAX_SIZE_REACHED"
    assert (await lab.beat("a", 9, regex="(")).error == "FENCED_MEMBER_EPOCH"
    assert (await lab.beat("a", 2, regex="(")).error == "INVALID_REGULAR_EXPRESSION"


@pytest.mark.parametrize("is_simple", [True, False])
async def test_a_classic_group_without_members_is_replaced_and_its_offsets_stay(
    consumer_lab: ConsumerLab, is_simple: bool
) -> None:
    lab = consumer_lab
    if not is_simple:
        lab.groups.join(
            "g", Joining("", None, "", "/", 10_000, 10_000, "consumer", {"range": b""}, takes_member_id=True)
        )
        await lab.pass_time(20_000)
    changes = lab.groups.store.changes("g")
    changes.set(TopicPartition("orders", 0), OFFSET)
    group = lab.groups.group_for_commit(Committer("", None, -1, 9), changes)
    await lab.groups.commit(group, changes)
    assert (await lab.beat("a", 3)).error == "GROUP_ID_NOT_FOUND"
    assert (await lab.join("a", "orders"))[:4] == ("NONE", "a", 2, {"orders": ALL})
    assert lab.group.offsets.get(TopicPartition("orders", 0)) == OFFSET
    await lab.restart()
    assert (lab.state, lab.group.epoch) == ("Stable", 2)
    assert lab.group.offsets.get(TopicPartition("orders", 0)) == OFFSET


# --- leaving


async def test_a_member_leaves_with_any_epoch_behind_it(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await two_members(lab)
    since = lab.end
    assert await lab.leave("a") == ("NONE", "a", -1, None, 0, None)
    assert lab.types(since) == [(-8, "a"), (-7, "a"), (-5, "a"), (3, "")]
    assert lab.epochs == (4, 3)
    assert lab.state == "Assigning"
    assert (await lab.beat("a", 3)).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.leave("a")).error == "UNKNOWN_MEMBER_ID"
    await lab.pass_time(1_000)
    assert (await lab.beat("b", 3))[2:4] == (4, {"orders": ALL})


async def test_the_last_member_leaves_an_empty_group_with_another_epoch(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("a", "orders")
    await consumer_lab.leave("a")
    assert (consumer_lab.state, consumer_lab.epochs) == ("Empty", (3, 2))
    assert (await consumer_lab.join("b", "orders"))[2:4] == (2, {})  # the last assignment is less than a second old
    await consumer_lab.pass_time(1_000)
    assert (await consumer_lab.beat("b", 2)).assigned == {"orders": ALL}


async def test_a_departure_is_remembered_for_reports(consumer_lab: ConsumerLab) -> None:
    await consumer_lab.join("a", "orders")
    await consumer_lab.leave("a")
    (gone,) = consumer_lab.group.departures
    assert (gone.member_id, gone.client_id, gone.generation, gone.is_expelled) == ("a", "test", 2, False)


# --- static members


async def test_an_instance_id_has_one_holder(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    for member_id in ("a", "b"):
        assert (await lab.join(member_id, "orders", instance_id="i")).error == "UNRELEASED_INSTANCE_ID"
    assert (await lab.beat("b", 2, instance_id="i")).error == "FENCED_INSTANCE_ID"
    assert (await lab.beat("a", 2, instance_id="j")).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.leave("b", instance_id="i")).error == "FENCED_INSTANCE_ID"
    assert (await lab.beat("a", 2, instance_id="i")).error == "NONE"


async def test_a_static_member_that_is_away_keeps_its_partitions(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    since = lab.end
    assert await lab.leave("a", -2, instance_id="i") == ("NONE", "a", -2, None, 0, None)
    assert lab.types(since) == [(8, "a")]
    assert (lab.epochs, lab.state) == ((2, 2), "Reconciling")
    current = lab.group.current("a")
    assert (current.epoch, current.assigned) == (-2, {lab.id_of("orders"): dict.fromkeys(ALL, 0)})
    assert (await lab.beat("a", 2, instance_id="i")).error == "FENCED_MEMBER_EPOCH"
    await lab.pass_time(1_000)
    assert (await lab.join("b", "orders"))[2:4] == (3, {})


@pytest.mark.parametrize("member_id", ["b", "a"])
async def test_a_static_member_that_comes_back_has_the_same_partitions_at_once(
    consumer_lab: ConsumerLab, member_id: str
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    await lab.join("n", "orders")
    await lab.settle("a", "n")
    mine = lab.assigned_to("a")
    await lab.leave("a", -2, instance_id="i")
    since = lab.end
    assert (await lab.join(member_id, "orders", instance_id="i"))[:4] == ("NONE", member_id, 3, mine)
    if member_id == "b":
        assert lab.types(since) == [
            (-8, "a"),
            (-7, "a"),
            (-5, "a"),
            (5, "b"),
            (7, "b"),
            (8, "b"),
            (8, "b"),
        ]
        assert (await lab.beat("a", 3, instance_id="i")).error == "FENCED_INSTANCE_ID"
    assert (lab.epochs, lab.state) == ((3, 3), "Stable")
    assert (await lab.beat("n", 3))[:4] == ("NONE", "n", 3, None)


async def test_a_static_member_that_comes_back_with_another_subscription_begins_another_epoch(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    await lab.join("a", "orders", instance_id="i")
    await lab.leave("a", -2, instance_id="i")
    await lab.pass_time(1_000)
    assert (await lab.join("b", "others", instance_id="i"))[:4] == ("NONE", "b", 3, {"others": ALL})
    assert lab.epochs == (3, 3)


async def test_a_static_member_that_was_giving_up_partitions_has_given_them_up_when_it_comes_back(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    await lab.pass_time(1_000)
    await lab.join("n", "orders")
    await lab.beat("a", 2, instance_id="i")
    await lab.leave("a", -2, instance_id="i")
    assert lab.revoking("a") == {}
    assert (await lab.beat("n", 3)).assigned == {"orders": [2, 3]}
    assert (await lab.join("b", "orders", instance_id="i"))[2:4] == (3, {"orders": [0, 1]})


async def test_a_static_member_leaves_for_good_by_its_instance_id(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", instance_id="i")
    await lab.leave("a", -2, instance_id="i")
    assert (await lab.leave("a", instance_id="i")).error == "NONE"
    assert lab.state == "Empty"
    assert (await lab.join("b", "orders", instance_id="i")).error == "NONE"


async def test_a_full_group_counts_a_static_member_that_comes_back_with_another_id(new_consumer_lab: NewLab) -> None:
    """As in Apache Kafka, which compares member ids."""
    lab = await new_consumer_lab(group_consumer_max_size=1)
    await lab.join("a", instance_id="i")
    await lab.leave("a", -2, instance_id="i")
    assert (await lab.join("b", instance_id="i")).error == "GROUP_MAX_SIZE_REACHED"
    assert (await lab.join("a", instance_id="i")).error == "NONE"


# --- failures


FAILURES = [
    (NotEnoughReplicas("one of two"), "COORDINATOR_NOT_AVAILABLE"),
    (RequestTimedOut("too slow"), "COORDINATOR_NOT_AVAILABLE"),
    (NotLeaderOrFollower("another one leads"), "NOT_COORDINATOR"),
    (KafkaStorageError("the disk is full"), "NOT_COORDINATOR"),
    (RecordListTooLarge("no room"), "UNKNOWN_SERVER_ERROR"),
]


def seen(lab: ConsumerLab) -> object:
    """All that a group holds in memory, and its time-outs."""
    group = lab.group
    return (
        lab.epochs,
        dict(group.memberships),
        dict(group.currents),
        {member_id: dict(target) for member_id, target in group.targets.items()},
        dict(group.expressions),
        group.metadata_hash,
        [*lab.groups.session_ends(group)],
        group.departures,
        lab.end,
    )


@pytest.mark.parametrize(("failure", "expected"), FAILURES, ids=lambda value: value if isinstance(value, str) else "")
async def test_an_append_that_fails_changes_nothing(
    consumer_lab: ConsumerLab, failure: KafkaError, expected: str
) -> None:
    lab = consumer_lab
    await two_members(lab)
    await lab.join("s", "orders", instance_id="i")
    before = seen(lab)
    lab.refuse_appends(failure)
    assert (await lab.join("new", "orders")).error == expected
    assert (await lab.beat("a", 3, names=["others"])).error == expected
    assert (await lab.leave("a")).error == expected
    assert (await lab.leave("s", -2, instance_id="i")).error == expected
    await lab.pass_time(0)
    assert seen(lab) == before
    lab.refuse_appends(None)
    assert (await lab.join("new", "orders")).error == "NONE"
    await lab.settle("a", "b", "s", "new")


async def test_a_member_whose_heartbeat_changes_nothing_needs_no_append(consumer_lab: ConsumerLab) -> None:
    await two_members(consumer_lab)
    consumer_lab.refuse_appends(NotEnoughReplicas("one of two"))
    end = consumer_lab.end
    assert (await consumer_lab.beat("a", 3)).error == "NONE"
    assert consumer_lab.end == end


async def test_a_heartbeat_while_the_group_is_loaded_is_to_be_sent_again(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loading(*_: object, **__: object) -> None:
        raise CoordinatorLoadInProgress("reading")

    monkeypatch.setattr(type(consumer_lab.groups.store), "check", loading)
    assert (await consumer_lab.join("a", "orders")).error == "COORDINATOR_LOAD_IN_PROGRESS"
