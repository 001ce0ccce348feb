"""Heartbeats of share groups: joining, partitions that are shared, fences, leaving, time-outs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.protocol.errors import NotEnoughReplicas
from support.broker.consumer_lab import ASSIGNMENT_INTERVAL_MS, SESSION_MS
from support.broker.share_lab import ShareLab

MakeLab = Callable[..., Awaitable[ShareLab]]
ALL = {"t": [0, 1, 2, 3]}


@pytest.fixture
def lab(share_lab: ShareLab) -> ShareLab:
    return share_lab


async def test_a_member_gets_partitions_once_their_states_are_initialized(lab: ShareLab) -> None:
    first = await lab.join("m")
    assert (first.error, first.epoch, first.assigned, first.interval_ms) == ("NONE", 2, {}, 300)
    await lab.groups.writes_done()
    assert lab.types() == [(10, "m"), (11, ""), (13, "m"), (12, ""), (14, "m"), (15, ""), (15, "")]
    assert lab.far()["initialized"] == ALL
    assert set(lab.stored_states().values()) == {-1}
    assert {summary.state_epoch for summary in lab.states.states.values()} == {2}
    early = await lab.beat("m", 2)
    assert (early.epoch, early.assigned, lab.epochs) == (2, None, (3, 2))
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    second = await lab.beat("m", 2)
    assert (second.epoch, second.assigned) == (3, ALL)
    assert (await lab.beat("m", 3)).assigned is None
    assert lab.state == "Stable"


async def test_the_states_are_initialized_after_the_answer(lab: ShareLab) -> None:
    lab.states.is_free.clear()
    assert (await lab.join("m")).error == "NONE"
    assert lab.far() == {"initializing": ALL, "initialized": {}, "deleting": {}}
    lab.states.is_free.set()
    await lab.groups.writes_done()
    assert lab.far() == {"initializing": {}, "initialized": ALL, "deleting": {}}


async def test_states_that_could_not_be_initialized_are_tried_again_with_the_next_heartbeat(lab: ShareLab) -> None:
    lab.states.error = NotEnoughReplicas("one of two")
    await lab.join("m")
    await lab.groups.writes_done()
    assert lab.far() == {"initializing": {}, "initialized": {}, "deleting": {}}
    lab.states.error = None
    await lab.beat("m", 2)
    await lab.groups.writes_done()
    assert lab.far()["initialized"] == ALL


async def test_states_that_nobody_has_answered_for_are_tried_again_after_an_interval(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(group_share_initialize_retry_interval_ms=1, offsets_commit_timeout_ms=5_000)
    lab.states.is_free.clear()
    await lab.join("m")
    end = lab.end
    await lab.clock.advance(4_999, liveness=True)
    await lab.beat("m", 2)
    assert lab.types(end) == []
    await lab.clock.advance(1, liveness=True)
    await lab.beat("m", 2)
    assert lab.types(end) == [(15, "")]
    lab.states.is_free.set()


async def test_new_partitions_are_initialized_and_then_assigned(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    await lab.add_partitions("t", 1)
    assert (await lab.settle("m"))["m"] == {"t": [0, 1, 2, 3, 4]}


async def test_members_share_the_partitions_evenly(lab: ShareLab) -> None:
    for name in ("m1", "m2"):
        await lab.join(name)
    has = await lab.settle("m1", "m2")
    assert sorted(number for each in has.values() for number in each["t"]) == [0, 1, 2, 3]
    assert [len(each["t"]) for each in has.values()] == [2, 2]


async def test_members_share_one_partition(lab: ShareLab) -> None:
    lab.add_topics("one", partitions=1)
    for name in ("m1", "m2"):
        await lab.join(name, "one")
    assert await lab.settle("m1", "m2") == {"m1": {"one": [0]}, "m2": {"one": [0]}}


async def test_a_member_moves_to_its_target_although_others_have_not_given_up_theirs(lab: ShareLab) -> None:
    await lab.join("m1")
    await lab.settle("m1")
    await lab.pass_time(ASSIGNMENT_INTERVAL_MS)
    second = await lab.join("m2")
    assert len((second.assigned or {})["t"]) == 2
    assert lab.assigned_to("m1") == ALL  # until its next heartbeat


async def test_within_the_interval_a_member_joins_at_the_last_target(lab: ShareLab) -> None:
    await lab.join("m1")
    second = await lab.join("m2")
    assert (second.epoch, second.assigned, lab.epochs) == (2, {}, (3, 2))


async def test_a_member_that_unsubscribes_loses_the_topic_at_once(lab: ShareLab) -> None:
    lab.add_topics("u", partitions=1)
    await lab.join("m", "t", "u")
    await lab.settle("m")
    answer = await lab.beat("m", lab.group.current("m").epoch, names=["u"])
    assert answer.assigned == {"u": [0]}


async def test_a_new_rack_changes_no_epoch(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    end, epochs = lab.end, lab.epochs
    await lab.beat("m", epochs[1], rack_id="r")
    assert (lab.types(end), lab.epochs) == ([(10, "m")], epochs)


async def test_a_topic_that_is_deleted_and_made_again_begins_anew(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    old = lab.id_of("t")
    lab.delete_topic("t")
    await lab.groups.writes_done()
    assert lab.far() == {"initializing": {}, "initialized": {}, "deleting": {}}
    lab.add_topics("t", partitions=1)
    assert await lab.settle("m") == {"m": {"t": [0]}}
    assert lab.id_of("t") != old


# --- fences


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 0, {"names": ["t"]}, "INVALID_REQUEST"),
        ("x" * 37, 0, {"names": ["t"]}, "INVALID_REQUEST"),
        ("  ", 0, {"names": ["t"]}, "INVALID_REQUEST"),
        ("m", 0, {}, "INVALID_REQUEST"),
        ("m", 0, {"names": []}, "INVALID_REQUEST"),
        ("m", 0, {"names": ["t"], "rack_id": ""}, "INVALID_REQUEST"),
        ("m", 0, {"names": ["t"], "rack_id": "r" * 40_000}, "INVALID_REQUEST"),
        ("m", 0, {"names": ["t"], "group": " "}, "INVALID_REQUEST"),
        ("m", -2, {}, "INVALID_REQUEST"),
        ("m", 1, {}, "GROUP_ID_NOT_FOUND"),
        ("m", -1, {}, "GROUP_ID_NOT_FOUND"),
    ],
)
async def test_a_wrong_heartbeat_makes_no_group(
    lab: ShareLab, member_id: str, epoch: int, fields: dict[str, object], error: str
) -> None:
    assert (await lab.beat(member_id, epoch, **fields)).error == error
    assert "g" not in lab.groups.groups


async def test_a_member_has_its_epoch_or_the_one_before(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    assert lab.group.current("m")[:2] == (3, 2)
    assert [(await lab.beat("m", epoch)).error for epoch in (1, 2, 3, 4)] == [
        "FENCED_MEMBER_EPOCH",
        "NONE",
        "NONE",
        "FENCED_MEMBER_EPOCH",
    ]
    assert (await lab.join("m")).assigned == ALL  # again, with what it has


async def test_others_than_members_are_refused(lab: ShareLab) -> None:
    await lab.join("m")
    assert (await lab.beat("other", 2)).error == "UNKNOWN_MEMBER_ID"
    assert (await lab.beat("other", -1)).error == "UNKNOWN_MEMBER_ID"


async def test_a_full_group_takes_no_more_members(make_share_lab: MakeLab) -> None:
    lab = await make_share_lab(group_share_max_size=1)
    await lab.join("m1")
    assert (await lab.join("m2")).error == "GROUP_MAX_SIZE_REACHED"
    assert (await lab.beat("m1", 2)).error == "NONE"


async def test_a_heartbeat_that_cannot_be_stored_changes_nothing(lab: ShareLab) -> None:
    lab.refuse_appends(NotEnoughReplicas("one of two"))
    assert (await lab.join("m")).error == "COORDINATOR_NOT_AVAILABLE"
    lab.refuse_appends(None)
    assert "g" not in lab.groups.groups
    assert lab.states.states == {}


# --- leaving


async def test_a_member_that_leaves_is_removed_with_the_next_epoch(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.settle("m")
    end, epoch = lab.end, lab.group.epoch
    answer = await lab.leave("m")
    assert (answer.error, answer.epoch, answer.interval_ms) == ("NONE", -1, 0)
    assert lab.types(end) == [(-14, "m"), (-13, "m"), (-10, "m"), (11, "")]
    assert (lab.group.epoch, lab.state) == (epoch + 1, "Empty")
    assert lab.far()["initialized"] == ALL


async def test_a_member_without_heartbeats_is_removed(lab: ShareLab) -> None:
    await lab.join("m")
    await lab.pass_time(SESSION_MS - 1)
    assert lab.state == "Stable"
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_a_group_has_a_session_time_out_of_its_own(lab: ShareLab) -> None:
    await lab.set_group_config("share.session.timeout.ms", "50000")
    await lab.join("m")
    await lab.pass_time(49_999)
    assert lab.state == "Stable"
    await lab.pass_time(1)
    assert lab.state == "Empty"


async def test_a_restart_loads_the_group_as_it_was(lab: ShareLab) -> None:
    lab.add_topics("u")
    await lab.join("m1")
    await lab.join("m2", "t", "u", rack_id="r")
    await lab.settle("m1", "m2")
    before = lab.in_memory()
    await lab.restart()
    assert lab.in_memory() == before
    await lab.pass_time(SESSION_MS)
    assert lab.state == "Empty"
