"""Heartbeats of streams groups: joining, the initial delay, tasks that move, fences, leaving.

`test_member_steps.py` has the statuses and the checks of the topology.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kmini.broker.groups.streams.tasks import Duties
from kmini.protocol.errors import NotEnoughReplicas
from kmini.protocol.messages.streams_group_heartbeat import Endpoint, KeyValue
from support.broker.consumer_lab import ASSIGNMENT_INTERVAL_MS, REBALANCE_MS, SESSION_MS
from support.broker.streams_lab import COUNTS_T, INITIAL_DELAY_MS, StreamsLab, subtopology, topology

HALF = Duties({"0": [0, 1]})


# --- joining


async def test_a_group_waits_for_more_members_and_then_assigns_by_itself(lab: StreamsLab) -> None:
    first = await lab.join("m1")
    assert (first.error, first.epoch, first.active, first.standby) == ("NONE", 1, {}, {})
    assert first.statuses == ["ASSIGNMENT_DELAYED"]
    assert first.interval_ms == 300
    second = await lab.join("m2")
    assert (second.epoch, second.statuses) == (1, ["ASSIGNMENT_DELAYED"])
    assert lab.state == "Assigning"
    assert lab.epochs == (3, 1)
    await lab.pass_time(INITIAL_DELAY_MS - 1)
    assert lab.epochs == (3, 1)
    await lab.pass_time(1)
    assert lab.epochs == (3, 3)  # without a heartbeat
    answers = [await lab.beat(member_id, 1, owned=Duties()) for member_id in ("m1", "m2")]
    assert [answer.epoch for answer in answers] == [3, 3]
    assert sorted(number for answer in answers for number in (answer.active or {})["0"]) == [0, 1, 2, 3]
    assert [answer.statuses for answer in answers] == [[], []]
    assert lab.state == "Stable"


async def test_without_a_delay_the_first_member_gets_everything_at_once(quick_lab: StreamsLab) -> None:
    answer = await quick_lab.join("m1")
    assert (answer.epoch, answer.active, answer.statuses) == (2, {"0": [0, 1, 2, 3]}, [])
    assert quick_lab.state == "Stable"
    assert quick_lab.types() == [(19, "m1"), (23, ""), (17, ""), (21, "m1"), (20, ""), (22, "m1")]


async def test_the_delay_begins_again_when_a_group_was_empty(lab: StreamsLab) -> None:
    await lab.join("m1")
    await lab.settle("m1")
    await lab.leave("m1")
    assert lab.state == "Empty"
    answer = await lab.join("m2")
    assert (answer.active, answer.statuses) == ({}, ["ASSIGNMENT_DELAYED"])


async def test_nothing_is_assigned_after_the_delay_if_all_have_left(lab: StreamsLab) -> None:
    await lab.join("m1")
    await lab.leave("m1")
    end = lab.end
    await lab.pass_time(INITIAL_DELAY_MS)
    assert lab.end == end


async def test_a_heartbeat_assigns_if_the_target_could_not_be_stored_after_the_delay(lab: StreamsLab) -> None:
    await lab.join("m1")
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    await lab.pass_time(INITIAL_DELAY_MS)
    lab.refuse_appends(None)
    assert lab.epochs == (2, 1)
    answer = await lab.beat("m1", 1, owned=Duties())
    assert answer.active == {"0": [0, 1, 2, 3]}


async def test_within_the_assignment_interval_the_last_target_stays(lab: StreamsLab) -> None:
    await lab.join("m1")
    await lab.settle("m1")
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    late = await lab.join("m2")
    assert (late.epoch, late.active, late.statuses) == (3, {}, [])
    another = await lab.join("m3")
    assert (another.epoch, another.active, another.statuses) == (3, {}, ["ASSIGNMENT_DELAYED"])


async def test_a_known_member_that_joins_again_goes_on_from_what_it_has(quick_lab: StreamsLab) -> None:
    await quick_lab.join("m1")
    await quick_lab.join("m2")
    answer = await quick_lab.join("m1")
    assert (answer.error, answer.epoch, answer.active) == ("NONE", 3, quick_lab.active_of("m1"))
    assert quick_lab.epochs == (3, 3)


async def test_a_full_group_refuses_all_that_join(make_lab: Any) -> None:
    lab = await make_lab(group_streams_max_size=1)
    await lab.join("m1")
    assert (await lab.join("m2")).error == "GROUP_MAX_SIZE_REACHED"
    assert (await lab.join("m1")).error == "GROUP_MAX_SIZE_REACHED"  # as in Kafka
    assert (await lab.beat("m1", 1)).error == "NONE"


# --- tasks move


async def test_a_newcomer_gets_tasks_once_they_are_given_up(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    assert (await lab.join("m2")).active == {}
    told = await lab.beat("m1", 2)
    assert (told.epoch, told.active) == (2, {"0": [0, 1]})
    assert lab.state == "Reconciling"
    assert (await lab.beat("m1", 2, owned=Duties({"0": [0, 1, 2, 3]}))).active is None
    assert (await lab.beat("m2", 3)).active is None
    given_up = await lab.beat("m1", 2, owned=HALF)
    assert (given_up.epoch, given_up.active) == (3, None)
    assert (await lab.beat("m2", 3)).active == {"0": [2, 3]}
    assert lab.state == "Stable"


async def test_a_member_that_gives_nothing_up_is_removed(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    await lab.join("m2")
    await lab.beat("m1", 2)
    for _ in range(2):
        await lab.pass_time(REBALANCE_MS // 2 - 1)
        await lab.beat("m1", 2)
        await lab.beat("m2", 3)
    await lab.pass_time(2)
    assert [*lab.group.memberships] == ["m2"]
    assert (await lab.beat("m1", 2)).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.beat("m2", 3)).active == {"0": [0, 1, 2, 3]}


async def test_a_member_without_heartbeats_is_removed(quick_lab: StreamsLab) -> None:
    await quick_lab.join("m1")
    await quick_lab.pass_time(SESSION_MS)
    assert quick_lab.state == "Empty"
    assert quick_lab.epochs == (3, 2)


async def test_the_session_timeout_of_a_group_counts_at_the_next_heartbeat(quick_lab: StreamsLab) -> None:
    await quick_lab.join("m1")
    await quick_lab.set_group_config("streams.session.timeout.ms", "50000")
    await quick_lab.beat("m1", 2)
    await quick_lab.pass_time(49_999)
    assert quick_lab.state == "Stable"
    await quick_lab.pass_time(1)
    assert quick_lab.state == "Empty"


async def test_a_process_has_a_task_in_one_role_at_a_time(quick_lab: StreamsLab) -> None:
    """The standby of a task that its process is still giving up has to wait."""
    lab = quick_lab
    lab.add_topics("counts")
    await lab.set_group_config("streams.num.standby.replicas", "1")
    await lab.join("m1", COUNTS_T, process_id="p1")
    await lab.join("m2", COUNTS_T, process_id="p2")
    await lab.beat("m1", 2)
    assert lab.standby_of("m1") == {}
    await lab.settle("m1", "m2")
    assert lab.active_of("m1") == lab.standby_of("m2") == {"0": [0, 1]}
    assert lab.active_of("m2") == lab.standby_of("m1") == {"0": [2, 3]}


async def test_more_standbys_are_assigned_when_the_group_is_set_to_them(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.add_topics("counts")
    await lab.join("m1", COUNTS_T)
    await lab.join("m2", COUNTS_T)
    await lab.settle("m1", "m2")
    epoch = lab.group.epoch
    await lab.set_group_config("streams.num.standby.replicas", "1")
    await lab.beat("m1", lab.group.current("m1").epoch)
    assert lab.group.epoch == epoch + 1
    await lab.settle("m1", "m2")
    assert lab.standby_of("m1") == lab.active_of("m2")


async def test_a_standby_takes_over_when_the_other_process_has_gone(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.add_topics("counts")
    await lab.set_group_config("streams.num.standby.replicas", "1")
    for member_id in ("m1", "m2", "m3"):
        await lab.join(member_id, COUNTS_T)
    await lab.settle("m1", "m2", "m3")
    heirs = {number: member for member in ("m2", "m3") for number in lab.standby_of(member).get("0", ())}
    lost = lab.active_of("m1")["0"]
    await lab.leave("m1")
    await lab.settle("m2", "m3")
    for number in lost:
        if number in heirs:
            assert number in lab.active_of(heirs[number])["0"]


# --- epochs


async def test_the_epoch_before_is_accepted_with_no_more_tasks_than_were_assigned(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    await lab.join("m2")
    await lab.beat("m1", 2)
    await lab.beat("m1", 2, owned=HALF)  # its answer, epoch 3, was lost
    assert (await lab.beat("m1", 2, owned=HALF)).epoch == 3
    assert (await lab.beat("m1", 2)).error == "FENCED_MEMBER_EPOCH"
    assert (await lab.beat("m1", 2, owned=Duties({"0": [0, 2]}))).error == "FENCED_MEMBER_EPOCH"
    assert (await lab.beat("m1", 2, owned=Duties({"0": [0]}, {"0": [1]}))).error == "FENCED_MEMBER_EPOCH"
    assert (await lab.beat("m1", 1, owned=HALF)).error == "FENCED_MEMBER_EPOCH"
    assert (await lab.beat("m1", 4)).error == "FENCED_MEMBER_EPOCH"


async def test_an_unknown_member_and_an_unknown_group_are_refused(quick_lab: StreamsLab) -> None:
    assert (await quick_lab.beat("m1", 1)).error == "GROUP_ID_NOT_FOUND"
    assert (await quick_lab.leave("m1")).error == "GROUP_ID_NOT_FOUND"
    await quick_lab.join("m1")
    assert (await quick_lab.beat("m2", 1)).error == "UNKNOWN_MEMBER_ID"
    assert (await quick_lab.leave("m2")).error == "UNKNOWN_MEMBER_ID"


# --- leaving


async def test_leaving_needs_no_epoch_and_raises_that_of_the_group(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    await lab.join("m2")
    end = lab.end
    answer = await lab.leave("m1")
    assert (answer.error, answer.epoch, answer.interval_ms, answer.active) == ("NONE", -1, 0, None)
    assert lab.types(end) == [(-22, "m1"), (-21, "m1"), (-19, "m1"), (17, "")]
    assert lab.epochs == (4, 3)
    assert (await lab.beat("m2", 3)).active == {"0": [0, 1, 2, 3]}


# --- what a member tells


@pytest.mark.parametrize(
    "fields",
    [
        {"rack_id": "r"},
        {"process_id": "other"},
        {"client_tags": [KeyValue(key="zone", value="b")]},
        {"rebalance_timeout_ms": 1},
        {"user_endpoint": Endpoint(host="h", port=1)},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_every_change_of_a_member_raises_the_group_epoch(quick_lab: StreamsLab, fields: Any) -> None:
    """Those of a consumer group do so for subscriptions only."""
    await quick_lab.join("m1")
    await quick_lab.beat("m1", 2)
    assert quick_lab.group.epoch == 2
    await quick_lab.beat("m1", 2, **fields)
    assert quick_lab.group.epoch == 3
    await quick_lab.beat("m1", 3, **fields)
    assert quick_lab.group.epoch == 3


async def test_a_shutdown_is_told_to_all_until_the_group_is_empty(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    await lab.join("m1")
    await lab.join("m2")
    assert (await lab.beat("m1", 2, shutdown_application=True)).statuses == ["SHUTDOWN_APPLICATION"]
    answer = await lab.beat("m2", 3, shutdown_application=True)
    assert (answer.statuses, "m1" in answer.details[0]) == (["SHUTDOWN_APPLICATION"], True)
    await lab.leave("m1")
    assert (await lab.beat("m2", 3)).statuses == ["SHUTDOWN_APPLICATION"]
    await lab.leave("m2")
    assert (await lab.join("m3")).statuses == []


async def test_a_member_that_leaves_may_ask_for_the_shutdown(quick_lab: StreamsLab) -> None:
    await quick_lab.join("m1")
    await quick_lab.join("m2")
    await quick_lab.leave("m1", shutdown_application=True)
    assert (await quick_lab.beat("m2", 3)).statuses == ["SHUTDOWN_APPLICATION"]


# --- failures


async def test_what_cannot_be_stored_has_not_happened(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    assert (await lab.join("m1")).error == "COORDINATOR_NOT_AVAILABLE"
    assert "g" not in lab.groups.groups
    lab.refuse_appends(None)
    await lab.join("m1")
    before = lab.in_memory()
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    assert (await lab.join("m2")).error == "COORDINATOR_NOT_AVAILABLE"
    assert (await lab.leave("m1")).error == "COORDINATOR_NOT_AVAILABLE"
    assert lab.in_memory() == before


async def test_a_heartbeat_waits_while_the_target_of_its_group_is_computed(
    quick_lab: StreamsLab, long_computation: asyncio.Event
) -> None:
    lab = quick_lab
    await lab.join("m1")
    long_computation.clear()
    joining = asyncio.ensure_future(lab.join("m2"))
    await asyncio.sleep(0)
    waiting = asyncio.ensure_future(lab.beat("m1", 2))
    await asyncio.sleep(0)
    assert not waiting.done()
    long_computation.set()
    assert (await joining).epoch == 3
    assert (await waiting).active == {"0": [0, 1]}


async def test_a_restart_brings_everything_back(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    lab.add_topics("counts")
    await lab.set_group_config("streams.num.standby.replicas", "1")
    await lab.join("m1", COUNTS_T)
    await lab.join("m2", COUNTS_T)
    await lab.beat("m1", 2)
    before = lab.in_memory()
    await lab.restart()
    assert lab.in_memory() == before
    await lab.settle("m1", "m2")
    await lab.pass_time(REBALANCE_MS - 1)  # the time-outs have begun anew
    assert lab.state == "Empty"


async def test_a_group_with_a_repartition_topic_gets_the_tasks_of_both_subtopologies(quick_lab: StreamsLab) -> None:
    lab = quick_lab
    both = topology(subtopology("0", "t", writes=["r"]), subtopology("1", through={"r": 2}, keeps=["c"]))
    answer = await lab.join("m1", both)
    assert (answer.active, answer.statuses) == ({}, ["MISSING_INTERNAL_TOPICS"])
    assert {name: len(lab.broker.controller.topics[name].partitions) for name in ("r", "c")} == {"r": 2, "c": 2}
    assert lab.state == "NotReady"
    answer = await lab.beat("m1", 2)
    assert answer.active == {"0": [0, 1, 2, 3], "1": [0, 1]}
    assert lab.state == "Stable"
