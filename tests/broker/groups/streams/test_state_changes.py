"""Changes of a streams group: the bytes of their records, and their effects, which are the same when they are read."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.groups.modern import record_format
from kmini.broker.groups.modern.changes import Change
from kmini.broker.groups.streams import streams_group_records as records
from kmini.broker.groups.streams.state_changes import (
    AssignmentEpoch,
    CurrentChange,
    GroupEpoch,
    MembershipChange,
    TargetChange,
    TopologyChange,
    read_change,
    removal,
    removal_of_members,
)
from kmini.broker.groups.streams.streams_group import StreamsGroup
from kmini.broker.groups.streams.task_members import CurrentTasks, TaskMembership, TaskState
from kmini.broker.groups.streams.tasks import Duties
from kmini.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, topology_from

MEMBER = TaskMembership("m", None, "r", "c", "/h", 256, 1, "p", ("host", 65_535), (("k", "v"),))
CURRENT = CurrentTasks(
    5,
    4,
    TaskState.UNREVOKED_TASKS,
    {"0": {0: 5, 3: 2}},
    {"1": frozenset({1})},
    {},
    {"1": {7: 4}},
    {"0": frozenset({2})},
)
TOPOLOGY = topology_from(
    3,
    [
        Subtopology("1", (), (), (InternalTopic("c", 0, 2, (("k", "v"),)),), (), (InternalTopic("r", 2),), ()),
        Subtopology("0", ("t", "u"), (), (), ("r",), (), (CopartitionGroup((0, 1), (), ()),)),
    ],
)

CHANGES: list[Change[StreamsGroup]] = [
    GroupEpoch(7, -12, 3, {"num.standby.replicas": "1"}),
    GroupEpoch(7, -12),
    TopologyChange(TOPOLOGY),
    MembershipChange("m", MEMBER),
    MembershipChange("m", MEMBER._replace(user_endpoint=None, rack_id=None, client_tags=())),
    AssignmentEpoch(6, 1234),
    TargetChange("m", Duties({"0": frozenset({0, 3})}, {"1": frozenset({1})}, {})),
    TargetChange("m", Duties({}, {}, {})),
    CurrentChange("m", CURRENT),
]


def read(change: Change[StreamsGroup]) -> Change[StreamsGroup] | None:
    """The change as it is read again from its record."""
    key, value = change.record("g")
    key_type, group_id, name = record_format.decode_key(key)
    assert (group_id, record_format.KINDS[key_type]) == ("g", "streams")
    assert value is not None
    return read_change(key_type, name, value)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_change_is_read_as_it_was_written(change: Change[StreamsGroup]) -> None:
    assert read(change) == change


GOLDEN = [
    (GroupEpoch(2, 0), "0000 00000002 0000000000000000 00"),
    (
        GroupEpoch(2, -2, 0, {"num.standby.replicas": "0"}),
        "0000 00000002 fffffffffffffffe 02 00 04 00000000 01 19 02 15 6e756d2e7374616e6462792e7265706c69636173 0230 00",
    ),
    (
        MembershipChange("m", MEMBER),
        "0000 00 0272 0263 032f68 00000100 00000001 0270 01 05686f7374 ffff 00 02 026b 0276 00 00",
    ),
    (AssignmentEpoch(2, 258), "0000 00000002 01 00 08 0000000000000102"),
    (TargetChange("m", Duties({"0": (3, 0)})), "0000 02 0230 03 00000000 00000003 00 01 01 00"),
    (
        CurrentChange("m", CurrentTasks(5, 4, TaskState.STABLE, {"0": {1: 3}}, {"1": frozenset({2})})),
        "0000 00000005 00000004 01 02 0230 02 00000001 01 00 05 02 00000003 02 0231 02 00000002 00 01 01 01 01 00",
    ),
    (
        TopologyChange(topology_from(0, [Subtopology("0", ("t",), (), (), (), (), ())])),
        "0000 00000000 02 0230 02 0274 01 01 01 01 01 00 00",
    ),
]


@pytest.mark.parametrize(("change", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_values_have_the_bytes_of_kafkas_schemas(change: Change[StreamsGroup], expected: str) -> None:
    _, value = change.record("g")
    assert value is not None
    assert value.hex() == expected.replace(" ", "")


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: type(change).__name__)
def test_a_value_that_ends_early_is_corrupt(change: Change[StreamsGroup]) -> None:
    key, value = change.record("g")
    key_type, _, name = record_format.decode_key(key)
    assert value is not None
    for length in range(len(value)):
        with pytest.raises(CorruptRecord):
            read_change(key_type, name, value[:length])


def test_a_topology_that_cannot_be_is_corrupt() -> None:
    value = record_format.encode(records.StreamsGroupTopologyValue(epoch=-1, subtopologies=[]))
    with pytest.raises(CorruptRecord):
        read_change(records.TOPOLOGY, "", value)


def test_a_state_of_a_newer_coordinator_is_unknown_and_its_tasks_are_read() -> None:
    _, value = CurrentChange("m", CURRENT).record("g")
    assert value is not None
    damaged = value[:10] + b"\x55" + value[11:]
    change = read_change(records.CURRENT_MEMBER_ASSIGNMENT, "m", damaged)
    assert change == CurrentChange("m", CURRENT._replace(state=TaskState.UNKNOWN))


def test_active_tasks_without_epochs_have_that_of_the_member() -> None:
    stored = records.StreamsGroupCurrentMemberAssignmentValue.TaskIds(subtopology_id="0", partitions=[1])
    value = records.StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=9,
        previous_member_epoch=8,
        state=1,
        active_tasks=[stored],
        standby_tasks=[],
        warmup_tasks=[],
        active_tasks_pending_revocation=[],
        standby_tasks_pending_revocation=[],
        warmup_tasks_pending_revocation=[],
    )
    change = read_change(records.CURRENT_MEMBER_ASSIGNMENT, "m", record_format.encode(value))
    assert change == CurrentChange("m", CurrentTasks(9, 8, TaskState.STABLE, {"0": {1: 9}}))


def test_all_changes_make_a_group_and_the_removal_ends_it_in_kafkas_order() -> None:
    group = StreamsGroup("g")
    for change in CHANGES:
        change.apply(group)
    assert (group.epoch, group.assignment_epoch, group.topology) == (7, 6, TOPOLOGY)
    assert group.current("m") == CURRENT
    group.put_membership("n", MEMBER._replace(member_id="n"))
    keys = [record_format.decode_key(change.record("g")[0]) for change in removal(group)]
    assert [(kind, name) for kind, _, name in keys] == [
        (22, "m"),
        (22, "n"),
        (21, "m"),
        (21, "n"),
        (20, ""),
        (19, "m"),
        (19, "n"),
        (17, ""),
        (23, ""),
    ]
    assert all(change.record("g")[1] is None for change in removal(group))
    for change in removal_of_members(["m", "n"]):
        change.apply(group)
    assert (group.memberships, group.currents, group.targets) == ({}, {}, {})
