"""Brokers that compact one topic, on a clock that tests move."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller.topology import PartitionState
from kmini.broker.metrics_text import metrics_text
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.log_config import LogConfig
from kmini.storage.validation import ValidatedRecords

P = TopicPartition("profiles", 0)
COMPACTED = LogConfig(cleanup_policy=("compact",))
LED_BY_1 = PartitionState((1,), (1,), 1)


@asynccontextmanager
async def compacting_brokers(directory: Path) -> AsyncIterator[Callable[..., Awaitable[BrokerServer]]]:
    """A maker of brokers with a clock that can be moved, and of one compacted topic."""
    started: list[BrokerServer] = []

    async def make(**topic: Any) -> BrokerServer:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = await BrokerServer.start(config, str(directory), clock=MovableClock())
        started.append(broker)
        broker.replica_manager.host(P, bytes(range(16)), LogConfig(cleanup_policy=("compact",), **topic), LED_BY_1)
        return broker

    yield make
    for broker in started:
        await broker.stop()


def put(broker: BrokerServer, *pairs: tuple[str, str | None]) -> None:
    partition = broker.replica_manager.partitions[P]
    for key, value in pairs:
        record = Record(0, broker.clock.now_ms(), key.encode(), None if value is None else value.encode())
        partition.append(ValidatedRecords.of(build_batch([record])), broker.clock.now_ms())


def keys(broker: BrokerServer) -> list[str]:
    log = broker.replica_manager.partitions[P].log
    return [
        (record.key or b"").decode()
        for segment in log.segments
        for _, header, batch in segment.batches()
        if header.record_count
        for record in decode_records(batch, 0, header)
    ]


def clean_up(broker: BrokerServer) -> asyncio.Future[None]:
    """Three records of one key, sealed, and a look at them that goes on in the background."""
    put(broker, ("a", "1"), ("a", "2"), ("a", "3"))
    broker.replica_manager.partitions[P].log.roll(broker.clock.now_ms())
    return asyncio.ensure_future(broker.cleaner.look())


def gauges(broker: BrokerServer) -> dict[str, float]:
    """What is measured of the cleaner, by the last part of its name."""
    prefix = re.compile("kafka_log_logcleaner(manager)?_")
    return {
        prefix.sub("", sample.name): sample.value
        for family in text_string_to_metric_families(metrics_text(broker))
        for sample in family.samples
        if prefix.match(sample.name)
    }


@asynccontextmanager
async def writing(broker: BrokerServer) -> AsyncIterator[Callable[[], None]]:
    """A client that writes to the compacted topic in each turn of the loop. What is yielded ends it."""
    is_over = False

    def end() -> None:
        nonlocal is_over
        is_over = True

    async def write() -> None:
        number = 0
        while not is_over:
            put(broker, (f"key {number % 3}", str(number)))
            number += 1
            await asyncio.sleep(0)

    client = asyncio.ensure_future(write())
    try:
        yield end
    finally:
        end()
        await client


def passes(broker: BrokerServer) -> list[tuple[int, int]]:
    """The passes of the cleaner that end from now on: the log time of each, and where it ends."""
    found: list[tuple[int, int]] = []
    schedule = broker.cleaner.schedule
    ended = schedule.ended

    def watched(job: Any, report: Any, *more: Any) -> bool:
        if report is not None:
            found.append((broker.clock.now_ms(), report.end_offset))
        return ended(job, report, *more)

    schedule.ended = watched  # type: ignore[method-assign]
    return found
