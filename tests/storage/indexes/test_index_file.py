"""What the indexes of a segment share: their files follow their entries, and damaged files are refused."""

from __future__ import annotations

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import CorruptIndex
from kmini.storage.indexes.offset_index import OffsetIndex

PATH = "00000000000000001000.index"
GOLDEN = bytes.fromhex("00000005 0000018e 00000009 0000031c")
"""Written by Apache Kafka 4.3.1: base offset 1000, entries (1005, 398) and (1009, 796)."""


@pytest.fixture
def index(filesystem: MemoryFileSystem) -> OffsetIndex:
    index = OffsetIndex(filesystem, PATH, 1000)
    index.append(1005, 398)
    index.append(1009, 796)
    return index


def test_a_flush_adds_only_what_is_new(filesystem: MemoryFileSystem, index: OffsetIndex) -> None:
    index.flush()
    before = filesystem.faults.count
    index.flush()
    assert filesystem.faults.count == before
    index.append(1011, 1000)
    index.flush()
    assert OffsetIndex(filesystem, PATH, 1000).entries() == [*index.entries()]


def test_an_index_without_entries_is_an_empty_file(filesystem: MemoryFileSystem) -> None:
    index = OffsetIndex(filesystem, PATH, 0)
    index.reset()
    index.flush()
    assert filesystem.read(PATH) == b""


def test_a_reset_empties_the_file(filesystem: MemoryFileSystem, index: OffsetIndex) -> None:
    index.flush()
    fresh = OffsetIndex(filesystem, PATH, 1000)
    fresh.reset()
    assert len(fresh) == 0
    fresh.flush()
    assert filesystem.read(PATH) == b""


def test_what_is_left_of_a_file_that_lost_its_end_is_written_again(
    filesystem: MemoryFileSystem, index: OffsetIndex
) -> None:
    index.flush()
    file = filesystem.open(PATH)
    file.truncate(11)
    file.close()
    index.append(1011, 1000)
    index.flush()
    assert filesystem.read(PATH)[:16] == GOLDEN
    assert len(filesystem.read(PATH)) == 24


def test_nothing_is_read_before_it_is_needed_and_unloading_forgets_nothing(
    filesystem: MemoryFileSystem, index: OffsetIndex
) -> None:
    index.unload()
    before = filesystem.faults.count
    other = OffsetIndex(filesystem, PATH, 1000)
    assert filesystem.faults.count == before
    assert other.lookup(1009) == index.lookup(1009) == (1009, 796)
    index.append(1011, 1000)
    index.unload()
    assert index.entries() == [(1005, 398), (1009, 796), (1011, 1000)]


def test_a_refused_index_can_be_rebuilt(filesystem: MemoryFileSystem) -> None:
    write_atomically(filesystem, PATH, GOLDEN + b"\0")
    index = OffsetIndex(filesystem, PATH, 1000)
    with pytest.raises(CorruptIndex):
        index.load()
    index.reset()
    index.append(1005, 398)
    index.append(1009, 796)
    index.flush()
    assert filesystem.read(PATH) == GOLDEN


def test_syncing_makes_the_flushed_bytes_durable_and_a_missing_file_is_no_error(
    filesystem: MemoryFileSystem, index: OffsetIndex
) -> None:
    index.sync()
    index.flush()
    index.sync()
    filesystem.sync_directory("")
    assert {filesystem.crash(seed).read(PATH) for seed in range(20)} == {GOLDEN}


def test_a_very_large_index_is_checked_by_a_sample(filesystem: MemoryFileSystem) -> None:
    entries = b"".join(number.to_bytes(4, "big") * 2 for number in range(100_000))
    write_atomically(filesystem, PATH, entries)
    index = OffsetIndex(filesystem, PATH, 1000)
    assert (len(index), index.lookup(60_000)) == (100_000, (60_000, 59_000))
    write_atomically(filesystem, PATH, entries[:400_000] + bytes(4096) + entries[404_096:])
    with pytest.raises(CorruptIndex):
        OffsetIndex(filesystem, PATH, 1000).load()
