"""What a member, a client that is no member any more and a client of an earlier generation are answered, in each state
of the group."""

from __future__ import annotations

import pytest

from kmini.broker.groups.classic.fencing import check_commit
from kmini.broker.groups.classic.group_states import GroupState
from kmini.broker.groups.group import Committer
from kmini.broker.groups.group_store import OffsetChanges
from kmini.protocol.errors import KafkaError, error_name
from support.broker.group_lab import NONE, Lab
from support.broker.groups_in_states import (
    ENTER,
    FENCED,
    IDS,
    INCONSISTENT,
    ORDER,
    UNAVAILABLE,
    UNKNOWN,
    WAITS,
    completing,
)

IN_PROGRESS, GENERATION = "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"

NO_MEMBER_NOW = {  # whatever they ask for
    "stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNAVAILABLE),
    "fenced": (UNKNOWN, FENCED, FENCED, FENCED, UNAVAILABLE),
    "unknown instance": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNAVAILABLE),
    "old generation": (UNKNOWN, GENERATION, GENERATION, GENERATION, UNAVAILABLE),
}

SYNCS = {
    **NO_MEMBER_NOW,
    "follower": (UNKNOWN, IN_PROGRESS, WAITS, NONE, UNAVAILABLE),
    "leader": (UNKNOWN, IN_PROGRESS, NONE, NONE, UNAVAILABLE),
    "another type": (UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT, UNAVAILABLE),
    "another protocol": (UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT, UNAVAILABLE),
    "right protocol": (UNKNOWN, IN_PROGRESS, WAITS, NONE, UNAVAILABLE),
}

HEARTBEATS = {
    **NO_MEMBER_NOW,
    "follower": (UNKNOWN, IN_PROGRESS, NONE, NONE, UNAVAILABLE),
}

COMMITS = {
    **NO_MEMBER_NOW,
    "follower": (UNKNOWN, NONE, IN_PROGRESS, NONE, UNAVAILABLE),
    "outsider": (NONE, UNKNOWN, UNKNOWN, UNKNOWN, UNAVAILABLE),
    "member id and no generation": (NONE, UNKNOWN, UNKNOWN, UNKNOWN, UNAVAILABLE),
}


def identity(sender: str, lab: Lab, ids: IDS) -> tuple[str, str | None, int]:
    """Member id, instance id and generation of a caller."""
    generation = lab.group.generation_id
    return {
        "follower": (ids["follower"], None, generation),
        "leader": (ids["leader"], None, generation),
        "stranger": ("someone", None, generation),
        "fenced": ("someone", "static", generation),
        "unknown instance": (ids["follower"], "other", generation),
        "old generation": (ids["follower"], None, generation - 1),
        "outsider": ("", None, -1),
        "member id and no generation": ("someone", None, -1),
    }.get(sender, (ids["follower"], None, generation))


@pytest.mark.parametrize("state", ORDER)
@pytest.mark.parametrize("sender", SYNCS)
async def test_a_sync_in_each_state(lab: Lab, sender: str, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    member_id, instance_id, generation = identity(sender, lab, ids)
    protocol = {
        "another type": ("connect", None),
        "another protocol": ("consumer", "sticky"),
        "right protocol": ("consumer", "range"),
    }.get(sender, (None, None))
    answer = lab.sync(member_id, generation, instance=instance_id, protocol=protocol)
    expected = SYNCS[sender][ORDER.index(state)]
    assert (error_name(answer.result().error_code) if answer.done() else WAITS) == expected


@pytest.mark.parametrize("state", ORDER)
@pytest.mark.parametrize("sender", HEARTBEATS)
async def test_a_heartbeat_in_each_state(lab: Lab, sender: str, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    member_id, instance_id, generation = identity(sender, lab, ids)
    assert lab.heartbeat(member_id, generation, instance=instance_id) == HEARTBEATS[sender][ORDER.index(state)]
    assert lab.group.state is state


@pytest.mark.parametrize("state", ORDER)
@pytest.mark.parametrize("sender", COMMITS)
async def test_a_commit_in_each_state(lab: Lab, sender: str, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    outcome = NONE
    try:
        lab.coordinator.group_for_commit(Committer(*identity(sender, lab, ids), 8), OffsetChanges("g", 0))
    except KafkaError as error:
        outcome = error.kafka_name
    assert outcome == COMMITS[sender][ORDER.index(state)]


async def test_a_transactional_commit_needs_no_member(lab: Lab) -> None:
    await completing(lab)
    check_commit(lab.group, "", None, -1, is_transactional=True)
