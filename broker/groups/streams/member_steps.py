"""One step of a member of a streams group towards its target (KIP-1071).

1. What the member tells of itself is noted, and the topology, which the first member brings.
2. The topology is configured over the topics that there are (`configured_topology.py`), if one has changed.
3. The group gets another epoch if a member, a topic or a setting of the assignment has changed, or if the topology has
   become ready or is not ready any more.
4. The target of all members is computed if it is older than the group epoch, the initial delay is over, and
   `streams.assignment.interval.ms` have passed since the last one; else the last one stays in use.
5. The member gets one step closer to its target (`task_reconciliation.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import FencedMemberEpoch, InvalidRequest
from ...api.error_mapping import kafka_error
from ...network.peer_log import PeerLog
from .configured_topology import ConfiguredTopology, configure
from .state_changes import AssignmentEpoch, CurrentChange, GroupEpoch, MembershipChange, TargetChange, TopologyChange
from .statuses import Problem, Status
from .sticky_assignor import Size, TaskMember, assign_tasks
from .streams_group import NOT_VALIDATED
from .task_members import CurrentTasks, TaskMembership
from .task_reconciliation import TaskAim, reconcile_tasks
from .tasks import Duties, each_task
from .topology import Topology

if TYPE_CHECKING:
    from ..modern.changes import Change
    from .life import StreamsGroupLife
    from .streams_group import StreamsGroup

log = PeerLog(logging.getLogger("kmini.groups"))

Changes = list["Change[StreamsGroup]"]


class Moving(NamedTuple):
    """A member that takes a step."""

    known: TaskMembership | None
    """The member before; None if it is new."""
    member: TaskMembership
    """The member, with what it tells of itself."""
    topology: Topology | None
    """The topology that it brings; None if it brings none."""
    owned: Duties | None
    """The tasks that it reports; None if it reports nothing."""


class Moved(NamedTuple):
    """The outcome of a step."""

    current: CurrentTasks
    topology: Topology
    configured: ConfiguredTopology
    problems: list[Problem]
    """Why its tasks are not what they could be."""


class _Target(NamedTuple):
    """The target of a member."""

    epoch: int
    duties: Duties


class TaskSteps:
    """The steps of all members of streams groups. Belongs to the broker's loop."""

    def __init__(self, life: StreamsGroupLife) -> None:
        self._life = life
        self.rebalances = 0
        """How often a group epoch was raised by members, topics or settings."""

    async def take(self, group: StreamsGroup, moving: Moving, changes: Changes) -> Moved:
        """Take a step, and add what changes to `changes`. In between, other groups may have turns of the loop. Raises
        InvalidRequest, StreamsInvalidTopology, FencedMemberEpoch."""
        member = moving.member
        if member != moving.known:
            changes.append(MembershipChange(member.member_id, member))
        topology = _topology(group, moving.topology, changes)
        problems = _stale(group, member)
        epoch = self._next_epoch(group, topology, moving, changes)
        target = await self._target(group, member, epoch, changes, problems)
        aim = TaskAim(
            target.epoch,
            target.duties,
            partial(group.may_be_active, member.process_id),
            partial(group.may_be_copied, member.process_id),
        )
        current = group.current(member.member_id)
        following = reconcile_tasks(current, aim, moving.owned)
        if following != current:
            changes.append(CurrentChange(member.member_id, following))
        assert epoch.configured is not None
        if epoch.configured.problem is not None:
            problems.append(epoch.configured.problem)
        return Moved(following, topology, epoch.configured, problems)

    # --- the group epoch

    def _next_epoch(self, group: StreamsGroup, topology: Topology, moving: Moving, changes: Changes) -> GroupEpoch:
        """The group epoch: another one if something has changed. Raises InvalidRequest, StreamsInvalidTopology."""
        life = self._life
        version = life.catalog.version
        metadata_hash, configured = group.metadata_hash, group.configured
        if configured is None or group.metadata_version != version:
            metadata_hash = life.catalog.hash_of(topology.required_topics)
            if configured is None or metadata_hash != group.metadata_hash:
                configured = configure(topology, life.partition_count)
        validated = topology.epoch if configured.is_ready else NOT_VALIDATED
        if configured.is_ready:
            _check_tasks(configured, moving.owned)
        configs = {STANDBYS: str(life.settings(group.group_id).streams_num_standby_replicas)}
        following = GroupEpoch(group.epoch + 1, metadata_hash, validated, configs, version, configured)
        was = (moving.known, group.metadata_hash, group.validated_topology_epoch, group.assignment_configs)
        if was == (moving.member, metadata_hash, validated, configs):
            group.metadata_version, group.configured = version, configured
            return following._replace(epoch=group.epoch)
        changes.append(following)
        self.rebalances += 1
        log.info("group %s: epoch %d: members, topics or settings have changed", group.group_id, group.epoch + 1)
        return following

    # --- the target

    async def _target(
        self,
        group: StreamsGroup,
        member: TaskMembership,
        epoch: GroupEpoch,
        changes: Changes,
        problems: list[Problem],
    ) -> _Target:
        """The target of the member: a new one if it is due, else the last one."""
        settings = self._life.settings(group.group_id)
        delay_ms = settings.streams_initial_rebalance_delay_ms
        if group.is_empty and delay_ms > 0:
            self._life.delay(group, delay_ms, self._delay_is_over)
        if self._life.is_delayed(group):
            problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The initial rebalance delay is not over."))
            return _Target(group.assignment_epoch, Duties())
        member_id = member.member_id
        last = _Target(group.assignment_epoch, group.targets.get(member_id, Duties()))
        assert epoch.epoch is not None
        if group.assignment_epoch >= epoch.epoch:
            return last
        if not self._may_assign(group):
            problems.append(Problem(Status.ASSIGNMENT_DELAYED, "The assignment interval is not over."))
            return last
        members = {**group.memberships, member_id: member}
        target = await self._assign(group, members, epoch, changes)
        return _Target(epoch.epoch, target[member_id])

    def _may_assign(self, group: StreamsGroup) -> bool:
        """Whether the last target is old enough. One of the future was computed before the clock was turned back."""
        interval_ms = self._life.settings(group.group_id).streams_assignment_interval_ms
        return not 0 <= self._life.clock.now_ms() - group.assigned_at_ms < interval_ms

    async def _assign(
        self, group: StreamsGroup, members: Mapping[str, TaskMembership], epoch: GroupEpoch, changes: Changes
    ) -> Mapping[str, Duties]:
        assert epoch.epoch is not None
        assert epoch.configured is not None
        now_ms = self._life.clock.now_ms()
        steps = compute_target(group, members, epoch.configured, epoch.assignment_configs, now_ms, epoch.epoch)
        computed = await self._life.turns.run(group.group_id, steps)
        changes += computed.changes
        return computed.of_member

    def _delay_is_over(self, group: StreamsGroup) -> None:
        self._life.writes.start(self._assign_first(group))

    async def _assign_first(self, group: StreamsGroup) -> None:
        """Compute the first target of a group, unless its members have gone; heartbeats do it if this fails."""
        await self._life.turns.free(group.group_id)
        if not self._life.keeps(group) or not group.memberships or group.configured is None:
            return
        if group.assignment_epoch >= group.epoch or not self._may_assign(group):
            return
        present = self._life.next_epoch(group, group.metadata_hash)._replace(epoch=group.epoch)
        changes: Changes = []
        await self._assign(group, group.memberships, present, changes)
        try:
            if self._life.keeps(group):
                await self._life.write(group, changes)
        except Exception as error:
            log.warning("group %s: %s", group.group_id, kafka_error(error, "the first target of a group"))


