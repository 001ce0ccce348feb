"""Walking over a log file: complete batches, and nothing that the file does not hold."""

from __future__ import annotations

import pytest

from kmini.protocol.errors import CorruptMessage
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.storage.log_file import Snapshot, read_batches, read_headers
from support.batches import batch


def one(offset: int, size: int = 10) -> bytes:
    return bytes(build_batch([Record(offset, 1_000, None, b"v" * size)], base_offset=offset))


def offsets(data: bytes, position: int = 0) -> list[int]:
    return [header.base_offset for _, header in read_headers(Snapshot("log", data), position)]


def test_every_complete_batch_is_met_with_its_position() -> None:
    first, second = one(0), one(1, 5_000)
    data = first + second + one(2)
    headers = list(read_headers(Snapshot("log", data)))
    assert [(position, header.base_offset) for position, header in headers] == [
        (0, 0),
        (len(first), 1),
        (len(first + second), 2),
    ]


def test_a_walk_may_begin_at_any_batch() -> None:
    assert offsets(one(0) + one(1) + one(2), len(one(0))) == [1, 2]


@pytest.mark.parametrize("kept", [0, 1, 11, 12, 30, 60, 61, len(one(1)) - 1])
def test_a_walk_ends_before_an_incomplete_batch(kept: int) -> None:
    assert offsets(one(0) + one(1)[:kept]) == [0]


def test_an_announced_size_beyond_the_file_reserves_nothing() -> None:
    huge = bytearray(one(1))
    huge[8:12] = (2**31 - 1).to_bytes(4, "big")
    assert offsets(one(0) + bytes(huge)) == [0]


@pytest.mark.parametrize("damage", [{"magic": 3}, {"batch_length": 10}])
def test_bytes_that_are_no_batch_are_damage(damage: dict[str, int]) -> None:
    wrong = bytearray(batch())
    if "magic" in damage:
        wrong[16] = 3
    else:
        wrong[8:12] = (10).to_bytes(4, "big")
    data = one(0) + bytes(wrong)
    with pytest.raises(CorruptMessage, match=f"log: no batch at position {len(one(0))}"):
        offsets(data)


def test_batches_come_with_their_bytes_however_large_they_are() -> None:
    parts = [one(0), one(1, 2 << 20), one(2)]
    found = list(read_batches(Snapshot("log", b"".join(parts))))
    assert [bytes(data) for _, _, data in found] == parts


def test_a_snapshot_is_read_like_a_file() -> None:
    snapshot = Snapshot("log", b"abcdef")
    assert (snapshot.path, snapshot.size) == ("log", 6)
    assert snapshot.read_at(2, 3) == b"cde"
    assert snapshot.read_at(4, 10) == b"ef"
    assert snapshot.read_at(6, 1) == b""
