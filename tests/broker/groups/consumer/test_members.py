"""A member of a consumer group, as its records hold it."""

from __future__ import annotations

from kmini.broker.groups.consumer.members import NEW, CurrentAssignment, Membership, MemberState

A, B = b"a" * 16, b"b" * 16


def test_the_states_have_the_numbers_of_kafkas_records() -> None:
    assert {state.name: state.value for state in MemberState} == {
        "STABLE": 0,
        "UNREVOKED_PARTITIONS": 1,
        "UNRELEASED_PARTITIONS": 2,
        "UNKNOWN": 127,
    }


def test_a_new_member_has_nothing_at_epoch_0() -> None:
    assert CurrentAssignment(0, -1, MemberState.STABLE, {}, {}) == NEW


def test_a_member_owns_what_it_is_assigned_and_what_it_has_not_given_up() -> None:
    current = CurrentAssignment(2, 1, MemberState.UNREVOKED_PARTITIONS, {A: {0: 2}}, {A: {1: 2}, B: {0: 1}})
    owned = [(topic_id, number) for topic_id in (A, B) for number in range(3) if current.owns(topic_id, number)]
    assert owned == [(A, 0), (A, 1), (B, 0)]


def test_members_with_the_same_topics_and_expression_have_equal_subscriptions() -> None:
    first = Membership("m", "i", "r", "c", "/h", 1, ("a", "b"), "x.*", "range")
    assert first.subscription == Membership("n", None, None, "d", "/h", 2, ("a", "b"), "x.*").subscription
    assert first.subscription != first._replace(topic_regex="").subscription
    assert first.subscription != first._replace(topic_names=("a",)).subscription


def test_a_member_with_an_instance_id_is_static() -> None:
    assert Membership("m", "i", None, "", "", 0).is_static
    assert not Membership("m", None, None, "", "", 0).is_static
