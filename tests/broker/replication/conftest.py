"""A running broker with a topic."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics


@pytest.fixture
async def broker(start_broker: Callable[..., Awaitable[BrokerServer]]) -> BrokerServer:
    return await start_broker()


@pytest.fixture
async def topic(broker: BrokerServer) -> str:
    topics.create(broker, "t", partitions=3)
    return "t"
