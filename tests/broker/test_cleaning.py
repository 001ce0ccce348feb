"""The cleaner of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker import topics
from kmini.broker.broker import Broker
from kmini.broker.clock import MovableClock
from kmini.broker.config import BrokerConfig
from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record, decode_records
from kmini.protocol.topics import TopicPartition
from kmini.storage.config import LogConfig
from kmini.storage.validation import ValidatedRecords

P = TopicPartition("profiles", 0)
WEEK_MS = 7 * 86_400_000
StartBroker = Callable[..., Awaitable[Broker]]


@pytest.fixture
async def start(tmp_path: Path) -> Any:
    """A maker of brokers with a clock that can be moved, and of one compacted topic."""
    started: list[Broker] = []

    async def make(**topic: Any) -> Broker:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = Broker(config, str(tmp_path), clock=MovableClock())
        await broker.start()
        started.append(broker)
        broker.host(P, bytes(range(16)), LogConfig(cleanup_policy=("compact",), **topic), 0)
        return broker

    yield make
    for broker in started:
        await broker.stop()


def put(broker: Broker, *pairs: tuple[str, str | None]) -> None:
    partition = broker.partitions[P]
    for key, value in pairs:
        record = Record(0, broker.clock.now_ms(), key.encode(), None if value is None else value.encode())
        partition.append(ValidatedRecords.of(build_batch([record])), broker.clock.now_ms())


def keys(broker: Broker) -> list[str]:
    log = broker.partitions[P].log
    return [
        (record.key or b"").decode()
        for segment in log.segments
        for _, header, batch in segment.batches()
        if header.record_count
        for record in decode_records(batch, 0, header)
    ]


async def test_compact_leaves_the_newest_record_of_every_key(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("b", "1"), ("a", "2"))
    (report,) = await broker.cleaner.compact(P)
    assert keys(broker) == ["b", "a"]
    assert (report.records_read, report.records_kept) == (3, 2)
    assert (Path(broker.log_dir) / "cleaner-offset-checkpoint").read_text() == "0\n1\nprofiles 0 3\n"


async def test_a_rolled_segment_is_cleaned_after_a_back_off(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.partitions[P].log.roll(broker.clock.now_ms())
    put(broker, ("a", "3"))
    await broker.clock.advance(15_000)
    assert keys(broker) == ["a", "a"]


async def test_an_idle_log_keeps_the_bound(start: Any) -> None:
    """KIP-354: nothing is appended any more, and what is superseded is gone within the lag and a back-off."""
    broker = await start(max_compaction_lag_ms=3_600_000)
    put(broker, ("a", "1"), ("a", "2"))
    await broker.clock.advance(3_600_000 - 60_000)
    assert keys(broker) == ["a", "a"]
    await broker.clock.advance(60_000 + 2 * 15_000)
    assert keys(broker) == ["a"]


async def test_a_tombstone_goes_with_its_horizon_though_nothing_is_written(start: Any) -> None:
    broker = await start(max_compaction_lag_ms=1_000, delete_retention_ms=86_400_000)
    put(broker, ("a", "1"), ("a", None))
    await broker.clock.advance(60_000)
    assert keys(broker) == ["a"]
    await broker.clock.advance(WEEK_MS)
    assert keys(broker) == []


async def test_a_topic_that_is_deleted_meanwhile_is_no_failure(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.partitions[P].log.roll(broker.clock.now_ms())
    broker.drop(P)
    await broker.cleaner.look()
    assert broker.cleaner.schedule.failures() == {}


async def test_a_damaged_log_is_said_to_be(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"), ("a", "2"))
    broker.partitions[P].log.segments.active.log.write_at(65, b"\xff")
    with pytest.raises(KafkaStorageError, match="position 0"):
        await broker.cleaner.compact(P)
    put(broker, ("a", "3"))


async def test_a_broker_that_stops_ends_its_passes(start: Any) -> None:
    broker = await start()
    put(broker, *[(f"{number}", "1") for number in range(300)])
    broker.partitions[P].log.roll(broker.clock.now_ms())
    looking = asyncio.ensure_future(broker.cleaner.look())
    await asyncio.sleep(0)
    await broker.cleaner.stop()
    await looking
    assert broker.cleaner.may_touch(P)


async def test_horizons_are_found_again_after_a_start(tmp_path: Path) -> None:
    configs = {"listeners": "PLAINTEXT://127.0.0.1:0"}
    clock = MovableClock()
    first = Broker(BrokerConfig.parse(configs), str(tmp_path), clock=clock)
    await first.start()
    topics.create(first, "profiles", configs={"cleanup.policy": "compact", "delete.retention.ms": "3600000"})
    put(first, ("a", None), ("b", "1"))
    (report,) = await first.cleaner.compact(P)
    assert report.tombstones_waiting == 1
    await first.stop()
    second = Broker(BrokerConfig.parse(configs), str(tmp_path), clock=clock)
    await second.start()
    assert keys(second) == ["a", "b"]
    await clock.advance(3_700_000)
    assert keys(second) == ["b"]
    await second.stop()
