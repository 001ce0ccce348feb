"""The tables: every transition, every kind of caller that joins or leaves in every state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import (
    COMMIT,
    COMPLETING,
    DEAD,
    EMPTY,
    HEARTBEAT,
    JOIN,
    PREPARING,
    PREVIOUS,
    STABLE,
    SYNC,
    Caller,
    GroupState,
)
from kmini.broker.groups.classic.member import Leaving
from kmini.protocol.errors import NotCoordinator, error_name
from support.broker.group_lab import NONE, Lab
from support.broker.groups_in_states import (
    ENTER,
    FENCED,
    IDS,
    INCONSISTENT,
    ORDER,
    REQUIRED,
    UNAVAILABLE,
    UNKNOWN,
    WAITS,
    C,
    D,
    E,
    P,
    S,
    dead,
    stable,
)
from support.for_each import for_each

MAY_FOLLOW = {
    (PREPARING, EMPTY),
    (STABLE, PREPARING),
    (COMPLETING, PREPARING),
    (EMPTY, PREPARING),
    (PREPARING, COMPLETING),
    (COMPLETING, STABLE),
} | {(state, DEAD) for state in GroupState}


@for_each("before", GroupState)
@for_each("after", GroupState)
def test_a_state_follows_only_those_that_it_may(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g", 0)
    group.state = before
    if (before, after) in MAY_FOLLOW:
        group.move_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (after, 7)
    else:
        with pytest.raises(ValueError, match=f"{before.value} cannot become {after.value}"):
            group.move_to(after, 7)
        assert (group.state, group.state_timestamp_ms) == (before, 0)


def test_every_table_knows_every_state() -> None:
    assert set(PREVIOUS) == set(SYNC) == set(HEARTBEAT) == set(COMMIT) == set(GroupState)
    assert set(JOIN) == {(caller, state) for caller in Caller for state in GroupState}


# --- joining, by each kind of client

WANTS_MORE = {"range": b"more"}

CALLERS: dict[str, Callable[[Lab, IDS], asyncio.Future[object]]] = {
    "dynamic, no id, v4": lambda lab, ids: lab.join(version=4),
    "dynamic, no id, v3": lambda lab, ids: lab.join(version=3),
    "static, new": lambda lab, ids: lab.join(instance="other"),
    "static, restarted": lambda lab, ids: lab.join(instance="static"),
    "id given out": lambda lab, ids: lab.join(lab.join(version=4).result().member_id),
    "leader": lambda lab, ids: lab.join(ids["leader"]),
    "leader, changed": lambda lab, ids: lab.join(ids["leader"], protocols=WANTS_MORE),
    "follower": lambda lab, ids: lab.join(ids["follower"]),
    "follower, changed": lambda lab, ids: lab.join(ids["follower"], protocols=WANTS_MORE),
    "static, fenced": lambda lab, ids: lab.join("someone", instance="static"),
    "unknown id": lambda lab, ids: lab.join("someone"),
    "unknown id and instance": lambda lab, ids: lab.join("someone", instance="other"),
    "another protocol type": lambda lab, ids: lab.join(version=3, protocol_type="connect"),
    "no common protocol": lambda lab, ids: lab.join(version=3, protocols={"sticky": b""}),
    "no protocol": lambda lab, ids: lab.join(version=3, protocols={}),
}

# For each caller, in each state: what is answered, and the state afterwards.
#                          Empty              Preparing          Completing         Stable
OUTCOMES: dict[str, tuple[tuple[str, str], ...]] = {
    "dynamic, no id, v4": ((REQUIRED, E), (REQUIRED, P), (REQUIRED, C), (REQUIRED, S)),
    "dynamic, no id, v3": ((WAITS, P), (WAITS, P), (WAITS, P), (WAITS, P)),
    "static, new": ((WAITS, P), (WAITS, P), (WAITS, P), (WAITS, P)),
    "static, restarted": ((WAITS, P), (WAITS, P), (WAITS, P), (NONE, S)),
    "id given out": ((WAITS, P), (WAITS, P), (WAITS, P), (WAITS, P)),
    "leader": ((UNKNOWN, E), (WAITS, P), (NONE, C), (WAITS, P)),
    "leader, changed": ((UNKNOWN, E), (WAITS, P), (WAITS, P), (WAITS, P)),
    "follower": ((UNKNOWN, E), (WAITS, P), (NONE, C), (NONE, S)),
    "follower, changed": ((UNKNOWN, E), (WAITS, P), (WAITS, P), (WAITS, P)),
    "static, fenced": ((UNKNOWN, E), (FENCED, P), (FENCED, C), (FENCED, S)),
    "unknown id": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S)),
    "unknown id and instance": ((UNKNOWN, E), (UNKNOWN, P), (UNKNOWN, C), (UNKNOWN, S)),
    "another protocol type": ((WAITS, P), (INCONSISTENT, P), (INCONSISTENT, C), (INCONSISTENT, S)),
    "no common protocol": ((WAITS, P), (INCONSISTENT, P), (INCONSISTENT, C), (INCONSISTENT, S)),
    "no protocol": ((INCONSISTENT, E), (INCONSISTENT, P), (INCONSISTENT, C), (INCONSISTENT, S)),
}


@pytest.mark.parametrize("state", [EMPTY, PREPARING, COMPLETING, STABLE])
@pytest.mark.parametrize("caller", CALLERS)
async def test_a_join_in_each_state(lab: Lab, caller: str, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    assert lab.group.state is state
    answer = CALLERS[caller](lab, ids)
    expected, state_after = OUTCOMES[caller][[*GroupState].index(state)]
    assert (error_name(answer.result().error_code) if answer.done() else WAITS) == expected  # type: ignore[attr-defined]
    assert lab.state == state_after


@pytest.mark.parametrize("caller", [caller for caller in CALLERS if caller != "id given out"])
async def test_a_join_of_a_dead_group_has_to_come_again(lab: Lab, caller: str) -> None:
    ids = await dead(lab)
    assert error_name(CALLERS[caller](lab, ids).result().error_code) == UNAVAILABLE  # type: ignore[attr-defined]


# --- leaving, and being removed

LEAVES: dict[str, tuple[Leaving, str, str]] = {
    "follower": (Leaving("follower"), NONE, P),
    "leader": (Leaving("leader"), NONE, P),
    "static, by both": (Leaving("static", "static"), NONE, P),
    "static, by instance id": (Leaving("", "static"), NONE, P),
    "static, by member id": (Leaving("static"), NONE, P),
    "stranger": (Leaving("someone"), UNKNOWN, S),
    "nobody": (Leaving(""), UNKNOWN, S),
    "unknown instance": (Leaving("", "other"), UNKNOWN, S),
    "both, and they do not match": (Leaving("follower", "static"), FENCED, S),
    "a member of no instance id": (Leaving("follower", "other"), UNKNOWN, S),
}


@pytest.mark.parametrize("sender", LEAVES)
async def test_leaving_by_each_kind_of_client(lab: Lab, sender: str) -> None:
    ids = await stable(lab)
    leaving, outcome, state_after = LEAVES[sender]
    assert lab.leave(leaving._replace(member_id=ids.get(leaving.member_id, leaving.member_id))) == [outcome]
    assert lab.state == state_after


@pytest.mark.parametrize(
    ("state", "outcome", "state_after"),
    [(EMPTY, UNKNOWN, E), (PREPARING, NONE, P), (COMPLETING, NONE, P), (STABLE, NONE, P), (DEAD, UNAVAILABLE, D)],
)
async def test_leaving_in_each_state(lab: Lab, state: GroupState, outcome: str, state_after: str) -> None:
    ids = await ENTER[state](lab)
    assert lab.leave(ids["follower"]) == [outcome]
    assert lab.state == state_after


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (EMPTY, NONE),
        (PREPARING, "NON_EMPTY_GROUP"),
        (COMPLETING, "NON_EMPTY_GROUP"),
        (STABLE, "NON_EMPTY_GROUP"),
        (DEAD, "GROUP_ID_NOT_FOUND"),
    ],
)
async def test_a_deletion_in_each_state(lab: Lab, state: GroupState, outcome: str) -> None:
    await ENTER[state](lab)
    deletion = await asyncio.gather(lab.coordinator.delete("g"), return_exceptions=True)
    assert [getattr(error, "kafka_name", NONE) for error in deletion] == [outcome]
    assert bool(lab.coordinator.groups) == (outcome != NONE)


@pytest.mark.parametrize("state", ORDER)
async def test_a_coordinator_that_stops_answers_waiting_requests(lab: Lab, state: GroupState) -> None:
    ids = await ENTER[state](lab)
    group = lab.group
    waiting: list[asyncio.Future[object]] = []
    if state is PREPARING:
        waiting.append(lab.join(ids["follower"]))  # type: ignore[arg-type]
    if state is COMPLETING:
        waiting.append(lab.sync(ids["follower"]))  # type: ignore[arg-type]
    await lab.coordinator.stop()
    assert [answer.result().error_code for answer in waiting] == [NotCoordinator.code] * len(waiting)  # type: ignore[attr-defined]
    assert group.state is DEAD
    assert all(member.timer is None for member in group.members.values())
