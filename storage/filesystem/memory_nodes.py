"""Files and directories in memory: as the process sees them, as they are on the disk, and what a crash leaves."""

from __future__ import annotations

import random
from typing import TypeAlias

from .interface import Buffer

_SECTOR_BYTES = 512
"""The unit in which a torn write in the middle of a file reaches the disk."""


class MemoryNode:
    """The bytes of a file: as the process sees them, and as they are on the disk."""

    __slots__ = ("content", "dirty_from", "durable", "is_linked", "modified_ms")

    def __init__(self, content: bytes = b"", modified_ms: int = 0) -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.dirty_from = len(content)
        """Below it content and durable agree, unless `durable` is longer (truncated since)."""
        self.modified_ms = modified_ms
        self.is_linked = False
        """Whether it has, or had, another name: a change makes a copy."""

    def write(self, position: int, data: Buffer) -> None:
        self.dirty_from = min(self.dirty_from, position)
        self.content[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        self.dirty_from = min(self.dirty_from, size, len(self.content))
        if size <= len(self.content):
            del self.content[size:]
        else:
            self.content.extend(bytes(size - len(self.content)))

    def sync(self) -> None:
        self.durable[self.dirty_from :] = memoryview(self.content)[self.dirty_from :]
        self.dirty_from = len(self.content)

    def after_kill(self) -> MemoryNode:
        """Return a copy, for a restart after a kill: the same bytes, the same part of them on the disk."""
        found = MemoryNode(b"", self.modified_ms)
        found.is_linked = self.is_linked
        found.content, found.durable, found.dirty_from = self.content[:], self.durable[:], self.dirty_from
        return found

    def after_power_loss(self, chance: random.Random) -> bytes:
        """Return one of the contents that a restart may find."""
        before, now, dirty_from = self.durable, self.content, self.dirty_from
        if len(before) == len(now) == dirty_from:
            return bytes(now)
        outcome = chance.choice(("lost", "kept", "torn", "zeroed"))
        if outcome == "lost":
            return bytes(before)
        if outcome == "kept":
            return bytes(now)
        # Some sectors made it. The size is the old one, the new one, or one in between.
        low, high = sorted((len(before), len(now)))
        size = chance.randint(low, high)
        if outcome == "zeroed":
            return bytes(now[:dirty_from]) + bytes(max(0, size - dirty_from))
        left = bytearray(now[:size] if len(now) >= len(before) else before[:size])
        for start in range(dirty_from, min(len(before), size), _SECTOR_BYTES):
            if chance.random() < 0.5:
                end = min(start + _SECTOR_BYTES, len(before), size)
                left[start:end] = before[start:end]
        return bytes(left)


class MemoryDirectory:
    """The names in a directory: as the process sees them, as they are on the disk, and the changes between, in
    order."""

    __slots__ = ("durable", "entries", "journal", "modified_ms")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.durable: dict[str, Entry] = {}
        self.journal: list[tuple[tuple[str, Entry | None], ...]] = []
        self.modified_ms = 0

    def change(self, *changes: tuple[str, Entry | None]) -> None:
        """Set names, or remove them (None), in one step that a power loss keeps or loses as a whole."""
        _apply(self.entries, changes)
        self.journal.append(changes)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.journal.clear()

    def after_power_loss(self, chance: random.Random) -> MemoryDirectory:
        entries = dict(self.durable)
        for changes in self.journal[: chance.randint(0, len(self.journal))]:
            _apply(entries, changes)
        found = MemoryDirectory()
        for name, node in sorted(entries.items()):
            if isinstance(node, MemoryDirectory):
                found.entries[name] = node.after_power_loss(chance)
            else:
                found.entries[name] = MemoryNode(node.after_power_loss(chance), node.modified_ms)
        found.durable = dict(found.entries)
        return found

    def after_kill(self, copies: dict[int, Entry]) -> MemoryDirectory:
        """Return a copy for a restart after a kill. `copies` has the files and directories copied so far."""

        def copy(node: Entry) -> Entry:
            if id(node) not in copies:
                copies[id(node)] = node.after_kill(copies) if isinstance(node, MemoryDirectory) else node.after_kill()
            return copies[id(node)]

        found = MemoryDirectory()
        found.entries = {name: copy(node) for name, node in self.entries.items()}
        found.durable = {name: copy(node) for name, node in self.durable.items()}
        found.journal = [
            tuple((name, None if node is None else copy(node)) for name, node in changes) for changes in self.journal
        ]
        return found


Entry: TypeAlias = MemoryNode | MemoryDirectory
"""What a name stands for."""


def _apply(entries: dict[str, Entry], changes: tuple[tuple[str, Entry | None], ...]) -> None:
    for name, node in changes:
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def empty(directory: MemoryDirectory) -> None:
    for name, node in list(directory.entries.items()):
        if isinstance(node, MemoryDirectory):
            empty(node)
        directory.change((name, None))
