"""A file system in use begins to ask before each operation, and ends it without a trace."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.storage.filesystem import OsFileSystem
from kmini.storage.filesystem.live_faults import fail_operations, is_failing
from kmini.storage.filesystem.os_file import OsFile, SerialFile


@pytest.fixture(params=[True, False], ids=["positioned", "serial"])
def filesystem(request: pytest.FixtureRequest) -> OsFileSystem:
    return OsFileSystem(positioned_io=request.param)


def test_every_operation_is_asked_about_by_its_name_and_path(filesystem: OsFileSystem, tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    path, moved, linked = str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c")
    file = filesystem.open(path, create=True)
    fail_operations(filesystem, lambda operation, path: asked.append((operation, os.path.basename(path))))
    file.append(b"0123")
    file.write_at(0, b"x")
    assert file.read_at(0, 4) == b"x123"
    file.truncate(2)
    file.sync()
    filesystem.rename(path, moved)
    filesystem.link(moved, linked)
    assert filesystem.read(linked) == b"x1"
    filesystem.remove(linked)
    filesystem.open(str(tmp_path / "d"), create=True).close()
    filesystem.open(str(tmp_path / "d")).close()
    assert asked == [
        ("append", "a"),
        ("write_at", "a"),
        ("read_at", "a"),
        ("truncate", "a"),
        ("sync", "a"),
        ("rename", "a"),
        ("link", "c"),
        ("read", "c"),
        ("remove", "c"),
        ("create", "d"),
        ("open", "d"),
    ]
    file.close()


def refuse(operation: str, path: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def test_an_operation_that_fails_changes_nothing(filesystem: OsFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    file = filesystem.open(path, create=True)
    file.append(b"0123")
    fail_operations(filesystem, refuse)
    calls: list[Callable[[], object]] = [
        lambda: file.append(b"4"),
        lambda: file.truncate(0),
        lambda: filesystem.rename(path, path + "2"),
        lambda: filesystem.remove(path),
        lambda: filesystem.make_directory(str(tmp_path / "d")),
        lambda: filesystem.remove_tree(path),
        lambda: filesystem.sync_directory(str(tmp_path)),
        lambda: filesystem.set_modified_ms(path, 0),
    ]
    for call in calls:
        with pytest.raises(OSError, match="No space left"):
            call()
    fail_operations(filesystem, None)
    assert (file.size, filesystem.read(path), filesystem.list(str(tmp_path))) == (4, b"0123", ["a"])
    file.append(b"4")
    assert filesystem.read(path) == b"01234"
    file.close()


def test_a_file_system_has_its_own_classes_again_afterwards(filesystem: OsFileSystem, tmp_path: Path) -> None:
    file = filesystem.open(str(tmp_path / "a"), create=True)
    sound = type(file)
    assert sound in (OsFile, SerialFile)
    fail_operations(filesystem, refuse)
    assert is_failing(filesystem)
    assert type(file) is not sound
    fail_operations(filesystem, None)
    assert not is_failing(filesystem)
    assert type(filesystem) is OsFileSystem
    assert type(file) is type(filesystem.open(str(tmp_path / "b"), create=True)) is sound
