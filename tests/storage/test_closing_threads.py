"""A clean shutdown of many logs, which threads close: what a power loss leaves of them."""

from __future__ import annotations

import contextlib
import threading
from functools import cache

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import log_manager
from kmini.storage.filenames import CLEAN_SHUTDOWN
from kmini.storage.filesystem.faults import Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.validation import ValidatedRecords

DIRECTORY = "/data/broker-1"
NAMES = [TopicPartition("many", number) for number in range(log_manager._LOGS_FOR_THREADS)]
RECORDS = 2


def opened(filesystem: MemoryFileSystem) -> LogManager:
    return LogManager.open(
        filesystem,
        DIRECTORY,
        node_id=1,
        cluster_id="cluster",
        config_of=lambda topic: LogConfig(),
        now_ms=lambda: 1_000,
    )


def filled(filesystem: MemoryFileSystem) -> LogManager:
    """Logs of a segment that is sealed and one that is not, a record in each, of a producer and with a leader epoch."""
    manager = opened(filesystem)
    for name in NAMES:
        log = manager.create(name, bytes(range(1, 17)), LogConfig())
        for number in range(RECORDS):
            if number:
                log.roll(1_000)
            batch = build_batch([Record(0, 1_000, None, b"v")], producer_id=7, producer_epoch=0, base_sequence=number)
            log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=3, now_ms=1_000)
        log.update_high_watermark(RECORDS)
    return manager


def assert_whole(filesystem: MemoryFileSystem) -> None:
    """Every log is as it was before the shutdown, and none is recovered."""
    manager = opened(filesystem)
    assert list(manager.logs) == sorted(NAMES, key=lambda name: f"{name.topic}-{name.partition}")
    for log in manager.logs.values():
        assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (RECORDS, RECORDS, RECORDS)
        assert [segment.base_offset for segment in log.segments] == [0, 1]
        assert [filesystem.size(segment.time_index.path) for segment in log.segments] == [12, 12]
        assert log.leader_epochs.latest_epoch == 3
        assert [(producer.producer_id, producer.last_sequence) for producer in log.producers.entries()] == [(7, 1)]


@pytest.mark.sockets
def test_after_a_clean_shutdown_a_power_loss_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    filesystem, threads, close = MemoryFileSystem(), set(), PartitionLog.close

    def close_here(log: PartitionLog) -> None:
        threads.add(threading.current_thread().name.partition("_")[0])
        close(log)

    manager = filled(filesystem)
    monkeypatch.setattr(PartitionLog, "close", close_here)
    manager.close()
    assert threads == {"kmini-closing"}
    for seed in range(5):
        after = filesystem.crash(seed)
        assert after.exists(f"{DIRECTORY}/{CLEAN_SHUTDOWN}")
        assert_whole(after)


@cache
def operations_of_a_shutdown() -> int:
    filesystem = MemoryFileSystem()
    manager = filled(filesystem)
    filesystem.faults = Faults()
    manager.close()
    return filesystem.faults.count


@pytest.mark.parametrize("moment", range(16))
def test_a_power_loss_meanwhile_leaves_no_marker_or_whole_logs(moment: int) -> None:
    filesystem = MemoryFileSystem()
    manager = filled(filesystem)
    # The last operations are those around the marker, where the order counts most.
    count = operations_of_a_shutdown()
    at = count - 15 + moment if moment >= 4 else count * (moment + 1) // 5
    filesystem.faults = Faults(power_loss_at=at)
    with contextlib.suppress(PowerLoss):
        manager.close()
    for seed in range(2):
        after = filesystem.crash(seed)
        if after.exists(f"{DIRECTORY}/{CLEAN_SHUTDOWN}"):
            assert_whole(after)
        else:
            ends = {log.log_end_offset for log in opened(after).logs.values()}
            assert ends <= set(range(RECORDS + 1))


def test_a_log_that_cannot_be_closed_makes_the_shutdown_unclean_and_the_others_are_on_the_disk(
    caplog: pytest.LogCaptureFixture,
) -> None:
    filesystem = MemoryFileSystem()
    manager = filled(filesystem)
    filesystem.faults = Faults(fail_at=20, operations={"sync"})
    manager.close()
    assert not filesystem.exists(f"{DIRECTORY}/{CLEAN_SHUTDOWN}")
    (failed,) = {name for name in NAMES if f"/many-{name.partition}/" in filesystem.faults.last}
    assert f"many-{failed.partition}:" in caplog.text
    filesystem.sync_directory(DIRECTORY)  # which only a clean shutdown does
    ends = {log.topic_partition: log.log_end_offset for log in opened(filesystem.crash()).logs.values()}
    assert {ends[name] for name in NAMES if name != failed} == {RECORDS}
