"""The table of groups of the page: states, lag, and the members that a rebalance waits for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import PREPARING
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.modern.timers import Wait
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.protocol.errors import KafkaError
from kmini.protocol.topics import TopicPartition
from kmini.testkit.group_handle import GroupOperations

if TYPE_CHECKING:
    from kmini.broker.groups.group import Group
    from kmini.broker.groups.group_coordinator import GroupCoordinator
    from kmini.broker.groups.modern.group_life import GroupLife
    from kmini.testkit.operations import Operations


class AwaitedMember(NamedTuple):
    """A member that a rebalance waits for."""

    member_id: str
    client_id: str


class RebalanceState(NamedTuple):
    """A rebalance that is in progress."""

    request: Literal["JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat", "StreamsGroupHeartbeat"]
    """The request that is missing."""
    awaited: tuple[AwaitedMember, ...]
    """The members that have not sent it. Empty while an initial rebalance only waits for its delay. Of a consumer group
    or a streams group those that have not reported that they gave up their share; if there are none, those that have
    not asked for theirs."""
    pending_count: int
    """Member ids that clients were given and have not joined with yet."""
    remaining_ms: int | None
    """Milliseconds, on the timeline of time-outs, until the rebalance goes on without them, or without the first of
    them; None without a timer."""


class GroupRow(NamedTuple):
    """A group in a table."""

    name: str
    kind: str
    """As `GroupDescription.kind`."""
    state: str
    generation: int
    assignment_epoch: int | None
    """As `GroupDescription.assignment_epoch`."""
    protocol: str | None
    member_count: int
    coordinator: int
    lags: dict[str, int]
    """How far it is behind the high watermark, by topic."""
    rebalance: RebalanceState | None
    """None unless a rebalance is in progress."""


class GroupPosition(NamedTuple):
    """Where a group is in a partition, all at one moment."""

    committed: int | None
    """None if it has committed nothing."""
    log_start_offset: int | None
    """None, as the high watermark is, without a leader."""
    high_watermark: int | None
    behind: int | None
    """How far it is behind the high watermark; None without a leader."""


async def group_positions(operations: Operations, name: str) -> dict[TopicPartition, GroupPosition]:
    """Where a group is in the partitions that it has committed to or subscribes to. Raises what `GroupOperations.lag`
    raises."""
    group = GroupOperations(operations, name)
    committed, lag = await group.offsets(), await group.lag()  # neither waits: all is read in one turn of the loop
    places = sorted({*committed, *lag})
    logs = {log.topic_partition: log for topic in {place.topic for place in places} for log in operations.logs(topic)}
    return {
        place: GroupPosition(
            committed.get(place),
            logs[place].log_start_offset if place in logs else None,
            logs[place].high_watermark if place in logs else None,
            lag.get(place),
        )
        for place in places
    }


async def group_rows(operations: Operations) -> list[GroupRow]:
    """The rows of all groups, by name, without those that are being loaded."""
    rows: list[GroupRow] = []
    for name in operations.group_names():
        group = GroupOperations(operations, name)
        try:
            found, lag = await group.describe(), await group.lag()
            broker, known = group._find()
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
                found.assignment_epoch,
                found.protocol,
                len(found.members),
                found.coordinator,
                dict(lags),
                rebalance_of(broker.groups, known, operations.clock.liveness_ms()),
            )
        )
    return rows


def rebalance_of(coordinator: GroupCoordinator, group: Group, liveness_ms: int) -> RebalanceState | None:
    """The rebalance of a group of this coordinator; None if no member is waited for."""
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        return _reconciliation_of(coordinator.life_of(group), group, liveness_ms)
    if not isinstance(group, ClassicGroup):
        return None
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


def _reconciliation_of(
    life: GroupLife[Any, Any], group: ConsumerGroup | StreamsGroup, liveness_ms: int
) -> RebalanceState | None:
    """How far the members of a group are on their way to their targets."""
    missing = [member_id for member_id in group.memberships if not group.is_reconciled(member_id)]
    revoking = [name for name in missing if life.revoking_epoch(group, name) is not None]
    if not missing:
        return None
    deadlines = [life.timers.deadline_ms(group.group_id, name, Wait.REBALANCE) for name in revoking]
    running = [deadline_ms for deadline_ms in deadlines if deadline_ms is not None]
    return RebalanceState(
        "ConsumerGroupHeartbeat" if isinstance(group, ConsumerGroup) else "StreamsGroupHeartbeat",
        tuple(AwaitedMember(name, group.memberships[name].client_id) for name in revoking or missing),
        0,
        max(min(running) - liveness_ms, 0) if running else None,
    )
