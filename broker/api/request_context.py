"""What a handler knows about a request besides its fields."""

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from ..purgatory import Operation

if TYPE_CHECKING:
    from ..broker import Broker
    from ..network.connection import Connection
    from ..security.guards_topics import FetchAccess

T = TypeVar("T")


class Context:
    """The circumstances of one request."""

    __slots__ = ("broker", "client_id", "connection", "version")

    access: "FetchAccess | None" = None
    """What a fetch may read; None for everything."""

    def __init__(self, broker: "Broker", connection: "Connection", version: int, client_id: str | None) -> None:
        self.broker = broker
        self.connection = connection
        self.version = version
        self.client_id = client_id
        """What the client calls itself; null is allowed, and nothing is believed of it."""

    def advertised(self) -> "dict[int, tuple[str, int]]":
        """The host and port at which this client should come to each live broker that it can reach, by node id."""
        return self.broker.server.addresses_for(self.connection)

    async def wait(self, operation: Operation, *, timeout_ms: int) -> bool:
        """Wait in the purgatory; the wait ends with the connection. True if `operation` completed, False if time ran
        out."""
        if self.connection.is_closing:
            raise asyncio.CancelledError
        return await self.broker.purgatory.wait(operation, timeout_ms=timeout_ms, waiter=self.connection)

    async def answer(self, future: "asyncio.Future[T]") -> T:
        """Wait for an answer that somebody else's request brings. The wait ends with the connection: `future` is
        cancelled then."""
        if future.done():
            return future.result()
        if self.connection.is_closing:
            raise asyncio.CancelledError
        waiting: asyncio.Future[Any] = future
        self.connection.waiting = waiting
        try:
            return await future
        finally:
            self.connection.waiting = None
