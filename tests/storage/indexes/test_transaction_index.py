from __future__ import annotations

from struct import pack

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.index_file import CorruptIndex
from kmini.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex

PATH = "00000000000000000100.txnindex"
FIRST = AbortedTransaction(producer_id=7, first_offset=90, last_offset=110, last_stable_offset=105)
SECOND = AbortedTransaction(producer_id=8, first_offset=105, last_offset=120, last_stable_offset=121)


@pytest.fixture
def index(filesystem: MemoryFileSystem) -> TransactionIndex:
    index = TransactionIndex(filesystem, PATH, 100)
    index.append(FIRST)
    index.append(SECOND)
    return index


def test_an_entry_is_a_version_and_four_numbers(filesystem: MemoryFileSystem, index: TransactionIndex) -> None:
    index.flush()
    assert filesystem.read(PATH) == pack(">hqqqqhqqqq", 0, 7, 90, 110, 105, 0, 8, 105, 120, 121)
    assert TransactionIndex(filesystem, PATH, 100).entries() == [FIRST, SECOND]


def test_without_an_aborted_transaction_there_is_no_file(filesystem: MemoryFileSystem) -> None:
    index = TransactionIndex(filesystem, PATH, 100)
    index.reset()
    index.flush()
    index.sync()
    assert not filesystem.exists(PATH)
    assert index.collect(0, 1000) == ([], False)


def test_it_is_known_to_be_empty_only_when_it_was_read_and_has_no_entry(
    filesystem: MemoryFileSystem, index: TransactionIndex
) -> None:
    index.flush()
    assert not index.is_empty
    again = TransactionIndex(filesystem, PATH, 100)
    assert not again.is_empty, "its file was not read yet"
    again.reset()
    assert again.is_empty


def test_a_reset_empties_a_file_that_is_there(filesystem: MemoryFileSystem, index: TransactionIndex) -> None:
    index.flush()
    again = TransactionIndex(filesystem, PATH, 100)
    again.reset()
    again.flush()
    assert filesystem.read(PATH) == b""


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound", "found", "complete"),
    [
        (100, 200, [FIRST, SECOND], False),
        (100, 121, [FIRST, SECOND], True),
        (100, 106, [FIRST, SECOND], True),
        (100, 105, [FIRST], True),
        (111, 121, [SECOND], True),
        (110, 121, [FIRST, SECOND], True),
        (121, 200, [], False),
    ],
)
def test_a_reader_learns_of_the_aborts_that_overlap_what_it_read(
    index: TransactionIndex, fetch_offset: int, upper_bound: int, found: list[AbortedTransaction], complete: bool
) -> None:
    assert index.collect(fetch_offset, upper_bound) == (found, complete)


def test_markers_must_increase(index: TransactionIndex) -> None:
    with pytest.raises(ValueError, match="not beyond"):
        index.append(SECOND)


@pytest.mark.parametrize(("offset", "left"), [(121, [FIRST, SECOND]), (120, [FIRST]), (110, []), (0, [])])
def test_truncating_drops_from_the_first_marker_at_or_beyond(
    filesystem: MemoryFileSystem, index: TransactionIndex, offset: int, left: list[AbortedTransaction]
) -> None:
    index.flush()
    index.truncate_to(offset)
    index.flush()
    assert index.entries() == left
    assert len(filesystem.read(PATH)) == 34 * len(left)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pack(">hqqqq", 0, 7, 90, 110, 105)[:-1], "no multiple"),
        (pack(">hqqqq", 1, 7, 90, 110, 105), "version 1"),
        (pack(">hqqqq", 0, 7, 90, 99, 100), "marker 99"),
        (pack(">hqqqq", 0, 7, 90, 110, 105) * 2, "marker 110"),
    ],
    ids=["odd length", "version", "below the segment", "twice"],
)
def test_a_file_that_cannot_be_an_index_is_refused(filesystem: MemoryFileSystem, data: bytes, reason: str) -> None:
    write_atomically(filesystem, PATH, data)
    with pytest.raises(CorruptIndex, match=reason):
        TransactionIndex(filesystem, PATH, 100).load()
