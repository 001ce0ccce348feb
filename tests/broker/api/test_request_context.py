"""The waits of a request: they end with the connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kmini.broker.api.request_context import Context
from kmini.broker.purgatory import Operation


class Never(Operation):
    """An operation that does not complete."""

    keys = ("key",)

    def is_complete(self) -> bool:
        return False


def context_of(*, is_closing: bool = False) -> Context:
    connection: Any = SimpleNamespace(is_closing=is_closing, waiting=None)
    services: Any = SimpleNamespace(purgatory=None)
    return Context(services, connection, 0, None)


async def test_an_answer_that_is_there_is_returned_without_a_wait() -> None:
    context = context_of(is_closing=True)
    future = asyncio.get_running_loop().create_future()
    future.set_result(7)
    assert await context.answer(future) == 7
    assert context.connection.waiting is None


async def test_a_connection_that_ends_cancels_the_answer_that_its_request_waits_for() -> None:
    context = context_of()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(context.answer(future))
    await asyncio.sleep(0)
    assert context.connection.waiting is future
    future.cancel()  # as a lost connection does
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert context.connection.waiting is None


async def test_a_request_of_a_closing_connection_begins_no_wait() -> None:
    context = context_of(is_closing=True)
    with pytest.raises(asyncio.CancelledError):
        await context.answer(asyncio.get_running_loop().create_future())
    with pytest.raises(asyncio.CancelledError):
        await context.wait(Never(), timeout_ms=1_000_000)
