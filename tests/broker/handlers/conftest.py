"""A running broker, and a way to ask its handlers as a client would, in any version, without a socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.api.request_context import Context
from kmini.broker.broker import Broker
from kmini.broker.controller import topics
from kmini.broker.handlers import HANDLERS
from kmini.protocol.errors import KafkaError
from kmini.protocol.messages.find_coordinator import GROUP, TRANSACTION, FindCoordinatorRequest
from kmini.protocol.schema import Request
from support.broker.txn_client import TxnClient

StartBroker = Callable[..., Awaitable[Broker]]
Ask = Callable[..., Awaitable[Any]]


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    return await start_broker()


@pytest.fixture
def ask() -> Ask:
    """Send a request to a broker's handler in the wire format of `version`, by default the newest; decode the answer.

    The client seems to have arrived at client-side.example:19092.
    """

    async def ask(broker: Broker, request: Request, version: int | None = None) -> Any:
        version = request.max_version if version is None else version
        handler = HANDLERS[request.api_key]
        connection = SimpleNamespace(
            listener=SimpleNamespace(name="PLAINTEXT", advertised=None),
            arrived_at=("client-side.example", 19092),
            peer=("192.0.2.7", 40000),
            waiting=None,
            is_closing=False,
        )
        sent = type(request).decode(bytearray(b"".join(request.encode(version))), version)
        try:
            answer = await handler.function(sent, Context(broker, connection, version, "test"))  # type: ignore[arg-type]
            assert answer is not None
        except KafkaError as error:
            answer = handler.request.response(error_code=error.code)
        return type(answer).decode(b"".join(answer.encode(version)), version)

    return ask


@pytest.fixture
def in_purgatory() -> Callable[[Broker, int], Awaitable[None]]:
    """Returns once so many requests wait in a broker's purgatory."""

    async def in_purgatory(broker: Broker, count: int) -> None:
        deadline = time.monotonic() + 30
        while len(broker.purgatory) != count:
            assert time.monotonic() < deadline, f"{len(broker.purgatory)} operations wait, not {count}"
            await asyncio.sleep(0)

    return in_purgatory


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
async def client(broker: Broker, ask: Ask) -> TxnClient:
    """A transactional producer, with a topic "orders" and both coordinators."""
    topics.create(broker, "orders", partitions=2)
    for key_type in (GROUP, TRANSACTION):
        await ask(broker, FindCoordinatorRequest(key="g", key_type=key_type), 3)
    return TxnClient(broker, ask)
