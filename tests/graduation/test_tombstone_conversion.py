"""Flagged tombstones lose their value, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kmini.graduation.tombstone_conversion import converted, holds_flagged_values
from kmini.protocol.errors import CorruptMessage
from kmini.protocol.records.batch import HEADER_SIZE, build_batch, iter_batches, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.compression import Codec, compress, compress_chunks
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record
from kmini.protocol.records.tombstones import flagged_pieces, marks_of
from kmini.storage.filesystem import OsFileSystem

FLAG = (TOMBSTONE_HEADER, b"")


def a_record(offset: int, *, is_flagged: bool, value: bytes | None = b"value") -> Record:
    headers = (("trace", b"1"), FLAG) if is_flagged else (("trace", None),)
    return Record(offset, 1_000_000 + offset * 7, b"key %d" % offset, value, headers)


def flagged_batch(records: list[Record], codec: Codec = Codec.NONE, **options: int | bool) -> bytes:
    """A batch as a topic with the flag stores it."""
    plain = build_batch(records, base_offset=records[0].offset, **options)  # type: ignore[arg-type]
    header = read_header(plain)
    block = b"".join(map(bytes, flagged_pieces(plain, 0, header, 1 << 30)))
    stored = compress(codec, block) if codec else block
    batch = bytearray(HEADER_SIZE) + stored
    attributes = header.attributes | codec
    rewrite_header(batch, 0, header._replace(attributes=attributes, batch_length=len(batch) - 12))
    return bytes(batch)


def convert(path: Path, data: bytes) -> tuple[bytes, int]:
    """The bytes of the segment afterwards, and how many values were dropped."""
    path.write_bytes(data)
    file = OsFileSystem().open(str(path))
    try:
        found = list(converted(file))
        assert holds_flagged_values(file) is any(each.values_dropped for each in found)
    finally:
        file.close()
    return b"".join(bytes(each.batch) for each in found), sum(each.values_dropped for each in found)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name.lower())
def test_only_values_of_flagged_records_go(tmp_path: Path, codec: Codec) -> None:
    records = [a_record(number, is_flagged=number % 3 == 0) for number in range(100, 200)]
    data = flagged_batch(records, codec, producer_id=9, producer_epoch=2, base_sequence=7, leader_epoch=4)
    after, dropped = convert(tmp_path / "00000000000000000100.log", data)
    assert dropped == 33
    header, before = read_header(after), read_header(data)
    assert decode_records(after, 0, header) == [
        one._replace(value=None) if FLAG in one.headers else one for one in records
    ]
    assert header._replace(crc=0, batch_length=0) == before._replace(crc=0, batch_length=0)


def test_no_record_has_a_flag_afterwards_that_kafka_does_not_know(tmp_path: Path) -> None:
    data = flagged_batch([a_record(number, is_flagged=True) for number in range(5)])
    after, _ = convert(tmp_path / "00000000000000000000.log", data)
    _, marks = marks_of(memoryview(after)[HEADER_SIZE:])
    assert [*marks] == [1 | 4] * 5  # a null value, and the header


def test_batches_without_flagged_values_stay_byte_by_byte(tmp_path: Path) -> None:
    plain = flagged_batch([a_record(number, is_flagged=False) for number in range(5)], Codec.LZ4)
    null = flagged_batch([a_record(number, is_flagged=True, value=None) for number in range(5, 9)])
    mixed = flagged_batch([a_record(number, is_flagged=True) for number in range(9, 12)])
    after, dropped = convert(tmp_path / "00000000000000000000.log", plain + null + mixed)
    assert dropped == 3
    assert after.startswith(plain + null)


def test_a_delete_horizon_goes_along(tmp_path: Path) -> None:
    records = [a_record(number, is_flagged=True) for number in range(5)]
    data = flagged_batch(records, Codec.ZSTD, delete_horizon_ms=5_000_000)
    after, _ = convert(tmp_path / "00000000000000000000.log", data)
    header = read_header(after)
    assert header.has_delete_horizon
    assert header.base_timestamp == 5_000_000
    assert [one.timestamp for one in decode_records(after, 0, header)] == [one.timestamp for one in records]


def test_a_batch_whose_records_were_compacted_away_stays(tmp_path: Path) -> None:
    records = [a_record(number, is_flagged=True) for number in (3, 8, 9)]
    plain = build_batch(records, base_offset=3, last_offset=20)
    header = read_header(plain)
    block = b"".join(map(bytes, flagged_pieces(plain, 0, header, 1 << 30)))
    batch = bytearray(HEADER_SIZE) + block
    rewrite_header(batch, 0, header._replace(batch_length=len(batch) - 12))
    after, dropped = convert(tmp_path / "00000000000000000003.log", bytes(batch))
    assert dropped == 3
    assert read_header(after).last_offset == 20
    assert [one.offset for one in decode_records(after, 0, read_header(after))] == [3, 8, 9]


def test_blocks_of_many_pieces_are_converted_piece_by_piece(tmp_path: Path) -> None:
    chance = random.Random(1)
    records = [a_record(number, is_flagged=number % 2 == 0, value=chance.randbytes(5_000)) for number in range(400)]
    plain = build_batch(records)
    header = read_header(plain)
    block = b"".join(compress_chunks(Codec.GZIP, flagged_pieces(plain, 0, header, 1 << 30)))
    batch = bytearray(HEADER_SIZE) + block
    length = len(batch) - 12
    rewrite_header(batch, 0, header._replace(attributes=Codec.GZIP, batch_length=length))
    after, dropped = convert(tmp_path / "00000000000000000000.log", bytes(batch))
    assert dropped == 200
    values = [one.value for one in decode_records(after, 0, read_header(after))]
    assert values == [None if number % 2 == 0 else records[number].value for number in range(400)]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=["plain", "lz4"])
def test_damage_in_a_batch_that_would_be_rebuilt_is_named(tmp_path: Path, codec: Codec) -> None:
    good = flagged_batch([a_record(0, is_flagged=False)])
    data = bytearray(good + flagged_batch([a_record(1, is_flagged=True, value=b"." * 500)], codec))
    data[len(good) + HEADER_SIZE + 40] ^= 1
    with pytest.raises(CorruptMessage, match=rf"00\.log at position {len(good)}"):
        convert(tmp_path / "00000000000000000000.log", bytes(data))


def test_a_torn_tail_is_named(tmp_path: Path) -> None:
    data = flagged_batch([a_record(0, is_flagged=True)])
    with pytest.raises(CorruptMessage, match=rf"position {len(data)}: these bytes are no batch"):
        convert(tmp_path / "00000000000000000000.log", data + data[:30])


def test_whole_files_are_gone_through(tmp_path: Path) -> None:
    data = b"".join(
        flagged_batch([a_record(base + number, is_flagged=base % 20 == 0) for number in range(10)])
        for base in range(0, 500, 10)
    )
    after, dropped = convert(tmp_path / "00000000000000000000.log", data)
    assert dropped == 250
    assert [header.base_offset for _, header in iter_batches(after)] == list(range(0, 500, 10))
