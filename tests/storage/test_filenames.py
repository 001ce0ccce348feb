from __future__ import annotations

import os

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage.filenames import (
    CLEANED,
    DELETED,
    LOG,
    OFFSET_INDEX,
    PRODUCER_SNAPSHOT,
    SWAP,
    TIME_INDEX,
    TRANSACTION_INDEX,
    PartitionDirectory,
    SegmentFile,
    broker_directory,
    deleted_partition_directory,
    parse_broker_directory,
    parse_partition_directory,
    parse_segment_file,
    partition_directory,
    segment_file,
    segment_path,
)
from support.for_each import for_each

UNIQUE = bytes(range(16))


def test_a_segment_file_is_named_by_twenty_digits() -> None:
    assert segment_file(42, LOG) == "00000000000000000042.log"
    assert segment_file(2**63 - 1, OFFSET_INDEX) == "09223372036854775807.index"
    assert segment_file(0, TIME_INDEX, DELETED) == "00000000000000000000.timeindex.deleted"
    assert segment_path("d", 42, LOG, SWAP) == os.path.join("d", "00000000000000000042.log.swap")


@for_each("kind", [LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, PRODUCER_SNAPSHOT])
@for_each("suffix", ["", DELETED, CLEANED, SWAP])
def test_every_segment_file_name_parses_back(kind: str, suffix: str) -> None:
    assert parse_segment_file(segment_file(1234, kind, suffix)) == SegmentFile(1234, kind, suffix)


@pytest.mark.parametrize(
    "name",
    [
        "42.log",
        "0000000000000000004２.log",
        "00000000000000000042",
        "00000000000000000042.log.tmp",
        "00000000000000000042.log.deleted.swap",
        "-0000000000000000042.log",
        "leader-epoch-checkpoint",
        "00000000000000000042.log\n",
        "",
    ],
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


def test_the_partition_stands_after_the_last_dash() -> None:
    name = partition_directory(TopicPartition("a-1-b", 12))
    assert name == "a-1-b-12"
    assert parse_partition_directory(name) == PartitionDirectory(TopicPartition("a-1-b", 12))


@pytest.mark.parametrize("name", ["orders", "orders-", "-1", "orders-x", "orders-99999999999", "orders-3000000000", ""])
def test_other_names_are_no_partition_directories(name: str) -> None:
    assert parse_partition_directory(name) is None


def test_the_name_of_a_log_to_be_deleted_is_marked() -> None:
    topic_partition = TopicPartition("orders.eu", 3)
    name = deleted_partition_directory(topic_partition, UNIQUE)
    assert name == "orders.eu-3.000102030405060708090a0b0c0d0e0f-delete"
    assert parse_partition_directory(name) == PartitionDirectory(topic_partition, "delete", UNIQUE.hex())
    for mark in ("future", "stray"):
        assert parse_partition_directory(f"orders.eu-3.{UNIQUE.hex()}-{mark}") == PartitionDirectory(
            topic_partition, mark, UNIQUE.hex()
        )


def test_a_long_topic_is_cut_to_a_legal_name() -> None:
    name = deleted_partition_directory(TopicPartition("t" * 249, 123), UNIQUE)
    assert len(name) == 255
    assert name.endswith("t-123.000102030405060708090a0b0c0d0e0f-delete")


def test_a_marked_directory_whose_partition_was_cut_away_is_still_known_as_such() -> None:
    """Kafka cuts a stray's whole name, so that its partition may be lost."""
    assert parse_partition_directory(f"orders.{UNIQUE.hex()}-stray") == PartitionDirectory(None, "stray", UNIQUE.hex())
    assert parse_partition_directory(f"orders.{UNIQUE.hex()}-other") is None


def test_a_brokers_directory_carries_its_id() -> None:
    assert parse_broker_directory(broker_directory(12)) == 12
    assert parse_broker_directory("broker-") is None
    assert parse_broker_directory("broker-1x") is None
