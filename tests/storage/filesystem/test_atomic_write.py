"""Replacing a file: the old content or the new one, at every operation."""

from __future__ import annotations

import contextlib

import pytest

from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.faults import Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from support.power_loss import durable_file, outcomes


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("d")
    filesystem.sync_directory("")
    return filesystem


def test_an_atomic_write_leaves_the_old_or_the_new_content_at_every_operation(filesystem: MemoryFileSystem) -> None:
    durable_file(filesystem, "d/a", b"old content")
    operations = 0
    for power_loss_at in range(1, 100):
        torn = filesystem.kill(Faults(tear_at=power_loss_at))
        cut = filesystem.kill(Faults(power_loss_at=power_loss_at))
        for copy in (torn, cut):
            with contextlib.suppress(PowerLoss):
                write_atomically(copy, "d/a", b"the new content")
            expected = {b"old content", b"the new content"} if copy.faults.is_spent else {b"the new content"}
            assert outcomes(copy, "d/a") <= expected
        if not cut.faults.is_spent:
            break
        operations += 1
    assert operations == 6
