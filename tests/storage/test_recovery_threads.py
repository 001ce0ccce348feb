"""Which logs a start recovers in threads."""

from __future__ import annotations

import threading

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import log_manager
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.recovery import LogLoader
from kmini.storage.validation import ValidatedRecords

pytestmark = pytest.mark.sockets

SMALL, LARGE, LARGER = (TopicPartition("a", number) for number in range(3))


def opened(filesystem: MemoryFileSystem, **arguments: int) -> LogManager:
    return LogManager.open(
        filesystem,
        "/data/broker-1",
        node_id=1,
        cluster_id="cluster",
        config_of=lambda topic: LogConfig(),
        now_ms=lambda: 1_000,
        **arguments,
    )


def test_large_logs_are_recovered_in_threads_and_small_ones_without(monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem = MemoryFileSystem()
    manager = opened(filesystem)
    for name, size in ((SMALL, 1), (LARGE, 1_000), (LARGER, 2_000)):
        log = manager.create(name, bytes(range(1, 17)), LogConfig())
        batch = build_batch([Record(0, 1_000, None, bytes(size))])
        log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000)
    threads: dict[TopicPartition, str] = {}
    finish = LogLoader.finish

    def finish_here(loader: LogLoader) -> PartitionLog:
        threads[loader.topic_partition] = threading.current_thread().name.partition("_")[0]
        return finish(loader)

    monkeypatch.setattr(log_manager, "_BYTES_FOR_A_THREAD", 1_000)
    monkeypatch.setattr(LogLoader, "finish", finish_here)
    here = threading.current_thread().name
    again = opened(filesystem := filesystem.kill())
    assert threads == {SMALL: here, LARGE: "kmini-recovery", LARGER: "kmini-recovery"}
    assert all(again.logs[name].log_end_offset == 1 for name in (SMALL, LARGE, LARGER))
    opened(filesystem := filesystem.kill(), recovery_threads=1)
    assert set(threads.values()) == {here}
