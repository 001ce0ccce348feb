"""The group coordinator: creating, storing, deleting and restoring groups, and commits from outside of a group.

It stands for `broker/groups/classic/classic_groups.py`, too: the requests of members are tested beside the modules that
serve them (`test_joins.py`, `test_rebalance.py`, `test_sessions.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import EMPTY, STABLE
from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.group import Committer
from kmini.broker.groups.group_store import OffsetChanges
from kmini.protocol.errors import (
    CoordinatorNotAvailable,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidRequest,
    KafkaError,
    UnknownMemberId,
    error_name,
)
from support.broker.group_lab import NONE, SESSION_MS, Lab

NewLab = Callable[..., Lab]


async def test_a_group_is_stored_when_it_is_created_stable_and_empty(lab: Lab) -> None:
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


async def test_a_commit_extends_the_session_of_a_member(lab: Lab) -> None:
    ids = await lab.form("a")
    for _ in range(4):
        await lab.pass_time(SESSION_MS * 3 // 4)
        lab.coordinator.group_for_commit(Committer(ids["a"], None, 1, 8), OffsetChanges("g", 0))
    assert lab.state == "Stable"


async def test_a_group_that_cannot_be_stored_does_not_exist(new_lab: NewLab) -> None:
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


async def test_a_group_needs_a_name_to_be_joined(lab: Lab) -> None:
    assert error_name(lab.join(group="").result().error_code) == "INVALID_GROUP_ID"


async def test_a_group_is_restored_when_the_broker_starts_again(lab: Lab, new_lab: NewLab) -> None:
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


async def test_a_restored_group_without_members_keeps_the_time_since_which_it_is_empty(lab: Lab) -> None:
    ids = await lab.form("a")
    lab.leave(ids["a"])
    group = ClassicGroup.restored("g", lab.store.groups["g"], CommittedOffsets())
    assert (group.state, group.protocol_type, group.generation_id) == (EMPTY, "consumer", 2)
    assert group.state_timestamp_ms == lab.group.state_timestamp_ms
    assert ClassicGroup.restored("g", None, CommittedOffsets()).state is EMPTY


@pytest.mark.parametrize(("version", "error"), [(8, IllegalGeneration), (9, GroupIdNotFound)])
async def test_a_commit_of_a_generation_needs_a_group(lab: Lab, version: int, error: type[KafkaError]) -> None:
    with pytest.raises(error):
        lab.coordinator.group_for_commit(Committer("me", None, 1, version), OffsetChanges("g", 0))
    assert lab.coordinator.groups == {}


@pytest.mark.parametrize(
    "names", [{"instance": "i" * 0x8000}, {"protocol_type": "t" * 0x8000}, {"protocols": {"ä" * 0x4000: b""}}]
)
async def test_names_that_no_record_has_room_for_are_refused(lab: Lab, names: dict[str, Any]) -> None:
    assert lab.join(**names).result().error_code == InvalidRequest.code
    assert not lab.coordinator.groups


async def test_a_commit_without_a_generation_creates_a_group_without_a_type(lab: Lab) -> None:
    group = lab.coordinator.group_for_commit(Committer("", None, -1, 8), OffsetChanges("g", 0))
    assert (group.state, group.protocol_type) == (EMPTY, None)
    assert lab.store.writes == 0


async def test_a_rebalance_that_is_asked_for_keeps_the_members_and_goes_on_once(lab: Lab) -> None:
    ids = await lab.form("a", "b")
    await lab.coordinator.rebalance("g", "a test asks")
    timer = lab.group.join_timer
    await lab.coordinator.rebalance("g", "a test asks again")
    assert (lab.state, lab.group.join_timer) == ("PreparingRebalance", timer)
    assert lab.heartbeat(ids["a"]) == "REBALANCE_IN_PROGRESS"
    for member_id in ids.values():
        lab.join(member_id)
    assert (lab.state, lab.group.generation_id, {*lab.group.members}) == ("CompletingRebalance", 2, {*ids.values()})


async def test_a_group_without_members_has_no_rebalance(lab: Lab) -> None:
    with pytest.raises(GroupIdNotFound):
        await lab.coordinator.rebalance("g", "a test asks")
    ids = await lab.form("a")
    lab.leave(ids["a"])
    with pytest.raises(UnknownMemberId):
        await lab.coordinator.rebalance("g", "a test asks")


async def test_each_change_of_state_is_told(lab: Lab) -> None:
    told: list[str] = []

    def changed(group_id: str) -> None:
        told.append(lab.coordinator.groups[group_id].state.value if group_id in lab.coordinator.groups else "new")

    lab.coordinator.changed = lab.coordinator.classic.rebalancer._changed = changed
    ids = await lab.form("a")
    assert told == ["PreparingRebalance", "CompletingRebalance", "Stable"]
    lab.leave(ids["a"])
    assert told[3:] == ["PreparingRebalance", "Empty"]
