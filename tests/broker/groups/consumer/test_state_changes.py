"""Changes of a consumer group: records and their effects, which are the same when they are read again."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kmini.broker.groups.consumer import consumer_group_records as records
from kmini.broker.groups.consumer.consumer_group import ConsumerGroup
from kmini.broker.groups.consumer.members import (
    ClassicMetadata,
    CurrentAssignment,
    Expression,
    Membership,
    MemberState,
)
from kmini.broker.groups.consumer.state_changes import (
    AssignmentEpoch,
    Change,
    CurrentChange,
    ExpressionChange,
    GroupEpoch,
    MembershipChange,
    TargetChange,
    read_change,
    removal,
    removal_of_members,
    unused_expressions,
)
from kmini.broker.groups.modern import record_format

A, B = b"a" * 16, b"b" * 16

MEMBER = Membership("m", "i", "r", "c", "/h", 60_000, ("a", "b"), "x.*", "range")
CURRENT = CurrentAssignment(5, 4, MemberState.UNREVOKED_PARTITIONS, {A: {0: 5, 3: 2}}, {B: {1: 4}})

CHANGES: list[Change] = [
    GroupEpoch(7, -12),
    MembershipChange("m", MEMBER),
    MembershipChange("m", Membership("m", None, None, "", "", 0)),
    MembershipChange("m", MEMBER._replace(classic=ClassicMetadata(9, (("range", b"1"), ("sticky", b""))))),
    AssignmentEpoch(6, 1234),
    TargetChange("m", {A: (0, 3), B: (1,)}),
    TargetChange("m", {}),
    CurrentChange("m", CURRENT),
    CurrentChange("m", CurrentAssignment(-2, 5, MemberState.STABLE, {A: {0: 0}}, {})),
    ExpressionChange("x.*", Expression(frozenset({"x1", "x2"}), 8, 1234)),
    ExpressionChange("x.*", Expression(frozenset(), 8, 1234)),
]


def read(change: Change) -> Change | None:
    """The change as it is read again from its record."""
    key, value = change.record("g")
    key_type, group_id, name = record_format.decode_key(key)
    assert group_id == "g"
    assert value is not None
    return read_change(key_type, name, value)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_is_read_again_as_it_was_written(change: Change) -> None:
    assert read(change) == change


TOMBSTONES: list[tuple[Change, int]] = [
    (GroupEpoch(None), 3),
    (MembershipChange("m", None), 5),
    (AssignmentEpoch(None), 6),
    (TargetChange("m", None), 7),
    (CurrentChange("m", None), 8),
    (ExpressionChange("m", None), 16),
]


@pytest.mark.parametrize(("change", "key_type"), TOMBSTONES, ids=lambda change: type(change).__name__)
def test_a_change_without_a_value_is_a_tombstone(change: Change, key_type: int) -> None:
    key, value = change.record("g")
    assert value is None
    assert record_format.decode_key(key) == (key_type, "g", "" if key_type in (3, 6) else "m")


def test_partitions_are_written_in_order_with_the_epochs_that_belong_to_them() -> None:
    _, value = CurrentChange("m", CURRENT._replace(assigned={A: {3: 2, 0: 5}})).record("g")
    assert value is not None
    (topic,) = record_format.decode(records.ConsumerGroupCurrentMemberAssignmentValue, value).assigned_partitions
    assert (topic.partitions, topic.assignment_epochs) == ([0, 3], [5, 2])


@pytest.mark.parametrize("epochs", [None, [], [2]])
def test_partitions_without_an_epoch_were_assigned_at_the_member_epoch(epochs: list[int] | None) -> None:
    """Apache Kafka before 4.3 wrote none."""
    Value = records.ConsumerGroupCurrentMemberAssignmentValue
    value = Value(
        member_epoch=5,
        previous_member_epoch=4,
        state=0,
        assigned_partitions=[Value.TopicPartitions(topic_id=A, partitions=[1, 2], assignment_epochs=epochs)],
        partitions_pending_revocation=[],
    )
    change = read_change(records.CURRENT_MEMBER_ASSIGNMENT, "m", record_format.encode(value))
    first = 2 if epochs else 5
    assert change == CurrentChange("m", CurrentAssignment(5, 4, MemberState.STABLE, {A: {1: first, 2: 5}}, {}))


def test_a_state_of_a_newer_coordinator_is_unknown() -> None:
    Value = records.ConsumerGroupCurrentMemberAssignmentValue
    value = Value(
        member_epoch=5,
        previous_member_epoch=4,
        state=3,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )
    change = read_change(records.CURRENT_MEMBER_ASSIGNMENT, "m", record_format.encode(value))
    assert change == CurrentChange("m", CurrentAssignment(5, 4, MemberState.UNKNOWN, {}, {}))


def test_a_record_of_the_topics_of_apache_kafka_4_0_is_read_over() -> None:
    assert read_change(records.PARTITION_METADATA, "", b"\0\0whatever") is None


def test_an_expression_that_is_null_is_none() -> None:
    Value = records.ConsumerGroupMemberMetadataValue
    value = Value(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=0,
        server_assignor=None,
        classic_member_metadata=None,
    )
    change = read_change(records.MEMBER_METADATA, "m", record_format.encode(value))
    assert change == MembershipChange("m", Membership("m", None, None, "", "", 0))


# --- effects


def group_of(changes: Iterable[Change]) -> ConsumerGroup:
    group = ConsumerGroup("g", "uniform")
    for change in changes:
        change.apply(group)
    return group


FULL: list[Change] = [
    MembershipChange("m", MEMBER),
    MembershipChange("n", MEMBER._replace(member_id="n", instance_id=None, topic_regex="y.*")),
    ExpressionChange("x.*", Expression(frozenset({"x1"}), 8, 1234)),
    ExpressionChange("y.*", Expression(frozenset({"y1"}), 8, 1234)),
    GroupEpoch(7, -12),
    TargetChange("m", {A: (0, 3)}),
    TargetChange("n", {A: (1,)}),
    AssignmentEpoch(6, 1234),
    CurrentChange("m", CURRENT),
    CurrentChange("n", CurrentAssignment(6, 5, MemberState.STABLE, {A: {1: 6}}, {})),
]


def test_changes_make_the_group() -> None:
    group = group_of(FULL)
    assert (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms) == (7, -12, 6, 1234)
    assert group.memberships["m"] == MEMBER
    assert group.current("m") == CURRENT
    assert group.targets == {"m": {A: (0, 3)}, "n": {A: (1,)}}
    assert group.expressions.keys() == {"x.*", "y.*"}


def test_the_tombstone_of_an_assignment_leaves_the_member() -> None:
    group = group_of([*FULL, CurrentChange("m", None), TargetChange("m", None)])
    assert [*group.memberships] == ["m", "n"]
    assert group.current("m").assigned == {}
    assert group.is_free("n", A, 0)
    assert "m" not in group.targets


@pytest.mark.parametrize(("change", "_"), TOMBSTONES, ids=lambda change: type(change).__name__)
def test_a_tombstone_of_what_is_unknown_changes_nothing(change: Change, _: int) -> None:
    group = group_of([change])
    assert (group.memberships, group.targets, group.currents, group.expressions) == ({}, {}, {}, {})
    assert group.epoch == 1


def test_members_are_removed_with_the_expressions_that_no_other_member_has() -> None:
    group = group_of([*FULL, MembershipChange("o", MEMBER._replace(member_id="o", instance_id=None))])
    assert types(removal_of_members(group, ["m"])) == [(8, "m"), (7, "m"), (5, "m")]
    assert types(removal_of_members(group, ["m", "o"]))[6:] == [(16, "x.*")]
    assert {name for _, name in types(unused_expressions(group, ["m", "n", "o"]))} == {"x.*", "y.*"}


def test_a_group_is_removed_in_the_order_on_which_kafkas_reader_insists() -> None:
    group = group_of(FULL)
    assert types(removal(group)) == [
        (8, "m"),
        (8, "n"),
        (7, "m"),
        (7, "n"),
        (6, ""),
        (5, "m"),
        (5, "n"),
        (16, "x.*"),
        (16, "y.*"),
        (3, ""),
    ]
    emptied = group_of([*FULL, *removal(group)])
    assert (emptied.memberships, emptied.targets, emptied.currents, emptied.expressions) == ({}, {}, {}, {})
    assert emptied.assignment_epoch == -1


def types(changes: Iterable[Change]) -> list[tuple[int, str]]:
    """Types and names of tombstones."""
    found = []
    for change in changes:
        key, value = change.record("g")
        assert value is None
        key_type, _, name = record_format.decode_key(key)
        found.append((key_type, name))
    return found
