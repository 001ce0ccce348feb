"""A consumer group as data: its states and its indexes."""

from __future__ import annotations

import pytest

from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.members import (
    ClassicMetadata,
    CurrentAssignment,
    Expression,
    Membership,
    MemberState,
    Partitions,
)
from kmini.protocol.errors import NonEmptyGroup

A, B = b"a" * 16, b"b" * 16


def member(member_id: str, *names: str, regex: str = "", assignor: str | None = None) -> Membership:
    return Membership(member_id, None, None, f"client-{member_id}", "/h", 1000, names, regex, assignor)


def stable(epoch: int, assigned: Partitions | None = None) -> CurrentAssignment:
    return CurrentAssignment(epoch, epoch - 1, MemberState.STABLE, assigned or {}, {})


@pytest.fixture
def group() -> ConsumerGroup:
    return ConsumerGroup("g", "uniform")


# --- states


def test_a_new_group_is_empty_at_epoch_1(group: ConsumerGroup) -> None:
    """So that its first member gets epoch 2, as in Apache Kafka."""
    assert (group.state_name, group.epoch, group.assignment_epoch) == ("Empty", 1, 1)
    assert (group.is_empty, group.is_alive, group.protocol) == (True, False, None)
    assert (group.group_type, group.shown_protocol_type) == ("consumer", "consumer")


@pytest.mark.parametrize(
    ("epoch", "assignment_epoch", "current", "state"),
    [
        (3, 2, stable(2), "Assigning"),
        (3, 3, stable(2), "Reconciling"),
        (3, 3, stable(3), "Stable"),
        (3, 3, stable(3)._replace(state=MemberState.UNRELEASED_PARTITIONS), "Reconciling"),
        (3, 3, stable(3)._replace(state=MemberState.UNREVOKED_PARTITIONS), "Reconciling"),
        (3, 3, stable(-2), "Reconciling"),
    ],
)
def test_the_state_follows_from_epochs_and_members(
    group: ConsumerGroup, epoch: int, assignment_epoch: int, current: CurrentAssignment, state: str
) -> None:
    group.put_membership("m", member("m"))
    group.put_current("m", current)
    group.epoch, group.assignment_epoch = epoch, assignment_epoch
    assert (group.state_name, group.is_stable) == (state, state == "Stable")
    assert (group.is_empty, group.is_alive, group.generation) == (False, True, epoch)
    with pytest.raises(NonEmptyGroup):
        group.check_delete()


# --- partitions


def test_a_partition_is_free_unless_another_member_has_it_or_has_not_given_it_up(group: ConsumerGroup) -> None:
    group.put_membership("m", member("m"))
    group.put_current("m", stable(2, {A: {0: 2}})._replace(revoking={A: {1: 2}}))
    assert [group.is_free("n", A, number) for number in range(3)] == [False, False, True]
    assert all(group.is_free("m", A, number) for number in range(3))
    assert group.is_free("n", B, 0)
    group.put_current("m", stable(3, {A: {1: 3}}))
    assert [group.is_free("n", A, number) for number in range(3)] == [True, False, True]
    group.put_current("m", None)
    assert group.is_free("n", A, 1)


def test_a_member_gives_up_no_partition_that_another_one_has_by_now(group: ConsumerGroup) -> None:
    group.put_current("m", stable(2, {A: {0: 2}}))
    group.put_current("n", stable(2, {A: {0: 2}}))
    group.put_current("m", None)
    assert not group.is_free("m", A, 0)


# --- members and subscriptions


def test_a_member_that_changes_its_subscription_counts_once(group: ConsumerGroup) -> None:
    group.put_membership("m", member("m", "a", "b", regex="x.*"))
    group.put_membership("n", member("n", "b"))
    group.put_membership("m", member("m", "b", "c", regex="y.*"))
    assert group.subscribers == {"b": 2, "c": 1}
    assert group.expression_subscribers == {"y.*": 1}
    group.put_membership("m", None)
    group.put_membership("n", None)
    assert (group.subscribers, group.expression_subscribers) == ({}, {})


def test_members_subscribe_by_names_and_by_expressions_that_are_resolved(group: ConsumerGroup) -> None:
    both = member("m", "a", regex="x.*")
    group.put_membership("m", both)
    assert group.subscribed_topics() == group.topic_names_of(both) == {"a"}
    assert not group.is_subscribed_to("x1")
    group.expressions["x.*"] = Expression(frozenset({"x1", "x2"}), 1, 1)
    assert group.subscribed_topics() == group.topic_names_of(both) == {"a", "x1", "x2"}
    assert all(group.is_subscribed_to(topic) for topic in ("a", "x1", "x2"))
    assert not group.is_subscribed_to("b")


def test_the_assignor_is_the_one_that_most_members_name(group: ConsumerGroup) -> None:
    assert group.assignor() == "uniform"
    group.put_membership("m", member("m"))
    assert group.protocol == "uniform"
    for name in ("n", "o"):
        group.put_membership(name, member(name, assignor="range"))
    group.put_membership("p", member("p", assignor="uniform"))
    assert group.protocol == "range"
    group.put_membership("n", member("n", assignor="uniform"))
    assert group.protocol == "uniform"


def test_static_members_are_found_by_their_instance_ids(group: ConsumerGroup) -> None:
    group.put_membership("m", member("m")._replace(instance_id="i"))
    group.put_membership("n", member("n")._replace(instance_id="i"))
    assert group.static_members == {"i": "n"}
    group.put_membership("m", None)
    assert group.static_members == {"i": "n"}
    group.put_membership("n", None)
    assert group.static_members == {}


def test_members_of_the_classic_protocol_are_counted(group: ConsumerGroup) -> None:
    group.put_membership("m", member("m")._replace(classic=ClassicMetadata(1, ())))
    assert group.classic_count == 1
    group.put_membership("m", member("m"))
    assert group.classic_count == 0
