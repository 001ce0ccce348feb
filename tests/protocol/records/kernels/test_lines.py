"""The kernel of lines: what it makes of a text is what the encoder of records makes of the same records."""

from __future__ import annotations

import random
from array import array
from typing import Any

import pytest
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from kmini.protocol.records import load_kernel
from kmini.protocol.records.kernels.records import encode_records
from kmini.protocol.records.record import Record
from support.for_each import for_each

HEADERS = (("source", b"test"), ("none", None))
ENCODED_HEADERS = b"\x04\x0csource\x08test\x08none\x01"
KEYLESS = 2
PARTITIONS = 3


@pytest.fixture(params=["compiled", "interpreted"])
def lines(request: pytest.FixtureRequest) -> Any:
    module = load_kernel.load("lines", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    return module


def rows_of(lines: Any, text: bytes, separator: bytes = b"", null: bytes | None = None) -> list[tuple[int, ...]]:
    """The index of a text, a tuple for each line."""
    rows = array("q", bytes(8 * lines.ROW * text.count(b"\n")))
    count = lines.index_lines(text, separator, null, PARTITIONS, KEYLESS, rows)
    return [tuple(rows[at : at + lines.ROW]) for at in range(0, count * lines.ROW, lines.ROW)]


def parsed(line: bytes, separator: bytes, null: bytes | None) -> tuple[bytes | None, bytes | None, int]:
    """Key, value and partition of a line, by an independent reading."""
    key, found, value = line.partition(separator) if separator else (None, b"", line)
    if separator and not found:
        return None, line, -1
    key = None if key == null else key
    partition = KEYLESS if key is None else (kafka_python_murmur2(key) & 0x7FFFFFFF) % PARTITIONS
    return key, None if value == null else value, partition


@for_each("separator", [b"", b":", b"::", b"ab"])
@for_each("null", [None, b"", b"-", b"null"])
def test_lines_are_split_as_bytes_are(lines: Any, separator: bytes, null: bytes | None) -> None:
    chance = random.Random(repr((separator, null)))
    all_lines = [b"".join(chance.choices([b"a", b"b", b":", b"-", b"null", b"\0"], k=n % 7)) for n in range(400)]
    text = b"".join(line + b"\n" for line in all_lines)
    found = [
        (
            None if key_size < 0 else text[key : key + key_size],
            None if value_size < 0 else text[value : value + value_size],
            partition,
        )
        for key, key_size, value, value_size, partition in rows_of(lines, text, separator, null)
    ]
    expected = [parsed(line, separator, null) for line in all_lines]
    assert [one[2] for one in found] == [one[2] for one in expected]
    assert [one for one in found if one[2] >= 0] == [one for one in expected if one[2] >= 0]


@for_each("room", [100, 1_000, 100_000])
@for_each("timestamp_delta", [0, 5, 70_000])
def test_records_are_encoded_as_the_encoder_of_records_does(lines: Any, room: int, timestamp_delta: int) -> None:
    chance = random.Random(room)
    all_lines = [b"k%d:" % n + bytes(chance.choices(b"xyz-", k=chance.randrange(70))) for n in range(300)]
    text = b"".join(line + b"\n" for line in all_lines)
    rows = array("q", bytes(8 * lines.ROW * len(all_lines)))
    lines.index_lines(text, b":", None, PARTITIONS, KEYLESS, rows)
    for partition in range(PARTITIONS):
        encoded, row = bytearray(), 0
        deltas: list[int] = []
        while row < len(all_lines):
            block = bytearray(max(room, 1 + lines.room_for(rows, row, ENCODED_HEADERS)))
            row, end, delta = lines.encode_lines(
                text, rows, row, len(all_lines), partition, block, 0, 0, timestamp_delta, ENCODED_HEADERS
            )
            deltas += range(delta)
            encoded += block[:end]
        mine = [parsed(line, b":", None) for line in all_lines]
        records = [
            Record(0, 1_000 + timestamp_delta, key, value, HEADERS) for key, value, at in mine if at == partition
        ]
        assert len(deltas) == len(records)
        assert encoded == encode_records(records, deltas, 1_000)


def test_a_block_is_never_written_beyond_its_end(lines: Any) -> None:
    text = b"x" * 50 + b"\n"
    rows = array("q", bytes(8 * lines.ROW))
    lines.index_lines(text, b"", None, 1, 0, rows)
    enough = lines.room_for(rows, 0, b"\0")
    for size in range(1, enough + 1):
        block = bytearray(size)
        row, end, _ = lines.encode_lines(text, rows, 0, 1, 0, block, 0, 0, 1 << 40, b"\0")
        assert end <= size
        assert row == (1 if end else 0)
    assert row == 1
