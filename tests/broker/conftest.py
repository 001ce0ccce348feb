"""Brokers without a client, one after the other over the same data directory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker import scheduler
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import Clock, MovableClock
from kmini.broker.settings.broker_config import BrokerConfig
from support.broker.asking import ask_handler
from support.broker.clusters import Clusters
from support.broker.consumer_lab import ConsumerLab, StillClock, labs
from support.broker.sasl_clients import SETTINGS, Served
from support.broker.share_lab import ShareLab
from support.broker.share_readers import ShareReaders
from support.broker.streams_lab import StreamsLab

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(autouse=True)
def long_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that takes microseconds ends in one turn of the loop, also where the machine stops this process meanwhile;
    tests of turns give them a length of their own."""
    monkeypatch.setattr(scheduler, "_TURN_S", 60.0)


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[Clusters]:
    """Clusters of brokers over directories of this test: `await clusters.start(3, …)`."""
    clusters = Clusters(tmp_path)
    yield clusters
    await clusters.stop_all()


@pytest.fixture
async def start_broker(tmp_path: Path) -> AsyncIterator[StartBroker]:
    """A maker of brokers over this test's data directory; settings are written with underscores for dots."""
    started: list[BrokerServer] = []

    async def start(clock: Clock | None = None, **settings: object) -> BrokerServer:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        broker = await BrokerServer.start(
            BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties}), str(tmp_path), clock=clock
        )
        started.append(broker)
        return broker

    yield start
    for broker in started:
        if broker.server.listeners:
            await broker.stop()


@pytest.fixture
def ask() -> Ask:
    """Asks a broker's handler: see `ask_handler`."""
    return ask_handler


@pytest.fixture
def in_purgatory() -> Callable[[BrokerServer, int], Awaitable[None]]:
    """Returns once so many requests wait in a broker's purgatory."""

    async def in_purgatory(broker: BrokerServer, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(broker.purgatory) != count:
            assert time.monotonic() < deadline, f"{len(broker.purgatory)} operations wait, not {count}"
            await asyncio.sleep(0)

    return in_purgatory


@pytest.fixture
async def serve(tmp_path: Path) -> Any:
    started: list[BrokerServer] = []

    async def start(clock: MovableClock | None = None, **changed: str) -> Served:
        settings = {**SETTINGS, **{name.replace("_", "."): value for name, value in changed.items()}}
        broker = await BrokerServer.start(BrokerConfig.parse(settings), str(tmp_path), clock=clock)
        started.append(broker)
        return Served(broker)

    yield start
    for broker in started:
        if broker.server.listeners:
            await broker.stop()


@pytest.fixture
async def new_consumer_lab(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[ConsumerLab]]]:
    """A maker of labs of consumer groups; settings are written with underscores for dots."""
    async with labs(ConsumerLab, tmp_path) as make:
        yield make


@pytest.fixture
async def consumer_lab(new_consumer_lab: Callable[..., Awaitable[ConsumerLab]]) -> ConsumerLab:
    """A broker with consumer groups, and a topic "orders" with four partitions."""
    lab = await new_consumer_lab()
    lab.add_topics("orders")
    return lab


@pytest.fixture
async def make_streams_lab(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[StreamsLab]]]:
    """A maker of brokers with the topic "t" of four partitions; settings are written with underscores for dots."""
    async with labs(StreamsLab, tmp_path, "t") as make:
        yield make


@pytest.fixture
async def quick_streams_lab(make_streams_lab: Callable[..., Awaitable[StreamsLab]]) -> StreamsLab:
    """A broker that assigns at once: without an initial delay, and without an assignment interval."""
    return await make_streams_lab(group_streams_initial_rebalance_delay_ms=0, group_streams_assignment_interval_ms=0)


@pytest.fixture
async def make_share_lab(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[ShareLab]]]:
    """A maker of brokers with the topic "t" of four partitions; settings are written with underscores for dots."""
    async with labs(ShareLab, tmp_path, "t") as make:
        yield make


@pytest.fixture
async def share_lab(make_share_lab: Callable[..., Awaitable[ShareLab]]) -> ShareLab:
    return await make_share_lab()


@pytest.fixture
async def make_share_readers(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[ShareReaders]]]:
    """A maker of labs over the directory of this test; settings are written with underscores for dots."""
    started: list[BrokerServer] = []

    async def make(**settings: object) -> ShareReaders:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
        started.append(await BrokerServer.start(config, str(tmp_path), clock=StillClock()))
        return ShareReaders(started[-1])

    yield make
    for broker in started:
        if broker.server.listeners:
            await broker.stop()
