"""A group in each state, with the members leader, follower and static, of which the first leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kmini.broker.groups.classic.group_states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from support.broker.group_lab import Lab

IDS = dict[str, str]


async def empty(lab: Lab) -> IDS:
    ids = await lab.form("leader", "follower", "static")
    lab.leave(*ids.values())
    return ids


async def preparing(lab: Lab) -> IDS:
    ids = await lab.form("leader", "follower", "static")
    lab.join(ids["leader"])
    return ids


async def completing(lab: Lab) -> IDS:
    ids = await preparing(lab)
    lab.join(ids["follower"])
    lab.join(ids["static"], instance="static")
    return ids


async def stable(lab: Lab) -> IDS:
    return await lab.form("leader", "follower", "static")


async def dead(lab: Lab) -> IDS:
    ids = await empty(lab)
    lab.store.gate = asyncio.Event()
    deletion = asyncio.ensure_future(lab.coordinator.delete("g"))
    deletion.add_done_callback(lambda done: done.exception())
    await asyncio.sleep(0)
    return ids


ENTER: dict[GroupState, Callable[[Lab], Awaitable[IDS]]] = {
    EMPTY: empty,
    PREPARING: preparing,
    COMPLETING: completing,
    STABLE: stable,
    DEAD: dead,
}

ORDER = (EMPTY, PREPARING, COMPLETING, STABLE, DEAD)

WAITS = "waits"
P, C, S, E, D = "PreparingRebalance", "CompletingRebalance", "Stable", "Empty", "Dead"
UNKNOWN, FENCED, INCONSISTENT = "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "INCONSISTENT_GROUP_PROTOCOL"
REQUIRED, UNAVAILABLE = "MEMBER_ID_REQUIRED", "COORDINATOR_NOT_AVAILABLE"
