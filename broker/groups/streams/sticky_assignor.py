"""The `sticky` assignor of streams groups: balanced, and with as little movement as that allows (KIP-1071).

An active task stays with its member while that has fewer tasks than its quota; else it goes to a member that had it as
a standby, on the same condition; else to the least loaded process. The quota is what is left divided by the members
that are not full, rounded up. A standby goes to a process that does not have the task: to the member that had it
active, to one that had it as a standby, or to the least loaded process. There are fewer standbys than asked for if
there are too few processes. There are no warm-up tasks.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Mapping
from itertools import count
from typing import NamedTuple

from .tasks import Duties, Task, each_task

NAME = "sticky"

STEP = 500
"""Tasks after which the assignor yields."""


class TaskMember(NamedTuple):
    """A member, as the assignor sees it."""

    process_id: str
    target: Duties
    """Its present target."""


class Size(NamedTuple):
    """A subtopology, as the assignor sees it."""

    task_count: int
    is_stateful: bool


def assign_tasks(
    members: Mapping[str, TaskMember], subtopologies: Mapping[str, Size], standby_count: int
) -> Generator[None, None, dict[str, Duties]]:
    """The target of every member, by member id; `standby_count` is that of standbys for each task that keeps state. A
    generator that yields often. There is at least one member."""
    assignment = _Assignment(members, subtopologies, standby_count)
    yield from assignment.assign_active()
    if standby_count:
        yield from assignment.assign_standbys()
    return assignment.duties()


class _Quota:
    """How many tasks a member may have, so that all have about as many."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.per_member = -(-tasks // members)

    def member_has(self, count: int) -> None:
        """Note how many tasks a member has now: one with its quota is full, and the others share what is left."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = -(-self._tasks // self._members) if self._members else 0


class _Process:
    """An instance of Kafka Streams with its members."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Tasks by member id."""
        self.tasks: set[Task] = set()
        self._total = 0
        self._by_load: list[tuple[int, str]] = []

    def join(self, member_id: str) -> None:
        self.counts[member_id] = 0
        heapq.heappush(self._by_load, (0, member_id))

    def add(self, member_id: str, task: Task) -> int:
        """Give a member a task; return how many it has now."""
        self.tasks.add(task)
        self._total += 1
        self.counts[member_id] += 1
        heapq.heappush(self._by_load, (self.counts[member_id], member_id))
        return self.counts[member_id]

    @property
    def load(self) -> float:
        """Tasks by member."""
        return self._total / len(self.counts)

    def least_loaded(self) -> str:
        while True:
            count, member_id = self._by_load[0]
            if count == self.counts[member_id]:
                return member_id
            heapq.heappop(self._by_load)  # it has got more since


