"""The helper of tests of groups finds two members that owned one partition at one time."""

from __future__ import annotations

from support.group_members import GroupMember, overlaps

PARTITION = ["orders", 0]


def member(*changes: tuple[str, int, list[list[object]]]) -> GroupMember:
    """One that has told these changes: the kind, the time, and what it owns since."""
    member = GroupMember()
    for change in changes:
        member.note(*change)
    return member


def test_a_partition_that_is_given_up_before_the_next_member_has_it_is_owned_once() -> None:
    first = member(("owned", 1, [PARTITION]), ("owned", 5, []))
    assert overlaps([member(("owned", 5, [PARTITION])), first]) == []


def test_a_partition_that_is_given_up_too_late_was_owned_twice() -> None:
    first = member(("owned", 1, [PARTITION]), ("owned", 5, []))
    ((before, after),) = overlaps([member(("owned", 4, [PARTITION])), first])
    assert (before.start_us, before.end_us, after.start_us) == (1, 5, 4)


def test_a_partition_that_two_members_still_have_is_owned_twice() -> None:
    assert len(overlaps([member(("owned", 1, [PARTITION])), member(("owned", 2, [["orders", 1], PARTITION]))])) == 1


def test_a_member_that_was_fenced_learns_too_late() -> None:
    first = member(("owned", 1, [PARTITION]), ("lost", 5, []))
    assert overlaps([first, member(("owned", 4, [PARTITION]))]) == []
