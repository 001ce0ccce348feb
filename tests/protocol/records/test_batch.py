"""Headers of batches: read, walked over, written in place; batches built."""

import struct
from collections.abc import Callable

import pytest

from kmini.protocol.errors import CorruptMessage
from kmini.protocol.records.batch import (
    HEADER_SIZE,
    MAX_SEQUENCE,
    assign_offsets,
    build_batch,
    decrement_sequence,
    increment_sequence,
    is_crc_valid,
    iter_batches,
    read_header,
    rewrite_header,
)
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record

RECORD = Record(0, 1000, b"k", b"v")


def test_a_header_reads_as_kafka_wrote_it(golden: dict[str, bytes]) -> None:
    header = read_header(golden["produced"])
    assert header == (0, 0x45, 5, 2, 0xBCA0F4FB, 0, 1, 1000, 1005, 7, 3, 10, 2)
    assert header.size == len(golden["produced"])
    assert (header.last_offset, header.next_offset, header.last_sequence) == (1, 2, 11)
    assert header.codec == Codec.NONE


def test_every_byte_behind_the_checksum_counts(golden: dict[str, bytes]) -> None:
    for position in range(21, len(golden["produced"])):
        batch = bytearray(golden["produced"])
        batch[position] ^= 1
        assert not is_crc_valid(batch, 0, read_header(batch)), position


@pytest.mark.parametrize(
    ("bit", "fact"),
    [
        (0x08, "is_log_append_time"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
        (0x40, "has_delete_horizon"),
    ],
)
def test_each_attribute_has_its_bit(golden: dict[str, bytes], bit: int, fact: str) -> None:
    header = read_header(golden["produced"])
    assert not getattr(header, fact)
    assert getattr(header._replace(attributes=bit), fact)
    assert not getattr(header._replace(attributes=0xFF ^ bit), fact)
    assert header._replace(attributes=bit | 4).codec == Codec.ZSTD


def test_offsets_are_given_or_count_from_the_base_offset() -> None:
    given = build_batch([RECORD._replace(offset=12), RECORD._replace(offset=17)], base_offset=10)
    assert read_header(given).last_offset == 17
    assert [record.offset for record in decode_records(given, 0, read_header(given))] == [12, 17]
    counted = build_batch([RECORD, RECORD], base_offset=10)
    assert [record.offset for record in decode_records(counted, 0, read_header(counted))] == [10, 11]


def test_a_batch_may_end_behind_its_last_record() -> None:
    batch = build_batch([RECORD._replace(offset=12)], base_offset=10, last_offset=19)
    assert read_header(batch).next_offset == 20


def test_a_batch_is_built_of_something() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])


def test_the_largest_timestamp_is_in_the_header() -> None:
    batch = build_batch([RECORD, RECORD._replace(timestamp=3000), RECORD._replace(timestamp=2000)])
    assert read_header(batch).max_timestamp == 3000
    assert read_header(build_batch([RECORD._replace(timestamp=-1)])).max_timestamp == -1


def test_log_append_time_is_the_timestamp_of_every_record() -> None:
    batch = build_batch([RECORD, RECORD._replace(timestamp=3000)], log_append_time_ms=9)
    header = read_header(batch)
    assert header.is_log_append_time
    assert [record.timestamp for record in decode_records(batch, 0, header)] == [9, 9]


def test_offsets_and_leader_epoch_are_assigned_outside_the_checksum(golden: dict[str, bytes]) -> None:
    buffer = bytearray(b"before" + golden["produced"])
    assign_offsets(buffer, 6, 1 << 40, 17)
    header = read_header(buffer, 6)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 17)
    assert is_crc_valid(buffer, 6, header)
    assert buffer[:6] == b"before"


def test_a_rewritten_header_has_the_right_checksum(golden: dict[str, bytes]) -> None:
    buffer = bytearray(golden["produced"])
    header = read_header(buffer)
    rewritten = rewrite_header(buffer, 0, header._replace(attributes=8, max_timestamp=77))
    assert read_header(buffer) == rewritten
    assert rewritten.max_timestamp == 77
    assert is_crc_valid(buffer, 0, rewritten)
    assert buffer[HEADER_SIZE:] == golden["produced"][HEADER_SIZE:]


# Walking over batches


def test_batches_are_met_one_after_the_other(golden: dict[str, bytes]) -> None:
    parts = [golden["produced"], golden["emptied"], golden["abort"]]
    met = list(iter_batches(b"".join(parts)))
    assert [position for position, _ in met] == [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    assert [header.record_count for _, header in met] == [2, 0, 1]


def test_an_incomplete_batch_is_the_end_wherever_it_is_cut(golden: dict[str, bytes]) -> None:
    batch = golden["produced"]
    for size in range(len(batch)):
        assert list(iter_batches(batch[:size])) == []
        assert len(list(iter_batches(batch + batch[:size]))) == 1


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13])
def test_a_length_that_no_message_can_have_is_corrupt(golden: dict[str, bytes], length: int) -> None:
    batch = bytearray(golden["produced"])
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptMessage):
        list(iter_batches(batch))
    with pytest.raises(CorruptMessage):
        list(iter_batches(batch[:12]))


@pytest.mark.parametrize("length", [14, 48])
def test_a_batch_without_room_for_its_header_is_corrupt(golden: dict[str, bytes], length: int) -> None:
    batch = bytearray(golden["produced"])
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptMessage, match="no room"):
        list(iter_batches(batch))


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_an_unknown_magic_is_corrupt(golden: dict[str, bytes], magic: int) -> None:
    batch = bytearray(golden["produced"])
    batch[16] = magic
    with pytest.raises(CorruptMessage):
        list(iter_batches(batch))


# Sequences


@pytest.mark.parametrize(
    ("sequence", "count", "result"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (MAX_SEQUENCE, 1, 0),
        (MAX_SEQUENCE - 1, 5, 3),
        (MAX_SEQUENCE, MAX_SEQUENCE, MAX_SEQUENCE - 1),
    ],
)
def test_sequences_begin_again_behind_the_last(sequence: int, count: int, result: int) -> None:
    assert increment_sequence(sequence, count) == result
    assert decrement_sequence(result, count) == sequence


def test_the_last_sequence_of_a_batch_wraps_and_of_one_without_is_none(golden: dict[str, bytes]) -> None:
    header = read_header(golden["produced"])
    assert header._replace(base_sequence=MAX_SEQUENCE).last_sequence == 0
    assert header._replace(base_sequence=-1).last_sequence == -1


@pytest.mark.parametrize("codec", Codec)
def test_a_built_batch_is_whole_with_every_codec(codec: Codec, some_records: Callable[..., list[Record]]) -> None:
    records = some_records(200)
    batch = build_batch(records, codec=codec, transactional=True)
    [(position, header)] = iter_batches(batch)
    assert is_crc_valid(batch, position, header)
    assert header.codec == codec
    assert header.is_transactional
    assert decode_records(batch, 0, header) == records
