"""Entries in one file: when it is synced, when it is written anew, and what a disk that refuses leaves."""

from __future__ import annotations

import errno
from zlib import crc32

import pytest

from kmini.storage.filesystem.faults import CHANGES, Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.journal import CorruptJournal, Journal, read_journal

PATH = "/kmini.db"
LARGE = "x" * (150 << 10)
"""Two of them are more than a file may have before a snapshot is due."""


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


def reread(filesystem: MemoryFileSystem) -> dict[tuple[str, ...], object]:
    return read_journal(filesystem.read(PATH)).entries


def test_a_change_is_one_append_and_one_sync(filesystem: MemoryFileSystem) -> None:
    journal = Journal.create(filesystem, PATH, {})
    filesystem.faults = faults = Faults()
    journal.change({("a",): 1, ("b", 2): {"c": [None, "ä\n\ud800"]}})
    assert faults.count == 2
    assert reread(filesystem) == journal.entries == {("a",): 1, ("b", 2): {"c": [None, "ä\n\ud800"]}}


def test_no_changes_write_nothing(filesystem: MemoryFileSystem) -> None:
    journal = Journal.create(filesystem, PATH, {})
    filesystem.faults = faults = Faults()
    journal.change({})
    assert not faults.count


def test_closing_leaves_a_snapshot_only(filesystem: MemoryFileSystem) -> None:
    journal = Journal.create(filesystem, PATH, {("a",): 1})
    journal.change({("b",): 2})
    assert read_journal(filesystem.read(PATH)).changes == 1
    journal.close(clean=False)
    assert read_journal(filesystem.read(PATH)).changes == 1
    Journal.open(filesystem, PATH).close()
    assert read_journal(filesystem.read(PATH)).changes == 0
    assert reread(filesystem) == {("a",): 1, ("b",): 2}


def test_a_file_that_is_read_after_each_of_many_kills_grows_no_further_than_twice_its_snapshot(
    filesystem: MemoryFileSystem,
) -> None:
    journal = Journal.create(filesystem, PATH, {("a",): LARGE + LARGE})
    snapshot = filesystem.size(PATH)
    for number in range(6):
        journal.change({("b", number % 2): LARGE[: len(LARGE) // 2]})
        filesystem = filesystem.kill()
        journal = Journal.open(filesystem, PATH)
        assert filesystem.size(PATH) < 2 * snapshot + len(LARGE)


def test_a_full_disk_that_has_no_room_for_a_snapshot_still_takes_changes(
    filesystem: MemoryFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal.create(filesystem, PATH, {})
    journal.change({("a",): LARGE})
    filesystem.faults = Faults(fail_at=1, fail_for_good=True, error=errno.ENOSPC, operations={"create"})
    journal.change({("b",): LARGE})
    assert "a snapshot could not be written: [Errno 28]" in caplog.text
    caplog.clear()
    journal.change({("a",): None, ("b",): None, ("c",): 3})
    assert not caplog.text, "the next attempt has to wait"
    assert reread(filesystem) == {("c",): 3}


def test_after_a_failed_sync_no_change_returns_before_a_new_file_is_whole(filesystem: MemoryFileSystem) -> None:
    journal = Journal.create(filesystem, PATH, {("kept",): 1})
    filesystem.faults = Faults(fail_at=1, fail_for_good=True, operations={"sync"})
    for number in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            journal.change({("refused", number): 1})
    assert journal.entries == reread(filesystem) == {("kept",): 1}
    filesystem.faults = Faults()
    journal.change({("taken",): 1})
    for seed in range(20):
        assert reread(filesystem.crash(seed)) == {("kept",): 1, ("taken",): 1}


def test_after_a_rename_that_was_not_synced_the_next_change_does_not_return_too_early(
    filesystem: MemoryFileSystem,
) -> None:
    journal = Journal.create(filesystem, PATH, {("a",): LARGE})
    filesystem.faults = Faults(fail_at=1, operations={"sync_directory"})
    journal.change({("b",): 2 * LARGE})  # the snapshot that is due then is not
    assert filesystem.faults.is_spent
    journal.change({("c",): 1})
    for seed in range(20):
        assert reread(filesystem.crash(seed)).keys() == {("a",), ("b",), ("c",)}


def test_a_snapshot_whose_name_was_not_synced_is_the_file_once_another_process_has_opened_it(
    filesystem: MemoryFileSystem,
) -> None:
    journal = Journal.create(filesystem, PATH, {})
    journal.change({("a",): 1})
    filesystem.faults = Faults(fail_at=1, operations={"sync_directory"})
    journal.close()  # with a snapshot
    assert filesystem.faults.is_spent
    Journal.open(filesystem, PATH).change({("b",): 2})
    for seed in range(20):
        assert reread(filesystem.crash(seed)) == {("a",): 1, ("b",): 2}


def test_a_change_that_was_not_synced_is_on_the_disk_once_another_process_has_read_it(
    filesystem: MemoryFileSystem,
) -> None:
    journal = Journal.create(filesystem, PATH, {})
    filesystem.faults = Faults(power_loss_at=1, operations={"append"})
    with pytest.raises(PowerLoss):
        journal.change({("a",): 1})
    filesystem.faults = Faults()  # only the process has ended
    assert Journal.open(filesystem, PATH).entries == {("a",): 1}
    for seed in range(20):
        assert reread(filesystem.crash(seed)) == {("a",): 1}


def test_each_call_that_fails_leaves_the_entries_as_they_were_or_changed(filesystem: MemoryFileSystem) -> None:
    for n in range(1, 20):
        filesystem = MemoryFileSystem()
        journal = Journal.create(filesystem, PATH, {("a",): LARGE})
        faults = filesystem.faults = Faults(fail_at=n, operations=CHANGES)
        try:
            journal.change({("b",): 2 * LARGE})
            expected = {("a",), ("b",)}
        except OSError:
            expected = {("a",)}
        assert journal.entries.keys() == reread(filesystem).keys() == expected
        if not faults.is_spent:
            return
    raise AssertionError("no change goes through")


def test_entries_that_are_none_are_damage(filesystem: MemoryFileSystem) -> None:
    journal = Journal.create(filesystem, PATH, {("a",): 1})
    data = filesystem.read(PATH)
    journal.close()
    for text in (b"5", b"[5]", b"[[[[]],1]]", b"{"):
        with pytest.raises(CorruptJournal, match=r"line 3, at byte \d+, is no list of entries"):
            read_journal(data + b"%08x %s\n" % (crc32(text), text))
