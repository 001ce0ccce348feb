"""The operating system's file system."""

from __future__ import annotations

import errno
import os
import sys
import threading

from .interface import Lock, LockHeld, Names
from .os_file import OPEN_FLAGS, READ_FLAGS, OpenFiles, OsFile, SerialFile

_BYTES_A_READ = 1 << 14
_PAGE_BYTES = 4096
"""Bytes of a page of memory: a read that gives less than one has come to the end of its file, because the system reads
whole pages. A start reads three such files for each of thousands of partitions."""


class OsFileSystem:
    """The disk, with at most `max_open_files` descriptors at a time, for the files used most recently.

    A process with tens of thousands of partitions has far more files than descriptors. A file opens its descriptor on
    first use and loses it when other files need one; the next use opens it again. Closing a descriptor loses no written
    byte, and a `sync` through a new descriptor covers writes through the old one.

    Without `synced`, `sync` and `sync_directory` return at once: for data that ends with the process, such as that of a
    broker in a private directory. On a slow disk a short-lived broker would spend most of its time in these calls.
    """

    def __init__(
        self, max_open_files: int = 512, *, positioned_io: bool = hasattr(os, "pread"), synced: bool = True
    ) -> None:
        self._open_files = OpenFiles(max_open_files, OsFile if positioned_io else SerialFile, synced=synced)
        self._closes_before_renaming = not positioned_io

    @property
    def open_descriptors(self) -> int:
        return self._open_files.descriptors

    def close(self) -> None:
        """Close every descriptor. The file system stays usable; files reopen theirs when needed."""
        self._open_files.take_descriptors_of_all()

    def close_idle(self) -> None:
        self._open_files.take_descriptors_of_idle()

    def open(self, path: str, *, create: bool = False, is_private: bool = False) -> OsFile:
        file = self._open_files.open(path, create, 0o600 if is_private else 0o666)
        try:
            if is_private and os.name != "nt" and (mode := os.stat(path).st_mode) & 0o077:
                os.chmod(path, mode & 0o700)
        except OSError:
            file.close()
            raise
        return file

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list(self, path: str) -> Names:
        return sorted(os.listdir(path))

    def list_directories(self, path: str) -> Names:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        files = self._open_files
        with files.lock:
            if self._closes_before_renaming:
                files.take_descriptors(old)
                files.take_descriptors(new)
            os.replace(old, new)
            files.moved(old, new)

    def link(self, old: str, new: str) -> None:
        with self._open_files.lock:
            os.link(old, new)
            file = self._open_files.get(old)
            if file is not None:
                file.linked()

    def remove(self, path: str) -> None:
        with self._open_files.removing(path):
            os.remove(path)

    def remove_tree(self, path: str) -> None:
        import shutil

        with self._open_files.removing(path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                if os.path.exists(path):
                    raise

    def sync_directory(self, path: str) -> None:
        if not self._open_files.synced:
            return
        if sys.platform == "win32":
            return  # NTFS journals names itself, and a directory cannot be opened for syncing there
        number = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)

    def size(self, path: str) -> int:
        file = self._open_files.get(path)
        return os.stat(path).st_size if file is None else file.size

    def read(self, path: str) -> bytes:
        number = os.open(path, READ_FLAGS)  # `open` takes twice the system calls, for thousands of files at a start
        try:
            data = os.read(number, _BYTES_A_READ)
            if len(data) < _PAGE_BYTES:
                return data
            parts = []
            while data:
                parts.append(data)
                data = os.read(number, _BYTES_A_READ)
        finally:
            os.close(number)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, ms: int) -> None:
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))

    def space(self, path: str) -> tuple[int, int]:
        import shutil

        usage = shutil.disk_usage(path)
        return usage.total, usage.free

    def lock(self, path: str) -> Lock:
        return _OsLock(path)


_held_locks: set[str] = set()
_held_locks_guard = threading.Lock()
"""Paths that this process has locked: the system's record locks exclude other processes only. kmini takes the same kind
of lock as Apache Kafka, so that the two exclude each other."""


class _OsLock:
    """A record lock. Nothing else in this process may open the file: closing it would end the lock."""

    def __init__(self, path: str) -> None:
        self._key = os.path.realpath(path)
        with _held_locks_guard:
            if self._key in _held_locks:
                raise LockHeld(path)
            number = os.open(path, OPEN_FLAGS | os.O_CREAT, 0o666)
            try:
                _lock_descriptor(number)
            except OSError as error:
                os.close(number)
                if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                    raise LockHeld(path) from error
                raise
            _held_locks.add(self._key)
            self._number = number

    def release(self) -> None:
        with _held_locks_guard:
            if self._number >= 0:
                os.close(self._number)
                self._number = -1
                _held_locks.discard(self._key)


def _lock_descriptor(number: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
