"""What groups of all kinds have in common: a name, offsets, members that have gone, and whether they may be deleted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kmini.broker.groups.classic.classic_group import ClassicGroup
from kmini.broker.groups.classic.group_states import DEAD
from kmini.broker.groups.committed_offsets import CommittedOffsets
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.group import MOST_DEPARTURES, MOST_OF_REASON, Committer, Departure, Group
from kmini.protocol.errors import GroupIdNotFound

MakeGroup = Callable[[str], Group]


@pytest.fixture(params=["classic", "consumer"])
def make(request: pytest.FixtureRequest) -> MakeGroup:
    """A maker of groups of one kind."""
    if request.param == "classic":
        return lambda group_id: ClassicGroup(group_id, None)
    return lambda group_id: ConsumerGroup(group_id, "uniform")


def departure(number: int, reason: str = "") -> Departure:
    return Departure(f"m{number}", "client", number, reason, is_expelled=False, max_poll_interval_ms=1000)


def test_a_new_group_has_no_members_and_readers_are_not_shown_it(make: MakeGroup) -> None:
    group = make("g")
    assert (group.group_id, group.is_shown, dict(group.members)) == ("g", False, {})
    assert (group.is_empty, group.is_alive, group.is_stable, group.is_removed) == (True, False, False, False)
    assert (group.state_name, group.shown_state.value, group.protocol) == ("Empty", "Empty", None)
    assert not group.knows("m")
    assert not group.is_subscribed_to("orders")


def test_the_last_members_that_have_gone_are_remembered(make: MakeGroup) -> None:
    group = make("g")
    for number in range(MOST_DEPARTURES + 3):
        group.add_departure(departure(number))
    assert [gone.generation for gone in group.departures] == [*range(3, MOST_DEPARTURES + 3)]


def test_as_much_of_a_reason_is_remembered_as_java_sends(make: MakeGroup) -> None:
    group = make("g")
    group.add_departure(departure(1, "x" * 1000))
    assert group.departures == (departure(1, "x" * MOST_OF_REASON),)


def test_a_group_without_members_may_be_deleted_once(make: MakeGroup) -> None:
    group = make("g")
    group.check_delete()
    if isinstance(group, ConsumerGroup):
        group.mark_removed()
    elif isinstance(group, ClassicGroup):
        group.state = DEAD
    assert group.is_removed
    with pytest.raises(GroupIdNotFound):
        group.check_delete()


def test_a_group_that_takes_the_place_of_another_keeps_its_offsets(make: MakeGroup) -> None:
    former = ClassicGroup("g", None)
    former.is_shown, former.offsets = True, CommittedOffsets()
    former.add_departure(departure(1))
    group = make("g")
    group.take_place_of(former)
    assert group.offsets is former.offsets
    assert (group.is_shown, group.departures) == (True, (departure(1),))


def test_a_group_is_deleted_by_tombstones_of_its_own_kind(make: MakeGroup) -> None:
    records = make("g").tombstones()
    assert records
    assert all(value is None for _, value in records)
    types = {int.from_bytes(key[:2], "big") for key, _ in records}
    assert types in ({2}, {3, 6})


def test_a_commit_without_a_version_is_one_of_a_transaction() -> None:
    assert Committer("m", None, 1, None).is_transactional
    assert not Committer("m", None, 1, 0).is_transactional
