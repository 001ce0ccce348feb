"""A broker on a movable clock whose transactions tests drive by the coordinator's own methods."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.settings.broker_config import BrokerConfig
from support.broker.transaction_bank import Bank

OpenBank = Callable[..., Awaitable[Bank]]


@pytest.fixture
async def open_bank(tmp_path: Path) -> AsyncIterator[OpenBank]:
    """A maker of brokers over this test's data directory, with a topic "orders" of 3 partitions; settings are written
    with underscores for dots."""
    banks: list[Bank] = []

    async def start(**settings: object) -> Bank:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
        broker = await BrokerServer.start(config, str(tmp_path), clock=MovableClock())
        banks.append(Bank(broker))
        return banks[-1]

    yield start
    for bank in banks:
        if bank.broker.server.listeners:
            await bank.broker.stop()


@pytest.fixture
async def bank(open_bank: OpenBank) -> Bank:
    return await open_bank()
