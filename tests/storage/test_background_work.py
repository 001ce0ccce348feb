"""Files that wait to be removed: when they fall due, and what a file that cannot be removed costs."""

from __future__ import annotations

import errno
import logging

import pytest

from kmini.storage.background_work import Deletions
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    for name in "abc":
        filesystem.open(f"d/{name}", create=True).close()
    return filesystem


@pytest.fixture
def deletions(filesystem: MemoryFileSystem) -> Deletions:
    return Deletions(filesystem)


def test_nothing_waits_at_first(deletions: Deletions) -> None:
    assert (len(deletions), deletions.next_due_ms) == (0, None)
    assert deletions.delete_due(10**15) == 0


def test_files_go_when_they_are_due_and_not_before(filesystem: MemoryFileSystem, deletions: Deletions) -> None:
    deletions.add(["d/b"], 200)
    deletions.add(["d/a", "d/c"], 100)
    assert (len(deletions), deletions.next_due_ms) == (3, 100)
    assert deletions.delete_due(99) == 0
    assert deletions.delete_due(100) == 2
    assert filesystem.list("d") == ["b"]
    assert deletions.next_due_ms == 200
    assert deletions.delete_due(201) == 1
    assert filesystem.list("d") == []


def test_a_directory_goes_with_everything_in_it(filesystem: MemoryFileSystem, deletions: Deletions) -> None:
    deletions.add(["d"], 0)
    assert deletions.delete_due(0) == 1
    assert not filesystem.exists("d")


def test_a_file_that_is_gone_already_is_not_counted(filesystem: MemoryFileSystem, deletions: Deletions) -> None:
    deletions.add(["d/a", "d/b"], 0)
    filesystem.remove("d/a")
    assert deletions.delete_due(0) == 1


def test_a_file_that_cannot_be_removed_is_logged_and_left(
    filesystem: MemoryFileSystem, deletions: Deletions, caplog: pytest.LogCaptureFixture
) -> None:
    deletions.add(["d/a", "d/b"], 0)
    filesystem.faults = Faults(fail_at=1, error=errno.EACCES, operations={"remove"})
    with caplog.at_level(logging.WARNING, "kmini.storage"):
        deletions.delete_due(0)
    assert [record.message.startswith("could not remove d/a") for record in caplog.records] == [True]
    assert filesystem.list("d") == ["a", "c"]
    assert len(deletions) == 0
