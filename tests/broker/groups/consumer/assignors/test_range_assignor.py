"""`range`: neighbouring partitions for members in the order of their ids, as in Apache Kafka (RangeAssignor)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kmini.broker.groups.consumer.assignors.range_assignor import assign_ranges
from kmini.broker.groups.consumer.assignors.subscribers import STEP, Subscriber
from support.broker.assignments import A, B, assigned, subscriber


def assign(members: Mapping[str, Subscriber], **counts: int) -> dict[str, dict[str, list[int]]]:
    return assigned(assign_ranges, members, counts)


def test_the_first_members_have_one_partition_more() -> None:
    members = {name: subscriber("a") for name in ("m2", "m1", "m3")}
    assert assign(members, a=8) == {"m1": {"a": [0, 1, 2]}, "m2": {"a": [3, 4, 5]}, "m3": {"a": [6, 7]}}


def test_members_beyond_the_number_of_partitions_have_none() -> None:
    members = {name: subscriber("a") for name in ("m1", "m2", "m3")}
    assert assign(members, a=2) == {"m1": {"a": [0]}, "m2": {"a": [1]}, "m3": {}}


def test_equal_topics_are_divided_equally() -> None:
    members = {name: subscriber("a", "b") for name in ("m1", "m2")}
    assert assign(members, a=3, b=3) == {"m1": {"a": [0, 1], "b": [0, 1]}, "m2": {"a": [2], "b": [2]}}


def test_static_members_come_first_by_their_instance_ids() -> None:
    members = {
        "m1": subscriber("a"),
        "m2": subscriber("a", instance_id="y"),
        "m3": subscriber("a", instance_id="x"),
        "m0": subscriber("a"),
    }
    assert assign(members, a=4) == {"m3": {"a": [0]}, "m2": {"a": [1]}, "m0": {"a": [2]}, "m1": {"a": [3]}}


def test_a_static_member_that_comes_back_with_another_id_gets_the_same() -> None:
    others = {name: subscriber("a") for name in ("m1", "m2")}
    before = assign({**others, "old": subscriber("a", instance_id="i")}, a=7)
    after = assign({"another": subscriber("a", instance_id="i"), **others}, a=7)
    assert after == {"m1": before["m1"], "m2": before["m2"], "another": before["old"]}


def test_only_subscribers_of_a_topic_share_it() -> None:
    members = {"m1": subscriber("a"), "m2": subscriber("a", "b"), "m3": subscriber("b"), "m4": subscriber()}
    assert assign(members, a=3, b=3) == {
        "m1": {"a": [0, 1]},
        "m2": {"a": [2], "b": [0, 1]},
        "m3": {"b": [2]},
        "m4": {},
    }


def test_what_members_had_does_not_count() -> None:
    members = {"m1": subscriber("a", has={A: (1,)}), "m2": subscriber("a", has={A: (0,), B: (3,)})}
    assert assign(members, a=2) == {"m1": {"a": [0]}, "m2": {"a": [1]}}


def test_no_members_get_nothing() -> None:
    assert assign({}) == {}


def test_a_large_group_is_assigned_in_steps() -> None:
    members = {f"m{number:05}": subscriber("a") for number in range(10 * STEP)}
    steps = sum(1 for _ in assign_ranges(members, {A: 20 * STEP}, True))
    assert steps >= 10


SUBSCRIPTIONS = st.dictionaries(
    st.text("mnop", min_size=1, max_size=3), st.sets(st.sampled_from("ab")), min_size=1, max_size=6
)


@given(SUBSCRIPTIONS, st.integers(1, 12), st.integers(1, 12))
def test_every_subscriber_of_a_topic_has_a_range_of_it_and_sizes_differ_by_one_at_most(
    subscriptions: dict[str, set[str]], partitions_of_a: int, partitions_of_b: int
) -> None:
    members = {name: subscriber(*topics) for name, topics in subscriptions.items()}
    target = assign(members, a=partitions_of_a, b=partitions_of_b)
    assert target.keys() == members.keys()
    for topic, count in (("a", partitions_of_a), ("b", partitions_of_b)):
        wishing = sorted(name for name, topics in subscriptions.items() if topic in topics)
        shares = [target[name].get(topic, []) for name in wishing]
        assert [number for share in shares for number in share] == ([*range(count)] if wishing else [])
        assert all(len(first) - len(second) in (0, 1) for first, second in pairwise(shares))
        assert max(map(len, shares), default=0) - min(map(len, shares), default=0) <= 1
        assert all(topic not in target[name] for name in members if name not in wishing)
