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
    """A file at a path. The module's text says what sharing, renaming and removing mean."""

    @property
    def path(self) -> str:
        """Where the file is now; changes when it is renamed."""

    @property
    def size(self) -> int:
        """Bytes in the file. Raised by append and write_at, set by truncate; a failed call leaves it as it was."""

    def append(self, *buffers: Buffer) -> None:
        """Append the buffers, one after the other.

        All or nothing within this process: if the call raises, `size` is as before, no reader gets a byte of the
        attempt, and bytes that reached the disk are cut off, at once or before the next write. Only a process that dies
        meanwhile leaves them, and recovery cuts them off. When the call returns, the system has the bytes (they survive
        the process); after `sync` the disk has them (they survive a power loss).
        """

    def write_at(self, position: int, data: Buffer) -> None:
        """Overwrite from `position`, at most `size`; the file grows if needed. Not atomic."""

    def read_at(self, position: int, length: int) -> bytes:
        """Return `length` bytes from `position`; fewer where the file ends, none at or beyond its end."""

    def drop_behind(self, start: int, end: int) -> None:
        """Hint that the bytes in this range will not be read soon: the system begins to write those that are not on the
        disk yet, and drops the others from the page cache. Reads are not affected."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes, or extend it with zeros."""

    def sync(self) -> None:
        """Return when every byte written before the call is on the disk. Blocks: call it off the loop.

        After an OSError those bytes may be lost, whatever a second call returns: treat the disk as failed.
        """

    def close(self) -> None:
        """Undo one `open`. Does not sync. After the last one, every use of the file raises ValueError."""


class Lock(Protocol):
    def release(self) -> None:
        """Release the lock. The lock file stays: removing it would race with the next process that opens it."""


class FileSystem(Protocol):
    """Directories and names. A change of a name is on the disk only after `sync_directory` of its directory."""

    def open(self, path: str, *, create: bool = False, is_private: bool = False) -> File:
        """Return the file at `path`. If there is none: an empty one with `create`, else FileNotFoundError.

        With `is_private` only the file's owner may read it from then on, if the system knows owners.
        """

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list(self, path: str) -> Names:
        """Return the names (not paths) in a directory, sorted."""

    def list_directories(self, path: str) -> Names:
        """Return the names of the directories in a directory, sorted."""

    def make_directory(self, path: str) -> None:
        """Make the directory and those above it, unless they exist."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, atomically; a file that has the name `new` is replaced."""

    def link(self, old: str, new: str) -> None:
        """Give the file a second name. A later change by one of the names copies the bytes first, so those of the other
        name stay. FileExistsError if the name is taken; another OSError where the volume has no links."""

    def remove(self, path: str) -> None:
        """Remove a file. FileNotFoundError if there is none."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it, if it exists."""

    def sync_directory(self, path: str) -> None:
        """Return when the names in the directory are on the disk. Blocks: call it off the loop."""

    def size(self, path: str) -> int: ...

    def read(self, path: str) -> bytes:
        """Return the bytes of a small file."""

    def modified_ms(self, path: str) -> int:
        """Return when the content last changed, in milliseconds since the epoch."""

    def set_modified_ms(self, path: str, ms: int) -> None: ...

    def space(self, path: str) -> tuple[int, int]:
        """Return the size of the volume that holds `path` and its free bytes; -1 for a number that is not known."""

    def close_idle(self) -> None:
        """Release the descriptors of files not used since the last call. Cheap; call it from time to time."""

    def lock(self, path: str) -> Lock:
        """Create the lock file if needed and lock it until `release` or the end of this process. LockHeld if it is
        taken."""
