"""The one seam to the disk: what storage asks of files and directories, and the operating system's answer.

Everything below `storage/` reaches the disk through a `FileSystem`. `OsFileSystem` is the real one; `MemoryFileSystem`
(memory_filesystem.py) is the one tests crash. Paths are plain strings; errors are `OSError`, as the system reports
them.

**Handles follow names.** A `File` belongs to a path, not to a descriptor: opening an open path gives the same `File`,
renaming the path (or a directory above it) moves the `File` along, removing or replacing it makes every later operation
on the `File` raise FileNotFoundError. That is what lets `OsFileSystem` take descriptors away from idle files.

**Threads.** One thread at a time changes a given file (the broker's loop); any number may read or sync it meanwhile,
and any thread may open, rename or remove. An operation that has begun ends undisturbed, on the file it began with.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import Protocol, TypeAlias

from .os_file import OPEN_FLAGS, OpenFiles, OsFile, SerialFile

Buffer: TypeAlias = bytes | bytearray | memoryview
Names: TypeAlias = list[str]
"""A list of names or paths. (A method of a file system is called `list`, so the type needs another name there.)"""


class LockHeld(Exception):
    """The lock file is held by another broker, or another program, in this process or in another one."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{os.path.dirname(path)} is in use: another broker or `kmini graduate` holds {path}")


class File(Protocol):
    """A file at a path; see the module's text for what sharing, renaming and removing mean."""

    @property
    def path(self) -> str:
        """Where the file is now; changes when it is renamed."""

    @property
    def size(self) -> int:
        """Bytes in the file. Raised by append and write_at, set by truncate; a failed call leaves it as it was."""

    def append(self, *buffers: Buffer) -> None:
        """Put the buffers, one after the other, at the end.

        All or nothing as far as anyone in this process can see: if the call raises, `size` is what it was, no reader
        gets a byte of the attempt, and the bytes that may have reached the disk are cut off, at once or before the next
        write. Only a process that dies meanwhile leaves them: recovery cuts them off then. The bytes are in the hands
        of the system when the call returns (they survive the process), on the disk after `sync` (they survive power
        loss).
        """

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from `position`, which may be up to `size`, growing the file where needed. Not atomic."""

    def read_at(self, position: int, length: int) -> bytes:
        """`length` bytes from `position`, fewer where the file ends earlier, none at or beyond its end."""

    def drop_behind(self, start: int, end: int) -> None:
        """Say that nobody will want the bytes in this range soon: what of them is not on the disk yet sets out for it,
        the others leave the system's memory to whoever needs some. A hint, which changes nothing that can be read."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""

    def sync(self) -> None:
        """Return when every byte written before the call is on the disk. Blocks: call it off the loop.

        After an OSError those bytes may be lost whatever a second call says: the disk has to be taken for failed.
        """

    def close(self) -> None:
        """Give back one `open`. Does not sync. After the last one, using the file is a ValueError."""


class Lock(Protocol):
    def release(self) -> None:
        """Let others have it. The lock file stays: removing it would race with whoever opens it next."""


class FileSystem(Protocol):
    """Directories and names. Changes of names are on the disk only after `sync_directory` of their directory."""

    def open(self, path: str, *, create: bool = False, is_private: bool = False) -> File:
        """The file at `path`, with its bytes; with `create`, an empty one where none is. Else FileNotFoundError.

        With `is_private` only the file's owner may read it from then on, where the system knows owners.
        """

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list(self, path: str) -> Names:
        """Names (not paths) in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make the directory and those above it; no error if it is there."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, atomically; a file that has the name `new` is replaced."""

    def link(self, old: str, new: str) -> None:
        """A second name for the same bytes, which must not change any more. FileExistsError if the name is taken."""

    def remove(self, path: str) -> None:
        """Remove a file. FileNotFoundError if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it; no error if there is none."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk. Blocks: call it off the loop."""

    def size(self, path: str) -> int: ...

    def read(self, path: str) -> bytes:
        """The whole file, for small ones."""

    def modified_ms(self, path: str) -> int:
        """Time of the last change of the content, in milliseconds since the epoch."""

    def set_modified_ms(self, path: str, ms: int) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """The size of the volume that holds `path` and what of it is free to us, in bytes; -1 for what is not known."""

    def close_idle(self) -> None:
        """Give back what files hold that nobody used since the last call. Cheap; to be called now and then."""

    def lock(self, path: str) -> Lock:
        """Make the lock file if needed and hold it until released or until this process ends. LockHeld if it is
        taken."""


def write_atomically(filesystem: FileSystem, path: str, data: Buffer) -> None:
    """Replace the file at `path`: after a crash at any point it has its old content or this one, whole.

    Goes through `<path>.tmp`, which a failure or crash may leave behind; the next write starts it afresh. On return
    content and name are on the disk. Blocks; two callers must not write the same path at once.
    """
    write_aside(filesystem, path, data)
    put_in_place(filesystem, path)


def write_aside(filesystem: FileSystem, path: str, data: Buffer, *, is_private: bool = False) -> None:
    """The first half of `write_atomically`: write `<path>.tmp`. OSError leaves the file at `path` as it was."""
    file = filesystem.open(path + ".tmp", create=True, is_private=is_private)
    try:
        file.truncate(0)
        file.append(data)
        file.sync()
    finally:
        file.close()


def put_in_place(filesystem: FileSystem, path: str) -> None:
    """The second half of `write_atomically`: `<path>.tmp` becomes the file at `path`. After an OSError it is open
    which of the two is there, and will be after a loss of power."""
    filesystem.rename(path + ".tmp", path)
    filesystem.sync_directory(os.path.dirname(path))


def make_directory_durable(filesystem: FileSystem, path: str) -> None:
    """Make the directory and those above it, and return when their names survive a loss of power. Blocks."""
    missing = []
    above = path
    while above and not filesystem.exists(above):
        missing.append(above)
        above = os.path.dirname(above)
    if missing:
        filesystem.make_directory(path)
    for name in missing:
        filesystem.sync_directory(os.path.dirname(name))


class OsFileSystem:
    """The disk, with at most `max_open_files` descriptors held at a time, given to the files used most recently.

    A process that keeps tens of thousands of partitions has far more files than descriptors. A file opens its
    descriptor on first use and loses it when others need the place; the next use opens it again. Closing a descriptor
    loses no written byte, and `sync` through a new one covers what was written through the old.

    Without `synced`, `sync` and `sync_directory` return at once: for data that end with the process, such as those of a
    broker in a private directory. On a slow disk these calls are most of what a short-lived broker waits for.
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
        os.link(old, new)

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
        with open(path, "rb") as file:
            return file.read()

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
"""Locks of this process: the system's record locks exclude only other processes. They are the kind Apache Kafka takes,
so that it and kmini exclude each other."""


class _OsLock:
    """A record lock on a file that nothing else in this process may open: closing it there would end the lock."""

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
