"""What the file system of the crash tests keeps and refuses; `test_memory_nodes.py` has what a power loss leaves."""

from __future__ import annotations

import pytest

from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.power_loss import durable_file


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    return filesystem


def test_a_kill_loses_nothing(filesystem: MemoryFileSystem) -> None:
    filesystem.open("d/a", create=True).append(b"written")
    filesystem.rename("d/a", "d/b")
    after = filesystem.kill()
    assert after.list("d") == ["b"]
    assert after.read("d/b") == b"written"


def test_the_file_system_goes_on_after_one_of_its_ends_was_looked_at(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"1")
    lock = filesystem.lock("d/.lock")
    after = filesystem.crash()
    after.open("d/a").append(b"other")
    after.lock("d/.lock")
    filesystem.open("d/a").append(b"2")
    assert filesystem.read("d/a") == b"12"
    lock.release()


def test_writing_sets_the_modification_time_to_the_given_now(filesystem: MemoryFileSystem) -> None:
    filesystem.now_ms = 5000
    filesystem.open("d/a", create=True).append(b"1")
    assert filesystem.modified_ms("d/a") == 5000
    assert filesystem.crash(3).now_ms == 5000


def test_a_kill_loses_nothing_and_makes_nothing_durable() -> None:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    for name in ("d/synced", "d/written"):
        file = filesystem.open(name, create=True)
        file.append(b"one")
        file.sync()
    filesystem.sync_directory("d")
    file.append(b"two")
    filesystem.rename("d/synced", "d/renamed")
    killed = filesystem.kill().kill()
    assert killed.read("d/written") == b"onetwo"
    assert killed.list("d") == ["renamed", "written"]
    after = [killed.crash(seed) for seed in range(30)]
    assert {each.read("d/written") for each in after} >= {b"one", b"onetwo"}
    assert {tuple(each.list("d")) for each in after} == {("renamed", "written"), ("synced", "written")}
    killed.open("d/written").sync()
    killed.sync_directory("d")
    for seed in range(10):
        assert killed.crash(seed).read("d/written") == b"onetwo"
        assert killed.crash(seed).list("d") == ["renamed", "written"]


class TestAFileSystemThatRefusesOpenFiles:
    """As Windows does."""

    @pytest.fixture
    def filesystem(self) -> MemoryFileSystem:
        filesystem = MemoryFileSystem(refuses_open_files=True)
        filesystem.make_directory("d")
        filesystem.open("d/a", create=True).append(b"text")
        return filesystem

    def test_its_own_files_are_closed_first_and_open_again_when_they_are_used(
        self, filesystem: MemoryFileSystem
    ) -> None:
        file = filesystem.open("d/a")
        filesystem.rename("d", "e")
        assert (file.path, file.has_descriptor) == ("e/a", False)
        assert (file.read_at(0, 4), file.has_descriptor) == (b"text", True)
        filesystem.remove("e/a")

    @pytest.mark.parametrize("operation", ["rename", "remove_tree"])
    def test_a_lock_keeps_the_directory_above_it(self, filesystem: MemoryFileSystem, operation: str) -> None:
        lock = filesystem.lock("d/.lock")
        change = {"rename": lambda: filesystem.rename("d", "e"), "remove_tree": lambda: filesystem.remove_tree("d")}
        with pytest.raises(PermissionError, match=r"d/\.lock is open"):
            change[operation]()
        assert filesystem.list("d") == [".lock", "a"]
        lock.release()
        change[operation]()
        assert not filesystem.exists("d")

    def test_a_file_that_is_open_by_another_name_keeps_all_its_names(self, filesystem: MemoryFileSystem) -> None:
        filesystem.link("d/a", "d/b")
        with pytest.raises(PermissionError, match="d/a is open"):
            filesystem.remove("d/b")
        filesystem.rename("d/a", "d/c")  # which closes it
        filesystem.remove("d/b")
        assert filesystem.list("d") == ["c"]

    def test_a_directory_does_not_replace_another_one(self, filesystem: MemoryFileSystem) -> None:
        filesystem.make_directory("e")
        with pytest.raises(PermissionError):
            filesystem.rename("d", "e")
        assert filesystem.list("d") == ["a"]
