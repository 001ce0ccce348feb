"""Heartbeats of streams groups: one request joins, leaves, reports tasks and learns them (KIP-1071).

A member takes one step with each (`member_steps.py`); what changes is appended as one batch, and the answer waits for
it to be replicated. Other requests of the group wait while the target of a large one is computed.

| member   | epoch 0                               | another epoch                                                |
|----------|---------------------------------------|--------------------------------------------------------------|
| known    | joins again, goes on from what it has | its own, or the one before with no more tasks than it was    |
|          |                                       | assigned; else FENCED_MEMBER_EPOCH                           |
| unknown  | new                                   | UNKNOWN_MEMBER_ID                                            |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ....protocol.errors import (
    CoordinatorNotAvailable,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    UnknownMemberId,
)
from ..classic.classic_group import ClassicGroup
from ..consumer.members import JOINS
from ..group import Group
from ..modern.changes import Change
from .endpoints import EndpointPartitions, endpoint_partitions
from .heartbeat_fields import UNCHANGED_MS, TaskAnswer, TaskBeat, check_fields
from .life import StreamsGroupLife
from .member_steps import Moved, Moving, TaskSteps
from .statuses import Problem, Status
from .streams_group import StreamsGroup
from .task_members import CurrentTasks, TaskMembership
from .tasks import Duties


class _Found(NamedTuple):
    """The group of a heartbeat."""

    group: StreamsGroup
    present: Group | None
    """What the coordinator has by this name: this group, a classic one in whose place it comes, or none."""


class StreamsHeartbeats:
    """Serves the members of streams groups. Belongs to the broker's loop."""

    def __init__(self, life: StreamsGroupLife, steps: TaskSteps) -> None:
        self._life = life
        self._steps = steps

    async def heartbeat(self, beat: TaskBeat) -> TaskAnswer:
        """Serve a heartbeat. Raises KafkaError."""
        life = self._life
        check_fields(beat)
        await life.turns.free(beat.group_id)
        life.store.check(beat.group_id)
        found = self._find(beat)
        group = found.group
        if beat.is_leaving:
            return await self._leave(group, beat)
        changes: list[Change[StreamsGroup]] = []
        moving = self._moving(group, beat)
        before = group.current(beat.member_id)
        moved = await self._steps.take(group, moving, changes)
        if not self._is_still(found):
            return await self.heartbeat(beat)
        answer = self._answer(found, beat, moving.member, before, moved)
        stored = life.write(group, changes)
        life.extend_session(group, beat.member_id)
        await stored
        return answer

    # --- the group

    def _find(self, beat: TaskBeat) -> _Found:
        """The group of a heartbeat, which may be a new one. Raises GroupIdNotFound, GroupMaxSizeReached, and
        CoordinatorNotAvailable while a group is being deleted: the member tries again."""
        present = self._life.groups.get(beat.group_id)
        if present is not None and present.is_removed:
            raise CoordinatorNotAvailable(f"group {beat.group_id} is being deleted")
        if isinstance(present, StreamsGroup):
            if beat.member_epoch == JOINS and len(present.memberships) >= self._life.config.group_streams_max_size:
                raise GroupMaxSizeReached(f"the group has {len(present.memberships)} members, and may not have more")
            return _Found(present, present)
        if beat.member_epoch == JOINS and (present is None or _is_empty_classic(present)):
            group = self._life.new(beat.group_id)
            if present is not None:
                group.take_place_of(present)
            return _Found(group, present)
        raise GroupIdNotFound(f"there is no streams group {beat.group_id}")

    def _is_still(self, found: _Found) -> bool:
        """Whether nothing has happened to the group while its target was computed: requests of the classic protocol and
        of administrators do not wait for that."""
        present = self._life.groups.get(found.group.group_id)
        if present is not found.present or (present is not None and present.is_removed):
            return False
        return present is None or isinstance(present, StreamsGroup) or _is_empty_classic(present)

    # --- joining and staying

    def _moving(self, group: StreamsGroup, beat: TaskBeat) -> Moving:
        """The member that sends the heartbeat. Raises UnknownMemberId, FencedMemberEpoch."""
        known = group.memberships.get(beat.member_id)
        if beat.member_epoch != JOINS:
            if known is None:
                raise UnknownMemberId(f"group {group.group_id} has no member {beat.member_id}")
            _check_epoch(group.current(beat.member_id), beat.member_epoch, beat.owned)
        return Moving(known, _updated(known, beat), beat.topology, beat.owned)

    def _answer(
        self, found: _Found, beat: TaskBeat, member: TaskMembership, before: CurrentTasks, moved: Moved
    ) -> TaskAnswer:
        group, is_known = found.group, found.present is found.group
        is_other = beat.member_epoch == JOINS or moved.current.assigned != before.assigned
        if is_other and is_known and member.user_endpoint is not None:
            group.endpoint_epoch += 1
        if beat.shuts_down and group.shutdown_requested_by is None:
            group.shutdown_requested_by = beat.member_id
        problems = moved.problems
        if group.shutdown_requested_by is not None:
            detail = f"Member {group.shutdown_requested_by} has asked for the shutdown of the whole application."
            problems.append(Problem(Status.SHUTDOWN_APPLICATION, detail))
        return TaskAnswer(
            beat.member_id,
            moved.current.epoch,
            self._life.settings(group.group_id).streams_heartbeat_interval_ms,
            moved.current.assigned if is_other else None,
            tuple(problems),
            group.endpoint_epoch,
            None if group.endpoint_epoch == beat.endpoint_epoch else [*self._endpoints(group, member, moved)],
            moved.configured.missing,
        )

    def _endpoints(self, group: StreamsGroup, member: TaskMembership, moved: Moved) -> Iterator[EndpointPartitions]:
        """The endpoints of all members, that of this one at the end."""
        others = (each for member_id, each in group.memberships.items() if member_id != member.member_id)
        for each in (*others, member):
            if each.user_endpoint is not None:
                current = moved.current if each is member else group.current(each.member_id)
                yield endpoint_partitions(each.user_endpoint, current, moved.topology, self._life.partition_count)

    # --- leaving

    async def _leave(self, group: StreamsGroup, beat: TaskBeat) -> TaskAnswer:
        if beat.shuts_down and group.shutdown_requested_by is None:
            group.shutdown_requested_by = beat.member_id
        if beat.member_id not in group.memberships:
            raise UnknownMemberId(f"group {group.group_id} has no member {beat.member_id}")
        await self._life.removing(group, {beat.member_id: "it left"}, is_expelled=False)
        return TaskAnswer(beat.member_id, beat.member_epoch)


def _is_empty_classic(group: Group) -> bool:
    return isinstance(group, ClassicGroup) and group.is_empty


def _check_epoch(current: CurrentTasks, epoch: int, owned: Duties | None) -> None:
    is_the_one_before = epoch == current.previous_epoch and owned is not None and current.assigned.contains(owned)
    if epoch > current.epoch or (epoch < current.epoch and not is_the_one_before):
        raise FencedMemberEpoch(f"the member epoch is {current.epoch}, not {epoch}: give up all tasks, and join again")


def _updated(known: TaskMembership | None, beat: TaskBeat) -> TaskMembership:
    """The member with what its heartbeat tells."""
    member = known or TaskMembership(beat.member_id, None, None, "", "", UNCHANGED_MS, -1, "", None, ())
    return member._replace(
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if beat.rebalance_timeout_ms == UNCHANGED_MS else beat.rebalance_timeout_ms
        ),
        topology_epoch=member.topology_epoch if beat.topology is None else beat.topology.epoch,
        process_id=member.process_id if beat.process_id is None else beat.process_id,
        user_endpoint=member.user_endpoint if beat.user_endpoint is None else beat.user_endpoint,
        client_tags=member.client_tags if beat.client_tags is None else beat.client_tags,
    )
