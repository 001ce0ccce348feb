"""The clock of a broker goes forward and back as a test says, for its records, and stays where it is over a restart."""

from __future__ import annotations

import asyncio
import time

import pytest

from kmini import Broker, Cluster
from support.until import until_async

HOUR_MS = 3_600_000


def ahead_ms(host: Broker | Cluster) -> int:
    return host.clock.now_ms() - time.time_ns() // 1_000_000


@pytest.mark.parametrize("kind", [Broker, Cluster], ids=["broker", "cluster"])
def test_what_the_broker_stamps_follows_its_clock_back(kind: type[Broker] | type[Cluster]) -> None:
    with kind(topics=["orders"]) as host:
        host.produce("orders", b"before")
        host.clock.turn_back("1h")
        host.produce("orders", b"after")
        before, after = (record.timestamp for record in host.records("orders"))
        assert before - HOUR_MS <= after < before


def test_a_clock_that_was_turned_back_stays_so_over_a_restart_and_until_a_reset() -> None:
    with Broker() as broker:
        broker.clock.turn_back("1h")
        broker.stop()
        broker.start()
        assert -HOUR_MS - 10_000 < ahead_ms(broker) <= 10_000 - HOUR_MS
        broker.reset()
        assert abs(ahead_ms(broker)) < 10_000


async def test_a_clock_is_turned_back_in_an_asynchronous_test_too() -> None:
    async with Broker() as broker:
        await broker.clock.advance("2h")
        await broker.clock.turn_back("2h")
        assert abs(await broker.clock.now_ms() - time.time_ns() // 1_000_000) < 10_000


def test_a_negative_duration_is_refused() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="and not negative"):
        broker.clock.turn_back("-1h")


async def test_a_call_that_is_cancelled_ends_the_move_where_it_is() -> None:
    async with Broker() as broker:
        clock, may_end = broker._operations.clock, asyncio.Event()

        async def hold() -> None:
            await may_end.wait()

        async def set_timer() -> None:
            clock.call_later(HOUR_MS, hold)

        async def end() -> None:
            may_end.set()

        await broker._thread.awaited(set_timer())
        move = asyncio.ensure_future(broker.clock.advance("30d"))
        await until_async(lambda: clock.ahead_ms > HOUR_MS // 2)
        move.cancel()
        await until_async(lambda: clock.move is None)
        await broker._thread.awaited(end())
        assert clock.ahead_ms < 2 * HOUR_MS
