"""Members and targets of assignors, with topics by the letters of their names."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Mapping
from typing import TypeVar

from kmini.broker.groups.consumer.assignors import Assignor
from kmini.broker.groups.consumer.assignors.subscribers import Subscriber

T = TypeVar("T")

A, B = b"a" * 16, b"b" * 16
"""The ids of the topics "a" and "b"."""


def id_of(topic: str) -> bytes:
    return topic.encode() * 16


def names_of(partitions: Mapping[bytes, Collection[int]]) -> dict[str, list[int]]:
    """Partitions by the names of their topics."""
    return {chr(topic_id[0]): sorted(numbers) for topic_id, numbers in partitions.items()}


def subscriber(
    *topics: str, has: Mapping[bytes, Collection[int]] | None = None, instance_id: str | None = None
) -> Subscriber:
    return Subscriber(instance_id, None, frozenset(map(id_of, topics)), has or {})


def result_of(steps: Generator[None, None, T]) -> T:
    """What a computation in steps returns."""
    results: deque[T] = deque()

    def run() -> Generator[None, None, None]:
        results.append((yield from steps))

    deque(run(), maxlen=0)
    return results[0]


def assigned(
    assignor: Assignor, members: Mapping[str, Subscriber], counts: Mapping[str, int]
) -> dict[str, dict[str, list[int]]]:
    """The target of an assignor, by member id and topic; `counts` has the partitions of each topic."""
    is_homogeneous = len({each.topics for each in members.values()}) <= 1
    by_id = {id_of(topic): count for topic, count in counts.items()}
    target = result_of(assignor(members, by_id, is_homogeneous))
    return {member_id: names_of(partitions) for member_id, partitions in target.items()}
