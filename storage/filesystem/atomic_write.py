"""Replacing a file, and making a directory, so that the result survives a power loss whole."""

from __future__ import annotations

import os

from .interface import Buffer, FileSystem


def write_atomically(filesystem: FileSystem, path: str, data: Buffer, *, sync_name: bool = True) -> None:
    """Replace the file at `path`. After a crash at any point it has the old content or the new one, whole.

    Writes `<path>.tmp` first, which a failure or crash may leave behind; the next write begins it anew. On return
    content and name are on the disk; without `sync_name` the name is once the caller has synced the directory. Blocks.
    Two threads must not write the same path at once.
    """
    write_aside(filesystem, path, data)
    put_in_place(filesystem, path, sync_name=sync_name)


def write_aside(filesystem: FileSystem, path: str, data: Buffer, *, is_private: bool = False) -> None:
    """The first half of `write_atomically`: write `<path>.tmp`. OSError leaves the file at `path` as it was."""
    file = filesystem.open(path + ".tmp", create=True, is_private=is_private)
    try:
        file.truncate(0)
        file.append(data)
        file.sync()
    finally:
        file.close()


def put_in_place(filesystem: FileSystem, path: str, *, sync_name: bool = True) -> None:
    """The second half of `write_atomically`: `<path>.tmp` becomes the file at `path`. After an OSError either of the
    two may be there, now and after a power loss."""
    filesystem.rename(path + ".tmp", path)
    if sync_name:
        filesystem.sync_directory(os.path.dirname(path))


def make_directory_durable(filesystem: FileSystem, path: str) -> None:
    """Make the directory and those above it; return when their names survive a power loss. Blocks."""
    missing = []
    above = path
    while above and not filesystem.exists(above):
        missing.append(above)
        above = os.path.dirname(above)
    if missing:
        filesystem.make_directory(path)
    for name in missing:
        filesystem.sync_directory(os.path.dirname(name))
