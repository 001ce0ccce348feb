"""One step of a member: what it tells, the group epoch, the target assignment, and the records of all that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker import scheduler
from kmini.broker.groups.consumer import member_steps
from kmini.broker.groups.consumer.state_changes import (
    AssignmentEpoch,
    CurrentChange,
    GroupEpoch,
    MembershipChange,
    TargetChange,
)
from support.broker.consumer_lab import REBALANCE_MS, START_MS, ConsumerLab

NewLab = Callable[..., Awaitable[ConsumerLab]]

ALL = [0, 1, 2, 3]


# --- records


async def test_the_records_of_a_heartbeat_are_one_batch_in_kafkas_order(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    assert lab.types() == [(5, "a"), (3, ""), (7, "a"), (6, ""), (8, "a")]
    assert len(list(lab.partition.log.segments.active.headers())) == 1
    (_, _, told), (_, _, epoch), (_, _, target), (_, _, assigned), (_, _, current) = lab.changes()
    assert told == MembershipChange("a", lab.group.memberships["a"])
    assert epoch == GroupEpoch(2, lab.group.metadata_hash)
    assert target == TargetChange("a", {lab.id_of("orders"): (0, 1, 2, 3)})
    assert assigned == AssignmentEpoch(2, START_MS)
    assert current == CurrentChange("a", lab.group.current("a"))


async def test_each_step_writes_what_it_changes(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    since = lab.end
    await lab.join("b", "orders")
    assert lab.types(since) == [(5, "b"), (3, ""), (8, "b")]
    await lab.pass_time(1_000)
    since = lab.end
    await lab.beat("a", 2)
    assert sorted(lab.types(since)[:2]) == [(7, "a"), (7, "b")]
    assert lab.types(since)[2:] == [(6, ""), (8, "a")]
    since = lab.end
    await lab.beat("a", 2)
    assert lab.types(since) == []
    await lab.beat("a", 2, owned={"orders": [0, 1]})
    assert lab.types(since) == [(8, "a")]


# --- the group epoch


@pytest.mark.parametrize(
    ("fields", "records"),
    [
        ({"rack_id": "r"}, [(5, "a")]),
        ({"server_assignor": "range"}, [(5, "a")]),
        ({"rebalance_timeout_ms": REBALANCE_MS + 1}, [(5, "a")]),
        ({"rebalance_timeout_ms": REBALANCE_MS}, []),
        ({"names": ["orders"]}, []),
        ({"names": ["orders", "orders"]}, []),
        ({"regex": ""}, []),
    ],
)
async def test_what_is_no_subscription_begins_no_epoch(
    consumer_lab: ConsumerLab, fields: dict[str, Any], records: list[tuple[int, str]]
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    since = lab.end
    assert (await lab.beat("a", 2, **fields)).error == "NONE"
    assert (lab.types(since), lab.epochs) == (records, (2, 2))


async def test_fields_that_are_left_out_stay_as_they_were(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", rack_id="r", server_assignor="range", instance_id="i")
    before = lab.group.memberships["a"]
    await lab.beat("a", 2)
    assert lab.group.memberships["a"] == before


async def test_another_client_id_is_written_and_begins_no_epoch(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    member = lab.group.memberships["a"]
    MembershipChange("a", member._replace(client_id="former", client_host="/former")).apply(lab.group)
    since = lab.end
    await lab.beat("a", 2)
    assert lab.types(since) == [(5, "a")]
    assert (lab.group.memberships["a"], lab.epochs) == (member, (2, 2))


@pytest.mark.parametrize("names", [[], ["orders", "others"], ["others"], ["absent"]])
async def test_another_set_of_topics_begins_an_epoch(consumer_lab: ConsumerLab, names: list[str]) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    await lab.join("a", "orders")
    since = lab.end
    await lab.beat("a", 2, names=names)
    assert lab.epochs == (3, 2)
    assert lab.types(since)[:2] == [(5, "a"), (3, "")]


async def test_topics_that_a_member_unsubscribes_from_are_taken_at_once_at_the_old_epoch(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    assert (await lab.beat("a", 2, names=[]))[2:4] == (2, {})
    assert lab.revoking("a") == {"orders": ALL}
    assert (await lab.beat("a", 2, owned={}))[2:4] == (2, None)
    await lab.pass_time(1_000)
    assert (await lab.beat("a", 2))[2:4] == (3, None)
    assert lab.state == "Stable"


async def test_a_change_of_a_topic_counts_with_the_next_heartbeat(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.add_partitions("orders", 2)
    await lab.pass_time(30_000)
    assert lab.epochs == (2, 2)
    assert (await lab.beat("a", 2))[2:4] == (3, {"orders": [*range(6)]})
    assert lab.epochs == (3, 3)
    assert (await lab.beat("a", 3))[2:4] == (3, None)


async def test_a_topic_that_is_created_or_deleted_counts_with_the_next_heartbeat(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", "others")
    await lab.pass_time(1_000)
    lab.add_topics("others", partitions=1)
    assert (await lab.beat("a", 2))[2:4] == (3, {"orders": ALL, "others": [0]})
    await lab.pass_time(1_000)
    gone = lab.id_of("orders").hex()
    lab.delete_topic("orders")
    assert (await lab.beat("a", 3))[2:4] == (3, {"others": [0]})
    assert lab.revoking("a") == {gone: ALL}
    assert (await lab.beat("a", 3, owned={"others": [0]}))[2:4] == (4, None)
    assert (lab.epochs, lab.state) == ((4, 4), "Stable")


async def test_a_topic_that_is_made_anew_under_its_name_is_another_one(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    former = lab.id_of("orders")
    lab.delete_topic("orders")
    lab.add_topics("orders", partitions=2)
    assert (await lab.beat("a", 2))[2:4] == (2, {})
    assert lab.group.current("a").revoking.keys() == {former}
    assert (await lab.beat("a", 2, owned={}))[2:4] == (3, {"orders": [0, 1]})


async def test_topics_of_other_groups_begin_no_epoch_and_no_record(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    since = lab.end
    lab.add_topics("others")
    await lab.add_partitions("others", 1)
    assert (await lab.beat("a", 2))[2:4] == (2, None)
    assert (lab.types(since), lab.epochs) == ([], (2, 2))


async def test_rebalances_by_subscriptions_and_topics_are_counted(consumer_lab: ConsumerLab) -> None:
    """Those by a member that leaves are not, as in Kafka's metric."""
    lab = consumer_lab
    steps = lab.groups.member_steps
    await lab.join("a", "orders")
    await lab.join("b", "orders")
    assert steps.rebalances == 2
    await lab.leave("b")
    assert steps.rebalances == 2
    await lab.add_partitions("orders", 1)
    await lab.beat("a", 2)
    assert (steps.rebalances, lab.group.epoch) == (3, 5)


