"""The target of a whole streams group, computed by the sticky assignor (KIP-1071)."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from .state_changes import AssignmentEpoch, TargetChange
from .sticky_assignor import Size, TaskMember, assign_tasks
from .tasks import Duties

if TYPE_CHECKING:
    from ..modern.changes import Change
    from .configured_topology import ConfiguredTopology
    from .streams_group import StreamsGroup
    from .task_members import TaskMembership

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
