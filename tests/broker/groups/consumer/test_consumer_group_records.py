"""Values of the records of consumer groups: the bytes that Apache Kafka 4.3.1 writes, and damaged ones."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.internal_records import CorruptRecord
from kmini.broker.groups.consumer import consumer_group_records as records
from kmini.broker.groups.modern import record_format

TOPIC_ID = bytes(range(16))


Current = records.ConsumerGroupCurrentMemberAssignmentValue
Member = records.ConsumerGroupMemberMetadataValue
Target = records.ConsumerGroupTargetAssignmentMemberValue

GOLDEN = [
    (records.ConsumerGroupMetadataValue(epoch=2), "0000 00000002 00"),
    (
        records.ConsumerGroupMetadataValue(epoch=2, metadata_hash=-2),
        "0000 00000002 01 00 08 fffffffffffffffe",
    ),
    (records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2), "0000 00000002 00"),
    (
        records.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=2, assignment_timestamp=258),
        "0000 00000002 01 00 08 0000000000000102",
    ),
    (
        Target(topic_partitions=[Target.TopicPartition(topic_id=TOPIC_ID, partitions=[0, 3])]),
        f"0000 02 {TOPIC_ID.hex()} 03 00000000 00000003 00 00",
    ),
    (
        Current(
            member_epoch=5,
            previous_member_epoch=4,
            state=1,
            assigned_partitions=[
                Current.TopicPartitions(topic_id=TOPIC_ID, partitions=[1], assignment_epochs=[3]),
            ],
            partitions_pending_revocation=[],
        ),
        f"0000 00000005 00000004 01 02 {TOPIC_ID.hex()} 02 00000001 01 00 05 02 00000003 01 00",
    ),
    (
        Member(
            instance_id=None,
            rack_id="r",
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["t"],
            subscribed_topic_regex="",
            rebalance_timeout_ms=256,
            server_assignor=None,
        ),
        "0000 00 02 72 02 63 03 2f68 02 02 74 01 00000100 00 00",
    ),
    (
        records.ConsumerGroupRegularExpressionValue(topics=["t"], version=1, timestamp=2),
        "0000 02 02 74 0000000000000001 0000000000000002 00",
    ),
]


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_values_have_the_bytes_of_kafkas_schemas(value: object, expected: str) -> None:
    encoded = record_format.encode(value)  # type: ignore[arg-type]
    assert encoded.hex() == expected.replace(" ", "")
    assert record_format.decode(type(value), encoded) == value  # type: ignore[type-var]


def test_a_member_of_the_classic_protocol_has_its_protocols_in_a_tag() -> None:
    Classic = Member.ClassicMemberMetadata
    value = Member(
        instance_id="i",
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        rebalance_timeout_ms=1,
        server_assignor="range",
        classic_member_metadata=Classic(
            session_timeout_ms=9, supported_protocols=[Classic.ClassicProtocol(name="p", metadata=b"m")]
        ),
    )
    encoded = record_format.encode(value)
    assert encoded.endswith(bytes.fromhex("01 00 0c 01 00000009 02 0270 026d 00 00".replace(" ", "")))
    assert record_format.decode(Member, encoded) == value


def test_a_member_of_the_consumer_protocol_has_null_in_that_tag_as_in_the_log_of_kafka() -> None:
    written = bytes.fromhex("0000 00 00 05 63617374 0b 2f3132372e302e302e31 02 0274 01 0000ea60 00 01 00 01 00")
    value = record_format.decode(Member, written)
    assert value.classic_member_metadata is None
    assert record_format.encode(value) == written


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=lambda value: type(value).__name__)
def test_a_value_that_ends_early_or_has_another_version_is_corrupt(value: object, expected: str) -> None:
    encoded = record_format.encode(value)  # type: ignore[arg-type]
    for length in range(len(encoded)):
        with pytest.raises(CorruptRecord):
            record_format.decode(type(value), encoded[:length])  # type: ignore[type-var]
    with pytest.raises(CorruptRecord):
        record_format.decode(type(value), b"\0\1" + encoded[2:])  # type: ignore[type-var]
