"""The clock of a broker goes forward and back as a test says, for its records, and stays where it is over a restart."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest

from kmini import Broker, Cluster
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import ConnectionClosed, Wire
from support.until import until_async

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def ahead_ms(host: Broker | Cluster) -> int:
    return host.clock.now_ms() - time.time_ns() // 1_000_000


@pytest.mark.parametrize("duration", ["7d", "168h", timedelta(days=7), 7 * DAY_MS])
def test_the_clock_is_moved_by_what_people_say(duration: str | int | timedelta) -> None:
    with Broker() as broker:
        before = broker.clock.now_ms()
        broker.clock.advance(duration)
        assert 0 <= broker.clock.now_ms() - before - 7 * DAY_MS < 60_000


@pytest.mark.parametrize("duration", ["soon", "-7d", -1])
def test_it_is_not_moved_by_what_is_no_duration(duration: str | int) -> None:
    with Broker() as broker:
        before = broker.clock.now_ms()
        with pytest.raises(ValueError):
            broker.clock.advance(duration)
        assert broker.clock.now_ms() - before < DAY_MS


def test_liveness_moves_only_if_it_is_asked_for() -> None:
    """An idle connection is closed after ten minutes of it."""
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.clock.advance("7d")
        assert wire.ask(MetadataRequest(topics=None)).brokers
        broker.clock.advance("20m", liveness=True)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()


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
