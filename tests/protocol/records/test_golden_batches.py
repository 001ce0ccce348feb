"""Batches as Apache Kafka 4.3.1 wrote them."""

from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, is_crc_valid, iter_batches, read_header
from kmini.protocol.records.batch_records import check_records, decode_records
from kmini.protocol.records.control import (
    EndTransactionMarker,
    build_end_transaction_marker,
    parse_end_transaction_marker,
)
from kmini.protocol.records.record import Record

Golden = dict[str, bytes]
ABORT_FACTS = {"producer_id": 7, "producer_epoch": 3, "timestamp": 2000, "base_offset": 42, "leader_epoch": 9}


@pytest.mark.parametrize("name", ["produced", "cleaned", "emptied", "abort"])
def test_every_golden_batch_is_one_whole_batch_with_a_right_checksum(golden: Golden, name: str) -> None:
    batch = golden[name]
    ((position, header),) = iter_batches(batch)
    assert (position, header.size) == (0, len(batch))
    assert is_crc_valid(batch, 0, header)


def test_a_produced_batch_is_read(kernel: Any, golden: Golden) -> None:
    header = read_header(golden["produced"])
    assert decode_records(golden["produced"], 0, header) == [
        Record(0, 1000, b"k1", b"v1"),
        Record(1, 1005, b"k2", None),
    ]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 3, 10, 11)


def test_the_same_records_become_the_same_bytes(golden: Golden) -> None:
    records = [Record(0, 1000, b"k1", b"v1"), Record(1, 1005, b"k2", None)]
    batch = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=10, leader_epoch=5)
    assert batch == golden["produced"]


def test_a_delete_horizon_is_the_base_of_timestamps(kernel: Any, golden: Golden) -> None:
    header = read_header(golden["cleaned"])
    assert header.has_delete_horizon
    assert header.base_timestamp == 5600
    assert decode_records(golden["cleaned"], 0, header) == [Record(1, 1005, b"k2", None)]
    assert not check_records(golden["cleaned"], 0, header).is_sequential


def test_a_cleaned_batch_is_built_with_its_horizon(golden: Golden) -> None:
    batch = build_batch(
        [Record(1, 1005, b"k2", None)],
        producer_id=7,
        producer_epoch=3,
        base_sequence=10,
        leader_epoch=5,
        delete_horizon_ms=5600,
    )
    assert batch == golden["cleaned"]


def test_an_emptied_batch_keeps_its_offsets_and_sequence(kernel: Any, golden: Golden) -> None:
    header = read_header(golden["emptied"])
    assert decode_records(golden["emptied"], 0, header) == []
    assert check_records(golden["emptied"], 0, header).record_count == 0
    assert (header.last_offset, header.last_sequence) == (1, 11)


def test_an_abort_marker_is_built_as_kafka_builds_it(golden: Golden) -> None:
    assert build_end_transaction_marker(EndTransactionMarker(True, 4), **ABORT_FACTS) == golden["abort"]


def test_an_abort_marker_is_read(kernel: Any, golden: Golden) -> None:
    assert parse_end_transaction_marker(golden["abort"]) == EndTransactionMarker(is_abort=True, coordinator_epoch=4)
