from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem import write_atomically
from kmini.storage.filesystem.faults import Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.offset_checkpoint_file import (
    CorruptCheckpoint,
    read_epochs,
    read_log_start_offsets,
    read_offsets,
    write_epochs,
    write_log_start_offsets,
    write_offsets,
)

OFFSETS = {TopicPartition("mytopic", 0): 42, TopicPartition("a.b-c_d", 12): 2**62}


@pytest.fixture
def filesystem() -> MemoryFileSystem:
    return MemoryFileSystem()


def test_an_offset_checkpoint_is_kafkas_text(filesystem: MemoryFileSystem) -> None:
    write_offsets(filesystem, "c", {TopicPartition("mytopic", 0): 42})
    assert filesystem.read("c") == b"0\n1\nmytopic 0 42\n"


def test_an_epoch_checkpoint_is_kafkas_text(filesystem: MemoryFileSystem) -> None:
    write_epochs(filesystem, "c", [(0, 0), (3, 17)])
    assert filesystem.read("c") == b"0\n2\n0 0\n3 17\n"
    assert read_epochs(filesystem, "c") == [(0, 0), (3, 17)]


@pytest.mark.parametrize("offsets", [{}, OFFSETS])
def test_offsets_are_read_back(filesystem: MemoryFileSystem, offsets: dict[TopicPartition, int]) -> None:
    write_offsets(filesystem, "c", offsets)
    assert read_offsets(filesystem, "c") == offsets


def test_a_missing_or_empty_file_has_no_entries(filesystem: MemoryFileSystem) -> None:
    assert read_offsets(filesystem, "c") == {}
    assert read_epochs(filesystem, "c") == []
    filesystem.open("c", create=True)
    assert read_offsets(filesystem, "c") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"1\n0\n", "version 1"),
        (b"x\n0\n", "line 1"),
        (b"0\n", "line 2"),
        (b"\n", "line 1"),
        (b"0\n2\nmytopic 0 42\n", "2 entries announced, 1 there"),
        (b"0\n1\nmytopic 0 42\nother 0 1\n", "1 entries announced, 2 there"),
        (b"0\n1\nmytopic 0\n", "line 3 has 2 fields"),
        (b"0\n1\nmytopic 0 42 1\n", "line 3 has 4 fields"),
        (b"0\n2\na 0 1\nmytopic 0 -4\n", "line 4: '-4'"),
        (b"0\n1\nmytopic 0 4_2\n", "line 3"),
        (b"0\n1\nmytopic 0 99999999999999999999\n", "line 3"),
        (b"0\n1\nmytopic x 42\n", "line 3"),
        (b"\xff\xfe\n", "not text"),
        (bytes(20), "line 1"),
    ],
)
def test_half_a_checkpoint_is_refused(filesystem: MemoryFileSystem, text: bytes, reason: str) -> None:
    write_atomically(filesystem, "c", text)
    with pytest.raises(CorruptCheckpoint, match=reason):
        read_offsets(filesystem, "c")


def test_log_start_offsets_are_written_under_both_names(filesystem: MemoryFileSystem) -> None:
    filesystem.make_directory("d")
    write_log_start_offsets(filesystem, "d", OFFSETS)
    assert filesystem.list("d") == ["log-begin-offset-checkpoint", "log-start-offset-checkpoint"]
    assert len({filesystem.read(f"d/{name}") for name in filesystem.list("d")}) == 1


def test_log_start_offsets_are_read_from_kafkas_file_and_else_from_the_kips(filesystem: MemoryFileSystem) -> None:
    filesystem.make_directory("d")
    assert read_log_start_offsets(filesystem, "d") == {}
    write_offsets(filesystem, "d/log-begin-offset-checkpoint", {TopicPartition("t", 0): 1})
    assert read_log_start_offsets(filesystem, "d") == {("t", 0): 1}
    write_offsets(filesystem, "d/log-start-offset-checkpoint", {TopicPartition("t", 0): 2})
    assert read_log_start_offsets(filesystem, "d") == {("t", 0): 2}


@pytest.mark.parametrize(
    "fault", [lambda n: Faults(fail_at=n), lambda n: Faults(tear_at=n), lambda n: Faults(power_loss_at=n)]
)
def test_whatever_interrupts_a_write_the_old_or_the_new_offsets_are_read(fault: Callable[[int], Faults]) -> None:
    old, new = {TopicPartition("t", 0): 1}, {TopicPartition("t", 0): 2}
    before = MemoryFileSystem()
    write_log_start_offsets(before, "", old)
    for n in range(1, 100):
        filesystem = before.kill(fault(n))
        with contextlib.suppress(OSError, PowerLoss):
            write_log_start_offsets(filesystem, "", new)
        if not filesystem.faults.is_spent:
            break
        for seed in range(10):
            found = read_log_start_offsets(filesystem.crash(seed), "")
            assert found in (old, new), filesystem.faults
            write_log_start_offsets(filesystem.crash(seed), "", new)
    assert n == 13
    assert read_log_start_offsets(filesystem.crash(), "") == new
