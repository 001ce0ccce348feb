"""Batches as Apache Kafka 4.3.1 wrote them."""

from typing import Any

import pytest

from kmini.protocol.errors import InvalidRecord
from kmini.protocol.records.batch import build_batch, is_crc_valid, iter_batches, read_header
from kmini.protocol.records.control import (
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
    parse_end_transaction_marker,
)
from kmini.protocol.records.record import Record, check_records, decode_records

PRODUCED = bytes.fromhex(
    "0000000000000000000000450000000502bca0f4fb00000000000100000000000003e800000000000003ed"
    "000000000000000700030000000a0000000214000000046b310476310010000a02046b320100"
)
CLEANED = bytes.fromhex(
    "00000000000000000000003b0000000502fb594d4000400000000100000000000015e000000000000003ed"
    "000000000000000700030000000a000000011200e54702046b320100"
)
EMPTIED = bytes.fromhex(
    "0000000000000000000000310000000502fe578f57000000000001ffffffffffffffff00000000000003ed"
    "000000000000000700030000000a00000000"
)
ABORT = bytes.fromhex(
    "000000000000002a0000004200000009029402fce000300000000000000000000007d000000000000007d0"
    "00000000000000070003ffffffff000000012000000008000000000c00000000000400"
)
ABORT_FACTS = {"producer_id": 7, "producer_epoch": 3, "timestamp": 2000, "base_offset": 42, "leader_epoch": 9}


@pytest.mark.parametrize("batch", [PRODUCED, CLEANED, EMPTIED, ABORT])
def test_every_golden_batch_is_one_whole_batch_with_a_right_checksum(batch: bytes) -> None:
    ((position, header),) = iter_batches(batch)
    assert (position, header.size) == (0, len(batch))
    assert is_crc_valid(batch, 0, header)


def test_a_produced_batch_is_read(kernel: Any) -> None:
    header = read_header(PRODUCED)
    assert decode_records(PRODUCED, 0, header) == [Record(0, 1000, b"k1", b"v1"), Record(1, 1005, b"k2", None)]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 3, 10, 11)


def test_the_same_records_become_the_same_bytes() -> None:
    records = [Record(0, 1000, b"k1", b"v1"), Record(1, 1005, b"k2", None)]
    batch = build_batch(records, producer_id=7, producer_epoch=3, base_sequence=10, leader_epoch=5)
    assert batch == PRODUCED


def test_a_delete_horizon_is_the_base_of_timestamps(kernel: Any) -> None:
    header = read_header(CLEANED)
    assert header.has_delete_horizon
    assert header.base_timestamp == 5600
    assert decode_records(CLEANED, 0, header) == [Record(1, 1005, b"k2", None)]
    assert not check_records(CLEANED, 0, header).is_sequential


def test_a_cleaned_batch_is_built_with_its_horizon() -> None:
    batch = build_batch(
        [Record(1, 1005, b"k2", None)],
        producer_id=7,
        producer_epoch=3,
        base_sequence=10,
        leader_epoch=5,
        delete_horizon_ms=5600,
    )
    assert batch == CLEANED


def test_an_emptied_batch_keeps_its_offsets_and_sequence(kernel: Any) -> None:
    header = read_header(EMPTIED)
    assert decode_records(EMPTIED, 0, header) == []
    assert check_records(EMPTIED, 0, header).record_count == 0
    assert (header.last_offset, header.last_sequence) == (1, 11)


def test_an_abort_marker_is_built_as_kafka_builds_it() -> None:
    assert build_end_transaction_marker(EndTransactionMarker(True, 4), **ABORT_FACTS) == ABORT


def test_an_abort_marker_is_read(kernel: Any) -> None:
    assert parse_end_transaction_marker(ABORT) == EndTransactionMarker(is_abort=True, coordinator_epoch=4)


def test_a_commit_marker_comes_back() -> None:
    marker = EndTransactionMarker(is_abort=False, coordinator_epoch=11)
    assert parse_end_transaction_marker(build_end_transaction_marker(marker, **ABORT_FACTS)) == marker


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_a_control_key_is_refused_if_short_or_of_a_negative_version(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        control_type(key)


def test_a_control_key_of_an_unknown_type_or_newer_version_is_read() -> None:
    assert control_type(b"\0\7\0\x63more") == 99
