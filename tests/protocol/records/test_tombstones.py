"""Explicit tombstones (KIP-87): records marked, flagged and cleared piece by piece, however a batch is compressed."""

from __future__ import annotations

import random

import pytest

from kmini.protocol.errors import InvalidRecord
from kmini.protocol.primitives import read_unsigned_varint
from kmini.protocol.records import tombstones
from kmini.protocol.records.batch import HEADER_SIZE, build_batch, read_header
from kmini.protocol.records.compression import CHUNK_BYTES, Codec, compress
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record
from kmini.protocol.records.tombstones import DENIED, FLAG, HEADER, NULL
from support.for_each import for_each

LIMIT = 1 << 24
YES = (TOMBSTONE_HEADER, b"")


def some_records(count: int, value_bytes: int) -> list[Record]:
    dice = random.Random(count)
    return [
        Record(
            0,
            1_000,
            b"k%d" % number,
            dice.choice([None, dice.randbytes(value_bytes)]),
            dice.choice([(), (YES,), (("other", b"x"),)]),
        )
        for number in range(count)
    ]


def expected_marks(records: list[Record]) -> list[int]:
    return [NULL * (one.value is None) + HEADER * (YES in one.headers) for one in records]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize(("count", "value_bytes"), [(1, 0), (50, 100), (20, 40_000)])
def test_pieces_have_the_marks_of_all_records(codec: Codec, count: int, value_bytes: int) -> None:
    records = some_records(count, value_bytes)
    batch = build_batch(records, codec=codec)
    marks = [mark for _, found in tombstones.marked_pieces(batch, 0, read_header(batch), LIMIT) for mark in found]
    assert marks == expected_marks(records)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_flagged_pieces_need_no_change_and_say_the_same_as_before(codec: Codec) -> None:
    records = some_records(200, 1_000)
    batch = build_batch(records, codec=codec)
    block = b"".join(bytes(piece) for piece in tombstones.flagged_pieces(batch, 0, read_header(batch), LIMIT))
    end, marks = tombstones.marks_of(block)
    assert end == len(block)
    assert tombstones.are_settled(marks)
    assert [bool(mark) for mark in marks] == [bool(mark) for mark in expected_marks(records)]
    assert not tombstones.are_settled(bytearray(expected_marks(records)))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_cleared_pieces_have_no_attribute_and_are_the_same_otherwise(codec: Codec) -> None:
    records = some_records(100, 2_000)
    plain = bytes(build_batch(records)[HEADER_SIZE:])
    flagged = bytes(tombstones.flagged(plain, tombstones.marks_of(plain)[1]))
    header = read_header(build_batch(records))
    batch = bytes(HEADER_SIZE) + flagged
    cleared = b"".join(
        bytes(piece)
        for piece in tombstones.cleared_pieces(batch, 0, header._replace(batch_length=len(batch) - 12), LIMIT)
    )
    assert len(cleared) == len(flagged)
    assert [mark & FLAG for mark in tombstones.marks_of(cleared)[1]] == [0] * len(records)
    again = build_batch(records, codec=codec)
    pieces = tombstones.cleared_pieces(again, 0, read_header(again), LIMIT)
    assert b"".join(bytes(piece) for piece in pieces) == plain


@for_each("value_bytes", [10, 60_000, CHUNK_BYTES - 40, *range(CHUNK_BYTES - 24, CHUNK_BYTES + 8), 1_000_000])
def test_large_records_are_cleared_in_parts(value_bytes: int) -> None:
    """Chunks of the block may end anywhere in a record: in its length, before its attributes, behind them."""
    records = [Record(number, 0, b"k", bytes(value_bytes)) for number in range(3)]
    plain = bytes(build_batch(records)[HEADER_SIZE:])
    flagged = bytearray(plain)
    at = 0
    for _ in records:
        length, at = read_unsigned_varint(memoryview(plain), at)
        flagged[at] = 0xFF
        at += length >> 1
    block = compress(Codec.GZIP, flagged)
    header = read_header(build_batch(records, codec=Codec.GZIP))
    header = header._replace(batch_length=HEADER_SIZE - 12 + len(block))
    pieces = [bytes(piece) for piece in tombstones.cleared_pieces(bytes(HEADER_SIZE) + block, 0, header, LIMIT)]
    assert b"".join(pieces) == plain
    assert max(map(len, pieces)) <= 2 * CHUNK_BYTES


def test_a_flagged_record_loses_its_value_for_a_reader_that_knows_only_nulls() -> None:
    records = [Record(0, 0, b"a", b"v"), Record(1, 0, b"b", b"w")]
    assert tombstones.without_flagged_values(records, bytearray((0, FLAG | HEADER))) == [
        records[0],
        Record(1, 0, b"b", None),
    ]


@pytest.mark.parametrize("mark", [NULL, FLAG, HEADER, HEADER | DENIED, FLAG | HEADER | DENIED])
def test_a_mark_that_says_half_of_it_needs_a_change(mark: int) -> None:
    assert not tombstones.are_settled(bytearray((mark,)))


def test_a_batch_that_ends_within_a_record_is_refused() -> None:
    batch = build_batch([Record(0, 0, b"a", b"v" * 20)])
    header = read_header(batch)._replace(batch_length=len(batch) - 12 - 5)
    with pytest.raises(InvalidRecord, match="ends within a record"):
        list(tombstones.marked_pieces(batch, 0, header, LIMIT))


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="malformed"):
        tombstones.marks_of(b"\x01" + bytes(20))
