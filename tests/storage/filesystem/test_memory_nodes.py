"""What a power loss leaves of bytes and of names."""

from __future__ import annotations

import pytest

from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.power_loss import SEEDS, durable_file, outcomes


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    return filesystem


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
