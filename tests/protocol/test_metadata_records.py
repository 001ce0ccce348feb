"""Records of Kafka's metadata log are the bytes that Kafka writes."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import MalformedMessage
from kmini.protocol.metadata_records import (
    METADATA_RECORDS,
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    KRaftVersion,
    KRaftVoters,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    SnapshotFooter,
    SnapshotHeader,
    TopicRecord,
    UserScramCredentialRecord,
    decode_framed,
)

ID = bytes(range(16))
DIRECTORY = bytes.fromhex("9d33db7cd1454ecbbb2195b8eff0ffd9")

RECORDS = [
    RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=ID,
        broker_epoch=35,
        end_points=[RegisterBrokerRecord.Endpoint(name="A", host="h", port=9092, security_protocol=0)],
        features=[RegisterBrokerRecord.Feature(name="f", min_supported_version=0, max_supported_version=1)],
        log_dirs=[DIRECTORY],
    ),
    TopicRecord(name="orders", topic_id=ID),
    PartitionRecord(
        partition_id=3,
        topic_id=ID,
        replicas=[1],
        isr=[],
        leader=-1,
        leader_epoch=7,
        partition_epoch=0,
        directories=[DIRECTORY],
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    ),
    ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="-1"),
    DelegationTokenRecord(
        owner="User:alice",
        requester="User:bob",
        renewers=["User:carol"],
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id="token",
    ),
    UserScramCredentialRecord(
        name="alice", mechanism=2, salt=b"salt", stored_key=b"stored", server_key=b"server", iterations=4096
    ),
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    ClientQuotaRecord(
        entity=[ClientQuotaRecord.Entity(entity_type="user", entity_name=None)], key="consumer_byte_rate", value=0.5
    ),
    ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=2000),
    AccessControlEntryRecord(
        id=ID,
        resource_type=2,
        resource_name="orders",
        pattern_type=3,
        principal="User:alice",
        host="*",
        operation=3,
        permission_type=3,
    ),
]


@pytest.mark.parametrize(
    ("name", "level", "value"),
    [
        ("metadata.version", 30, "010c00116d657461646174612e76657273696f6e001e00"),
        ("transaction.version", 2, "010c00147472616e73616374696f6e2e76657273696f6e000200"),
    ],
)
def test_a_feature_level_is_what_kafka_storage_format_writes(name: str, level: int, value: str) -> None:
    assert FeatureLevelRecord(name=name, feature_level=level).framed().hex() == value


def test_the_quorum_of_one_is_what_kafka_storage_format_writes() -> None:
    endpoint = KRaftVoters.Voter.Endpoint(name="CONTROLLER", host="localhost", port=9093)
    versions = KRaftVoters.Voter.KRaftVersionRange(min_supported_version=0, max_supported_version=1)
    voter = KRaftVoters.Voter(
        voter_id=1, voter_directory_id=DIRECTORY, endpoints=[endpoint], kraft_version_range=versions
    )
    assert b"".join(KRaftVoters(voters=[voter]).encode(0)).hex() == (
        "000002000000019d33db7cd1454ecbbb2195b8eff0ffd9020b434f4e54524f4c4c45520a6c6f63616c686f737423850000000001000000"
    )
    assert b"".join(KRaftVersion(kraft_version=1).encode(0)).hex() == "0000000100"
    assert b"".join(SnapshotHeader().encode(0)).hex() == "0000000000000000000000"
    assert b"".join(SnapshotFooter().encode(0)).hex() == "000000"


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_every_record_reads_back(record: object) -> None:
    framed = record.framed()  # type: ignore[attr-defined]
    assert decode_framed(framed) == record
    assert framed[:3] == bytes((1, record.record_type, record.max_version))  # type: ignore[attr-defined]


def test_every_kind_is_tried() -> None:
    assert {type(record) for record in RECORDS} == {*METADATA_RECORDS.values()}


@pytest.mark.parametrize("value", ["", "01", "0102", "020200", "016300", "010201"])
def test_a_frame_that_is_not_known_is_a_value_error(value: str) -> None:
    with pytest.raises(ValueError, match=r"metadata record|versions"):
        decode_framed(bytes.fromhex(value))


def test_fields_that_are_cut_off_are_malformed() -> None:
    with pytest.raises(MalformedMessage):
        decode_framed(RECORDS[1].framed()[:-3])
