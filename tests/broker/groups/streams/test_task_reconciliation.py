"""Reconciliation of tasks: each row of the table, and what is free to whom (Kafka's CurrentAssignmentBuilder)."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kmini.broker.groups.streams.task_members import NEW, ActiveTasks, CurrentTasks, TaskState
from kmini.broker.groups.streams.task_reconciliation import TaskAim, reconcile_tasks
from kmini.broker.groups.streams.tasks import Duties, Task, Tasks
from kmini.protocol.errors import FencedMemberEpoch

STABLE, UNREVOKED, UNRELEASED = TaskState.STABLE, TaskState.UNREVOKED_TASKS, TaskState.UNRELEASED_TASKS


def at(epoch: int, **tasks: Collection[int]) -> ActiveTasks:
    """Active tasks of the subtopologies a and b, all assigned at one epoch."""
    return {name: dict.fromkeys(numbers, epoch) for name, numbers in tasks.items()}


def these(**tasks: Collection[int]) -> Tasks:
    return {name: frozenset(numbers) for name, numbers in tasks.items()}


def aim(
    epoch: int,
    active: Tasks,
    standby: Tasks | None = None,
    *,
    active_elsewhere: Collection[Task] = (),
    here: Collection[Task] = (),
) -> TaskAim:
    """The way to a target; `active_elsewhere` are tasks that a process has active, `here` those that the member's own
    process has in any role."""
    return TaskAim(
        epoch,
        Duties(active, standby or {}),
        lambda name, number: (name, number) not in (*active_elsewhere, *here),
        lambda name, number: (name, number) not in here,
    )


def test_a_member_at_the_epoch_of_its_target_stays() -> None:
    current = CurrentTasks(5, 4, STABLE, at(5, a=[0]))
    assert reconcile_tasks(current, aim(5, these(a=[7])), None) is current


def test_a_new_member_gets_what_is_free_at_the_epoch_of_the_target() -> None:
    following = reconcile_tasks(NEW, aim(3, these(a=[0, 1]), these(b=[2])), Duties())
    assert following == CurrentTasks(3, 0, STABLE, at(3, a=[0, 1]), these(b=[2]))


def test_a_kept_task_keeps_the_epoch_at_which_it_was_assigned() -> None:
    current = CurrentTasks(5, 4, STABLE, {"a": {0: 2, 1: 5}})
    following = reconcile_tasks(current, aim(9, these(a=[0, 1, 2])), None)
    assert following == CurrentTasks(9, 5, STABLE, {"a": {0: 2, 1: 5, 2: 9}})


def test_a_task_that_is_active_elsewhere_is_waited_for() -> None:
    current = CurrentTasks(5, 4, STABLE, at(5, a=[0]))
    waiting = reconcile_tasks(current, aim(6, these(a=[0, 1, 2]), active_elsewhere=[("a", 1)]), None)
    assert waiting == CurrentTasks(6, 5, UNRELEASED, at(5, a=[0]) | {"a": {0: 5, 2: 6}})
    assert reconcile_tasks(waiting, aim(6, these(a=[0, 1, 2])), None) == CurrentTasks(
        6, 6, STABLE, {"a": {0: 5, 1: 6, 2: 6}}
    )


def test_a_standby_may_be_a_copy_of_what_another_process_has_active() -> None:
    following = reconcile_tasks(NEW, aim(2, {}, these(a=[1]), active_elsewhere=[("a", 1)]), Duties())
    assert following == CurrentTasks(2, 0, STABLE, {}, these(a=[1]))


@pytest.mark.parametrize("target", [Duties(these(a=[1])), Duties({}, these(a=[1]))])
def test_a_task_of_the_own_process_is_waited_for_in_every_role(target: Duties) -> None:
    following = reconcile_tasks(NEW, aim(2, target.active, target.standby, here=[("a", 1)]), Duties())
    assert following == CurrentTasks(2, 0, UNRELEASED)


@pytest.mark.parametrize("owned", [None, Duties(at(5, a=[0, 1])), Duties({}, these(b=[2]))])
def test_tasks_that_are_not_in_the_target_are_given_up_first(owned: Duties | None) -> None:
    current = CurrentTasks(5, 4, STABLE, at(5, a=[0, 1]), these(b=[2]))
    following = reconcile_tasks(current, aim(6, these(a=[0], b=[3])), owned)
    assert following == CurrentTasks(5, 5, UNREVOKED, at(5, a=[0]), {}, {}, at(5, a=[1]), these(b=[2]))


def test_a_member_that_has_given_them_up_already_moves_at_once() -> None:
    current = CurrentTasks(5, 4, STABLE, at(5, a=[0, 1]))
    following = reconcile_tasks(current, aim(6, these(a=[0])), Duties(these(a=[0])))
    assert following == CurrentTasks(6, 5, STABLE, at(5, a=[0]))


REVOKING = CurrentTasks(5, 5, UNREVOKED, at(5, a=[0]), {}, {}, at(5, a=[1]), these(b=[2]))


@pytest.mark.parametrize("owned", [None, Duties(these(a=[0, 1])), Duties(these(a=[0]), these(b=[2]))])
def test_until_it_reports_that_it_gave_up_all_a_member_stays(owned: Duties | None) -> None:
    assert reconcile_tasks(REVOKING, aim(6, these(a=[0])), owned) is REVOKING


def test_then_it_moves_to_the_target() -> None:
    following = reconcile_tasks(REVOKING, aim(6, these(a=[0, 4])), Duties(these(a=[0])))
    assert following == CurrentTasks(6, 5, STABLE, {"a": {0: 5, 4: 6}})


def test_a_member_that_has_to_give_up_more_moves_on_by_one_epoch() -> None:
    """A member of a consumer group would keep its epoch."""
    following = reconcile_tasks(REVOKING, aim(9, {}), Duties(these(a=[0])))
    assert following == CurrentTasks(6, 5, UNREVOKED, {}, {}, {}, at(5, a=[0]))


def test_a_member_in_a_state_that_is_not_known_starts_again_without_tasks() -> None:
    unknown = CurrentTasks(5, 4, TaskState.UNKNOWN, at(5, a=[0]))
    for owned in (None, Duties(these(a=[0]))):
        with pytest.raises(FencedMemberEpoch):
            reconcile_tasks(unknown, aim(6, these(a=[0])), owned)
    assert reconcile_tasks(unknown, aim(6, these(a=[0])), Duties()) == CurrentTasks(6, 5, STABLE, at(5, a=[0]))
    assert reconcile_tasks(unknown, aim(6, these(b=[0])), Duties()) == CurrentTasks(6, 5, STABLE, at(6, b=[0]))
