"""End-of-transaction markers."""

import struct

import pytest

from kmini.protocol.errors import InvalidRecord
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
    parse_end_transaction_marker,
)
from kmini.protocol.records.record import Record


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return build_batch([Record(0, 0, key, value)], transactional=True, control=True)


@pytest.mark.parametrize("is_abort", [True, False])
def test_a_marker_reads_as_it_was_written(is_abort: bool) -> None:
    marker = EndTransactionMarker(is_abort, coordinator_epoch=2**31 - 1)
    batch = build_end_transaction_marker(marker, producer_id=1, producer_epoch=0, timestamp=5)
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert header.base_sequence == -1
    assert parse_end_transaction_marker(batch) == marker


def test_consumers_never_see_control_records(golden: dict[str, bytes]) -> None:
    records = decode_all(golden["produced"] + golden["abort"])
    assert [record.key for record in records] == [b"k1", b"k2"]


def test_a_newer_version_reads_as_the_first() -> None:
    batch = control_batch(struct.pack(">hhq", 9, ControlType.COMMIT, 5), struct.pack(">hiq", 9, 3, 5))
    assert parse_end_transaction_marker(batch) == EndTransactionMarker(is_abort=False, coordinator_epoch=3)


@pytest.mark.parametrize("kind", [2, 6, 99, -1])
def test_other_control_records_end_no_transaction(kind: int) -> None:
    assert parse_end_transaction_marker(control_batch(struct.pack(">hh", 0, kind), b"")) is None


def test_an_emptied_marker_ends_nothing(golden: dict[str, bytes]) -> None:
    assert parse_end_transaction_marker(golden["emptied"]) is None


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_a_key_that_is_none_of_a_control_record_is_invalid(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        control_type(key)
    with pytest.raises(InvalidRecord):
        parse_end_transaction_marker(control_batch(key, struct.pack(">hi", 0, 0)))


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_marker_without_a_coordinator_epoch_is_invalid(value: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        parse_end_transaction_marker(control_batch(struct.pack(">hh", 0, ControlType.ABORT), value))
