"""A partition with producers, in memory."""

from __future__ import annotations

import pytest

from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.producers import Partition


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    return filesystem


@pytest.fixture
def partition(filesystem: MemoryFileSystem) -> Partition:
    return Partition(filesystem)
