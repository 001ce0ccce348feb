"""The table of groups of the page: states, lag, and the members that a rebalance waits for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from kmini.broker.groups.group_states import PREPARING
from kmini.group_handle import GroupOperations
from kmini.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kmini.broker.groups.group import Group
    from kmini.shared_operations import SharedOperations


class AwaitedMember(NamedTuple):
    """A member that a rebalance waits for."""

    member_id: str
    client_id: str


class RebalanceState(NamedTuple):
    """A rebalance that is in progress."""

    request: Literal["JoinGroup", "SyncGroup"]
    """The request that is missing."""
    awaited: tuple[AwaitedMember, ...]
    """The members that have not sent it. Empty while an initial rebalance only waits for its delay."""
    pending_count: int
    """Member ids that clients were given and have not joined with yet."""
    remaining_ms: int | None
    """Milliseconds, on the timeline of time-outs, until the rebalance goes on without them; None without a timer."""


class GroupRow(NamedTuple):
    """A group in a table."""

    name: str
    kind: str
    """As `GroupDescription.kind`."""
    state: str
    generation: int
    protocol: str | None
    member_count: int
    coordinator: int
    lags: dict[str, int]
    """How far it is behind the high watermark, by topic."""
    rebalance: RebalanceState | None
    """None unless a rebalance is in progress."""


async def group_rows(operations: SharedOperations) -> list[GroupRow]:
    """The rows of all groups, by name, without those that are being loaded."""
    rows: list[GroupRow] = []
    for name in operations.group_names():
        group = GroupOperations(operations, name)
        try:
            found, lag = await group.describe(), await group.lag()
            _, known = group._find()
        except KafkaError:  # it is being loaded, or goes at this moment
            continue
        lags: Counter[str] = Counter()
        for place, behind in lag.items():
            lags[place.topic] += behind
        rows.append(
            GroupRow(
                name,
                found.kind,
                found.state,
                found.generation,
                found.protocol,
                len(found.members),
                found.coordinator,
                dict(lags),
                rebalance_of(known, operations.clock.liveness_ms()),
            )
        )
    return rows


def rebalance_of(group: Group, liveness_ms: int) -> RebalanceState | None:
    """The rebalance of a group; None if no member is waited for."""
    if group.state is PREPARING:
        awaited = [member for member in group.members.values() if not member.has_joined]
        timer = group.join_timer
    elif group.awaited_syncs:
        awaited = [group.members[name] for name in sorted(group.awaited_syncs) if name in group.members]
        timer = group.sync_timer
    else:
        return None
    return RebalanceState(
        "JoinGroup" if group.state is PREPARING else "SyncGroup",
        tuple(AwaitedMember(member.member_id, member.client_id) for member in awaited),
        len(group.pending_members),
        None if timer is None else max(timer.due_ms - liveness_ms, 0),
    )
