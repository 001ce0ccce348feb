"""Java's Admin about groups of both protocols: it lists, describes, moves and deletes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.group_protocols import ProtocolGroup
from support.java_clients import JavaAdmin, JavaError

NewGroup = Callable[[int], ProtocolGroup]

KINDS = {
    "consumer": ("confluent-kafka", "Consumer"),
    "classic": ("kafka-python", "Classic"),
}
"""The client of a member by its protocol, and the type of its group."""


def thrown(call: Callable[..., None], *arguments: object) -> str:
    """The class of the exception that Kafka's answer became."""
    with pytest.raises(JavaError) as raised:
        call(*arguments)
    return raised.value.thrown[-1]


@pytest.fixture(params=KINDS)
def protocol(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def group(new_group: NewGroup, protocol: str) -> ProtocolGroup:
    """One with a member that has handled ten records of partition 0."""
    group = new_group(1)
    group.start(KINDS[protocol][0], protocol=protocol)
    group.wait_until_shared(*group.members)
    group.produce()
    group.wait_until_handled()
    group.wait_until_committed()
    return group


def test_it_lists_and_describes_a_group_with_a_member(
    group: ProtocolGroup, protocol: str, java_admin: JavaAdmin
) -> None:
    kind = KINDS[protocol][1]
    assert java_admin.list()[group.name] == [kind, "consumer", "Stable"]
    described = java_admin.describe(group.name)
    assert (described["type"], described["state"]) == (kind, "Stable")
    (member,) = described["members"]
    assert member["client id"] == f"{group.name}-0"
    assert member["host"] == "/127.0.0.1"
    assert member["assignment"] == [f"{group.name}-0"]
    if protocol == "classic":
        assert described["assignor"] == "range"
        return
    assert member["target"] == member["assignment"]
    assert member["epoch"] == described["epoch"] == described["target epoch"]
    assert member["upgraded"]
    assert described["assignor"] == "uniform"


def test_it_changes_and_deletes_only_what_no_member_uses(group: ProtocolGroup, java_admin: JavaAdmin) -> None:
    place = f"{group.name}-0"
    assert java_admin.offsets(group.name) == {place: 10}
    assert thrown(java_admin.delete, group.name) == "GroupNotEmptyException"
    assert thrown(java_admin.alter_offset, group.name, group.name, 3) == "UnknownMemberIdException"
    assert thrown(java_admin.delete_offset, group.name, group.name) == "GroupSubscribedToTopicException"
    assert java_admin.offsets(group.name) == {place: 10}
    group.leave()
    assert java_admin.list()[group.name][2] == "Empty"
    java_admin.alter_offset(group.name, group.name, 3)
    assert java_admin.offsets(group.name) == {place: 3}
    java_admin.delete_offset(group.name, group.name)
    assert java_admin.offsets(group.name) == {}
    java_admin.delete(group.name)
    assert group.name not in java_admin.list()
    assert thrown(java_admin.describe, group.name) == "GroupIdNotFoundException"


def test_a_member_goes_on_where_an_admin_has_put_its_group(
    group: ProtocolGroup, protocol: str, java_admin: JavaAdmin
) -> None:
    group.leave()
    java_admin.alter_offset(group.name, group.name, 7)
    again = group.start(KINDS[protocol][0], protocol=protocol)
    group.wait(lambda: [offset for *_, offset in again.handled] == [7, 8, 9])
