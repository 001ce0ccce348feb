"""Which member sends a heartbeat, and whether its epoch counts: each cell of the module's table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.heartbeat_fencing import check_classic, identify, member_of, take_place
from kmini.broker.groups.consumer.heartbeat_fields import Beat
from kmini.broker.groups.consumer.members import (
    ClassicMetadata,
    CurrentAssignment,
    Membership,
    MemberState,
)
from kmini.broker.groups.consumer.state_changes import Change, CurrentChange, MembershipChange, TargetChange
from kmini.protocol.errors import FencedInstanceId, KafkaError, UnknownMemberId

A = b"a" * 16


def beat(member_id: str, epoch: int, **fields: Any) -> Beat:
    plain = Beat("g", member_id, epoch, None, None, -1, None, None, None, None, "client", "/host", 1)
    return plain._replace(**fields)


def owned(*partitions: int) -> dict[bytes, frozenset[int]]:
    return {A: frozenset(partitions)}


@pytest.fixture
def group() -> ConsumerGroup:
    """The dynamic member "d", the static "s" of the instance "i", both at epoch 5 after 3, and the static "away"."""
    group = ConsumerGroup("g", "uniform")
    for member_id, instance_id, epoch in (("d", None, 5), ("s", "i", 5), ("away", "j", -2)):
        group.put_membership(member_id, Membership(member_id, instance_id, None, "", "", 0))
        current = CurrentAssignment(epoch, 3, MemberState.STABLE, {A: dict.fromkeys((0, 1), 3)})
        group.put_current(member_id, current._replace(revoking={A: {2: 3}}))
    return group


def outcome(group: ConsumerGroup, one: Beat) -> str | None:
    """The id of the member that is known; None for a new one; or the name of the error."""
    try:
        known = identify(group, one)
    except KafkaError as error:
        return error.kafka_name
    return None if known is None else known.member_id


@pytest.mark.parametrize(
    ("member_id", "instance_id", "epoch", "expected"),
    [
        ("d", None, 0, "d"),
        ("d", None, 5, "d"),
        ("x", None, 0, None),
        ("x", None, 5, "UNKNOWN_MEMBER_ID"),
        ("x", "new", 0, None),
        ("x", "new", 5, "UNKNOWN_MEMBER_ID"),
        ("d", "new", 0, "d"),
        ("s", "i", 5, "s"),
        ("x", "i", 5, "FENCED_INSTANCE_ID"),
        ("x", "i", 0, "UNRELEASED_INSTANCE_ID"),
        ("s", "i", 0, "UNRELEASED_INSTANCE_ID"),
        ("s", None, 5, "s"),
        ("s", None, 0, "s"),
        ("x", "j", 0, "away"),
        ("away", "j", 0, "away"),
        ("x", "j", 5, "FENCED_INSTANCE_ID"),
        ("away", "j", 5, "FENCED_MEMBER_EPOCH"),
    ],
)
def test_a_member_is_known_new_or_refused(
    group: ConsumerGroup, member_id: str, instance_id: str | None, epoch: int, expected: str | None
) -> None:
    assert outcome(group, beat(member_id, epoch, instance_id=instance_id)) == expected


def test_the_instance_of_a_classic_member_is_taken_over_without_its_leave(group: ConsumerGroup) -> None:
    classic = group.memberships["s"]._replace(classic=ClassicMetadata(1000, ()))
    group.put_membership("s", classic)
    assert outcome(group, beat("x", 0, instance_id="i")) == "s"


@pytest.mark.parametrize(
    ("epoch", "reported", "is_accepted"),
    [
        (5, None, True),
        (5, (7,), True),
        (6, None, False),
        (6, (), False),
        (3, (), True),
        (3, (0,), True),
        (3, (0, 1), True),
        (3, (0, 2), False),
        (3, (7,), False),
        (3, None, False),
        (4, (), False),
        (2, (), False),
        (1, (0,), False),
    ],
)
@pytest.mark.parametrize("member_id", ["d", "s"])
def test_an_epoch_is_the_present_one_or_the_one_before_with_no_more_than_was_assigned(
    group: ConsumerGroup, member_id: str, epoch: int, reported: Collection[int] | None, is_accepted: bool
) -> None:
    """A partition that the member was asked to give up is one too many."""
    instance_id = group.memberships[member_id].instance_id
    one = beat(member_id, epoch, instance_id=instance_id, owned=None if reported is None else owned(*reported))
    assert outcome(group, one) == (member_id if is_accepted else "FENCED_MEMBER_EPOCH")


def test_a_topic_that_was_not_assigned_is_too_much(group: ConsumerGroup) -> None:
    assert outcome(group, beat("d", 3, owned={b"b" * 16: frozenset({0})})) == "FENCED_MEMBER_EPOCH"
    assert outcome(group, beat("d", 3, owned={b"b" * 16: frozenset()})) == "d"


@pytest.mark.parametrize(
    ("member_id", "instance_id", "expected"),
    [
        ("d", None, "d"),
        ("x", None, "UNKNOWN_MEMBER_ID"),
        ("s", "i", "s"),
        ("s", None, "s"),
        ("x", "i", "FENCED_INSTANCE_ID"),
        ("d", "i", "FENCED_INSTANCE_ID"),
        ("s", "unknown", "UNKNOWN_MEMBER_ID"),
    ],
)
def test_a_member_leaves_by_its_ids(
    group: ConsumerGroup, member_id: str, instance_id: str | None, expected: str
) -> None:
    try:
        found = member_of(group, member_id, instance_id).member_id
    except KafkaError as error:
        found = error.kafka_name
    assert found == expected


def test_a_static_member_under_its_own_id_is_replaced_too(group: ConsumerGroup) -> None:
    former, current = group.memberships["away"], group.current("away")
    changes: list[Change] = []
    successor, begun = take_place(group, former, "away", changes)
    assert successor == former
    assert begun == CurrentAssignment(0, 0, MemberState.STABLE, current.assigned, current.revoking)
    for change in changes:
        change.apply(group)
    assert group.current("away") == begun


def test_a_static_member_under_another_id_keeps_target_and_partitions_and_begins_at_epoch_0(
    group: ConsumerGroup,
) -> None:
    group.targets["away"] = {A: (0, 1, 2)}
    former, current = group.memberships["away"], group.current("away")
    changes: list[Change] = []
    successor, begun = take_place(group, former, "new", changes)
    assert successor == former._replace(member_id="new")
    assert begun == CurrentAssignment(0, 0, MemberState.STABLE, current.assigned, current.revoking)
    assert changes == [
        CurrentChange("away", None),
        TargetChange("away", None),
        MembershipChange("away", None),
        MembershipChange("new", successor),
        TargetChange("new", {A: (0, 1, 2)}),
        CurrentChange("new", begun),
    ]
    for change in changes:
        change.apply(group)
    assert group.static_members == {"i": "s", "j": "new"}


def test_a_request_of_the_classic_protocol_is_of_a_member_that_speaks_it(group: ConsumerGroup) -> None:
    with pytest.raises(UnknownMemberId):
        check_classic(group, "d", None)
    group.put_membership("d", group.memberships["d"]._replace(classic=ClassicMetadata(1000, ())))
    assert check_classic(group, "d", None).member_id == "d"
    with pytest.raises(FencedInstanceId):
        check_classic(group, "d", "i")
