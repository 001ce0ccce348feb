"""Descriptors that come and go, failing writes, and threads."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from kmini.storage.filesystem import OsFileSystem
from kmini.storage.filesystem.os_file import OsFile

needs_positioned_io = pytest.mark.skipif(not hasattr(os, "pwritev"), reason="the system writes in another way")


def test_no_more_descriptors_are_held_than_allowed(tmp_path: Path) -> None:
    filesystem = OsFileSystem(max_open_files=3)
    files = [filesystem.open(str(tmp_path / f"{number}"), create=True) for number in range(10)]
    for turn in range(3):
        for file in files:
            file.append(b"%d" % turn)
            assert filesystem.open_descriptors <= 3
    assert [file.read_at(0, 9) for file in files] == [b"012"] * 10
    filesystem.close()
    assert filesystem.open_descriptors == 0
    assert files[0].read_at(0, 9) == b"012"


def test_a_file_in_use_keeps_its_descriptor_while_idle_ones_lose_theirs(tmp_path: Path) -> None:
    filesystem = OsFileSystem(max_open_files=3)
    hot = filesystem.open(str(tmp_path / "hot"), create=True)
    for number in range(20):
        hot.append(b"x")
        filesystem.open(str(tmp_path / f"{number}"), create=True)
        assert hot.descriptor is not None


def test_idle_files_can_be_made_to_give_their_descriptors_back(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    busy, idle = (filesystem.open(str(tmp_path / name), create=True) for name in ("busy", "idle"))
    idle.append(b"x")
    for left in (2, 1, 1):
        busy.append(b"x")
        filesystem.close_idle()
        assert filesystem.open_descriptors == left
    assert busy.descriptor is not None
    assert idle.read_at(0, 1) == b"x"


def test_a_file_opened_for_its_bytes_takes_no_descriptor_before_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    filesystem = OsFileSystem()
    file = filesystem.open(str(tmp_path / "a"))
    assert (file.size, filesystem.open_descriptors) == (3, 0)


def test_a_closed_or_removed_file_gives_its_descriptor_back(tmp_path: Path) -> None:
    filesystem = OsFileSystem()
    closed = filesystem.open(str(tmp_path / "a"), create=True)
    removed = filesystem.open(str(tmp_path / "b"), create=True)
    replaced = filesystem.open(str(tmp_path / "c"), create=True)
    assert filesystem.open_descriptors == 3
    numbers = [file.descriptor.number for file in (closed, removed, replaced) if file.descriptor]
    closed.close()
    filesystem.remove(removed.path)
    filesystem.rename(str(tmp_path / "a"), replaced.path)
    assert filesystem.open_descriptors == 0
    for number in numbers:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)


@needs_positioned_io
def test_when_the_system_has_no_descriptor_left_others_give_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem = OsFileSystem()
    files = [filesystem.open(str(tmp_path / f"{number}"), create=True) for number in range(8)]
    system_open = os.open

    def scarce_open(path: str, flags: int, mode: int = 0o777) -> int:
        if filesystem.open_descriptors > 6:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return system_open(path, flags, mode)

    monkeypatch.setattr(os, "open", scarce_open)
    filesystem.open(str(tmp_path / "one more"), create=True).append(b"x")
    for file in files:
        file.append(b"x")


@needs_positioned_io
@pytest.mark.parametrize("buffers", [(b"abcdef",), (b"abc", b"def")])
def test_a_short_write_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, buffers: tuple[bytes, ...]
) -> None:
    pwrite = os.pwrite

    def write_one_byte(number: int, data: bytes, position: int) -> int:
        return pwrite(number, bytes(data)[:1], position)

    monkeypatch.setattr(os, "pwrite", write_one_byte)
    monkeypatch.setattr(os, "pwritev", lambda number, some, position: write_one_byte(number, b"".join(some), position))
    file = OsFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(*buffers)
    file.append(*buffers)
    assert (tmp_path / "a").read_bytes() == b"abcdefabcdef"
    assert file.size == 12


@needs_positioned_io
def test_a_failed_append_leaves_nothing_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"whole")
    pwrite = os.pwrite

    def disk_full(number: int, data: bytes, position: int) -> int:
        if position >= 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return pwrite(number, data[: 8 - position], position)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", disk_full)
        patch.setattr(os, "pwritev", lambda number, some, position: disk_full(number, b"".join(some), position))
        with pytest.raises(OSError, match="No space left"):
            file.append(b"too long for the disk")
        assert file.size == 5
        assert (tmp_path / "a").read_bytes() == b"whole"
        file.append(b"!")
    assert file.read_at(0, 99) == b"whole!"


@needs_positioned_io
def test_what_a_failed_append_could_not_cut_is_cut_before_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsFileSystem().open(str(tmp_path / "a"), create=True)
    file.append(b"whole")
    pwrite = os.pwrite

    def half(number: int, data: bytes, position: int) -> int:
        pwrite(number, data[: len(data) // 2], position)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def failing(number: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        patch.setattr(os, "ftruncate", failing)
        with pytest.raises(OSError, match="Input/output"):
            file.append(b"lost bytes")
    assert (tmp_path / "a").read_bytes() == b"wholelost "
    assert file.read_at(0, 99) == b"whole"
    file.append(b"!")
    assert (tmp_path / "a").read_bytes() == b"whole!"


@pytest.mark.sockets
@pytest.mark.parametrize("positioned_io", [True, False])
def test_readers_are_undisturbed_while_descriptors_are_taken_and_files_renamed_and_removed(
    tmp_path: Path, positioned_io: bool
) -> None:
    """Readers see whole blocks of their own file, or that it is gone; never another file's bytes through a reused
    number."""
    if positioned_io and not hasattr(os, "pread"):
        pytest.skip("no positioned reads here")
    filesystem = OsFileSystem(max_open_files=2, positioned_io=positioned_io)
    blocks = [bytes([number]) * 64 for number in range(8)]
    files = [filesystem.open(str(tmp_path / f"{number}"), create=True) for number in range(8)]
    for file, block in zip(files, blocks, strict=True):
        file.append(block)
    done = threading.Event()
    wrong: list[object] = []

    def read(first: int) -> None:
        turn = first
        while not done.is_set():
            turn += 1
            file, block = files[turn % 8], blocks[turn % 8]
            try:
                data = file.read_at(64 * (turn % 5), 64)
                file.sync()
            except FileNotFoundError:
                if turn % 8 != 7:
                    wrong.append(f"{file} is not there")
            except BaseException as error:
                wrong.append(error)
            else:
                if data != block[: len(data)] or len(data) not in (0, 64):
                    wrong.append((turn % 8, data))

    readers = [threading.Thread(target=read, args=(first,)) for first in (0, 3)]
    for reader in readers:
        reader.start()
    try:
        for turn in range(150):
            number = turn % 7
            files[number].append(blocks[number])
            path = files[number].path
            filesystem.rename(path, f"{path}.{turn}")
            filesystem.rename(f"{path}.{turn}", path)
            if turn == 75:
                filesystem.remove(files[7].path)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert files[0].read_at(0, 64) == blocks[0]


def test_a_read_that_has_begun_ends_on_the_removed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not hasattr(os, "pread"):
        pytest.skip("no positioned reads here")
    filesystem = OsFileSystem()
    file = filesystem.open(str(tmp_path / "a"), create=True)
    file.append(b"bytes")
    pread = os.pread

    def remove_first(number: int, length: int, position: int) -> bytes:
        filesystem.remove(str(tmp_path / "a"))
        return pread(number, length, position)

    monkeypatch.setattr(OsFile, "_read", staticmethod(remove_first))
    assert file.read_at(0, 5) == b"bytes"
    with pytest.raises(FileNotFoundError):
        file.read_at(0, 5)


def test_a_file_whose_removal_failed_stays_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem = OsFileSystem()
    file = filesystem.open(str(tmp_path / "a"), create=True)
    file.append(b"1")

    def refused(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", refused)
        with pytest.raises(PermissionError):
            filesystem.remove(file.path)
    file.append(b"2")
    assert filesystem.open(file.path) is file
    assert filesystem.read(file.path) == b"12"


def test_a_write_during_a_removal_that_fails_leaves_the_file_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem = OsFileSystem()
    file = filesystem.open(str(tmp_path / "a"), create=True)
    file.append(b"1")
    linked = str(tmp_path / "b")
    filesystem.link(file.path, linked)

    def refused(path: str) -> None:
        with pytest.raises(FileNotFoundError):
            file.append(b"x")
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", refused)
        with pytest.raises(PermissionError):
            filesystem.remove(file.path)
    file.append(b"2")
    assert (filesystem.read(file.path), filesystem.read(linked)) == (b"12", b"1")
