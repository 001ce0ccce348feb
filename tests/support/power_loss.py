"""Power losses of a MemoryFileSystem: files that survive one, and the contents that it may leave."""

from __future__ import annotations

from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem

SEEDS = range(60)


def outcomes(filesystem: MemoryFileSystem, path: str) -> set[bytes | None]:
    """The contents a restart may find at the path, None for no file, over many power losses at this moment."""
    found = set()
    for seed in SEEDS:
        after = filesystem.crash(seed)
        found.add(after.read(path) if after.exists(path) else None)
    return found


def durable_file(filesystem: MemoryFileSystem, path: str, content: bytes) -> None:
    file = filesystem.open(path, create=True)
    file.append(content)
    file.sync()
    file.close()
    filesystem.sync_directory("d")