def _topology(group: StreamsGroup, brought: Topology | None, changes: Changes) -> Topology:
    """The topology of the group, which its first member brings. Raises InvalidRequest for another one,
    FencedMemberEpoch where there is none."""
    if group.topology is None:
        if brought is None:  # its record was damaged
            raise FencedMemberEpoch("the group has no topology: give up all tasks, and join again with it")
        changes.append(TopologyChange(brought))
        return brought
    if brought is not None and brought.epoch >= group.topology.epoch and brought != group.topology:
        raise InvalidRequest("the group has another topology, and changing that is not supported: use another group")
    return group.topology


def _stale(group: StreamsGroup, member: TaskMembership) -> list[Problem]:
    """What a member with an older topology than the group's is told."""
    if group.topology is None or member.topology_epoch >= group.topology.epoch:
        return []
    detail = f"The member has topology epoch {member.topology_epoch}, and the group has {group.topology.epoch}."
    return [Problem(Status.STALE_TOPOLOGY, detail)]


def _check_tasks(configured: ConfiguredTopology, owned: Duties | None) -> None:
    """Raise InvalidRequest for a task that the topology does not have."""
    subtopologies = configured.subtopologies or {}
    for tasks in owned or ():
        for subtopology_id in tasks:
            if subtopology_id not in subtopologies:
                raise InvalidRequest(f"the topology has no subtopology {subtopology_id}")
        for subtopology_id, partition in each_task(tasks):
            count = subtopologies[subtopology_id].task_count
            if not 0 <= partition < count:
                raise InvalidRequest(f"subtopology {subtopology_id} has {count} tasks, and none of number {partition}")


# --- target assignments


STANDBYS = "num.standby.replicas"
"""The name of the number of standbys in the record of the group epoch."""


class NewTarget(NamedTuple):
    """A target that was computed, as changes of the group."""

    changes: list[Change[StreamsGroup]]
    of_member: Mapping[str, Duties]


def compute_target(
    group: StreamsGroup,
    members: Mapping[str, TaskMembership],
    configured: ConfiguredTopology,
    assignment_configs: Mapping[str, str],
    now_ms: int,
    epoch: int,
) -> Generator[None, None, NewTarget]:
    """Compute the target of these members at this epoch, in short steps. Without all its topics a topology has no
    tasks."""
    target = {member_id: Duties() for member_id in members}
    if members and configured.is_ready and configured.subtopologies is not None:
        sizes = {name: Size(each.task_count, each.is_stateful) for name, each in configured.subtopologies.items()}
        present = {
            member_id: TaskMember(member.process_id, group.targets.get(member_id, Duties()))
            for member_id, member in members.items()
        }
        target = yield from assign_tasks(present, sizes, int(assignment_configs.get(STANDBYS, "0")))
    return NewTarget([*_changed(group, target), AssignmentEpoch(epoch, now_ms)], target)


def _changed(group: StreamsGroup, target: Mapping[str, Duties]) -> Iterator[Change[StreamsGroup]]:
    for member_id, duties in target.items():
        present = group.targets.get(member_id)
        if present is None or present.as_sets() != duties.as_sets():
            yield TargetChange(member_id, duties)
