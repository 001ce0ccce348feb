"""A running broker, and a way to ask its handlers as a client would, in any version, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from support.broker.consumer_lab import StillClock
from support.broker.token_requests import SECRET
from support.broker.txn_client import TxnClient

StartBroker = Callable[..., Awaitable[BrokerServer]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> BrokerServer:
    return await start_broker()


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def token_broker(start_broker: StartBroker, clock: StillClock) -> BrokerServer:
    """A broker with delegation tokens, by a clock that only the test moves."""
    return await start_broker(clock, delegation_token_secret_key=SECRET)


@pytest.fixture
async def turns() -> AsyncIterator[Callable[[], int]]:
    """How many turns of the loop others have had since this was asked last."""
    taken = 0

    async def take() -> None:
        nonlocal taken
        while True:
            taken += 1
            await asyncio.sleep(0)

    def since_last() -> int:
        nonlocal taken
        count, taken = taken, 0
        return count

    taking = asyncio.ensure_future(take())
    yield since_last
    taking.cancel()


@pytest.fixture
async def client(broker: BrokerServer, ask: Ask) -> TxnClient:
    """A transactional producer, with a topic "orders" and both coordinators."""
    topics.create(broker, "orders", partitions=2)
    for key_type in (GROUP, TRANSACTION):
        await ask(broker, FindCoordinatorRequest(key="g", key_type=key_type), 3)
    return TxnClient(broker, ask)
