"""The records of share groups: each change is read as it was written, and tombstones come in Kafka's order."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.groups.modern import record_format
from kmini.broker.groups.modern.changes import Change
from kmini.broker.groups.share.share_group import (
    PartitionStates,
    ShareAssignment,
    SharedTopic,
    ShareGroup,
    ShareMembership,
)
from kmini.broker.groups.share.state_changes import (
    AssignmentEpoch,
    CurrentChange,
    GroupEpoch,
    MembershipChange,
    StatesChange,
    TargetChange,
    read_change,
)

T, U = bytes(15) + b"t", bytes(15) + b"u"
MEMBER = ShareMembership("m", None, "c", "/h", frozenset({"t"}))

CHANGES: list[tuple[Change[ShareGroup], str, str]] = [
    (MembershipChange("m", MEMBER), "000a 00 01 67 00 01 6d", "0000 00 02 63 03 2f 68 02 02 74 00"),
    (GroupEpoch(2, 5), "000b 00 01 67", "0000 00000002 0000000000000005 00"),
    (AssignmentEpoch(2, 7), "000c 00 01 67", "0000 00000002 01 00 08 0000000000000007"),
    (
        TargetChange("m", {T: frozenset({0})}),
        "000d 00 01 67 00 01 6d",
        f"0000 02 {T.hex()} 02 00000000 00 00",
    ),
    (
        CurrentChange("m", ShareAssignment(3, 2, {T: frozenset({1})})),
        "000e 00 01 67 00 01 6d",
        f"0000 00000003 00000002 00 02 {T.hex()} 02 00000001 00 00",
    ),
    (
        StatesChange(PartitionStates({T: SharedTopic("t", frozenset({0}))}, {}, {U: "u"})),
        "000f 00 01 67",
        f"0000 02 {T.hex()} 02 74 02 00000000 00 01 02 {U.hex()} 02 75 00 00",
    ),
]
"""Changes, with keys and values after the schemas of Apache Kafka."""


@pytest.mark.parametrize(("change", "key", "value"), CHANGES, ids=lambda one: type(one).__name__)
def test_a_record_has_kafkas_format_and_is_read_as_it_was_written(
    change: Change[ShareGroup], key: str, value: str
) -> None:
    stored_key, stored_value = change.record("g")
    assert stored_key == bytes.fromhex(key)
    assert stored_value == bytes.fromhex(value)
    key_type, _, name = record_format.decode_key(stored_key)
    assert read_change(key_type, name, stored_value) == change


@pytest.mark.parametrize("key_type", range(10, 16))
def test_a_damaged_record_is_corrupt(key_type: int) -> None:
    with pytest.raises(CorruptRecord):
        read_change(key_type, "m", b"\0\0\1")


def test_a_group_goes_in_kafkas_order() -> None:
    group = ShareGroup("g")
    for name in ("m1", "m2"):
        MembershipChange(name, MEMBER._replace(member_id=name)).apply(group)
    kinds = [record_format.decode_key(key)[::2] for key, value in group.tombstones() if value is None]
    members = [(kind, name) for kind in (14, 13) for name in ("m1", "m2")]
    assert kinds == [*members, (12, ""), (10, "m1"), (10, "m2"), (15, ""), (11, "")]
