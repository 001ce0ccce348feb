"""The assignor of share groups: every partition has members, members have equal numbers, and keep what they have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from kmini.broker.groups.share.share_group import NO_PARTITIONS, Partitions
from kmini.broker.groups.share.simple_assignor import Subscriber, assign

T, U = b"t" * 16, b"u" * 16


def partitions(**counts: int) -> Partitions:
    return {{"t": T, "u": U}[name]: frozenset(range(count)) for name, count in counts.items()}


def assigned(
    members: Mapping[str, frozenset[bytes]],
    assignable: Partitions,
    present: Mapping[str, Partitions] | None = None,
) -> dict[str, dict[bytes, frozenset[int]]]:
    subscribers = {
        name: Subscriber(topic_ids, (present or {}).get(name, NO_PARTITIONS)) for name, topic_ids in members.items()
    }
    steps = assign(subscribers, assignable)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: dict[str, dict[bytes, frozenset[int]]] = done.value
            return found


def all_of(*names: str, topics: frozenset[bytes] = frozenset({T})) -> dict[str, frozenset[bytes]]:
    return dict.fromkeys(names, topics)


def sizes(target: Mapping[str, Partitions]) -> list[int]:
    return sorted(sum(map(len, each.values())) for each in target.values())


def takers(target: Mapping[str, Partitions]) -> Counter[tuple[bytes, int]]:
    return Counter((id_, number) for each in target.values() for id_, numbers in each.items() for number in numbers)


@pytest.mark.parametrize(
    ("members", "count", "expected", "shared_by"),
    [
        (1, 4, [4], 1),
        (2, 4, [2, 2], 1),
        (3, 4, [1, 1, 2], 1),
        (4, 4, [1] * 4, 1),
        (2, 1, [1, 1], 2),
        (6, 3, [1] * 6, 2),
    ],
)
def test_members_share_all_partitions_evenly(members: int, count: int, expected: list[int], shared_by: int) -> None:
    target = assigned(all_of(*(f"m{number}" for number in range(members))), partitions(t=count))
    assert sizes(target) == expected
    assert takers(target) == {(T, number): shared_by for number in range(count)}


def test_with_more_members_than_partitions_everyone_has_one() -> None:
    target = assigned(all_of("a", "b", "c", "d", "e"), partitions(t=3))
    assert sizes(target) == [1, 1, 1, 1, 2]
    assert set(takers(target).values()) == {2}


def test_a_group_without_initialized_partitions_has_none() -> None:
    assert assigned(all_of("a", "b"), {}) == {"a": {}, "b": {}}


def test_members_of_different_subscriptions_share_each_topic() -> None:
    both = frozenset({T, U})
    target = assigned({"a": frozenset({T}), "b": frozenset({U}), "c": both}, partitions(t=4, u=2))
    assert {name: {id_: len(each) for id_, each in has.items()} for name, has in target.items()} == {
        "a": {T: 2},
        "b": {U: 1},
        "c": {T: 2, U: 1},
    }


def test_members_keep_what_they_have() -> None:
    before = assigned(all_of("a", "b"), partitions(t=6))
    after = assigned(all_of("a", "b", "c"), partitions(t=6), before)
    assert sizes(after) == [2, 2, 2]
    for name in ("a", "b"):
        assert after[name][T] < before[name][T]
    assert assigned(all_of("a", "b"), partitions(t=6), before) == before


def test_partitions_of_a_member_that_has_gone_go_to_the_others() -> None:
    before = assigned(all_of("a", "b", "c"), partitions(t=6))
    after = assigned(all_of("a", "b"), partitions(t=6), before)
    assert sizes(after) == [3, 3]
    assert all(before[name][T] <= after[name][T] for name in ("a", "b"))


def test_a_topic_that_a_member_no_longer_subscribes_to_is_taken_away() -> None:
    present = {"a": partitions(t=1, u=1)}
    assert assigned(all_of("a"), partitions(t=1, u=1), present) == {"a": partitions(t=1)}


def test_whatever_happens_no_partition_is_without_members_and_nobody_has_two_more_than_another() -> None:
    dice = random.Random("share groups")
    target: Mapping[str, Partitions] = {}
    for _ in range(300):
        names = [f"m{number}" for number in range(12) if dice.random() < 0.5] or ["m0"]
        assignable = partitions(t=dice.randint(1, 8), u=dice.randint(1, 8))
        target = assigned(all_of(*names, topics=frozenset({T, U})), assignable, target)
        found = sizes(target)
        assert found[-1] - found[0] <= 1
        assert takers(target).keys() == {(id_, number) for id_, each in assignable.items() for number in each}
