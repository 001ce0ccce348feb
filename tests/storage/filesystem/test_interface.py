"""What every FileSystem promises, asked of each kind."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kmini.storage.filesystem import File, FileSystem, LockHeld, OsFileSystem, write_atomically
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


class AsOnWindows(OsFileSystem):
    """The file system as on Windows, on a system that refuses to rename or remove what this process has open."""

    def __init__(self) -> None:
        super().__init__(positioned_io=False)

    def rename(self, old: str, new: str) -> None:
        with self._open_files.lock, _refusing():
            super().rename(old, new)

    def remove(self, path: str) -> None:
        with self._open_files.lock, _refusing():
            super().remove(path)


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Let `os.replace` and `os.remove` refuse a path that a descriptor of this process is open at or below."""
    replace, remove = os.replace, os.remove

    def check(*paths: str) -> None:
        opened = []
        for number in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):
                opened.append(os.readlink(f"/proc/self/fd/{number}"))
        for path in map(os.path.realpath, paths):
            if any(name == path or name.startswith(path + "/") for name in opened):
                raise PermissionError(errno.EACCES, "it is open", path)

    def checked_replace(old: str, new: str) -> None:
        check(old, new)
        replace(old, new)

    def checked_remove(path: str) -> None:
        check(path)
        remove(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "replace", checked_replace)
        patched.setattr(os, "remove", checked_remove)
        yield


KINDS: dict[str, Callable[[], FileSystem]] = {
    "os": OsFileSystem,
    "os with one descriptor": lambda: OsFileSystem(max_open_files=1),
    "os without positioned reads and writes": lambda: OsFileSystem(positioned_io=False),
    **({"os as on Windows": AsOnWindows} if os.path.isdir("/proc/self/fd") else {}),
    "memory": lambda: MemoryFileSystem(refuses_open_files=False),
    "memory as on Windows": lambda: MemoryFileSystem(refuses_open_files=True),
}


@pytest.fixture(params=KINDS)
def filesystem(request: pytest.FixtureRequest) -> FileSystem:
    return KINDS[request.param]()


@pytest.fixture
def directory(filesystem: FileSystem, tmp_path: Path) -> str:
    filesystem.make_directory(str(tmp_path))
    return str(tmp_path)


def make(filesystem: FileSystem, path: str, content: bytes) -> None:
    file = filesystem.open(path, create=True)
    file.append(content)
    file.close()


def test_appended_buffers_follow_each_other(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"one", bytearray(b""), memoryview(b"two"))
    file.append(b"")
    file.append()
    file.append(bytearray(b"three"))
    assert file.size == 11
    assert file.read_at(0, 11) == b"onetwothree"
    assert filesystem.read(directory + "/a") == b"onetwothree"


def test_a_read_ends_where_the_file_ends(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"0123456789")
    assert file.read_at(4, 3) == b"456"
    assert file.read_at(8, 100) == b"89"
    assert file.read_at(10, 1) == file.read_at(99, 1) == file.read_at(3, 0) == b""


def test_what_is_dropped_behind_is_read_as_before(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"x" * 100_000)
    for start, end in ((0, 50_000), (50_000, 100_000), (0, 200_000)):
        file.drop_behind(start, end)
    file.append(b"y")
    assert (file.size, file.read_at(0, 200_000)) == (100_001, b"x" * 100_000 + b"y")
    filesystem.open(directory + "/b", create=True).append(b"takes the descriptor, where there is one")
    file.drop_behind(0, 100_001)
    file.close()


def test_a_write_in_the_middle_replaces_and_at_the_end_extends(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"0123456789")
    file.write_at(2, b"xx")
    file.write_at(9, b"yyy")
    assert file.read_at(0, 99) == b"01xx45678yyy"
    assert file.size == 12
    with pytest.raises(ValueError, match="outside"):
        file.write_at(13, b"z")


def test_truncating_cuts_or_extends_with_zeros(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"0123456789")
    file.truncate(3)
    assert file.read_at(0, 99) == b"012"
    file.truncate(5)
    assert file.read_at(0, 99) == b"012\0\0"
    file.append(b"!")
    file.sync()
    assert filesystem.read(directory + "/a") == b"012\0\0!"


