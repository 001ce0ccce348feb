"""What the kinds of groups have in common that the coordinator assigns: a consumer group stands for all."""

from __future__ import annotations

import pytest

from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.members import (
    CurrentAssignment,
    Membership,
    MemberState,
    Partitions,
)
from kmini.protocol.errors import GroupIdNotFound

A, B = b"a" * 16, b"b" * 16


def member(member_id: str, *names: str, regex: str = "", assignor: str | None = None) -> Membership:
    return Membership(member_id, None, None, f"client-{member_id}", "/h", 1000, names, regex, assignor)


def stable(epoch: int, assigned: Partitions | None = None) -> CurrentAssignment:
    return CurrentAssignment(epoch, epoch - 1, MemberState.STABLE, assigned or {}, {})


@pytest.fixture
def group() -> ConsumerGroup:
    return ConsumerGroup("g", "uniform")


def test_a_group_that_is_being_removed_is_dead_and_readers_are_shown_an_empty_one(group: ConsumerGroup) -> None:
    group.mark_removed()
    assert (group.state_name, group.shown_state.value, group.is_removed, group.is_empty) == (
        "Dead",
        "Empty",
        True,
        False,
    )
    with pytest.raises(GroupIdNotFound):
        group.check_delete()
    group.mark_removed(False)
    group.check_delete()
    assert group.state_name == "Empty"


def test_members_do_not_hinder_the_deletion_of_offsets_and_none_is_kept_for_them(group: ConsumerGroup) -> None:
    """Only their subscriptions do."""
    group.put_membership("m", member("m", "a"))
    group.check_delete_offsets()
    assert not group.keeps_all_offsets
    assert group.empty_since_ms is None


def test_readers_are_shown_each_change_once_it_is_replicated(group: ConsumerGroup) -> None:
    assert group.shown is group
    group.hold_back()
    group.put_membership("m", member("m", assignor="range"))
    group.put_current("m", stable(2))
    group.epoch = group.assignment_epoch = 2
    group.targets["m"] = {A: (0,)}
    group.hold_back()
    group.put_membership("m", None)
    group.epoch = 3
    assert not group.is_replicated
    first = group.shown
    assert (first.shown_state.value, first.epoch, first.memberships, first.targets) == ("Empty", 1, {}, {})
    group.show_next()
    second = group.shown
    assert (second.shown_state.value, second.epoch, [*second.memberships]) == ("Stable", 2, ["m"])
    assert (second.assignor(), second.targets) == ("range", {"m": {A: (0,)}})
    group.show_next()
    assert group.shown is group
    assert (group.is_replicated, group.shown_state.value) == (True, "Empty")
    group.show_next()
    assert group.is_replicated
