"""Tasks: which member does which, in which role (KIP-1071)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

Task = tuple[str, int]
"""A task by its subtopology id and the partition that it reads."""

Tasks = Mapping[str, Collection[int]]
"""Partitions by subtopology id."""

NO_TASKS: Tasks = MappingProxyType({})


class Duties(NamedTuple):
    """The tasks of a member in each role. Active tasks may come as mappings of partitions to the epochs at which they
    were assigned."""

    active: Tasks = NO_TASKS
    standby: Tasks = NO_TASKS
    """Copies of what the active tasks of others keep."""
    warmup: Tasks = NO_TASKS
    """Copies that are to become active. The assignor of Kafka 4.3 makes none."""

    def __bool__(self) -> bool:
        return any(any(tasks.values()) for tasks in self)

    def overlaps(self, other: Duties) -> bool:
        """Whether both have a task in the same role."""
        return any(
            not set(partitions).isdisjoint(theirs.get(subtopology, ()))
            for mine, theirs in zip(self, other, strict=True)
            for subtopology, partitions in mine.items()
        )

    def contains(self, other: Duties) -> bool:
        """Whether every task of `other` is here in the same role."""
        return all(
            set(partitions) <= set(mine.get(subtopology, ()))
            for mine, theirs in zip(self, other, strict=True)
            for subtopology, partitions in theirs.items()
        )

    def as_sets(self) -> tuple[dict[str, frozenset[int]], ...]:
        """The tasks to be compared: without epochs and empty subtopologies."""
        return tuple({name: frozenset(each) for name, each in tasks.items() if each} for tasks in self)


def each_task(tasks: Tasks) -> Iterator[Task]:
    """The tasks, one by one."""
    for subtopology, partitions in tasks.items():
        for partition in partitions:
            yield subtopology, partition