def test_an_existing_file_is_opened_with_its_bytes(filesystem: FileSystem, directory: str) -> None:
    make(filesystem, directory + "/a", b"abc")
    for create in (False, True):
        file = filesystem.open(directory + "/a", create=create)
        assert file.size == 3
        assert file.read_at(0, 9) == b"abc"
        file.close()


def test_a_missing_file_is_an_error_unless_it_is_to_be_created(filesystem: FileSystem, directory: str) -> None:
    with pytest.raises(FileNotFoundError):
        filesystem.open(directory + "/a")
    with pytest.raises(FileNotFoundError):
        filesystem.read(directory + "/a")
    with pytest.raises(FileNotFoundError):
        filesystem.remove(directory + "/a")
    with pytest.raises(FileNotFoundError):
        filesystem.list(directory + "/none")
    with pytest.raises(FileNotFoundError):
        filesystem.open(directory + "/none/a", create=True)
    assert not filesystem.exists(directory + "/a")


def test_opening_an_open_file_gives_the_same_one_until_each_has_closed_it(
    filesystem: FileSystem, directory: str
) -> None:
    first = filesystem.open(directory + "/a", create=True)
    second = filesystem.open(directory + "/a")
    assert first is second
    first.close()
    second.append(b"x")
    second.close()
    with pytest.raises(ValueError, match="closed"):
        second.append(b"y")
    with pytest.raises(ValueError, match="closed"):
        second.read_at(0, 1)


