"""The operation that fails, is torn, or is the last before a power loss."""

from __future__ import annotations

import errno

import pytest

from kmini.storage.filesystem.faults import CHANGES, Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    return filesystem


def test_the_nth_operation_fails_and_changes_nothing(filesystem: MemoryFileSystem) -> None:
    file = filesystem.open("d/a", create=True)
    filesystem.faults = Faults(fail_at=2, error=errno.ENOSPC)
    file.append(b"1")
    with pytest.raises(OSError, match="No space left") as raised:
        file.append(b"2")
    assert raised.value.errno == errno.ENOSPC
    file.append(b"3")
    assert filesystem.read("d/a") == b"13"
    assert filesystem.faults.is_spent
    assert filesystem.faults.last == "append d/a"


def test_a_disk_that_failed_for_good_goes_on_failing(filesystem: MemoryFileSystem) -> None:
    file = filesystem.open("d/a", create=True)
    filesystem.faults = Faults(fail_at=2, fail_for_good=True)
    file.append(b"1")
    for _ in range(3):
        with pytest.raises(OSError, match="Input/output"):
            file.append(b"2")
    assert file.size == 1


def test_a_torn_write_leaves_a_part_and_nothing_works_after_it(filesystem: MemoryFileSystem) -> None:
    file = filesystem.open("d/a", create=True)
    filesystem.faults = Faults(tear_at=1)
    with pytest.raises(PowerLoss):
        file.append(b"12345678")
    with pytest.raises(PowerLoss):
        file.append(b"9")
    with pytest.raises(PowerLoss):
        filesystem.list("d")
    assert filesystem.kill().read("d/a") == b"1234"


def test_the_last_operation_before_a_power_loss_happens(filesystem: MemoryFileSystem) -> None:
    file = filesystem.open("d/a", create=True)
    filesystem.faults = Faults(power_loss_at=2)
    file.append(b"1")
    with pytest.raises(PowerLoss):
        file.append(b"2")
    assert filesystem.kill().read("d/a") == b"12"


def test_a_power_loss_due_at_an_operation_that_fails_by_itself_still_comes(filesystem: MemoryFileSystem) -> None:
    filesystem.faults = Faults(power_loss_at=1)
    with pytest.raises(FileNotFoundError):
        filesystem.remove("d/none")
    with pytest.raises(PowerLoss):
        filesystem.list("d")


def test_operations_can_be_counted_by_kind(filesystem: MemoryFileSystem) -> None:
    filesystem.faults = Faults(operations=CHANGES)
    file = filesystem.open("d/a", create=True)
    file.append(b"1")
    file.read_at(0, 1)
    filesystem.list("d")
    assert filesystem.faults.count == 2
    filesystem.faults = Faults(fail_at=1, operations={"sync"})
    file.append(b"2")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
