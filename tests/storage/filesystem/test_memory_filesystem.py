"""What the file system of the crash tests loses, keeps, tears and refuses."""

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
