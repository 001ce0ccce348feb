"""cleaner-offset-checkpoint: entries that fall out, are lowered and corrected."""

from __future__ import annotations

from typing import Any

import pytest

from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem

Logs = Any


DIRECTORY = "/data"


BACKOFF_MS = 15_000


class TestTheCheckpoint:
    def test_is_kafkas_file(self, logs: Logs) -> None:
        x = logs.add("x", dirty=3)
        assert logs.picked() == "x"
        checkpoint = logs.schedule.checkpoint
        checkpoint.write(checkpoint.snapshot([x]))
        assert logs.filesystem.read("/data/cleaner-offset-checkpoint") == b"0\n1\nx 0 3\n"
        assert CleanerCheckpoint(logs.filesystem, DIRECTORY).get(x) == 3

    def test_entries_of_logs_that_are_gone_fall_out(self, logs: Logs) -> None:
        x = logs.add("x", dirty=3)
        logs.picked()
        assert logs.schedule.checkpoint.snapshot([]) == {}
        logs.schedule.forget_all_but([])
        assert logs.schedule.checkpoint.get(x) is None

    def test_the_entry_of_a_log_that_is_going_is_taken_out_of_the_file(self, logs: Logs) -> None:
        x = logs.add("x", clean=3)
        assert logs.schedule.checkpoint.get(x) == 3
        assert logs.schedule.forget(x)
        assert logs.schedule.checkpoint.snapshot([x]) == {}
        assert not logs.schedule.forget(x)

    def test_truncation_lowers_it(self, logs: Logs) -> None:
        x = logs.add("x", clean=3)
        log = logs.logs[x]
        log.truncate_to(1)
        assert logs.schedule.on_truncation(x, log)
        assert logs.schedule.checkpoint.get(x) == 1
        assert not logs.schedule.on_truncation(x, log)

    @pytest.mark.parametrize("wrong", [2, 9])
    def test_one_that_lies_outside_the_log_is_corrected_and_to_be_written(self, logs: Logs, wrong: int) -> None:
        x = logs.add("x", dirty=8)
        logs.logs[x].raise_log_start_offset(3)
        logs.schedule.checkpoint.set(x, wrong)
        job = logs.pick()
        assert job is not None
        assert (job.range.first_dirty_offset, logs.schedule.checkpoint.get(x)) == (3, 3)
        assert logs.schedule.checkpoint.is_corrected
        assert logs.schedule.checkpoint.snapshot([x]) == {x: 3}
        assert not logs.schedule.checkpoint.is_corrected

    def test_one_that_cannot_be_read_counts_as_empty(self) -> None:
        filesystem = MemoryFileSystem()
        filesystem.make_directory(DIRECTORY)
        file = filesystem.open("/data/cleaner-offset-checkpoint", create=True)
        file.append(b"0\n2\nx 0 3\n")
        assert CleanerCheckpoint(filesystem, DIRECTORY).get(TopicPartition("x", 0)) is None
