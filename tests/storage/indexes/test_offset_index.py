from __future__ import annotations

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import CorruptIndex
from kmini.storage.indexes.offset_index import OffsetIndex, OffsetOverflow

PATH = "00000000000000001000.index"
GOLDEN = bytes.fromhex("00000005 0000018e 00000009 0000031c")
"""Written by Apache Kafka 4.3.1: base offset 1000, entries (1005, 398) and (1009, 796)."""


@pytest.fixture
def index(filesystem: MemoryFileSystem) -> OffsetIndex:
    index = OffsetIndex(filesystem, PATH, 1000)
    index.append(1005, 398)
    index.append(1009, 796)
    return index


def test_the_file_is_kafkas_byte_by_byte(filesystem: MemoryFileSystem, index: OffsetIndex) -> None:
    index.flush()
    assert filesystem.read(PATH) == GOLDEN


def test_an_entry_of_one_index_is_in_no_other_that_is_empty(filesystem: MemoryFileSystem) -> None:
    one, other, third = (OffsetIndex(filesystem, f"{number}.index", 0) for number in range(3))
    one.append(5, 100)
    third.append_all([7], [200])
    assert (one.entries(), other.entries(), third.entries()) == ([(5, 100)], [], [(7, 200)])
    one.reset()
    one.append(6, 101)
    assert (one.entries(), other.entries()) == ([(6, 101)], [])


def test_kafkas_file_is_read(filesystem: MemoryFileSystem) -> None:
    write_atomically(filesystem, PATH, GOLDEN)
    assert OffsetIndex(filesystem, PATH, 1000).entries() == [(1005, 398), (1009, 796)]


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (999, (1000, 0)),
        (1000, (1000, 0)),
        (1004, (1000, 0)),
        (1005, (1005, 398)),
        (1008, (1005, 398)),
        (1009, (1009, 796)),
        (10**12, (1009, 796)),
    ],
)
def test_a_look_up_finds_the_greatest_entry_at_or_below(
    index: OffsetIndex, offset: int, found: tuple[int, int]
) -> None:
    assert index.lookup(offset) == found


def test_an_empty_index_points_to_the_start(filesystem: MemoryFileSystem) -> None:
    index = OffsetIndex(filesystem, PATH, 1000)
    assert index.lookup(1005) == (1000, 0)
    assert index.last_offset == 1000
    assert len(index) == 0


def test_offsets_must_increase_and_stay_within_reach(index: OffsetIndex) -> None:
    for offset in (1009, 1008):
        with pytest.raises(ValueError, match="not beyond"):
            index.append(offset, 900)
    for offset in (999, 1000 + 2**31):
        with pytest.raises(OffsetOverflow):
            index.append(offset, 900)
    index.append(1000 + 2**31 - 1, 2**31 - 1)
    assert index.lookup(10**12) == (1000 + 2**31 - 1, 2**31 - 1)


def test_the_index_is_full_at_the_entries_its_bytes_would_hold(filesystem: MemoryFileSystem) -> None:
    index = OffsetIndex(filesystem, PATH, 0, max_bytes=23)
    index.append(1, 10)
    assert not index.is_full
    index.append(2, 20)
    assert index.is_full


@pytest.mark.parametrize(("offset", "left"), [(1010, 2), (1009, 1), (1006, 1), (1005, 0), (0, 0)])
def test_truncating_drops_the_entries_at_or_beyond(
    filesystem: MemoryFileSystem, index: OffsetIndex, offset: int, left: int
) -> None:
    index.flush()
    index.truncate_to(offset)
    assert len(index) == left
    index.flush()
    assert filesystem.read(PATH) == GOLDEN[: 8 * left]
    index.append(2000, 900)
    index.flush()
    assert filesystem.read(PATH) == GOLDEN[: 8 * left] + bytes.fromhex("000003e8 00000384")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOLDEN + b"\0", "no multiple"),
        (GOLDEN + bytes(8), "do not increase"),
        (bytes(10 * 1024 * 1024), "do not increase"),
        (bytes.fromhex("ffffffff 00000000"), "do not increase"),
        (bytes.fromhex("00000001 ffffffff"), "do not increase"),
        (bytes.fromhex("00000002 00000001 00000001 00000002 00000003 00000003"), "do not increase"),
        (bytes.fromhex("00000001 00000002 00000002 00000001 00000003 00000003"), "do not increase"),
    ],
    ids=["odd length", "zero entry", "preallocated", "offset below base", "negative position", "offsets", "positions"],
)
def test_a_file_that_cannot_be_an_index_is_refused(filesystem: MemoryFileSystem, data: bytes, reason: str) -> None:
    write_atomically(filesystem, PATH, data)
    with pytest.raises(CorruptIndex, match=reason):
        OffsetIndex(filesystem, PATH, 1000).load()
    with pytest.raises(CorruptIndex, match=reason):
        OffsetIndex(filesystem, PATH, 1000).lookup(1000)
