"""Reconciliation: one step of a member from the tasks that it has to its target (KIP-1071).

It is that of consumer groups (`consumer/reconciliation.py`), for tasks in three roles. A process has a task in one role
at a time, and a task is active in one process: until a process has given it up, it is not free.

| state            | the step                                                                                 |
|------------------|------------------------------------------------------------------------------------------|
| STABLE           | to the target, if that has another epoch                                                 |
| UNREVOKED_TASKS  | once the member reports none of the tasks that it is to give up: one epoch on, or, if it |
|                  | has nothing else to give up, to the target                                               |
| UNRELEASED_TASKS | to the target, each time: more may be free                                               |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....protocol.errors import FencedMemberEpoch
from .task_members import ActiveTasks, CurrentTasks, TaskState
from .tasks import Duties, Tasks

IsFree = Callable[[str, int], bool]
"""Whether a process may have a task, by subtopology id and partition."""


class TaskAim(NamedTuple):
    """Where a member is to get."""

    epoch: int
    """The epoch of the target."""
    target: Duties
    may_be_active: IsFree
    """Whether no process has the task active, and the member's own process not at all."""
    may_be_copied: IsFree
    """Whether the member's own process does not have the task."""


def reconcile_tasks(current: CurrentTasks, aim: TaskAim, owned: Duties | None) -> CurrentTasks:
    """The next tasks of a member that reports `owned`, or reports nothing. Raises FencedMemberEpoch for a member in a
    state that is not known, unless it reports that it has no tasks."""
    state = current.state
    if state is TaskState.STABLE:
        return current if current.epoch == aim.epoch else _towards(current, current.epoch, aim, owned)
    if state is TaskState.UNREVOKED_TASKS:
        if owned is None or owned.overlaps(current.revoking):
            return current
        return _towards(current, current.epoch + 1, aim, owned)
    if state is TaskState.UNRELEASED_TASKS:
        return _towards(current, current.epoch, aim, owned)
    if owned is None or owned:
        raise FencedMemberEpoch("a newer coordinator moved this member to a state that is not known here")
    return _towards(current, aim.epoch, aim, owned)


class _Step(NamedTuple):
    """What changes in one role."""

    kept: dict[str, frozenset[int]]
    revoked: dict[str, frozenset[int]]
    added: dict[str, frozenset[int]]
    waits: bool
    """Whether a task of the target is not free."""


def _towards(current: CurrentTasks, epoch: int, aim: TaskAim, owned: Duties | None) -> CurrentTasks:
    """The step to the target; a member that has to give up tasks gets this epoch."""
    active = _compare(current.active, aim.target.active, aim.may_be_active)
    standby = _compare(current.standby, aim.target.standby, aim.may_be_copied)
    warmup = _compare(current.warmup, aim.target.warmup, aim.may_be_copied)
    kept_active = _epochs_of(active.kept, current.active)
    revoked = Duties(active.revoked, standby.revoked, warmup.revoked)
    if revoked and (owned is None or owned.overlaps(revoked)):
        return CurrentTasks(
            epoch,
            current.epoch,
            TaskState.UNREVOKED_TASKS,
            kept_active,
            standby.kept,
            warmup.kept,
            _epochs_of(active.revoked, current.active),
            standby.revoked,
            warmup.revoked,
        )
    for subtopology, partitions in active.added.items():
        kept_active.setdefault(subtopology, {}).update(dict.fromkeys(sorted(partitions), aim.epoch))
    waits = active.waits or standby.waits or warmup.waits
    return CurrentTasks(
        aim.epoch,
        current.epoch,
        TaskState.UNRELEASED_TASKS if waits else TaskState.STABLE,
        kept_active,
        _merged(standby.kept, standby.added),
        _merged(warmup.kept, warmup.added),
    )


def _compare(has: Tasks, wanted: Tasks, is_free: IsFree) -> _Step:
    step = _Step({}, {}, {}, False)
    waits = False
    for subtopology in {**has, **wanted}:
        present, target = frozenset(has.get(subtopology, ())), frozenset(wanted.get(subtopology, ()))
        added = frozenset(partition for partition in target - present if is_free(subtopology, partition))
        waits = waits or len(added) < len(target - present)
        for found, partitions in ((step.kept, present & target), (step.revoked, present - target), (step.added, added)):
            if partitions:
                found[subtopology] = partitions
    return step._replace(waits=waits)


def _epochs_of(tasks: Tasks, epochs: ActiveTasks) -> dict[str, dict[int, int]]:
    """These active tasks with the epochs that they have."""
    return {name: {partition: epochs[name][partition] for partition in sorted(each)} for name, each in tasks.items()}


def _merged(first: Tasks, second: Tasks) -> dict[str, frozenset[int]]:
    return {name: frozenset(first.get(name, ())).union(second.get(name, ())) for name in {**first, **second}}
