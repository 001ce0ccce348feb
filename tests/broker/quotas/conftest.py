"""Brokers with quotas."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.settings.broker_config import BrokerConfig
from support.broker.consumer_lab import StillClock
from support.broker.quota_lab import QuotaLab

StartLab = Callable[..., Awaitable[QuotaLab]]


@pytest.fixture
async def start_lab(tmp_path: Path) -> AsyncIterator[StartLab]:
    """A maker of labs over this test's data directory; settings are written with underscores for dots."""
    started: list[BrokerServer] = []

    async def start(**settings: object) -> QuotaLab:
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
        started.append(await BrokerServer.start(config, str(tmp_path), clock=StillClock()))
        return QuotaLab(started[-1])

    yield start
    for broker in started:
        if broker.server.listeners:
            await broker.stop()


@pytest.fixture
async def lab(start_lab: StartLab) -> QuotaLab:
    return await start_lab()
