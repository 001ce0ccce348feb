"""A coordinator without a broker, and a broker with the topic of groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.groups.group_store import GroupStore
from kmini.broker.groups.modern import group_life
from kmini.broker.scheduler import Turn
from kmini.protocol.topics import CONSUMER_OFFSETS
from support.broker.group_lab import Lab

StartBroker = Callable[..., Awaitable[BrokerServer]]


@pytest.fixture
async def new_lab() -> AsyncIterator[Callable[..., Lab]]:
    """A maker of coordinators; settings are written with underscores for dots."""
    labs: list[Lab] = []

    def make(**settings: object) -> Lab:
        labs.append(Lab(**settings))
        return labs[-1]

    yield make
    for lab in labs:
        await lab.coordinator.stop()


@pytest.fixture
def lab(new_lab: Callable[..., Lab]) -> Lab:
    return new_lab()


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    broker = await start_broker()
    topics.create_missing(broker, CONSUMER_OFFSETS)
    return broker


@pytest.fixture
def store(broker: BrokerServer) -> GroupStore:
    return broker.groups.store


@pytest.fixture
async def long_computation(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """While it is cleared, a computation of targets takes long: the group is busy at its first step."""
    goes_on = asyncio.Event()
    goes_on.set()

    class LongTurn(Turn):
        is_over = True  # type: ignore[assignment]

        async def next(self) -> None:
            await goes_on.wait()

    monkeypatch.setattr(group_life, "Turn", LongTurn)  # other work of the broker goes on
    return goes_on
