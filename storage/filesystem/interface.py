"""The seam to the disk: what storage asks of files and directories.

Everything in `storage/` reaches the disk through a `FileSystem`. `OsFileSystem` (os_filesystem.py) is the real one;
tests crash `MemoryFileSystem` (memory_filesystem.py). Paths are plain strings; errors are `OSError`, as the system
reports them.

**Handles follow names.** A `File` belongs to a path, not to a descriptor: opening an open path gives the same `File`,
renaming the path (or a directory above it) moves the `File` along, removing or replacing it makes every later operation
on the `File` raise FileNotFoundError. For this reason `OsFileSystem` can take descriptors away from idle files.

**Threads.** One thread at a time changes a given file (the broker's loop); any number may read or sync it meanwhile,
and any thread may open, rename or remove. An operation that has begun ends undisturbed, on the file it began with.
"""

from __future__ import annotations

import os
from typing import Protocol, TypeAlias

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
