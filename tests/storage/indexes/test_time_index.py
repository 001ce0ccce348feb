from __future__ import annotations

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import CorruptIndex
from kmini.storage.indexes.offset_index import OffsetOverflow
from kmini.storage.indexes.time_index import TimeIndex

PATH = "00000000000000001000.timeindex"
GOLDEN = bytes.fromhex("0000000000000066 00000005 0000000000000068 00000009 0000000000000069 0000000b")
"""Written by Apache Kafka 4.3.1: base offset 1000, entries (102, 1005), (104, 1009), closing (105, 1011)."""


@pytest.fixture
def index(filesystem: MemoryFileSystem) -> TimeIndex:
    index = TimeIndex(filesystem, PATH, 1000, max_bytes=100)
    for timestamp, offset in ((102, 1005), (104, 1009)):
        assert index.maybe_append(timestamp, offset)
    assert index.maybe_append(105, 1011, closing=True)
    return index


def test_an_entry_of_one_index_is_in_no_other_that_is_empty(filesystem: MemoryFileSystem) -> None:
    one, other, third = (TimeIndex(filesystem, f"{number}.timeindex", 0) for number in range(3))
    one.maybe_append(1_000, 5)
    third.append_all([2_000], [7])
    assert (one.entries(), other.entries(), third.entries()) == ([(1_000, 5)], [], [(2_000, 7)])
    one.reset()
    one.maybe_append(1_001, 6)
    assert (one.entries(), other.entries()) == ([(1_001, 6)], [])


def test_the_file_is_kafkas_byte_by_byte(filesystem: MemoryFileSystem, index: TimeIndex) -> None:
    index.flush()
    assert filesystem.read(PATH) == GOLDEN


def test_kafkas_file_is_read(filesystem: MemoryFileSystem) -> None:
    write_atomically(filesystem, PATH, GOLDEN)
    index = TimeIndex(filesystem, PATH, 1000)
    assert index.entries() == [(102, 1005), (104, 1009), (105, 1011)]
    assert index.last_entry == (105, 1011)


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(-1, (-1, 1000)), (101, (-1, 1000)), (102, (102, 1005)), (103, (102, 1005)), (2**62, (105, 1011))],
)
def test_a_look_up_finds_the_greatest_entry_at_or_below(
    index: TimeIndex, timestamp: int, found: tuple[int, int]
) -> None:
    assert index.lookup(timestamp) == found


def test_an_entry_is_added_only_for_a_later_timestamp(index: TimeIndex) -> None:
    assert not index.maybe_append(105, 1011)
    assert not index.maybe_append(105, 1020)
    assert index.maybe_append(106, 1011)
    assert len(index) == 4


def test_a_segment_without_timestamps_gets_no_entry(filesystem: MemoryFileSystem) -> None:
    index = TimeIndex(filesystem, PATH, 1000)
    assert not index.maybe_append(-1, 1005, closing=True)
    assert index.last_entry == (-1, 1000)
    assert index.maybe_append(0, 1005)


@pytest.mark.parametrize(("timestamp", "offset"), [(104, 1012), (106, 1010)])
def test_an_entry_before_the_last_one_is_a_mistake(index: TimeIndex, timestamp: int, offset: int) -> None:
    with pytest.raises(ValueError, match="before"):
        index.maybe_append(timestamp, offset)


def test_an_offset_out_of_reach_overflows(index: TimeIndex) -> None:
    with pytest.raises(OffsetOverflow):
        index.maybe_append(106, 1000 + 2**31)


def test_the_last_place_is_kept_for_the_closing_entry(filesystem: MemoryFileSystem) -> None:
    index = TimeIndex(filesystem, PATH, 1000, max_bytes=36)
    index.maybe_append(1, 1001)
    assert not index.is_full
    index.maybe_append(2, 1002)
    assert index.is_full
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(3, 1003)
    assert index.maybe_append(3, 1003, closing=True)


@pytest.mark.parametrize(("offset", "left"), [(1012, 3), (1011, 2), (1009, 1), (1005, 0)])
def test_truncating_drops_the_entries_at_or_beyond_an_offset(
    filesystem: MemoryFileSystem, index: TimeIndex, offset: int, left: int
) -> None:
    index.flush()
    index.truncate_to(offset)
    index.flush()
    assert len(index) == left
    assert filesystem.read(PATH) == GOLDEN[: 12 * left]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (GOLDEN + b"\0", "no multiple"),
        (GOLDEN + bytes(12), "timestamps do not increase"),
        (bytes(12 * 873_813), "timestamps do not increase"),
        (GOLDEN[12:24] + GOLDEN[:12], "timestamps do not increase"),
        (GOLDEN[:8] + b"\xff\xff\xff\xff", "offsets decrease"),
        (GOLDEN[:20] + bytes(4), "offsets decrease"),
    ],
    ids=["odd length", "zero entry", "preallocated", "timestamps", "offset below base", "offsets"],
)
def test_a_file_that_cannot_be_an_index_is_refused(filesystem: MemoryFileSystem, data: bytes, reason: str) -> None:
    write_atomically(filesystem, PATH, data)
    with pytest.raises(CorruptIndex, match=reason):
        TimeIndex(filesystem, PATH, 1000).load()


def test_timestamps_of_every_size_are_read_back(filesystem: MemoryFileSystem) -> None:
    index = TimeIndex(filesystem, PATH, 0)
    timestamps = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 1_754_000_000_000, 2**63 - 1]
    for offset, timestamp in enumerate(timestamps):
        index.maybe_append(timestamp, offset)
    index.flush()
    assert filesystem.read(PATH)[-12:] == bytes.fromhex("7fffffffffffffff 00000007")
    assert TimeIndex(filesystem, PATH, 0).entries() == [(each, offset) for offset, each in enumerate(timestamps)]
