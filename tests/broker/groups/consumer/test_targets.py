"""The target assignment of a group: what assignors are given, and what changes of it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from kmini.broker.groups.consumer import member_steps
from kmini.broker.groups.consumer.assignors.subscribers import Subscriber, Target
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.member_steps import NewTarget, compute_target, is_homogeneous
from kmini.broker.groups.consumer.members import Expression, Membership
from kmini.broker.groups.consumer.state_changes import AssignmentEpoch, TargetChange
from kmini.broker.groups.modern.topic_catalog import Catalog
from support.broker.assignments import result_of
from support.broker.consumer_lab import ConsumerLab


def member(member_id: str, *names: str, regex: str = "", instance_id: str | None = None) -> Membership:
    return Membership(member_id, instance_id, "rack", "", "", 0, names, regex)


@pytest.mark.parametrize(
    ("subscriptions", "expected"),
    [
        ([], True),
        ([("a",), ("a",)], True),
        ([("a", "b"), ("b", "a")], True),
        ([("a", "b"), ("a",)], False),
        ([("a",), ()], False),
        (["x.*", "x.*"], True),
        (["x.*", "y.*"], False),
        (["x.*", ()], False),
        (["x.*", ("a",)], False),
        ([("a", "x.*"), ("a", "x.*")], False),
    ],
)
def test_subscriptions_are_equal_with_equal_names_or_one_expression_and_no_names(
    subscriptions: list[Any], expected: bool
) -> None:
    """As Apache Kafka divides groups for the assignor `uniform`."""
    members = {}
    for number, wish in enumerate(subscriptions):
        names = [] if isinstance(wish, str) else [name for name in wish if "*" not in name]
        regex = next((name for name in ([wish] if isinstance(wish, str) else wish) if "*" in name), "")
        members[f"m{number}"] = member(f"m{number}", *names, regex=regex)
    assert is_homogeneous(members) == expected


class Assignors:
    """An assignor that keeps what it is given, and gives what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.target: Target = {}
        self.members: Mapping[str, Subscriber] = {}
        self.counts: Mapping[bytes, int] = {}
        monkeypatch.setattr(member_steps, "ASSIGNORS", {"told": self._assign})

    def _assign(
        self, members: Mapping[str, Subscriber], counts: Mapping[bytes, int], is_homogeneous: bool
    ) -> Generator[None, None, Target]:
        self.members, self.counts = members, counts
        yield
        return self.target


@pytest.fixture
def assignors(monkeypatch: pytest.MonkeyPatch) -> Assignors:
    return Assignors(monkeypatch)


def compute(lab: ConsumerLab, group: ConsumerGroup, members: Mapping[str, Membership], **fields: Any) -> NewTarget:
    given = {"replaced": {}, "member_id": "m", "assignor": "told", "now_ms": 77, "epoch": 9, **fields}
    return result_of(compute_target(group, members, catalog=Catalog(lab.broker.controller), **given))


async def test_an_assignor_is_given_members_with_the_ids_of_topics_that_exist(
    consumer_lab: ConsumerLab, assignors: Assignors
) -> None:
    consumer_lab.add_topics("others", partitions=2)
    orders, others = consumer_lab.id_of("orders"), consumer_lab.id_of("others")
    group = ConsumerGroup("g", "told")
    group.targets["m"] = {orders: (1,)}
    group.expressions["oth.*"] = Expression(frozenset({"others"}), 1, 1)
    members = {
        "m": member("m", "orders", "absent", instance_id="i"),
        "n": member("n", "orders", regex="oth.*"),
        "o": member("o", regex="unresolved.*"),
    }
    compute(consumer_lab, group, members)
    assert assignors.members == {
        "m": Subscriber("i", "rack", frozenset({orders}), {orders: (1,)}),
        "n": Subscriber(None, "rack", frozenset({orders, others}), {}),
        "o": Subscriber(None, "rack", frozenset(), {}),
    }
    assert assignors.counts == {orders: 4, others: 2}


async def test_only_members_whose_target_has_changed_get_a_record(
    consumer_lab: ConsumerLab, assignors: Assignors
) -> None:
    a, b = b"a" * 16, b"b" * 16
    group = ConsumerGroup("g", "told")
    group.targets = {"same": {a: (1, 0), b: ()}, "m": {a: (2,)}, "emptied": {a: (3,)}}
    assignors.target = {"same": {a: (0, 1)}, "m": {a: (2, 3)}, "emptied": {}, "new": {}}
    computed = compute(consumer_lab, group, {name: member(name) for name in assignors.target})
    assert computed.changes == [
        TargetChange("m", {a: (2, 3)}),
        TargetChange("emptied", {}),
        TargetChange("new", {}),
        AssignmentEpoch(9, 77),
    ]
    assert computed.of_member == {a: (2, 3)}


async def test_a_static_member_with_another_id_is_assigned_as_its_former_one_and_has_no_target_yet(
    consumer_lab: ConsumerLab, assignors: Assignors
) -> None:
    a = b"a" * 16
    group = ConsumerGroup("g", "told")
    group.targets["old"] = {a: (1,)}
    assignors.target = {"m": {a: (1,)}}
    computed = compute(consumer_lab, group, {"m": member("m", instance_id="i")}, replaced={"m": "old"})
    assert assignors.members["m"].assigned == {a: (1,)}
    assert computed.changes == [TargetChange("m", {a: (1,)}), AssignmentEpoch(9, 77)]