# --- the interval of assignments


async def test_a_member_that_joins_soon_after_the_last_assignment_waits_for_the_next(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(999)
    assert (await lab.join("b", "orders"))[2:4] == (2, {})
    assert (lab.epochs, lab.state) == ((3, 2), "Assigning")
    assert (await lab.beat("a", 2))[2:4] == (2, None)
    await lab.pass_time(1)
    assert (await lab.beat("a", 2))[2:4] == (2, {"orders": [0, 1]})
    assert (lab.epochs, lab.state) == ((3, 3), "Reconciling")


async def test_changes_within_the_interval_make_one_assignment(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    for name in "bcd":
        await lab.join(name, "orders")
    assert lab.epochs == (5, 2)
    await lab.pass_time(1_000)
    await lab.beat("a", 2)
    assert lab.epochs == (5, 5)
    assert sorted(lab.target_of(name)["orders"] for name in "abcd") == [[0], [1], [2], [3]]


async def test_with_an_interval_of_0_every_change_makes_an_assignment(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.set_group_config("consumer.assignment.interval.ms", "0")
    assert (await lab.join("b", "orders"))[2:4] == (3, {})
    assert lab.epochs == (3, 3)


async def test_an_assignment_of_the_future_is_old_enough(consumer_lab: ConsumerLab) -> None:
    """The clock was turned back since."""
    lab = consumer_lab
    await lab.join("a", "orders")
    lab.clock.turn_back("7d")
    await lab.join("b", "orders")
    assert lab.epochs == (3, 3)
    await lab.join("c", "orders")
    assert lab.epochs == (4, 3)


async def test_an_assignment_whose_time_is_not_known_is_old_enough(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    lab.group.assigned_at_ms = 0
    await lab.join("b", "orders")
    assert lab.epochs == (3, 3)


# --- the assignor


async def test_the_assignor_that_most_members_name_computes(consumer_lab: ConsumerLab) -> None:
    lab = consumer_lab
    lab.add_topics("others")
    await lab.join("a", "orders", "others", server_assignor="range")
    await lab.join("b", "orders", "others")
    await lab.pass_time(1_000)
    await lab.beat("a", 2)
    assert lab.target_of("a") == {"orders": [0, 1], "others": [0, 1]}
    assert lab.target_of("b") == {"orders": [2, 3], "others": [2, 3]}


async def test_the_first_assignor_that_is_offered_computes_where_no_member_names_one(new_consumer_lab: NewLab) -> None:
    lab = await new_consumer_lab(group_consumer_assignors="range,uniform")
    lab.add_topics("orders")
    await lab.join("b", "orders")
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    await lab.beat("a", 2)
    assert (lab.target_of("a"), lab.target_of("b")) == ({"orders": [0, 1]}, {"orders": [2, 3]})


async def test_an_assignor_that_is_not_offered_any_more_leaves_it_to_the_first(
    consumer_lab: ConsumerLab,
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders", server_assignor="range")
    lab.groups.consumer_life.config = lab.groups.consumer_life.config.replace(group_consumer_assignors=["uniform"])
    await lab.pass_time(1_000)
    assert (await lab.beat("a", 2, server_assignor="range")).error == "UNSUPPORTED_ASSIGNOR"
    assert (await lab.join("b", "orders")).error == "NONE"
    assert lab.epochs == (3, 3)


async def test_an_assignor_that_fails_is_a_server_error_and_changes_nothing(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    before = (lab.epochs, dict(lab.group.memberships), lab.end)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(member_steps, "compute_target", fail)
        assert (await lab.join("b", "orders")).error == "UNKNOWN_SERVER_ERROR"
    assert "a heartbeat of group 'g'" in caplog.text
    assert (lab.epochs, dict(lab.group.memberships), lab.end) == before
    assert (await lab.join("b", "orders")).error == "NONE"


# --- long computations


async def test_other_requests_of_the_group_wait_for_a_long_computation_and_other_groups_do_not(
    consumer_lab: ConsumerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = consumer_lab
    for number in range(40):
        await lab.join(f"m{number}", *([] if number % 2 else ["orders"]), f"t{number}")
    await lab.pass_time(1_000)
    monkeypatch.setattr(scheduler, "_TURN_S", 0.0)
    finished: list[str] = []

    async def then(name: str, answer: Awaitable[Any]) -> Any:
        found = await answer
        finished.append(name)
        return found

    answers = await asyncio.gather(
        then("computes", lab.beat("m0", 2)),
        then("waits", lab.leave("m1")),
        then("other group", lab.join("x", "orders", group="h")),
    )
    assert [answer.error for answer in answers] == ["NONE"] * 3
    assert finished == ["other group", "computes", "waits"]
    assert lab.epochs == (42, 41)
    assert "m1" not in lab.group.memberships


async def test_a_topic_that_changes_during_a_long_computation_counts_with_the_next_heartbeat(
    consumer_lab: ConsumerLab, long_computation: asyncio.Event
) -> None:
    lab = consumer_lab
    await lab.join("a", "orders")
    await lab.pass_time(1_000)
    long_computation.clear()
    joining = asyncio.create_task(lab.join("b", "orders"))
    await asyncio.sleep(0)
    assert not joining.done()
    grown = lab.broker.controller.add_partitions(lab.broker.controller.topics["orders"], [(1,)])
    long_computation.set()
    assert len(grown.partitions) == 5
    assert (await joining).error == "NONE"
    assert lab.epochs == (3, 3)
    await lab.beat("a", 2)
    assert lab.group.epoch == 4
    has = await lab.settle("a", "b")
    assert sorted(number for each in has.values() for number in each["orders"]) == [*range(5)]
