"""`uniform`: members get as many partitions as each other, and keep what they have as far as that allows.

Where all members subscribe to the same topics, sizes differ by at most one, and no partition moves that need not. Where
they do not, each partition that has no owner goes to the least loaded of its subscribers; then partitions move from
more to less loaded subscribers of a topic, as long as that evens them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping

from .subscribers import STEP, Subscriber, Target

MOST_ROUNDS = 16
"""Rounds of balancing, at most: a result that is not quite even is better than one that comes late."""

_NONE: set[int] = set()

Place = tuple[bytes, int]
"""A partition by the id of its topic."""


def assign_uniformly(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int], is_homogeneous: bool
) -> Generator[None, None, Target]:
    """Compute the target assignment."""
    kept, free = yield from _kept(members, partition_counts)
    if is_homogeneous:
        yield from _even_out(kept, free)
    else:
        yield from _place(members, kept, free)
        yield from _balance(members, kept)
    return (yield from _as_target(kept))


def _kept(
    members: Mapping[str, Subscriber], partition_counts: Mapping[bytes, int]
) -> Generator[None, None, tuple[dict[str, list[Place]], list[Place]]]:
    """What each member has and still subscribes to, and the partitions that no member has. Only topics with subscribers
    count."""
    wanted: set[bytes] = set()
    for topics in {subscriber.topics for subscriber in members.values()}:
        wanted |= topics
    unowned: dict[bytes, set[int]] = {
        topic_id: set(range(count)) for topic_id, count in partition_counts.items() if topic_id in wanted
    }
    yield
    kept: dict[str, list[Place]] = {}
    seen = 0
    for member_id, subscriber in members.items():
        mine = kept[member_id] = []
        for topic_id, partitions in subscriber.assigned.items():
            left = unowned.get(topic_id, _NONE) if topic_id in subscriber.topics else _NONE
            for partition in partitions:
                if partition in left:
                    left.remove(partition)
                    mine.append((topic_id, partition))
            seen += len(partitions)
        seen += 1
        if seen >= STEP:
            seen = 0
            yield
    free = [(topic_id, partition) for topic_id, partitions in unowned.items() for partition in sorted(partitions)]
    yield
    return kept, free


def _even_out(kept: dict[str, list[Place]], free: list[Place]) -> Generator[None, None, None]:
    """Bring all members to sizes that differ by at most one, with the fewest moves: those that have most keep the
    larger shares."""
    if not kept:
        return
    total = len(free) + sum(map(len, kept.values()))
    share, larger = divmod(total, len(kept))
    by_size = sorted(kept, key=lambda member_id: -len(kept[member_id]))
    short: list[tuple[str, int]] = []
    for position, member_id in enumerate(by_size):
        quota = share + (position < larger)
        mine = kept[member_id]
        if len(mine) > quota:
            free += mine[quota:]
            del mine[quota:]
        elif len(mine) < quota:
            short.append((member_id, quota))
        if position % STEP == STEP - 1:
            yield
    position = 0
    for count, (member_id, quota) in enumerate(short):
        mine = kept[member_id]
        missing = quota - len(mine)
        mine += free[position : position + missing]
        position += missing
        if count % STEP == STEP - 1:
            yield


def _place(
    members: Mapping[str, Subscriber], kept: dict[str, list[Place]], free: Iterable[Place]
) -> Generator[None, None, None]:
    """Give each free partition to the least loaded subscriber of its topic: first of the topics with most partitions
    for each subscriber, then of those with few subscribers."""
    subscribers = _subscribers(members)
    by_topic: dict[bytes, list[int]] = defaultdict(list)
    for topic_id, partition in free:
        by_topic[topic_id].append(partition)
    yield

    def rank(topic_id: bytes) -> tuple[float, int, bytes]:
        count = len(subscribers[topic_id])
        return -len(by_topic[topic_id]) / count, count, topic_id

    from heapq import heapify, heapreplace

    for topic_id in sorted(by_topic, key=rank):
        loads = [(len(kept[member_id]), member_id) for member_id in subscribers[topic_id]]
        heapify(loads)
        yield
        for number, partition in enumerate(by_topic[topic_id]):
            load, member_id = loads[0]
            kept[member_id].append((topic_id, partition))
            heapreplace(loads, (load + 1, member_id))
            if number % STEP == STEP - 1:
                yield


def _subscribers(members: Mapping[str, Subscriber]) -> dict[bytes, list[str]]:
    subscribers: dict[bytes, list[str]] = defaultdict(list)
    for member_id, subscriber in members.items():
        for topic_id in subscriber.topics:
            subscribers[topic_id].append(member_id)
    return subscribers


def _balance(members: Mapping[str, Subscriber], kept: dict[str, list[Place]]) -> Generator[None, None, None]:
    """Move partitions from more to less loaded subscribers of their topics, until a round moves none."""
    subscribers = {topic_id: each for topic_id, each in _subscribers(members).items() if len(each) > 1}
    for _ in range(MOST_ROUNDS):
        moved = 0
        for topic_id, of_topic in subscribers.items():
            moved += yield from _balance_topic(topic_id, of_topic, kept)
        if not moved:
            return


def _balance_topic(topic_id: bytes, of_topic: list[str], kept: dict[str, list[Place]]) -> Generator[None, None, int]:
    """Even out the subscribers of one topic by its partitions; return how many moved."""
    moved = 0
    ordered = sorted(of_topic, key=lambda member_id: len(kept[member_id]))
    low, high = 0, len(ordered) - 1
    while low < high:
        poor, rich = kept[ordered[low]], kept[ordered[high]]
        if len(rich) - len(poor) < 2:
            if len(rich) - len(kept[ordered[0]]) < 2:
                break
            low += 1
            continue
        position = next((index for index in range(len(rich) - 1, -1, -1) if rich[index][0] == topic_id), None)
        if position is None:
            high -= 1
            continue
        poor.append(rich.pop(position))
        moved += 1
        if moved % STEP == 0:
            yield
    yield
    return moved


def _as_target(kept: Mapping[str, list[Place]]) -> Generator[None, None, Target]:
    target: Target = {}
    seen = 0
    for member_id, places in kept.items():
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, partition in places:
            by_topic.setdefault(topic_id, []).append(partition)
        target[member_id] = {topic_id: tuple(sorted(partitions)) for topic_id, partitions in by_topic.items()}
        seen += len(places) + 1
        if seen >= STEP:
            seen = 0
            yield
    return target
