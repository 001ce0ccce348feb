"""Reconciliation: each row of the tables of KIP-848 as Apache Kafka has it (CurrentAssignmentBuilder)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kmini.broker.groups.consumer.members import CurrentAssignment, MemberState, Owned, Partitions
from kmini.broker.groups.consumer.reconciliation import Aim, reconcile
from kmini.protocol.errors import FencedMemberEpoch

A, B = b"a" * 16, b"b" * 16
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def at(epoch: int, **topics: Collection[int]) -> Partitions:
    """Partitions of the topics a and b, all assigned at one epoch."""
    return {{"a": A, "b": B}[name]: dict.fromkeys(numbers, epoch) for name, numbers in topics.items()}


def own(**topics: Collection[int]) -> Owned:
    return {{"a": A, "b": B}[name]: frozenset(numbers) for name, numbers in topics.items()}


def aim(
    epoch: int,
    target: Mapping[bytes, Collection[int]],
    *,
    topics: Collection[bytes] = (A, B),
    taken: Collection[tuple[bytes, int]] = (),
    new_subscription: bool = False,
) -> Aim:
    """The way to a target; `taken` are the partitions that other members have."""
    return Aim(epoch, target, topics, new_subscription, lambda topic_id, number: (topic_id, number) not in taken)


# --- towards the target


def test_a_member_at_its_target_stays() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0, 1]))
    assert reconcile(current, aim(5, {A: (0, 1)}), None) is current
    assert reconcile(current, aim(5, {A: (7,)}), own(a=[0, 1])) is current  # another epoch makes another target


def test_free_partitions_are_assigned_at_the_epoch_of_the_target() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0]))
    following = reconcile(current, aim(7, {A: (0, 1), B: (2,)}), None)
    assert following == CurrentAssignment(7, 5, STABLE, {A: {0: 5, 1: 7}, B: {2: 7}}, {})


def test_a_kept_partition_keeps_the_epoch_at_which_it_was_assigned() -> None:
    current = CurrentAssignment(5, 4, STABLE, {A: {0: 2, 1: 5}})
    assert reconcile(current, aim(9, {A: (0, 1)}), None).assigned == {A: {0: 2, 1: 5}}


def test_partitions_that_others_have_are_waited_for_at_the_new_epoch() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0]))
    following = reconcile(current, aim(6, {A: (0, 1, 2)}, taken=[(A, 1)]), None)
    assert following == CurrentAssignment(6, 5, UNRELEASED, {A: {0: 5, 2: 6}}, {})
    following = reconcile(current, aim(6, {A: (0, 1)}, taken=[(A, 1)]), None)
    assert following == CurrentAssignment(6, 5, UNRELEASED, {A: {0: 5}}, {})


@pytest.mark.parametrize("owned", [None, own(a=[0, 1, 2]), own(a=[2]), own(a=[1, 3])])
def test_partitions_that_are_not_in_the_target_are_given_up_first(owned: Owned | None) -> None:
    """At the old epoch: the epoch before the change is the same one."""
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0, 1, 2]))
    following = reconcile(current, aim(6, {A: (0,), B: (4,)}), owned)
    assert following == CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0]), at(5, a=[1, 2]))


@pytest.mark.parametrize("owned", [{}, own(a=[0]), own(a=[]), own(b=[1, 2]), own(a=[7])])
def test_a_member_that_owns_none_of_them_any_more_moves_at_once(owned: Owned) -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0, 1, 2]))
    following = reconcile(current, aim(6, {A: (0,), B: (4,)}), owned)
    assert following == CurrentAssignment(6, 5, STABLE, {A: {0: 5}, B: {4: 6}}, {})


def test_a_topic_that_the_member_does_not_subscribe_to_counts_as_none_of_its_target() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0], b=[0]))
    following = reconcile(current, aim(6, {A: (0, 1), B: (0, 1)}, topics=[A]), None)
    assert following == CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0]), at(5, b=[0]))
    following = reconcile(current, aim(6, {A: (0, 1), B: (0, 1)}, topics=[A]), own(a=[0]))
    assert following == CurrentAssignment(6, 5, STABLE, {A: {0: 5, 1: 6}}, {})


# --- unrevoked


UNREVOKED_MEMBER = CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0]), at(5, a=[1, 2]))


@pytest.mark.parametrize("owned", [None, own(a=[0, 1, 2]), own(a=[0, 2])])
def test_a_member_that_has_not_given_up_all_of_them_stays_as_it_is(owned: Owned | None) -> None:
    assert reconcile(UNREVOKED_MEMBER, aim(6, {A: (0,)}), owned) is UNREVOKED_MEMBER


def test_a_member_that_has_given_up_all_of_them_moves() -> None:
    following = reconcile(UNREVOKED_MEMBER, aim(6, {A: (0,), B: (1,)}), own(a=[0]))
    assert following == CurrentAssignment(6, 5, STABLE, {A: {0: 5}, B: {1: 6}}, {})


def test_a_newer_target_may_take_more_from_a_member_that_has_given_up_what_it_was_asked_to() -> None:
    following = reconcile(UNREVOKED_MEMBER, aim(7, {B: (1,)}), own(a=[0]))
    assert following == CurrentAssignment(5, 5, UNREVOKED, {}, at(5, a=[0]))


def test_what_a_member_has_given_up_may_come_back_with_the_next_target() -> None:
    following = reconcile(UNREVOKED_MEMBER, aim(7, {A: (0, 1)}), own(a=[0]))
    assert following == CurrentAssignment(7, 5, STABLE, {A: {0: 5, 1: 7}}, {})


# --- unreleased


def test_a_member_that_waits_takes_what_has_become_free() -> None:
    current = CurrentAssignment(6, 5, UNRELEASED, at(5, a=[0]))
    waiting = reconcile(current, aim(6, {A: (0, 1, 2)}, taken=[(A, 2)]), None)
    assert waiting == CurrentAssignment(6, 6, UNRELEASED, {A: {0: 5, 1: 6}}, {})
    done = reconcile(waiting, aim(6, {A: (0, 1, 2)}), None)
    assert done == CurrentAssignment(6, 6, STABLE, {A: {0: 5, 1: 6, 2: 6}}, {})


def test_a_member_that_waits_gives_up_what_a_newer_target_does_not_have() -> None:
    current = CurrentAssignment(6, 5, UNRELEASED, at(5, a=[0, 1]))
    following = reconcile(current, aim(7, {A: (1, 2)}, taken=[(A, 2)]), own(a=[0, 1]))
    assert following == CurrentAssignment(6, 6, UNREVOKED, at(5, a=[1]), at(5, a=[0]))


# --- a new subscription, before there is a target for it


@pytest.mark.parametrize("owned", [None, own(a=[0], b=[0])])
def test_topics_that_a_member_unsubscribes_from_are_dropped_at_its_epoch(owned: Owned | None) -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0], b=[0]))
    dropping = aim(5, {A: (0,), B: (0,)}, topics=[A], new_subscription=True)
    following = reconcile(current, dropping, owned)
    assert following == CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0]), at(5, b=[0]))


def test_topics_that_a_member_has_given_up_before_it_unsubscribes_are_gone_at_once() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0], b=[0]))
    dropping = aim(5, {A: (0,), B: (0,)}, topics=[A], new_subscription=True)
    assert reconcile(current, dropping, own(a=[0])) == CurrentAssignment(5, 5, STABLE, at(5, a=[0]), {})


def test_a_new_subscription_that_drops_no_topic_changes_nothing_before_the_next_target() -> None:
    current = CurrentAssignment(5, 4, STABLE, at(5, a=[0]))
    assert reconcile(current, aim(5, {A: (0,)}, new_subscription=True), None) is current


def test_a_member_that_is_giving_up_partitions_gives_up_dropped_topics_besides() -> None:
    current = CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0], b=[0]), at(5, a=[1], b=[1]))
    dropping = aim(6, {A: (0,)}, topics=[A], new_subscription=True)
    following = reconcile(current, dropping, None)
    assert following == CurrentAssignment(5, 5, UNREVOKED, at(5, a=[0]), at(5, a=[1], b=[0, 1]))


# --- a state of a newer coordinator


@pytest.mark.parametrize("owned", [None, own(a=[0])])
def test_a_member_in_an_unknown_state_is_fenced(owned: Owned | None) -> None:
    current = CurrentAssignment(5, 4, MemberState.UNKNOWN, at(5, a=[0]))
    with pytest.raises(FencedMemberEpoch):
        reconcile(current, aim(6, {A: (0,)}), owned)


def test_a_member_in_an_unknown_state_that_owns_nothing_goes_on() -> None:
    current = CurrentAssignment(5, 4, MemberState.UNKNOWN, at(5, a=[0]), at(5, b=[0]))
    assert reconcile(current, aim(6, {A: (0, 1)}), {}) == CurrentAssignment(6, 5, STABLE, {A: {0: 5, 1: 6}}, {})


@pytest.mark.parametrize("state", [UNREVOKED, UNRELEASED])
def test_no_step_changes_what_it_was_given(state: MemberState) -> None:
    assigned, revoking = {A: {0: 5}}, {A: {1: 5}}
    current = CurrentAssignment(5, 5, state, assigned, revoking)
    reconcile(current, aim(6, {A: (0, 1, 2), B: (0,)}), {})
    assert (assigned, revoking) == ({A: {0: 5}}, {A: {1: 5}})
