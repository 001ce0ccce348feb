"""Work on compressed records: a few bytes of them may take seconds, and no other request must wait for those."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, TypeVar

from ..protocol.errors import InvalidRecord
from .scheduler import in_thread

T = TypeVar("T")

_QUICK_LIMIT = 512 * 1024
"""Bytes of a decompressed record (of a batch: 16 times as many) that nearly all stay below, and that take some ten
milliseconds at most."""


class Requester(Protocol):
    """The connection that asked for work. It may close: cancelling `waiting` ends the wait for a turn."""

    waiting: "asyncio.Future[bool] | None"

    @property
    def is_closing(self) -> bool: ...


class LongWork:
    """Runs work in threads: what is quick at once, what is not one piece after the other.

    So whatever is sent, there is a thread for the quick work of others, a processor for the loop, and no more memory
    taken than one piece of work needs.
    """

    def __init__(self) -> None:
        self._is_busy = False
        self._turns: deque[asyncio.Future[bool]] = deque()

    async def run(self, work: Callable[[int], T], limit: int, requester: Requester) -> T:
        """`work(limit)`, which raises InvalidRecord where a record has more than `limit` bytes, decompressed.

        It is tried with a small limit first, and must not mind to be begun again. Raises CancelledError if `requester`
        leaves before its turn has come.
        """
        try:
            return await in_thread(work, min(limit, _QUICK_LIMIT))
        except InvalidRecord as error:
            if limit <= _QUICK_LIMIT or error.record_errors:
                raise
        if requester.is_closing:
            raise asyncio.CancelledError
        await self._turn(requester)
        try:
            return await in_thread(work, limit)
        finally:
            self._pass_on()

    async def _turn(self, requester: Requester) -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        requester.waiting = turn
        try:
            await turn
        finally:
            requester.waiting = None

    def _pass_on(self) -> None:
        """Start the next work whose connection is still open."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._is_busy = False
