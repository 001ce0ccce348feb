"""Faults of a file system in use: a function that is asked before each operation, and may wait or raise OSError.

An `OsFileSystem` in which operations are to fail gets, with its open files, another class while that lasts. Before and
afterwards there is no trace of it, so a file system that nothing is to happen to pays nothing. Both classes have the
same slots, which is what Python asks of a change of class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .faults import CHANGES as CHANGES
from .interface import Buffer
from .os_file import OpenFiles, OsFile, SerialFile
from .os_filesystem import OsFileSystem

SYNCS = frozenset({"sync", "sync_directory"})
"""Operations that make changes durable."""

Before = Callable[[str, str], None]
"""Takes the name of an operation (of `faults.CHANGES` or `faults.READS`) and its path."""


def fail_operations(filesystem: OsFileSystem, before: Before | None) -> None:
    """Have `before` asked before each operation of the file system and of its open files; None ends it."""
    files = filesystem._open_files
    with files.lock:
        files.before = before
        filesystem.__class__ = OsFileSystem if before is None else FaultyFileSystem
        files.change_type(_SOUND if before is None else _FAULTY)


def is_failing(filesystem: object) -> bool:
    """Whether a function is asked before each operation."""
    return isinstance(filesystem, FaultyFileSystem)


class _Asks:
    """The operations of a file, each of which asks first."""

    __slots__ = ()
    _open_files: OpenFiles
    path: str

    def _ask(self, operation: str) -> None:
        before = self._open_files.before
        if before is not None:
            before(operation, self.path)

    def append(self, *buffers: Buffer) -> None:
        self._ask("append")
        super().append(*buffers)  # type: ignore[misc]

    def write_at(self, position: int, data: Buffer) -> None:
        self._ask("write_at")
        super().write_at(position, data)  # type: ignore[misc]

    def read_at(self, position: int, length: int) -> bytes:
        self._ask("read_at")
        data: bytes = super().read_at(position, length)  # type: ignore[misc]
        return data

    def truncate(self, size: int) -> None:
        self._ask("truncate")
        super().truncate(size)  # type: ignore[misc]

    def sync(self) -> None:
        self._ask("sync")
        super().sync()  # type: ignore[misc]


class FaultyFile(_Asks, OsFile):
    """An OsFile whose operations may fail."""

    __slots__ = ()


class FaultySerialFile(_Asks, SerialFile):
    """A SerialFile whose operations may fail."""

    __slots__ = ()


_FAULTY: dict[type[OsFile], type[OsFile]] = {OsFile: FaultyFile, SerialFile: FaultySerialFile}
_SOUND = {faulty: sound for sound, faulty in _FAULTY.items()}


class FaultyFileSystem(OsFileSystem):
    """An OsFileSystem whose operations may fail."""

    def _ask(self, operation: str, path: str) -> None:
        before = self._open_files.before
        if before is not None:
            before(operation, path)

    def open(self, path: str, *, create: bool = False, is_private: bool = False) -> OsFile:
        is_new = create and self._open_files.get(path) is None and not self.exists(path)
        self._ask("create" if is_new else "open", path)
        return super().open(path, create=create, is_private=is_private)

    def make_directory(self, path: str) -> None:
        self._ask("make_directory", path)
        super().make_directory(path)

    def rename(self, old: str, new: str) -> None:
        self._ask("rename", old)
        super().rename(old, new)

    def link(self, old: str, new: str) -> None:
        self._ask("link", new)
        super().link(old, new)

    def remove(self, path: str) -> None:
        self._ask("remove", path)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self._ask("remove_tree", path)
        super().remove_tree(path)

    def sync_directory(self, path: str) -> None:
        self._ask("sync_directory", path)
        super().sync_directory(path)

    def read(self, path: str) -> Any:
        self._ask("read", path)
        return super().read(path)

    def set_modified_ms(self, path: str, ms: int) -> None:
        self._ask("set_modified_ms", path)
        super().set_modified_ms(path, ms)