def test_closing_twice_is_closing_once(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.close()
    file.close()
    other = filesystem.open(directory + "/a")
    assert other is not file
    file.close()
    other.append(b"still open")


def test_an_open_file_follows_its_name(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    file.append(b"1")
    filesystem.rename(directory + "/a", directory + "/b")
    assert file.path.endswith("b")
    file.append(b"2")
    assert filesystem.read(directory + "/b") == b"12"
    assert not filesystem.exists(directory + "/a")
    assert filesystem.open(directory + "/b") is file


def test_an_open_file_follows_its_directory(filesystem: FileSystem, directory: str) -> None:
    filesystem.make_directory(directory + "/orders-0/deeper")
    filesystem.make_directory(directory + "/orders-01")
    inside = filesystem.open(directory + "/orders-0/deeper/a", create=True)
    beside = filesystem.open(directory + "/orders-01/a", create=True)
    filesystem.rename(directory + "/orders-0", directory + "/orders-0.x-delete")
    inside.append(b"in")
    beside.append(b"beside")
    assert filesystem.read(directory + "/orders-0.x-delete/deeper/a") == b"in"
    assert filesystem.read(directory + "/orders-01/a") == b"beside"


def test_renaming_replaces_a_file_and_its_open_handle_raises(filesystem: FileSystem, directory: str) -> None:
    make(filesystem, directory + "/new", b"new")
    old = filesystem.open(directory + "/old", create=True)
    old.append(b"old")
    filesystem.rename(directory + "/new", directory + "/old")
    assert filesystem.read(directory + "/old") == b"new"
    with pytest.raises(FileNotFoundError):
        old.read_at(0, 1)
    with pytest.raises(FileNotFoundError):
        old.append(b"x")
    assert filesystem.open(directory + "/old").read_at(0, 9) == b"new"
    old.close()
    assert filesystem.open(directory + "/old").read_at(0, 9) == b"new"


def test_using_a_removed_file_raises_even_if_its_name_is_taken_again(filesystem: FileSystem, directory: str) -> None:
    gone = filesystem.open(directory + "/a", create=True)
    gone.append(b"gone")
    filesystem.remove(directory + "/a")
    make(filesystem, directory + "/a", b"again")
    for use in (lambda: gone.read_at(0, 1), lambda: gone.append(b"x"), gone.sync, lambda: gone.truncate(0)):
        with pytest.raises(FileNotFoundError):
            use()
    gone.close()
    assert filesystem.read(directory + "/a") == b"again"


def test_removing_a_tree_removes_what_is_open_in_it(filesystem: FileSystem, directory: str) -> None:
    filesystem.make_directory(directory + "/t/u")
    file = filesystem.open(directory + "/t/u/a", create=True)
    file.append(b"x")
    filesystem.remove_tree(directory + "/t")
    assert filesystem.list(directory) == []
    with pytest.raises(FileNotFoundError):
        file.read_at(0, 1)
    filesystem.remove_tree(directory + "/t")


def test_directories_list_their_names_sorted(filesystem: FileSystem, directory: str) -> None:
    for name in ("b", "a", "c"):
        make(filesystem, f"{directory}/{name}", b"")
    filesystem.make_directory(directory + "/d")
    filesystem.make_directory(directory + "/d")
    assert filesystem.list(directory) == ["a", "b", "c", "d"]
    assert [filesystem.is_directory(f"{directory}/{name}") for name in "abcd"] == [False, False, False, True]
    filesystem.make_directory(directory + "/B")
    assert filesystem.list_directories(directory) == ["B", "d"]
    with pytest.raises(NotADirectoryError):
        filesystem.list_directories(directory + "/a")


def test_a_file_is_read_whole_whatever_its_size(filesystem: FileSystem, directory: str) -> None:
    for size in (0, 1, 1 << 14, 100_000):
        content = bytes(range(250)) * (size // 250 + 1)
        make(filesystem, f"{directory}/{size}", content[:size])
        assert filesystem.read(f"{directory}/{size}") == content[:size]
    filesystem.make_directory(directory + "/d")
    with pytest.raises(IsADirectoryError):
        filesystem.read(directory + "/d")


def test_directories_are_synced(filesystem: FileSystem, directory: str) -> None:
    filesystem.sync_directory(directory)


def test_a_link_is_a_second_name_for_the_bytes(filesystem: FileSystem, directory: str) -> None:
    make(filesystem, directory + "/a", b"abc")
    filesystem.link(directory + "/a", directory + "/b")
    filesystem.remove(directory + "/a")
    assert filesystem.read(directory + "/b") == b"abc"
    make(filesystem, directory + "/c", b"")
    with pytest.raises(FileExistsError):
        filesystem.link(directory + "/b", directory + "/c")


def test_size_and_modification_time_can_be_asked_and_the_time_be_set(filesystem: FileSystem, directory: str) -> None:
    make(filesystem, directory + "/a", b"abc")
    assert filesystem.size(directory + "/a") == 3
    filesystem.set_modified_ms(directory + "/a", 1_234_567)
    assert filesystem.modified_ms(directory + "/a") == 1_234_567


def test_a_lock_is_held_until_released(filesystem: FileSystem, directory: str) -> None:
    lock = filesystem.lock(directory + "/.lock")
    with pytest.raises(LockHeld):
        filesystem.lock(directory + "/.lock")
    lock.release()
    lock.release()
    filesystem.lock(directory + "/.lock").release()
    assert filesystem.exists(directory + "/.lock")


def test_an_atomic_write_replaces_and_leaves_nothing_else(filesystem: FileSystem, directory: str) -> None:
    make(filesystem, directory + "/a.tmp", b"left over, and longer than what follows")
    for data in (b"first", b"second"):
        write_atomically(filesystem, directory + "/a", data)
        assert filesystem.read(directory + "/a") == data
        assert filesystem.list(directory) == ["a"]


def test_many_buffers_are_one_append(filesystem: FileSystem, directory: str) -> None:
    file = filesystem.open(directory + "/a", create=True)
    buffers = [b"%d," % number for number in range(5000)]
    file.append(*buffers)
    assert filesystem.read(directory + "/a") == b"".join(buffers)
    assert os.path.basename(file.path) == "a"


def test_a_change_by_one_name_leaves_the_bytes_of_the_other(filesystem: FileSystem, directory: str) -> None:
    changes: dict[str, Callable[[File], None]] = {
        "append": lambda file: file.append(b"more"),
        "write_at": lambda file: file.write_at(0, b"more"),
        "truncate": lambda file: file.truncate(2),
    }
    after = {"append": b"textmore", "write_at": b"more", "truncate": b"te"}
    for name, change in changes.items():
        original, linked = f"{directory}/{name}", f"{directory}/{name}-linked"
        for opened, other in ((original, linked), (linked, original)):
            make(filesystem, original, b"text")
            before = filesystem.open(opened) if opened == original else None
            filesystem.link(original, linked)
            file = before or filesystem.open(opened)
            with _refusing() if isinstance(filesystem, AsOnWindows) else contextlib.nullcontext():
                change(file)
            assert (filesystem.read(opened), filesystem.read(other)) == (after[name], b"text")
            change(file)
            file.sync()
            file.close()
            assert filesystem.read(other) == b"text"
            filesystem.remove(original)
            filesystem.remove(linked)
    assert filesystem.list(directory) == []
