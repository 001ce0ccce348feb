"""What the metrics of a running broker say of its log cleaner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.metrics_text import metrics_text
from support.broker.compacting_brokers import P, compacting_brokers, gauges, keys, put


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Any]:
    """A maker of brokers with a clock that can be moved, and of one compacted topic."""
    async with compacting_brokers(tmp_path) as start:
        yield start


async def test_a_broker_that_has_cleaned_nothing_says_so(start: Any) -> None:
    broker = await start()
    told = gauges(broker)
    assert told.pop("time_since_last_run_ms") >= 0
    assert told == dict.fromkeys(
        (
            "max_compaction_delay_secs",
            "max_buffer_utilization_percent",
            "cleaner_recopy_percent",
            "max_clean_time_secs",
            "deadthreadcount",
            "max_dirty_percent",
            "uncleanable_partitions_count",
            "uncleanable_bytes",
        ),
        0,
    )


async def test_what_is_uncleanable_is_told_by_log_directory(start: Any) -> None:
    broker = await start()
    text = metrics_text(broker)
    for name in ("partitions_count", "bytes"):
        assert f'kafka_log_logcleanermanager_uncleanable_{name}{{logDirectory="{broker.logs.directory}"}} 0.0' in text


async def test_the_last_pass_of_each_thread_is_told(start: Any) -> None:
    broker = await start()
    put(broker, *[(f"{number % 5}", "1") for number in range(10)])
    (report,) = await broker.cleaner.compact(P)
    told = gauges(broker)
    assert told["cleaner_recopy_percent"] == 50 == 100 * report.bytes_written / report.bytes_read
    assert told["max_buffer_utilization_percent"] == pytest.approx(100 * report.map_utilization)
    assert 0 < told["max_buffer_utilization_percent"] < 100
    assert told["max_clean_time_secs"] == report.seconds > 0
    assert told["max_dirty_percent"] == 0


@pytest.mark.sockets
async def test_how_dirty_the_dirtiest_log_is_is_told_as_it_is_now(start: Any) -> None:
    broker = await start()
    put(broker, ("a", "1"))
    await broker.cleaner.compact(P)
    put(broker, ("a", "2"))
    broker.replica_manager.roll(broker.replica_manager.partitions[P])
    assert gauges(broker)["max_dirty_percent"] == 50


async def test_a_pause_that_holds_up_the_bound_shows(start: Any) -> None:
    broker = await start(max_compaction_lag_ms=3_600_000)
    put(broker, ("a", "1"), ("a", "2"))
    async with broker.cleaner.paused(P):
        await broker.clock.advance(2 * 3_600_000)
        assert gauges(broker)["max_compaction_delay_secs"] == pytest.approx(3_600, abs=60)
        assert keys(broker) == ["a", "a"]
    await broker.clock.advance(20_000)
    assert (gauges(broker)["max_compaction_delay_secs"], keys(broker)) == (0, ["a"])


@pytest.mark.sockets
async def test_the_time_since_the_cleaner_looked_is_told(start: Any) -> None:
    broker = await start()
    await broker.clock.advance(3_600_000)
    assert gauges(broker)["time_since_last_run_ms"] >= 3_500_000
    put(broker, ("a", "1"))
    await broker.clock.advance(15_100)
    assert gauges(broker)["time_since_last_run_ms"] < 10_000
