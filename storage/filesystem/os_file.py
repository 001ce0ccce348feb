"""Open files that outnumber the system's descriptors, and the descriptors that they share.

See `OsFileSystem` for the purpose, and `interface.File` for the promises of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from .interface import Buffer, Names
from .path_tree import PathTree

_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0)
OPEN_FLAGS = os.O_RDWR | _FLAGS
READ_FLAGS = os.O_RDONLY | _FLAGS
_BUFFERS_PER_CALL = 1024
"""Buffers of one vectored write, at most: IOV_MAX of the usual systems."""


_LINKED, _EXCESS = 1, 2
"""What has to be done before the next change of a file: copy it, because it may have another name, too; cut bytes of a
failed append, which may lie beyond its size."""


class Descriptor:
    """An open descriptor that closes with its last reference.

    Every operation holds a reference while it runs. So taking a descriptor from a file (`file.descriptor = None`, from
    any thread) cannot close it, or let its number be reused, during a system call in another thread. The hot path pays
    nothing for that.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self, close=os.close) -> None:  # type: ignore[no-untyped-def]  # bound now: modules go first at exit
        close(self.number)


class OpenFiles:
    """The open files of a file system by path, and the descriptors they share."""

    def __init__(self, max_descriptors: int, file_type: type[OsFile], *, synced: bool = True) -> None:
        self._max_descriptors = max(1, max_descriptors)
        self._file_type = file_type
        self.synced = synced
        """Whether `sync` of a file reaches the disk; see `OsFileSystem`."""
        self.lock = threading.RLock()
        """Held while a name changes and while a descriptor is opened. Reads and writes do not take it."""
        self._files: PathTree[OsFile] = PathTree()
        self._holders: dict[OsFile, None] = {}
        """Files with a descriptor, in the order in which they got or kept it."""
        self.before: Callable[[str, str], None] | None = None
        """Asked before each operation, by files whose class does that (`live_faults.py`)."""

    @property
    def descriptors(self) -> int:
        return len(self._holders)

    def change_type(self, other: Mapping[type[OsFile], type[OsFile]]) -> None:
        """Give all open files, and those opened later, another class, by the class that they have. Call it under the
        lock."""
        self._file_type = other.get(self._file_type, self._file_type)
        for file in self._files.values():
            file.__class__ = self._file_type

    # By path

    def get(self, path: str) -> OsFile | None:
        return self._files.get(path)

    def open(self, path: str, create: bool, mode: int = 0o666) -> OsFile:
        """Return the file at `path`. A file that this call creates gets `mode`."""
        with self.lock:
            file = self._files.get(path)
            if file is None:
                file = self._file_type(self, path, create, mode)
                self._files.put(path, file)
            file.users += 1
            return file

    def close(self, file: OsFile) -> None:
        with self.lock:
            file.users = max(0, file.users - 1)
            if not file.users:
                self.take_descriptor(file)
                if self._files.get(file.path) is file:
                    self._files.pop(file.path)

    def at_or_below(self, path: str) -> Names:
        """Return the open paths at `path`, or below it if it is a directory."""
        return self._files.at_or_below(path)

    def moved(self, old: str, new: str) -> None:
        """Note that a path was renamed, which replaced a file of the new name. Call it under the lock."""
        if old == new:
            return
        self.removed(new)
        for path in self.at_or_below(old):
            file = self._files.pop(path)
            if file is not None:
                file.path = new + path[len(old) :]
                self._files.put(file.path, file)

    def removed(self, path: str) -> OsFile | None:
        """Note that the file at this path is gone: its next use raises FileNotFoundError. Call it under the lock."""
        file = self._files.pop(path)
        if file is not None:
            file.is_removed = True
            self.take_descriptor(file)
        return file

    @contextlib.contextmanager
    def removing(self, path: str) -> Iterator[None]:
        """Count the files open at or below the path as removed while the body removes them, and after it.

        If the body fails, files that still exist are in use again. The body runs without the lock: freeing the blocks
        of large files takes long.
        """
        with self.lock:
            gone = [self.removed(name) for name in self.at_or_below(path)]
        try:
            yield
        except BaseException:
            with self.lock:
                for file in gone:
                    if file is not None and file.users and os.path.exists(file.path):
                        if self._files.get(file.path) is None:
                            self._files.put(file.path, file)
                        file.is_removed = self._files.get(file.path) is not file
            raise

    # Descriptors. A file may be without one at any time, and asks for one when it needs it.

    def reopen(self, file: OsFile) -> Descriptor:
        with self.lock:
            self._check_usable(file)
            return file.descriptor or self.give_descriptor(file)

    def _check_usable(self, file: OsFile) -> None:
        if not file.users:
            raise ValueError(f"{file.path} is closed")
        if file.is_removed:
            raise FileNotFoundError(errno.ENOENT, "the file was removed", file.path)

    def give_descriptor(self, file: OsFile, flags: int = OPEN_FLAGS, mode: int = 0o666) -> Descriptor:
        """Open a descriptor for the file; other files lose theirs at our limit, or the system's."""
        while len(self._holders) >= self._max_descriptors:
            self._take_one_descriptor()
        try:
            number = os.open(file.path, flags, mode)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._holders:
                raise
            for _ in range((len(self._holders) + 1) // 2):
                self._take_one_descriptor()
            number = os.open(file.path, flags, mode)
        file.descriptor = descriptor = Descriptor(number)
        file.is_recent = False
        self._holders[file] = None
        return descriptor

    def separate(self, file: OsFile) -> None:
        """Give the file bytes of its own, if it shares them with another name."""
        with self.lock:
            self._check_usable(file)
            found = os.stat(file.path)
            if found.st_nlink < 2:
                return
            import shutil  # few files are linked

            aside = file.path + ".tmp"
            shutil.copyfile(file.path, aside)
            os.utime(aside, ns=(found.st_atime_ns, found.st_mtime_ns))
            if self.synced:
                with open(aside, "rb+") as copied:
                    os.fsync(copied.fileno())
            self.take_descriptor(file)
            os.replace(aside, file.path)

    def take_descriptor(self, file: OsFile) -> None:
        self._holders.pop(file, None)
        file.descriptor = None

    def take_descriptors(self, path: str) -> None:
        """Take the descriptor of the file at this path, or of all files below it."""
        for name in self.at_or_below(path):
            file = self._files.get(name)
            if file is not None:
                self.take_descriptor(file)

    def take_descriptors_of_all(self) -> None:
        with self.lock:
            for file in list(self._holders):
                self.take_descriptor(file)

    def take_descriptors_of_idle(self) -> None:
        with self.lock:
            for file in [file for file in self._holders if not file.is_recent]:
                self.take_descriptor(file)
            for file in self._holders:
                file.is_recent = False

    def _take_one_descriptor(self) -> None:
        """Take the descriptor of the oldest file that was not used since the last look; used ones get a second round.

        Nearly LRU; a use costs one attribute instead of a reordering.
        """
        for _ in range(len(self._holders)):
            oldest = next(iter(self._holders))
            if not oldest.is_recent:
                break
            oldest.is_recent = False
            del self._holders[oldest]
            self._holders[oldest] = None
        self.take_descriptor(next(iter(self._holders)))


class OsFile:
    """A file of an OsFileSystem. It keeps its size, so that an append is one system call."""

    __slots__ = ("_open_files", "_unready", "descriptor", "is_recent", "is_removed", "path", "size", "users")

    def __init__(self, open_files: OpenFiles, path: str, create: bool, mode: int = 0o666) -> None:
        self._open_files = open_files
        self.path = path
        self.users = 0
        """How many `open` calls have no `close` yet."""
        self.descriptor: Descriptor | None = None
        self.is_recent = False
        """Whether it was used since a descriptor was last taken from a file."""
        self.is_removed = False
        if create:
            found = os.fstat(open_files.give_descriptor(self, OPEN_FLAGS | os.O_CREAT, mode).number)
        else:
            found = os.stat(path)
        self.size = found.st_size
        self._unready = _LINKED if found.st_nlink > 1 else 0
        """What has to be done before the next change: bits of _LINKED and _EXCESS."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, size={self.size})"

    def append(self, *buffers: Buffer) -> None:
        if self._unready:
            self._make_ready()
        descriptor = self.descriptor
        if descriptor is None:
            descriptor = self._open_files.reopen(self)
        self.is_recent = True
        try:
            self.size = self._write(descriptor.number, buffers, self.size)
        except BaseException:
            self._unready |= _EXCESS
            with contextlib.suppress(OSError):  # the first error is the caller's; the next write tries again
                self._cut(descriptor)
            raise

    def write_at(self, position: int, data: Buffer) -> None:
        if not 0 <= position <= self.size:
            raise ValueError(f"position {position} is outside 0..{self.size}")
        if self._unready:
            self._make_ready()
        descriptor = self.descriptor or self._open_files.reopen(self)
        self.is_recent = True
        end = self._write(descriptor.number, (data,), position)
        self.size = max(self.size, end)

    def read_at(self, position: int, length: int) -> bytes:
        descriptor = self.descriptor
        if descriptor is None:
            descriptor = self._open_files.reopen(self)
        self.is_recent = True
        # Clipped to `size`: bytes of an append in progress, or of a failed one, may lie beyond it.
        if length > self.size - position:
            length = self.size - position
        if length <= 0:
            return b""
        data = self._read(descriptor.number, length, position)
        if len(data) == length:
            return data
        parts = []
        while data:
            parts.append(data)
            position += len(data)
            length -= len(data)
            data = self._read(descriptor.number, length, position) if length else b""
        return b"".join(parts)

    def drop_behind(self, start: int, end: int) -> None:
        descriptor = self.descriptor or self._open_files.reopen(self)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor.number, start, end - start, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        if self._unready:
            self._make_ready()
        descriptor = self.descriptor or self._open_files.reopen(self)
        os.ftruncate(descriptor.number, size)
        self.size = size

    def sync(self) -> None:
        descriptor = self.descriptor or self._open_files.reopen(self)
        if self._open_files.synced:
            os.fsync(descriptor.number)

    def close(self) -> None:
        self._open_files.close(self)

    def linked(self) -> None:
        """Note that the file has another name, too: the next change copies it first."""
        self._unready |= _LINKED

    def _make_ready(self) -> None:
        """Do what has to be done before a change. The caller takes its descriptor after it: a copy replaces the file,
        and a system may replace no file that is open. Raises what `reopen` raises."""
        if self._unready & _LINKED:
            self._open_files.separate(self)
            self._unready &= ~_LINKED
        if self._unready & _EXCESS:
            self._cut(self.descriptor or self._open_files.reopen(self))

    def _cut(self, descriptor: Descriptor) -> None:
        os.ftruncate(descriptor.number, self.size)
        self._unready &= ~_EXCESS

    def _write(self, number: int, buffers: tuple[Buffer, ...], position: int) -> int:
        """Write everything; return the position after it. A full disk is a short write first, then an error."""
        if len(buffers) == 1:
            (buffer,) = buffers
            written = os.pwrite(number, buffer, position)
            if written == len(buffer):
                return position + written
        else:
            written = _write_some(number, buffers[:_BUFFERS_PER_CALL], position)
        if written == sum(map(len, buffers)):
            return position + written
        return self._write_rest(number, buffers, position, written)

    def _write_rest(self, number: int, buffers: tuple[Buffer, ...], position: int, written: int) -> int:
        rest = [memoryview(buffer) for buffer in buffers if len(buffer)]
        while True:
            position += written
            while rest and written >= len(rest[0]):
                written -= len(rest.pop(0))
            if not rest:
                return position
            rest[0] = rest[0][written:]
            written = _write_some(number, rest[:_BUFFERS_PER_CALL], position)

    if hasattr(os, "pread"):
        _read = staticmethod(os.pread)


if hasattr(os, "pwritev"):

    def _write_some(number: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(number, buffers, position)

else:

    def _write_some(number: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwrite(number, buffers[0], position)


class SerialFile(OsFile):
    """For systems without positioned reads and writes, and where an open file cannot be renamed (Windows).

    Every operation holds the lock of the open files, so seeking and reading are one step, and a rename finds no
    descriptor in use. Correct, not fast: a sync holds up the other files.
    """

    __slots__ = ()

    def append(self, *buffers: Buffer) -> None:
        with self._open_files.lock:
            super().append(*buffers)

    def write_at(self, position: int, data: Buffer) -> None:
        with self._open_files.lock:
            super().write_at(position, data)

    def read_at(self, position: int, length: int) -> bytes:
        with self._open_files.lock:
            return super().read_at(position, length)

    def truncate(self, size: int) -> None:
        with self._open_files.lock:
            super().truncate(size)

    def sync(self) -> None:
        with self._open_files.lock:
            super().sync()

    def _write(self, number: int, buffers: tuple[Buffer, ...], position: int) -> int:
        os.lseek(number, position, os.SEEK_SET)
        for buffer in buffers:
            rest = memoryview(buffer)
            while len(rest):
                rest = rest[os.write(number, rest) :]
            position += len(buffer)
        return position

    def _read(self, number: int, length: int, position: int) -> bytes:
        os.lseek(number, position, os.SEEK_SET)
        return os.read(number, length)
