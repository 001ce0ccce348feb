"""The file system of the crash tests: in memory, it can be killed, lose power, and fail at any operation.

    faults = Faults(power_loss_at=n)
    filesystem = MemoryFileSystem(faults)
    with suppress(PowerLoss):
        work(filesystem)
    after = filesystem.crash(seed)          # or .kill(): a new file system, as a restart finds it

The seed decides what a power loss leaves (`memory_nodes.py`). Of the bytes written since a file's last `sync`, for each
file by itself: nothing, all, a part (the last write torn), or zeros of their length (Linux journals sizes before data);
changes in the middle survive by 512-byte sectors. Of the names changed since a directory's last `sync_directory`: the
first few, in order, as a journal keeps them; a rename within a directory is never half done. `sync` makes the bytes of
a file durable, not its name."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Iterator

from .faults import Faults
from .interface import Buffer, Lock, LockHeld, Names
from .memory_nodes import Entry, MemoryDirectory, MemoryNode, empty


class MemoryFileSystem:
    """A FileSystem in memory. Every operation is atomic for other threads; `faults` sees each before it happens.

    With `refuses_open_files` it is one on Windows: a file that is open cannot be renamed, replaced or removed, by any
    of its names, nor the directories above it. Like `OsFileSystem` there, it closes the descriptors of its own files
    at the path first. What is open beside them refuses: a lock, and a file that has another name, too, and is open by
    that one.
    """

    refuses_open_files_by_default = False
    """For tests that run as a whole in that mode."""

    def __init__(
        self, faults: Faults | None = None, *, now_ms: int = 0, refuses_open_files: bool | None = None
    ) -> None:
        self.faults = faults or Faults()
        """May be replaced at any time, to arm a fault after a set-up."""
        self.now_ms = now_ms
        """The modification time that a write gives its file."""
        default = self.refuses_open_files_by_default
        self.refuses_open_files = default if refuses_open_files is None else refuses_open_files
        self._root = MemoryDirectory()
        self._files: dict[str, MemoryFile] = {}
        self._locked: set[str] = set()
        self._lock = threading.RLock()

    def crash(self, seed: int = 0, faults: Faults | None = None) -> MemoryFileSystem:
        """Return a new file system as a restart finds it after a power loss at this moment; everything in it is
        durable.

        This one stays as it is, so that a test may look at many outcomes of one moment.
        """
        with self._lock:
            return self._successor(self._root.after_power_loss(random.Random(seed)), faults)

    def kill(self, faults: Faults | None = None) -> MemoryFileSystem:
        """Return a new file system as a restart finds it after the process was killed at this moment: every write, on
        the disk only as far as it was synced."""
        with self._lock:
            return self._successor(self._root.after_kill({}), faults)

    def _successor(self, root: MemoryDirectory, faults: Faults | None) -> MemoryFileSystem:
        successor = MemoryFileSystem(faults, now_ms=self.now_ms, refuses_open_files=self.refuses_open_files)
        successor._root = root
        return successor

    def open(self, path: str, *, create: bool = False, is_private: bool = False) -> MemoryFile:
        """See `FileSystem.open`. Files in memory have no owner, so `is_private` has no effect."""
        with self._lock:
            path = _normal(path)
            file = self._files.get(path)
            if file is not None:
                self._begin("open", path)
                file._opened += 1
            else:
                directory, name = self._parent(path)
                node = directory.entries.get(name)
                creates = node is None and create
                self._begin("create" if creates else "open", path)
                if isinstance(node, MemoryDirectory):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                if creates:
                    node = MemoryNode(modified_ms=self.now_ms)
                    directory.change((name, node))
                if node is None:
                    raise _missing(path)
                file = self._files[path] = MemoryFile(self, path, node)
            self.faults.after()
            return file

    def exists(self, path: str) -> bool:
        with self._lock:
            return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        with self._lock:
            return isinstance(self._find(path), MemoryDirectory)

    def list(self, path: str) -> Names:
        with self._lock:
            self._begin("list", path)
            names = sorted(self._directory(path).entries)
            self.faults.after()
            return names

    def list_directories(self, path: str) -> Names:
        with self._lock:
            self._begin("list", path)
            entries = self._directory(path).entries
            names = sorted(name for name, entry in entries.items() if isinstance(entry, MemoryDirectory))
            self.faults.after()
            return names

    def make_directory(self, path: str) -> None:
        with self._lock:
            self._begin("make_directory", path)
            directory = self._root
            for name in _parts(path):
                node = directory.entries.get(name)
                if node is None:
                    node = MemoryDirectory()
                    directory.change((name, node))
                elif not isinstance(node, MemoryDirectory):
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
                directory = node
            self.faults.after()

    def rename(self, old: str, new: str) -> None:
        with self._lock:
            old, new = _normal(old), _normal(new)
            self._begin("rename", old)
            node = self._node(old)
            (source, old_name), (target, new_name) = self._parent(old), self._parent(new)
            replaced = target.entries.get(new_name)
            if self.refuses_open_files:
                self._check_closed(old, new)
                if replaced is not None and isinstance(replaced, MemoryDirectory) and replaced is not node:
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), new)
            if isinstance(replaced, MemoryDirectory) and (replaced.entries or not isinstance(node, MemoryDirectory)):
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
            if source is target:
                source.change((old_name, None), (new_name, node))
            else:
                target.change((new_name, node))
                source.change((old_name, None))
            if old != new:
                self._forget(new)
                for path in list(self._below(old)):
                    file = self._files.pop(path)
                    file.path = new + path[len(old) :]
                    self._files[file.path] = file
            self.faults.after()

    def link(self, old: str, new: str) -> None:
        with self._lock:
            self._begin("link", new)
            node = self._file_node(old)
            directory, name = self._parent(new)
            if name in directory.entries:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
            directory.change((name, node))
            node.is_linked = True
            self.faults.after()

    def remove(self, path: str) -> None:
        with self._lock:
            path = _normal(path)
            self._begin("remove", path)
            self._file_node(path)
            if self.refuses_open_files:
                self._check_closed(path)
            directory, name = self._parent(path)
            directory.change((name, None))
            self._forget(path)
            self.faults.after()

    def remove_tree(self, path: str) -> None:
        """See `FileSystem.remove_tree`. One operation, of which a power loss may leave any step undone, as on a
        disk."""
        with self._lock:
            path = _normal(path)
            self._begin("remove_tree", path)
            node = self._find(path)
            if node is not None:
                if self.refuses_open_files:
                    self._check_closed(path)
                if isinstance(node, MemoryDirectory):
                    empty(node)
                directory, name = self._parent(path)
                directory.change((name, None))
                for gone in list(self._below(path)):
                    self._forget(gone)
            self.faults.after()

    def sync_directory(self, path: str) -> None:
        with self._lock:
            self._begin("sync_directory", path)
            self._directory(path).sync()
            self.faults.after()

    def size(self, path: str) -> int:
        with self._lock:
            self._begin("size", path)
            size = len(self._file_node(path).content)
            self.faults.after()
            return size

    def read(self, path: str) -> bytes:
        with self._lock:
            self._begin("read", path)
            data = bytes(self._file_node(path).content)
            self.faults.after()
            return data

    def modified_ms(self, path: str) -> int:
        with self._lock:
            self._begin("modified_ms", path)
            modified_ms = self._node(path).modified_ms
            self.faults.after()
            return modified_ms

    def set_modified_ms(self, path: str, ms: int) -> None:
        with self._lock:
            self._begin("set_modified_ms", path)
            self._node(path).modified_ms = ms
            self.faults.after()

    def space(self, path: str) -> tuple[int, int]:
        return -1, -1

    def close_idle(self) -> None:
        """Files hold no descriptors here."""

    def lock(self, path: str) -> Lock:
        with self._lock:
            path = _normal(path)
            if path in self._locked:
                raise LockHeld(path)
            directory, name = self._parent(path)
            if name not in directory.entries:
                directory.change((name, MemoryNode(modified_ms=self.now_ms)))
            self._locked.add(path)
            return _MemoryLock(self, path)

    def _begin(self, operation: str, path: str) -> None:
        if self.faults.before(operation, path):
            self.faults.lose_power()

    def _find(self, path: str) -> Entry | None:
        node: Entry | None = self._root
        for name in _parts(path):
            if not isinstance(node, MemoryDirectory):
                return None
            node = node.entries.get(name)
        return node

    def _node(self, path: str) -> Entry:
        node = self._find(path)
        if node is None:
            raise _missing(path)
        return node

    def _file_node(self, path: str) -> MemoryNode:
        node = self._node(path)
        if isinstance(node, MemoryDirectory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _directory(self, path: str) -> MemoryDirectory:
        node = self._node(path)
        if not isinstance(node, MemoryDirectory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[MemoryDirectory, str]:
        *above, name = _parts(path)
        return self._directory("/".join(above)), name

    def _below(self, path: str) -> Iterator[str]:
        return (name for name in self._files if name == path or name.startswith(path + "/"))

    def _check_closed(self, *paths: str) -> None:
        """Close the descriptors of the files at or below these paths; PermissionError if one of them is still open."""
        for path in paths:
            for name in self._below(path):
                self._files[name].has_descriptor = False
        opened = {id(file._node): name for name, file in self._files.items() if file.has_descriptor}
        for path in paths:
            node = self._find(path)
            below = [] if node is None else [(path, node), *(_entries(path, node))]
            held = [name for name in self._locked if name == path or name.startswith(path + "/")]
            held += [opened[id(one)] for _, one in below if id(one) in opened]
            if held:
                raise PermissionError(errno.EACCES, f"{held[0]} is open", path)

    def _forget(self, path: str) -> None:
        file = self._files.pop(path, None)
        if file is not None:
            file._removed = True


class MemoryFile:
    """A file of a MemoryFileSystem."""

    __slots__ = ("_filesystem", "_node", "_opened", "_removed", "has_descriptor", "path")

    def __init__(self, filesystem: MemoryFileSystem, path: str, node: MemoryNode) -> None:
        self._filesystem = filesystem
        self._node = node
        self._opened = 1
        self._removed = False
        self.has_descriptor = True
        """Whether the system has the file open; the next operation opens it again."""
        self.path = path

    def __repr__(self) -> str:
        return f"MemoryFile({self.path!r}, size={self.size})"

    @property
    def size(self) -> int:
        return len(self._node.content)

    def append(self, *buffers: Buffer) -> None:
        with self._filesystem._lock:
            self._write("append", self.size, b"".join(buffers))

    def write_at(self, position: int, data: Buffer) -> None:
        if not 0 <= position <= self.size:
            raise ValueError(f"position {position} is outside 0..{self.size}")
        with self._filesystem._lock:
            self._write("write_at", position, data)

    def read_at(self, position: int, length: int) -> bytes:
        with self._filesystem._lock:
            self._begin("read_at")
            data = bytes(memoryview(self._node.content)[position : position + max(0, length)])
            self._filesystem.faults.after()
            return data

    def drop_behind(self, start: int, end: int) -> None:
        with self._filesystem._lock:
            self._begin("drop_behind")

    def truncate(self, size: int) -> None:
        with self._filesystem._lock:
            if self._begin("truncate"):
                self._filesystem.faults.lose_power()
            self._separate()
            self._node.truncate(size)
            self._node.modified_ms = self._filesystem.now_ms
            self._filesystem.faults.after()

    def sync(self) -> None:
        with self._filesystem._lock:
            if self._begin("sync"):
                self._filesystem.faults.lose_power()
            self._node.sync()
            self._filesystem.faults.after()

    def close(self) -> None:
        with self._filesystem._lock:
            if self._opened:
                self._opened -= 1
                if not self._opened and self._filesystem._files.get(self.path) is self:
                    del self._filesystem._files[self.path]

    def _begin(self, operation: str) -> bool:
        if not self._opened:
            raise ValueError(f"{self.path} is closed")
        if self._removed:
            raise _missing(self.path)
        self.has_descriptor = True
        return self._filesystem.faults.before(operation, self.path)

    def _write(self, operation: str, position: int, data: Buffer) -> None:
        torn = self._begin(operation)
        self._separate()
        self._node.write(position, memoryview(data)[: len(data) // 2] if torn else data)
        self._node.modified_ms = self._filesystem.now_ms
        if torn:
            self._filesystem.faults.lose_power()
        self._filesystem.faults.after()

    def _separate(self) -> None:
        """Give the file bytes of its own, if it may share them with another name."""
        if self._node.is_linked:
            self._node = self._node.after_kill()
            self._node.is_linked = False
            directory, name = self._filesystem._parent(self.path)
            directory.change((name, self._node))


class _MemoryLock:
    def __init__(self, filesystem: MemoryFileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def release(self) -> None:
        self._filesystem._locked.discard(self._path)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace(os.sep, "/").split("/") if part not in ("", ".")]


def _entries(path: str, node: Entry) -> Iterator[tuple[str, Entry]]:
    """Everything below a directory, by path."""
    if isinstance(node, MemoryDirectory):
        for name, entry in node.entries.items():
            yield f"{path}/{name}", entry
            yield from _entries(f"{path}/{name}", entry)


def _normal(path: str) -> str:
    return "/".join(_parts(path))


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
