"""What a change of a log leaves to be done, and when it is done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.purgatory import Operation, Unattended
from kmini.protocol.topics import TopicPartition
from support.broker.lone_broker import OTHER, T0, append, shared_partition, start_alone

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


def high_watermarks(broker: BrokerServer) -> list[str]:
    return Path(broker.logs.directory, "replication-offset-checkpoint").read_text().splitlines()[2:]


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
    assert high_watermarks(broker) == ["t 0 2"]


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
