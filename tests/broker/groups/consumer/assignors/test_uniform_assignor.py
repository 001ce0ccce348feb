"""`uniform`: even sizes and the fewest moves, with equal subscriptions and with different ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.groups.consumer.assignors.subscribers import STEP, Subscriber
from kmini.broker.groups.consumer.assignors.uniform_assignor import assign_uniformly
from support.broker.assignments import A, B, assigned, names_of, subscriber


def assign(members: Mapping[str, Subscriber], **counts: int) -> dict[str, dict[str, list[int]]]:
    return assigned(assign_uniformly, members, counts)


def sizes(target: Mapping[str, Mapping[str, list[int]]]) -> dict[str, int]:
    return {name: sum(map(len, topics.values())) for name, topics in target.items()}


def moved(members: Mapping[str, Subscriber], target: Mapping[str, Mapping[str, list[int]]]) -> int:
    """How many partitions a member has, and did not have."""
    had = {name: places_of(names_of(each.assigned)) for name, each in members.items()}
    return sum(len(places_of(topics) - had[name]) for name, topics in target.items())


def places_of(topics: Mapping[str, list[int]]) -> set[tuple[str, int]]:
    return {(topic, number) for topic, numbers in topics.items() for number in numbers}


def check_each_once(target: Mapping[str, Mapping[str, list[int]]], **counts: int) -> None:
    """Every partition of these topics has one owner."""
    owners = Counter(place for topics in target.values() for place in places_of(topics))
    assert owners == Counter({(topic, number): 1 for topic, count in counts.items() for number in range(count)})


# --- equal subscriptions


def test_a_new_group_is_divided_evenly_over_all_topics() -> None:
    target = assign({name: subscriber("a", "b") for name in ("m1", "m2", "m3")}, a=4, b=4)
    check_each_once(target, a=4, b=4)
    assert sorted(sizes(target).values()) == [2, 3, 3]


def test_a_newcomer_gets_its_share_and_nothing_else_moves() -> None:
    members = {
        "m1": subscriber("a", has={A: (0, 1, 2)}),
        "m2": subscriber("a", has={A: (3, 4, 5)}),
        "m3": subscriber("a"),
    }
    target = assign(members, a=6)
    check_each_once(target, a=6)
    assert sizes(target) == {"m1": 2, "m2": 2, "m3": 2}
    assert moved(members, target) == 2


def test_the_partitions_of_a_member_that_has_left_are_shared_and_nothing_else_moves() -> None:
    members = {"m1": subscriber("a", has={A: (0, 1)}), "m2": subscriber("a", has={A: (2, 3)})}
    target = assign(members, a=6)
    assert sizes(target) == {"m1": 3, "m2": 3}
    assert {*target["m1"]["a"]} >= {0, 1}
    assert {*target["m2"]["a"]} >= {2, 3}


def test_members_with_the_larger_shares_keep_them() -> None:
    members = {"m1": subscriber("a", has={A: (0,)}), "m2": subscriber("a", has={A: (1, 2)})}
    assert assign(members, a=3) == {"m1": {"a": [0]}, "m2": {"a": [1, 2]}}


def test_a_partition_that_two_members_have_in_their_targets_stays_with_one() -> None:
    members = {"m1": subscriber("a", has={A: (0, 1)}), "m2": subscriber("a", has={A: (0, 1)})}
    target = assign(members, a=2)
    check_each_once(target, a=2)
    assert sizes(target) == {"m1": 1, "m2": 1}


def test_topics_without_subscribers_partitions_that_are_gone_and_topics_that_are_gone_are_dropped() -> None:
    members = {"m1": subscriber("a", has={A: (0, 9), B: (0,), b"x" * 16: (0,)})}
    assert assign(members, a=2, b=2) == {"m1": {"a": [0, 1]}}


def test_more_members_than_partitions_leave_some_without_any() -> None:
    target = assign({f"m{number}": subscriber("a") for number in range(5)}, a=2)
    check_each_once(target, a=2)
    assert sorted(sizes(target).values()) == [0, 0, 0, 1, 1]


def test_no_members_get_nothing() -> None:
    assert assign({}) == {}
    assert assign({"m": subscriber()}, a=3) == {"m": {}}


# --- different subscriptions


def test_partitions_go_to_the_least_loaded_subscribers() -> None:
    target = assign({"m1": subscriber("a", "b"), "m2": subscriber("b")}, a=3, b=3)
    check_each_once(target, a=3, b=3)
    assert target == {"m1": {"a": [0, 1, 2]}, "m2": {"b": [0, 1, 2]}}


def test_members_keep_what_they_have_if_that_is_even() -> None:
    members = {
        "m1": subscriber("a", "b", has={A: (0, 1), B: (0,)}),
        "m2": subscriber("b", has={B: (1, 2, 3)}),
    }
    target = assign(members, a=2, b=4)
    assert moved(members, target) == 0


def test_partitions_move_from_members_with_more_to_members_with_less() -> None:
    members = {"m1": subscriber("a", "b", has={A: (0, 1), B: (0, 1, 2, 3)}), "m2": subscriber("b")}
    target = assign(members, a=2, b=4)
    check_each_once(target, a=2, b=4)
    assert sizes(target) == {"m1": 3, "m2": 3}
    assert moved(members, target) == 3


def test_a_chain_of_subscriptions_is_evened_out() -> None:
    """A partition can only go on over a member between."""
    members = {"m1": subscriber("a", has={A: (0,)}), "m2": subscriber("a", "b"), "m3": subscriber("b", "c")}
    target = assign(members, a=2, b=2, c=2)
    check_each_once(target, a=2, b=2, c=2)
    assert sorted(sizes(target).values()) == [2, 2, 2]


def test_a_member_that_subscribes_to_a_topic_no_more_loses_it() -> None:
    members = {"m1": subscriber("b", has={A: (0, 1), B: (0, 1)}), "m2": subscriber("a", "b")}
    target = assign(members, a=2, b=2)
    assert target == {"m1": {"b": [0, 1]}, "m2": {"a": [0, 1]}}


# --- any group

TOPICS = "abc"


@st.composite
def groups(draw: st.DrawFn, *, is_homogeneous: bool) -> tuple[dict[str, Subscriber], dict[str, int]]:
    """Members with subscriptions and targets, of which some may be wrong, and topics."""
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1))
    same = draw(st.sets(st.sampled_from(sorted(counts))))
    members = {}
    for number in range(draw(st.integers(1, 6))):
        wish = same if is_homogeneous else draw(st.sets(st.sampled_from(sorted(counts))))
        has = draw(
            st.dictionaries(st.sampled_from(TOPICS), st.sets(st.integers(0, 10), max_size=6).map(tuple), max_size=3)
        )
        present = {{"a": A, "b": B, "c": b"c" * 16}[topic]: numbers for topic, numbers in has.items()}
        members[f"m{number}"] = subscriber(*wish, has=present)
    return members, counts


def check_target(
    members: Mapping[str, Subscriber], counts: Mapping[str, int], target: Mapping[str, Mapping[str, list[int]]]
) -> None:
    """Every partition with a subscriber has one owner, which subscribes to it."""
    wished = {name: {*names_of(dict.fromkeys(each.topics, ()))} for name, each in members.items()}
    assert target.keys() == members.keys()
    check_each_once(
        target, **{topic: n for topic, n in counts.items() if any(topic in each for each in wished.values())}
    )
    assert all({*topics} <= wished[name] for name, topics in target.items())
    assert all(numbers for topics in target.values() for numbers in topics.values())


@given(groups(is_homogeneous=True))
def test_with_equal_subscriptions_sizes_differ_by_one_at_most_and_no_partition_moves_that_need_not(
    given: tuple[dict[str, Subscriber], dict[str, int]],
) -> None:
    members, counts = given
    target = assign(members, **counts)
    check_target(members, counts, target)
    found = sizes(target)
    assert max(found.values()) - min(found.values()) <= 1
    again = {name: each._replace(assigned=as_ids(target[name])) for name, each in members.items()}
    assert assign(again, **counts) == target
    newcomer = {**again, "new": subscriber(*names_of(dict.fromkeys(members["m0"].topics, ())))}
    after = assign(newcomer, **counts)
    assert moved(newcomer, after) == sizes(after)["new"]


def as_ids(topics: Mapping[str, list[int]]) -> dict[bytes, tuple[int, ...]]:
    return {topic.encode() * 16: tuple(numbers) for topic, numbers in topics.items()}


@given(groups(is_homogeneous=False))
def test_with_different_subscriptions_no_member_could_give_one_to_a_member_with_two_less(
    given: tuple[dict[str, Subscriber], dict[str, int]],
) -> None:
    members, counts = given
    target = assign(members, **counts)
    check_target(members, counts, target)
    found = sizes(target)
    for rich, topics in target.items():
        for topic in topics:
            poorest = min(
                (found[name] for name, each in members.items() if topic in names_of(dict.fromkeys(each.topics, ()))),
                default=0,
            )
            assert found[rich] - poorest <= 1, (topic, rich, target)
    again = {name: each._replace(assigned=as_ids(target[name])) for name, each in members.items()}
    assert assign(again, **counts) == target


@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_a_large_group_is_assigned_in_steps(is_homogeneous: bool) -> None:
    members = {f"m{number}": subscriber("a") for number in range(4 * STEP)}
    steps = sum(1 for _ in assign_uniformly(members, {A: 20 * STEP}, is_homogeneous))
    assert steps >= 20
