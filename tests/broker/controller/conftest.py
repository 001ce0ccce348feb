"""A controller over a directory of the test, and a file system in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.broker.controller.controller import (
    BrokerRegistration,
    Controller,
)
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    controller = Controller.open(str(tmp_path), node_ids=[1])
    controller.register(BrokerRegistration(1))
    yield controller
    controller.close()
