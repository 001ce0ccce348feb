"""What a change of a log leaves to be done, and when it is done."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.purgatory import Operation, Unattended
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.live_faults import fail_operations
from kmini.storage.filesystem.os_filesystem import OsFileSystem
from support.broker.lone_broker import OTHER, T0, append, shared_partition, start_alone
from support.until import until_async

CHECKPOINTS = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint")


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await start_alone(str(tmp_path))
    yield broker
    await broker.stop()


async def advance(broker: BrokerServer, duration: str) -> None:
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(duration)


def written(broker: BrokerServer) -> set[str]:
    return {name for name in CHECKPOINTS if Path(broker.logs.directory, name).exists()}


def entries(broker: BrokerServer, checkpoint: str) -> list[str]:
    return Path(broker.logs.directory, checkpoint).read_text().splitlines()[2:]


def folders(broker: BrokerServer) -> list[str]:
    return [path.name for path in Path(broker.logs.directory).iterdir() if path.is_dir()]


async def test_checkpoints_follow_a_change_and_nothing_else(broker: BrokerServer) -> None:
    before = written(broker)
    await advance(broker, "1h")
    assert written(broker) == before
    partition = shared_partition(broker)
    append(broker, partition, 2)
    partition.follower_fetched(OTHER, 2, 0)
    await advance(broker, "2m")
    assert written(broker) == {*CHECKPOINTS}
    assert entries(broker, "replication-offset-checkpoint") == ["t 0 2"]


async def test_an_operation_that_waits_for_a_partition_is_asked_after_a_change(broker: BrokerServer) -> None:
    partition = shared_partition(broker)

    class UntilAppended(Operation):
        keys = (T0,)  # type: ignore[assignment]

        def is_complete(self) -> bool:
            return partition.log.log_end_offset > 0

    waiting = broker.purgatory.wait(UntilAppended(), timeout_ms=60_000, waiter=Unattended())
    assert not waiting.done()
    append(broker, partition)
    assert await waiting


async def test_listeners_are_called_after_every_change_until_they_are_taken_back(broker: BrokerServer) -> None:
    partition = shared_partition(broker)
    calls: list[tuple[TopicPartition, int]] = []

    def listener(changed: TopicPartition) -> None:
        calls.append((changed, partition.log.log_end_offset))

    broker.maintenance.on_change(listener)
    append(broker, partition, 2)
    broker.maintenance.no_more(listener)
    append(broker, partition)
    assert calls == [(T0, 1), (T0, 2)]


async def test_files_of_a_dropped_partition_go_after_the_delay(broker: BrokerServer) -> None:
    shared_partition(broker, file_delete_delay_ms="60000")
    broker.replica_manager.drop(T0)
    assert [name.startswith("t-0.") for name in folders(broker)] == [True]
    await advance(broker, "2m")
    assert folders(broker) == []


async def test_nothing_is_written_after_cancel(broker: BrokerServer) -> None:
    before = written(broker)
    partition = shared_partition(broker)
    append(broker, partition)
    broker.maintenance.cancel()
    await advance(broker, "1h")
    assert written(broker) == before


class WaitingDisk:
    """A disk whose syncs of checkpoints wait for a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun: Counter[str] = Counter()
        """How many writes of each checkpoint have come as far as their sync."""
        self.begun_early: set[str] = set()
        """Checkpoints of which a write began while another one waited."""

    def before(self, operation: str, path: str) -> None:
        name = Path(path).name
        if operation == "create" and name.endswith("checkpoint.tmp") and self.begun[name] and not self.gate.is_set():
            self.begun_early.add(name)
        if operation == "sync" and name.endswith("checkpoint.tmp"):
            self.begun[name] += 1
            assert self.gate.wait(60)


@pytest.mark.sockets
async def test_a_checkpoint_has_one_writer_at_a_time_and_the_last_state_whatever_the_disk_does(tmp_path: Path) -> None:
    """On a disk that takes longer for a write than the interval."""
    broker = await start_alone(
        str(tmp_path),
        replica_high_watermark_checkpoint_interval_ms=1,
        log_flush_offset_checkpoint_interval_ms=1,
        log_flush_start_offset_checkpoint_interval_ms=1,
        log_cleaner_threads=2,
    )
    assert isinstance(broker.logs.filesystem, OsFileSystem)
    partition, cleaner, disk = shared_partition(broker), broker.cleaner, WaitingDisk()
    broker.housekeeping.stop()
    names = {f"{name}.tmp" for name in (*CHECKPOINTS, "cleaner-offset-checkpoint")}
    fail_operations(broker.logs.filesystem, disk.before)
    writes = []
    try:
        maintenance = broker.maintenance
        deferred = (maintenance._high_watermarks, maintenance._recovery_points, maintenance._start_offsets)
        for count in (1, 2, 3):
            append(broker, partition)
            partition.follower_fetched(OTHER, count, 0)
            cleaner.schedule.checkpoint.set(T0, count)
            cleaner.schedule.checkpoint.is_corrected = True
            writes.append(asyncio.ensure_future(cleaner._clean_all()))
            await until_async(lambda: {*disk.begun} >= names and not any(each.is_asked_for for each in deferred))
        assert dict(disk.begun) == dict.fromkeys(names, 1)
        assert not disk.begun_early
    finally:
        disk.gate.set()
        await asyncio.gather(*writes)
        await broker.clock.settle()
        fail_operations(broker.logs.filesystem, None)
    assert entries(broker, "replication-offset-checkpoint") == ["t 0 3"]
    assert entries(broker, "cleaner-offset-checkpoint") == ["t 0 3"]
    assert not [name for name in broker.logs.filesystem.list(broker.logs.directory) if name.endswith(".tmp")]
    await broker.stop()
