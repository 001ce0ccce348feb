"""The `sticky` assignor of streams groups: balanced, and with as little movement as that allows (KIP-1071).

An active task stays with its member while that has fewer tasks than its quota; else it goes to a member that had it as
a standby, on the same condition; else to the least loaded process. The quota is what is left divided by the members
that are not full, rounded up. A standby goes to a process that does not have the task: to the member that had it
active, to one that had it as a standby, or to the least loaded process. There are fewer standbys than asked for if
there are too few processes. There are no warm-up tasks.

Of processes and members that are equally loaded the one is taken that Kafka takes, but that Kafka begins with the order
of their hashes, and kmini with that of their ids.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

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
    in_order = {member_id: members[member_id] for member_id in sorted(members)}
    assignment = _Assignment(in_order, subtopologies, standby_count)
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


Item = TypeVar("Item")


class _ByLoad(Generic[Item]):
    """A queue whose first item is one with the least load: of several the one that `java.util.PriorityQueue` gives,
    which `heapq` does not."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, Item]] = []

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, load: float, item: Item) -> None:
        heap, place = self._heap, len(self._heap)
        heap.append((load, item))
        while place and load < heap[above := (place - 1) // 2][0]:
            heap[place] = heap[above]
            place = above
        heap[place] = (load, item)

    def pop(self) -> Item:
        heap = self._heap
        _, first = heap[0]
        last = heap.pop()
        if not heap:
            return first
        place, size = 0, len(heap)
        while (below := 2 * place + 1) < size:
            if below + 1 < size and heap[below][0] > heap[below + 1][0]:
                below += 1
            if last[0] <= heap[below][0]:
                break
            heap[place] = heap[below]
            place = below
        heap[place] = last
        return first


class _Process:
    """An instance of Kafka Streams with its members."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """Tasks by member id."""
        self.tasks: set[Task] = set()
        self._total = 0
        self._by_load: _ByLoad[str] | None = None
        """The members, while tasks are added by `add_anywhere`."""

    def join(self, member_id: str) -> None:
        self.counts[member_id] = 0

    def add(self, member_id: str, task: Task) -> int:
        """Give a member a task; return how many it has now."""
        self._by_load = None
        return self._add(member_id, task)

    def _add(self, member_id: str, task: Task) -> int:
        self.tasks.add(task)
        self._total += 1
        self.counts[member_id] += 1
        return self.counts[member_id]

    def add_anywhere(self, task: Task) -> tuple[str, int]:
        """Give the task to the member with the fewest; return which that is, and how many it has now."""
        if self._by_load is None:
            self._by_load = _ByLoad()
            for member_id, count in self.counts.items():
                self._by_load.add(count, member_id)
        member_id = self._by_load.pop()
        count = self._add(member_id, task)
        self._by_load.add(count, member_id)
        return member_id, count

    @property
    def load(self) -> float:
        """Tasks by member."""
        return self._total / len(self.counts)


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
        self._processes = {name: _Process() for name in sorted({member.process_id for member in members.values()})}
        self._had_active: dict[Task, str] = {}
        self._had_standby: dict[Task, list[str]] = {}
        self._active: dict[str, set[Task]] = {member_id: set() for member_id in members}
        self._standby: dict[str, set[Task]] = {member_id: set() for member_id in members}
        for member_id, member in members.items():
            self._processes[member.process_id].join(member_id)
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
            process = by_load.pop()
            self._note_active(task, *process.add_anywhere(task))
            by_load.add(process.load, process)
            if not number % STEP:
                yield

    def _add_active(self, member_id: str, task: Task) -> None:
        self._note_active(task, member_id, self._process(member_id).add(member_id, task))

    def _note_active(self, task: Task, member_id: str, count: int) -> None:
        """Note that a member has this task, and how many it has now."""
        self._active[member_id].add(task)
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
        standbys = self._had_standby.get(task, ())
        if not standbys or task in self._process(standbys[0]).tasks:  # Kafka looks at the first one only
            return None
        member_id = self._least_loaded_of([each for each in standbys if task not in self._process(each).tasks])
        return member_id if member_id is not None and self._may_copy(member_id, task) else None

    def _may_copy(self, member_id: str, task: Task) -> bool:
        return task not in self._process(member_id).tasks and self._count(member_id) < self._quota.per_member

    def _add_standby(self, member_id: str, task: Task) -> None:
        self._note_standby(task, member_id, self._process(member_id).add(member_id, task))

    def _note_standby(self, task: Task, member_id: str, count: int) -> None:
        """Note that a member has a copy of this task, and how many tasks it has now."""
        self._standby[member_id].add(task)
        self._quota.member_has(count)

    def _add_standby_anywhere(self, by_load: _ByLoad[_Process], task: Task) -> bool:
        """Give the task to the least loaded process that does not have it; false if all have."""
        passed: list[_Process] = []
        found = False
        while by_load and not found:
            process = by_load.pop()
            passed.append(process)
            if task not in process.tasks:
                self._note_standby(task, *process.add_anywhere(task))
                found = True
        for process in reversed(passed):
            by_load.add(process.load, process)
        return found

    # --- what there is

    def _tasks(self) -> list[Task]:
        return [(name, number) for name, size in self._subtopologies.items() for number in range(size.task_count)]

    def _process(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _count(self, member_id: str) -> int:
        return self._process(member_id).counts[member_id]

    def _least_loaded_of(self, member_ids: Sequence[str]) -> str | None:
        """The first, unless a later one has both fewer tasks and a less loaded process; None of none."""
        if not member_ids:
            return None
        chosen = member_ids[0]
        for each in member_ids[1:]:
            is_less_loaded = self._process(each).load < self._process(chosen).load
            if is_less_loaded and self._count(each) < self._count(chosen):
                chosen = each
        return chosen

    def _by_load(self) -> _ByLoad[_Process]:
        queue: _ByLoad[_Process] = _ByLoad()
        for process in self._processes.values():
            queue.add(process.load, process)
        return queue

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
