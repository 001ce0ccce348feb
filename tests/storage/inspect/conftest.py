"""A file system in memory for the files that are dumped."""

from __future__ import annotations

import pytest

from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()
