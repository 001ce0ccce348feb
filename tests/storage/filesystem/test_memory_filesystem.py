"""What the file system of the crash tests loses, keeps, tears and refuses."""

from __future__ import annotations

import contextlib
import errno

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.faults import CHANGES, Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem

SEEDS = range(60)


def outcomes(filesystem: MemoryFileSystem, path: str) -> set[bytes | None]:
    """The contents a restart may find at the path, None for no file, over many power losses at this moment."""
    found = set()
    for seed in SEEDS:
        after = filesystem.crash(seed)
        found.add(after.read(path) if after.exists(path) else None)
    return found


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    return filesystem


def durable_file(filesystem: MemoryFileSystem, path: str, content: bytes) -> None:
    file = filesystem.open(path, create=True)
    file.append(content)
    file.sync()
    file.close()
    filesystem.sync_directory("d")


def test_a_kill_loses_nothing(filesystem: MemoryFileSystem) -> None:
    filesystem.open("d/a", create=True).append(b"written")
    filesystem.rename("d/a", "d/b")
    after = filesystem.kill()
    assert after.list("d") == ["b"]
    assert after.read("d/b") == b"written"


def test_synced_bytes_survive_and_later_ones_are_lost_kept_torn_or_zeroed(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"safe")
    filesystem.open("d/a").append(b"1234")
    found = outcomes(filesystem, "d/a")
    assert all(content is not None and content.startswith(b"safe") for content in found)
    assert {b"safe", b"safe1234", b"safe12", b"safe\0\0\0\0"} <= found
    for content in found:
        assert content is not None
        assert content[4:] in (b"1234"[: len(content) - 4], bytes(len(content) - 4))


def test_after_sync_nothing_is_lost(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"safe")
    file = filesystem.open("d/a")
    file.append(b"1234")
    file.write_at(1, b"X")
    file.truncate(6)
    file.sync()
    assert outcomes(filesystem, "d/a") == {b"sXfe12"}


def test_a_sector_in_the_middle_is_old_or_new(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"o" * 2048)
    filesystem.open("d/a").write_at(512, b"n" * 1024)
    found = outcomes(filesystem, "d/a")
    assert len(found) > 3
    for content in found:
        assert content is not None
        assert len(content) == 2048
        assert content[:512] == b"o" * 512
        for start in range(0, 2048, 512):
            assert len(set(content[start : start + 512])) == 1


def test_a_truncated_file_may_be_back(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"12345678")
    filesystem.open("d/a").truncate(4)
    found = outcomes(filesystem, "d/a")
    assert {b"12345678", b"1234"} <= found
    assert all(content is not None and content.startswith(b"1234") for content in found)


def test_a_new_name_may_be_lost_until_its_directory_is_synced(filesystem: MemoryFileSystem) -> None:
    file = filesystem.open("d/a", create=True)
    file.append(b"x")
    file.sync()
    assert outcomes(filesystem, "d/a") == {None, b"x"}
    filesystem.sync_directory("d")
    assert outcomes(filesystem, "d/a") == {b"x"}


def test_a_removed_name_may_be_back_until_its_directory_is_synced(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"x")
    filesystem.remove("d/a")
    assert outcomes(filesystem, "d/a") == {None, b"x"}
    filesystem.sync_directory("d")
    assert outcomes(filesystem, "d/a") == {None}


def test_a_rename_is_seen_whole_or_not_at_all(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"new")
    durable_file(filesystem, "d/b", b"old")
    filesystem.rename("d/a", "d/b")
    found = set()
    for seed in SEEDS:
        after = filesystem.crash(seed)
        found.add((tuple(after.list("d")), after.read("d/b")))
    assert found == {(("a", "b"), b"old"), (("b",), b"new")}


def test_names_change_in_order(filesystem: MemoryFileSystem) -> None:
    for name in "abc":
        filesystem.open(f"d/{name}", create=True)
    found = {tuple(filesystem.crash(seed).list("d")) for seed in SEEDS}
    assert found == {(), ("a",), ("a", "b"), ("a", "b", "c")}


def test_an_atomic_write_leaves_the_old_or_the_new_content_at_every_operation(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"old content")
    operations = 0
    for power_loss_at in range(1, 100):
        torn = filesystem.kill(Faults(tear_at=power_loss_at))
        cut = filesystem.kill(Faults(power_loss_at=power_loss_at))
        for copy in (torn, cut):
            with contextlib.suppress(PowerLoss):
                write_atomically(copy, "d/a", b"the new content")
            expected = {b"old content", b"the new content"} if copy.faults.is_spent else {b"the new content"}
            assert outcomes(copy, "d/a") <= expected
        if not cut.faults.is_spent:
            break
        operations += 1
    assert operations == 6


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
