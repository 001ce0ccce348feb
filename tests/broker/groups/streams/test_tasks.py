"""The tasks of a member in their roles, compared."""

from __future__ import annotations

import pytest

from kmini.broker.groups.streams.tasks import Duties, each_task


def test_a_member_without_tasks_is_false_even_with_empty_subtopologies() -> None:
    assert not Duties()
    assert not Duties({"0": ()}, {"1": frozenset()}, {"2": {}})
    assert Duties({}, {}, {"2": (0,)})


def test_two_overlap_if_they_have_a_task_in_the_same_role() -> None:
    mine = Duties({"0": {1: 7, 2: 7}}, {"1": (3,)})
    assert mine.overlaps(Duties({"0": (2, 5)}))
    assert mine.overlaps(Duties({}, {"1": (3,)}))
    assert not mine.overlaps(Duties({"1": (3,)}, {"0": (1,)}))  # the same tasks in other roles
    assert not mine.overlaps(Duties({"0": (3,)}))


def test_one_contains_another_if_it_has_every_task_in_the_same_role() -> None:
    mine = Duties({"0": {1: 7, 2: 7}}, {"1": (3,)})
    assert mine.contains(Duties())
    assert mine.contains(Duties({"0": (2,)}, {"1": (3,)}))
    assert not mine.contains(Duties({"0": (2, 4)}))
    assert not mine.contains(Duties({}, {"0": (1,)}))
    assert mine.contains(Duties({"9": ()}))


@pytest.mark.parametrize(
    "other", [Duties({"0": [2, 1]}), Duties({"0": {1: 3, 2: 9}, "1": ()}), Duties({"0": frozenset({1, 2})}, {"1": ()})]
)
def test_as_sets_two_are_equal_whatever_their_epochs_order_and_empty_subtopologies(other: Duties) -> None:
    assert Duties({"0": (1, 2)}).as_sets() == other.as_sets()
    assert Duties({"0": (1, 2)}, {"0": (1,)}).as_sets() != other.as_sets()


def test_tasks_are_listed_one_by_one() -> None:
    assert [*each_task({"0": (1, 2), "1": {5: 9}})] == [("0", 1), ("0", 2), ("1", 5)]