class _Assignment:
    """One assignment in the making."""

    def __init__(
        self, members: Mapping[str, TaskMember], subtopologies: Mapping[str, Size], standby_count: int
    ) -> None:
        self._members = members
        self._subtopologies = subtopologies
        self._standby_count = standby_count
        active = sum(size.task_count for size in subtopologies.values())
        standbys = standby_count * sum(size.task_count for size in subtopologies.values() if size.is_stateful)
        self._active_quota = _Quota(active, len(members))
        self._quota = _Quota(active + standbys, len(members))
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in members}
        for member_id, member in members.items():
            self._processes.setdefault(member.process_id, _Process()).join(member_id)
            for task in each_task(member.target.active):
                self._had_active[task] = member_id
            for task in each_task(member.target.standby):
                self._had_standby.setdefault(task, []).append(member_id)

    # --- active tasks

    def assign_active(self) -> Generator[None, None, None]:
        left: list[Task] = []
        for number, task in enumerate(sorted(self._tasks(), key=lambda task: (task[1], task[0]))):
            member_id = self._had_active.get(task)
            if member_id is not None and self._count(member_id) < self._active_quota.per_member:
                self._add_active(member_id, task)
            else:
                left.append(task)
            if not number % STEP:
                yield
        new: list[Task] = []
        for task in left:
            member_id = self._least_loaded_of(self._had_standby.get(task, ()))
            if member_id is not None and self._count(member_id) < self._active_quota.per_member:
                self._add_active(member_id, task)
            else:
                new.append(task)
        by_load = self._by_load()
        for number, task in enumerate(sorted(new)):
            _, _, process = heapq.heappop(by_load)
            self._add_active(process.least_loaded(), task)
            self._push(by_load, process)
            if not number % STEP:
                yield

    def _add_active(self, member_id: str, task: Task) -> None:
        self._active[member_id].add(task)
        count = self._add(member_id, task)
        self._active_quota.member_has(count)
        self._quota.member_has(count)

    # --- standbys

    def assign_standbys(self) -> Generator[None, None, None]:
        stateful = (task for task in self._tasks() if self._subtopologies[task[0]].is_stateful)
        left: list[tuple[Task, int]] = []
        for number, task in enumerate(sorted(stateful, key=lambda task: (task[1], task[0]), reverse=True)):
            for made in range(self._standby_count):
                member_id = self._former_holder(task)
                if member_id is None:
                    left.append((task, self._standby_count - made))
                    break
                self._add_standby(member_id, task)
            if not number % STEP:
                yield
        by_load = self._by_load()
        for number, (task, missing) in enumerate(sorted(left, reverse=True)):
            for _ in range(missing):
                if not self._add_standby_anywhere(by_load, task):
                    break
            if not number % STEP:
                yield

    def _former_holder(self, task: Task) -> str | None:
        """A member that had the task, has room, and whose process does not have it."""
        member_id = self._had_active.get(task)
        if member_id is not None and self._may_copy(member_id, task):
            return member_id
        standbys = [each for each in self._had_standby.get(task, ()) if task not in self._process(each).tasks]
        member_id = self._least_loaded_of(standbys)
        return member_id if member_id is not None and self._may_copy(member_id, task) else None

    def _may_copy(self, member_id: str, task: Task) -> bool:
        return task not in self._process(member_id).tasks and self._count(member_id) < self._quota.per_member

    def _add_standby(self, member_id: str, task: Task) -> None:
        self._standby[member_id].add(task)
        self._quota.member_has(self._add(member_id, task))

    def _add_standby_anywhere(self, by_load: list[tuple[float, int, _Process]], task: Task) -> bool:
        """Give the task to the least loaded process that does not have it; false if all have."""
        passed: list[_Process] = []
        found = False
        while by_load:
            _, _, process = heapq.heappop(by_load)
            passed.append(process)
            if task not in process.tasks:
                self._add_standby(process.least_loaded(), task)
                found = True
                break
        for process in passed:
            self._push(by_load, process)
        return found

    # --- what there is

    def _tasks(self) -> list[Task]:
        return [(name, number) for name, size in self._subtopologies.items() for number in range(size.task_count)]

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _add(self, member_id: str, task: Task) -> int:
        return self._process(member_id).add(member_id, task)

    def _least_loaded_of(self, member_ids: list[str] | tuple[()]) -> str | None:
        """The member with the least loaded process, and of these with the fewest tasks; None of none."""
        return min(member_ids, key=lambda each: (self._process(each).load, self._count(each)), default=None)

    def _by_load(self) -> list[tuple[float, int, _Process]]:
        self._pushes = count()
        heap: list[tuple[float, int, _Process]] = []
        for process in self._processes.values():
            self._push(heap, process)
        return heap

    def _push(self, heap: list[tuple[float, int, _Process]], process: _Process) -> None:
        heapq.heappush(heap, (process.load, next(self._pushes), process))

    def duties(self) -> dict[str, Duties]:
        """The tasks of every member."""
        return {
            member_id: Duties(_grouped(self._active[member_id]), _grouped(self._standby[member_id]))
            for member_id in self._members
        }


def _grouped(tasks: set[Task]) -> dict[str, tuple[int, ...]]:
    grouped: dict[str, list[int]] = {}
    for subtopology, partition in sorted(tasks):
        grouped.setdefault(subtopology, []).append(partition)
    return {subtopology: tuple(partitions) for subtopology, partitions in grouped.items()}
