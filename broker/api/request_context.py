"""The circumstances of a request: everything a handler knows about it besides its fields."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from ..network.listeners import Listener
    from ..purgatory import Operation
    from ..quotas.throttling import Charge
    from ..security.fetch_access import FetchAccess
    from ..security.resources import Principal
    from ..security.sasl import SaslSession
    from ..services import Services

T = TypeVar("T")


class CloseConnection(Exception):
    """Raised by a handler where the protocol offers no answer but closing the connection: a failed produce with
    acks=0."""


class RequestConnection(Protocol):
    """The connection through which a request came, as handlers see it."""

    listener: Listener
    peer: tuple[str, int]
    """Host and port of the client."""
    principal: Principal
    sasl: SaslSession | None
    """Its authentication; None at a listener without."""
    waiting: asyncio.Future[bool] | None
    """The future that its request waits for, if it waits; it is cancelled when the connection ends."""
    waiting_what: str
    """What its request waits for, where the wait is none in the purgatory: "of group billing"."""
    software: tuple[str, str]
    """Name and version of the client's software; empty if it does not tell them."""

    @property
    def is_closing(self) -> bool: ...

    @property
    def arrived_at(self) -> tuple[str, int]:
        """Host and port of the broker, as the client reached it."""

    def advertised(self) -> dict[int, tuple[str, int]]: ...

    def when_lost(self, callback: Callable[[], None]) -> None: ...

    def close_after_answer(self) -> None: ...

    def mute(self, duration_ms: int) -> None:
        """Once the present request is answered, serve no other one for this long (KIP-219)."""


class Context:
    """The circumstances of a request. Requests of a connection share it while API, version and client id repeat."""

    __slots__ = ("charge", "client_id", "connection", "kept", "services", "version")

    access: FetchAccess | None = None
    """The partitions that a fetch may read; None for all."""

    def __init__(self, services: Services, connection: RequestConnection, version: int, client_id: str | None) -> None:
        self.services = services
        """The parts of the broker that serves the request."""
        self.connection = connection
        self.version = version
        self.client_id = client_id
        """The name that the client gives itself, or None; a client may give any name."""
        self.charge: Charge | None = None
        """What the request costs its client of quotas, while a fetch with a quota is served; its handler asks it before
        it answers."""
        self.kept: Any = None
        """What the handler keeps for the next request, which has the same context if it is of the same API, version and
        client id: that of Fetch keeps a `KeptFetch`, others keep nothing. The connection forgets it when it is idle."""

    @property
    def is_of_broker(self) -> bool:
        """Whether another broker of this process asks: its connections come from port 0."""
        return self.connection.peer[1] == 0

    def advertised(self) -> dict[int, tuple[str, int]]:
        """Host and port of each live broker that this client can reach, by node id."""
        return self.connection.advertised()

    def wait(self, operation: Operation, *, timeout_ms: int) -> Awaitable[bool]:
        """Wait in the purgatory; the wait ends with the connection. True if `operation` completed, False if time ran
        out."""
        if self.connection.is_closing:
            raise asyncio.CancelledError
        return self.services.purgatory.wait(operation, timeout_ms=timeout_ms, waiter=self.connection)

    def wait_for_change(self, operation: Operation, timeout_ms: int) -> Awaitable[bool]:
        """What `wait` does, for an operation that was just found incomplete. Produce and Fetch look by themselves: most
        of them need no wait, and `wait` takes three calls to find that out. All others call `wait`."""
        if self.connection.is_closing:
            raise asyncio.CancelledError
        return self.services.purgatory.wait_for_change(operation, timeout_ms, self.connection)

    async def answer(self, future: asyncio.Future[T], what: str = "") -> T:
        """Wait for an answer that another client's request completes. The wait ends with the connection: `future` is
        cancelled then. `what` completes the answer to what the client waits for: "of group billing"."""
        if future.done():
            return future.result()
        if self.connection.is_closing:
            raise asyncio.CancelledError
        waiting: asyncio.Future[Any] = future
        self.connection.waiting, self.connection.waiting_what = waiting, what
        try:
            return await future
        finally:
            self.connection.waiting, self.connection.waiting_what = None, ""
