"""What a broker does at intervals, on a clock that can be moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker import housekeeping
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.replication.partition import Partition
from support.broker.lone_broker import OTHER, append, shared_partition, start_alone

LAG_MS = 10_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    broker = await start_alone(str(tmp_path), replica_lag_time_max_ms=LAG_MS)
    yield broker
    await broker.stop()


def sealed(broker: BrokerServer, **configs: str) -> Partition:
    """A partition with two records on both replicas, in a sealed segment."""
    partition = shared_partition(broker, **configs)
    append(broker, partition, 2)
    partition.follower_fetched(OTHER, 2, 0)
    broker.replica_manager.roll(partition)
    return partition


async def advance(broker: BrokerServer, duration: str | int, *, liveness: bool = False) -> None:
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(duration, liveness=liveness)


async def test_retention_runs_when_a_segment_is_due(broker: BrokerServer) -> None:
    partition = sealed(broker, retention_ms="3600000")
    await advance(broker, "59m")
    assert partition.log.log_start_offset == 0
    await advance(broker, "10m")
    assert partition.log.log_start_offset == 2


async def test_retention_leaves_a_log_alone_that_the_cleaner_reads(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = sealed(broker, retention_ms="1")
    monkeypatch.setattr(broker.cleaner, "may_touch", lambda _: False)
    await advance(broker, "1h")
    assert partition.log.log_start_offset == 0
    monkeypatch.undo()
    await broker.housekeeping.apply_retention()
    assert partition.log.log_start_offset == 2


async def test_a_follower_that_lags_leaves_the_isr_without_a_request(broker: BrokerServer) -> None:
    partition = sealed(broker)
    append(broker, partition)
    await advance(broker, 2 * LAG_MS, liveness=True)
    assert partition.state.isr == (1,)


async def test_followers_are_looked_at_again_after_a_rest(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = sealed(broker)
    await advance(broker, LAG_MS, liveness=True)
    looks: list[int] = []
    look = partition.shrink_isr
    monkeypatch.setattr(type(partition), "shrink_isr", lambda one: looks.append(1) or look())
    await advance(broker, "30d", liveness=True)
    assert len(looks) <= 1
    assert partition.state.isr == (1, OTHER)
    append(broker, partition)
    await advance(broker, LAG_MS - 1, liveness=True)
    assert partition.state.isr == (1, OTHER)
    await advance(broker, LAG_MS, liveness=True)
    assert partition.state.isr == (1,)


async def test_a_follower_that_falls_back_ends_the_rest(broker: BrokerServer) -> None:
    partition = sealed(broker)
    await advance(broker, "1d", liveness=True)
    partition.follower_fetched(OTHER, 1, 0)
    await advance(broker, 2 * LAG_MS, liveness=True)
    assert partition.state.isr == (1,)


async def test_idle_files_are_closed_by_the_time_of_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(housekeeping, "IDLE_FILE_MS", 10)
    broker = await start_alone(str(tmp_path))
    try:
        closed = asyncio.Event()
        monkeypatch.setattr(broker.logs.filesystem, "close_idle", closed.set)
        await asyncio.wait_for(closed.wait(), 30)
    finally:
        await broker.stop()


async def test_nothing_runs_after_stop(broker: BrokerServer) -> None:
    partition = sealed(broker, retention_ms="1")
    broker.housekeeping.stop()
    await advance(broker, "1h")
    assert partition.log.log_start_offset == 0


async def test_a_month_without_a_change_runs_no_retention(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks skip the runs in which they can have no effect."""
    shared_partition(broker, retention_ms="3600000")
    await advance(broker, "1h")
    runs: list[int] = []
    apply_retention = broker.replica_manager.retain
    monkeypatch.setattr(
        broker.replica_manager, "retain", lambda partition: runs.append(1) or apply_retention(partition)
    )
    await advance(broker, "30d")
    assert runs == []


async def test_what_clients_write_while_the_clock_is_moved_is_seen_to_once_and_not_at_each_beat(
    broker: BrokerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention looks every five minutes and the high watermarks are written every five seconds: 527,040 times."""
    partition = shared_partition(broker, retention_ms="3600000", segment_ms="1000")
    done: list[str] = []
    retain = broker.replica_manager.retain
    monkeypatch.setattr(broker.replica_manager, "retain", lambda one: done.append("retention") or retain(one))
    filesystem = broker.logs.filesystem
    rename = filesystem.rename

    def count_checkpoints(source: str, target: str) -> None:
        if target.endswith(("recovery-point-offset-checkpoint", "replication-offset-checkpoint")):
            done.append("checkpoint")
        rename(source, target)

    monkeypatch.setattr(filesystem, "rename", count_checkpoints)
    append(broker, partition)
    before = partition.log.log_end_offset
    is_over = False

    async def write() -> None:
        while not is_over:
            append(broker, partition)
            partition.follower_fetched(OTHER, partition.log.log_end_offset, 0)
            await asyncio.sleep(0)

    client = asyncio.ensure_future(write())
    await asyncio.sleep(0)
    await advance(broker, "30d")
    is_over = True
    await client
    assert before < partition.log.log_start_offset
    assert 1 <= done.count("retention") <= 4
    assert 2 <= done.count("checkpoint") <= 6
