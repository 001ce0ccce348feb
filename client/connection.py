"""One connection to one broker: requests out, answers in, in order.

Kafka answers the requests of a connection one after the other. Any number may be under way (pipelining), but a request
that waits at the broker delays all later ones: long polls and deletions need a connection of their own
(`ClusterConnections.open_connection`). A request that is not answered in time ends the connection, as in Kafka's own
clients: later requests would not be answered either.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..protocol.errors import MalformedMessage, RequestTimedOut, UnsupportedVersion
from ..protocol.framing import ClientConnection
from ..protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.primitives import Buffer
from ..protocol.schema import Request
from .address import Address
from .errors import Disconnected, NotAKafkaBroker, check
from .sasl import Sasl, authenticate

if TYPE_CHECKING:
    import ssl

MAX_RESPONSE_BYTES = 128 * 1024 * 1024
"""Bytes of an answer, at most; a larger one ends the connection."""
FLUSH_MS = 1_000
"""Milliseconds that `close` waits for a broker to read what was sent."""
FIRST_BYTES = 12
"""Bytes of a first answer that are kept, to show which protocol the peer speaks."""
SOFTWARE_NAME = "kmini"
SOFTWARE_VERSION = "0.1.0"


class ConnectionSettings(NamedTuple):
    """How connections are made. `set_up` has the steps between connecting and the first request of a caller."""

    client_id: str = "kmini"
    connect_timeout_ms: int = 10_000
    """Milliseconds for connecting and all steps together."""
    tls: ssl.SSLContext | None = None
    set_up: tuple[Callable[[Connection], Awaitable[None]], ...] | None = None
    """`(negotiate_versions,)` if not given; authentication, if any, follows them."""
    sasl: Sasl | None = None
    """The credentials of the connection."""
    connector: Callable[[asyncio.Protocol], None] | None = None
    """Connects the protocol to the broker, in place of a socket. Raises OSError."""


class Connection(asyncio.Protocol):
    """Use `Connection.open`. Ends with `close`, with the broker, or with the first error."""

    def __init__(self, address: Address, client_id: str, called: object = None) -> None:
        self.address = address
        self.called: str = str(called or address)
        """The address in messages, with its origin unless it is a bootstrap address."""
        self.versions: dict[int, tuple[int, int]] = {}
        """The versions that the broker serves: lowest and highest by API key. `negotiate_versions` sets them."""
        self._framing = ClientConnection(client_id, max_frame_bytes=MAX_RESPONSE_BYTES)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unanswered: deque[tuple[str, asyncio.Future[Any], float | None, Callable[[Any], object]]] = deque()
        """Requests in the order of their answers: the name, the future that fails with the connection, the deadline in
        the loop's time, and the function that takes the answer."""
        self._watchdog: asyncio.TimerHandle | None = None
        """Runs at the deadline of an unanswered request, or sooner. Most requests are answered long before theirs, and
        a timer for each costs more than the request."""
        self._why_ended: str | None = None
        self._ended = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_made = False
        """Whether `create_connection` of the loop has returned."""
        self._has_answered = False
        """Whether a whole answer has arrived: then the peer is a Kafka broker."""
        self._first_bytes = b""
        """The first bytes before the first whole answer, up to FIRST_BYTES."""

    @classmethod
    async def open(
        cls, address: Address, settings: ConnectionSettings | None = None, *, timeout_ms: float | None = None
    ) -> Connection:
        """Connect and run the set-up steps, within the settings' time, or `timeout_ms` if that is less.

        Raises Disconnected, or the error of a step.
        """
        settings = settings or ConnectionSettings()
        connection = cls(address, settings.client_id)
        await connection.connect(settings, timeout_ms=timeout_ms)
        return connection

    async def connect(self, settings: ConnectionSettings, *, timeout_ms: float | None = None) -> None:
        """Connect as `open` does. Call it once; a failure closes the connection."""
        if timeout_ms is None or timeout_ms > settings.connect_timeout_ms:
            timeout_ms = settings.connect_timeout_ms
        connecting = asyncio.ensure_future(self._set_up(settings))
        try:
            # Before Python 3.12 wait_for swallows a cancellation that comes just when it is done.
            await asyncio.wait([connecting], timeout=timeout_ms / 1000)
            if not connecting.done():
                raise Disconnected(self.silence)
            connecting.result()
        except OSError as error:
            await self.close()
            raise Disconnected(f"cannot connect to {self.called}: {_reason(error)}") from error
        except BaseException:
            if not connecting.done():
                connecting.cancel()
                await asyncio.wait([connecting])
            if not connecting.cancelled():
                connecting.exception()  # so that asyncio does not report it: the caller has the reason of the end
            await self.close()
            raise

    async def _set_up(self, settings: ConnectionSettings) -> None:
        host, port = self.address
        if settings.connector is not None:
            settings.connector(self)
        else:
            await self._loop.create_connection(lambda: self, host, port, ssl=settings.tls)
        self._is_made = True
        for step in settings.set_up if settings.set_up is not None else (negotiate_versions,):
            await step(self)
        if settings.sasl is not None:
            await authenticate(self, settings.sasl)

    @property
    def silence(self) -> str:
        """A sentence about a peer that has not finished the set-up steps."""
        if self._transport is None or self._has_answered:
            return f"{self.called} does not answer"
        return f"{self.called} accepts connections but does not answer as a Kafka broker"

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._why_ended is None

    def version_for(self, request: type[Request]) -> int:
        """Return the highest version that both sides have. Raises UnsupportedVersion."""
        lowest, highest = self.versions.get(request.api_key, (0, -1))
        version = min(highest, request.max_version)
        if version < max(lowest, request.min_version):
            served = f"serves versions {lowest} to {highest} of" if highest >= 0 else "does not serve"
            raise UnsupportedVersion(f"{self.called} {served} {request.name}")
        return version

    async def send(
        self,
        request: Request,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        expects_answer: bool = True,
    ) -> Any:
        """Send a request and return the broker's answer, an instance of `request.response`.

        None if no answer is expected (Produce with acks 0). The caller handles error codes inside the answer. Raises
        RequestTimedOut, which ends the connection; Disconnected; UnsupportedVersion.
        """
        if version is None:
            version = self.version_for(type(request))
        if not self._writable.is_set():
            await self._writable.wait()
        if expects_answer:
            return await self.ask(request, version, timeout_ms=timeout_ms)
        self._write(self._framing.request(request, version, expects_answer=False))
        return None

    def ask(self, request: Request, version: int, *, timeout_ms: float | None = None) -> asyncio.Future[Any]:
        """Send a request at once, even while others are not written yet; return the future of its answer.

        The future raises what `send` does. Raises Disconnected.
        """
        future: asyncio.Future[Any] = self._loop.create_future()
        self.ask_in_turn(request, version, future.set_result, future, timeout_ms=timeout_ms)
        return future

    def ask_in_turn(
        self,
        request: Request,
        version: int,
        take: Callable[[Any], object],
        failed: asyncio.Future[Any],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Send a request as `ask` does, and call `take` with the answer in the turn of the loop in which it arrives.

        Where `ask`'s future would fail, `failed` does. It may be that of many requests; once it is done, `take` is not
        called any more. `take` raises nothing, and may ask again. Raises Disconnected.
        """
        self._write(self._framing.request(request, version))
        deadline = None
        if timeout_ms is not None:
            deadline = self._loop.time() + timeout_ms / 1000
            if self._watchdog is None or deadline < self._watchdog.when():
                self._watch_until(deadline)
        self._unanswered.append((request.name, failed, deadline, take))

    def _write(self, buffers: list[Buffer]) -> None:
        if self._transport is None or self._why_ended is not None:
            raise Disconnected(f"{self.called}: {self._why_ended}")
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    async def close(self) -> None:
        """Send what is buffered and close the connection; return when it has ended. Unanswered requests fail with
        Disconnected."""
        self._end("closed", flush=True)
        if self._transport is None:
            return
        if not self._is_made:  # uvloop, interrupted while it connects, ends the transport without `connection_lost`
            self._transport.abort()
            return
        await asyncio.wait([self._ended], timeout=FLUSH_MS / 1000)
        if not self._ended.done():
            self._transport.abort()
            await asyncio.wait([self._ended])

    # --- called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class is no subclass of it

    def data_received(self, data: bytes) -> None:
        if not self._has_answered:
            self._first_bytes = (self._first_bytes + data)[:FIRST_BYTES]
        try:
            for response in self._framing.receive_data(data):
                self._has_answered = True
                self._answer(response)
        except MalformedMessage as error:
            if self._has_answered:
                self._end(f"the broker broke the protocol: {error}")
            else:
                self._end(f"it {_other_protocol(self._first_bytes)}", NotAKafkaBroker)

    def connection_lost(self, error: Exception | None) -> None:
        if self._has_answered:
            self._end(_reason(error) if isinstance(error, OSError) else "the broker hung up")
        else:
            self._end(
                "it closed the connection instead of answering; it may still be starting, expect TLS, or be no Kafka "
                "broker"
            )
        self._ended.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # ---

    def _answer(self, response: Any) -> None:
        _, future, _, take = self._unanswered.popleft()
        if not future.done():
            take(response)

    def _watch_until(self, deadline: float) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = self._loop.call_at(deadline, self._watch)

    def _watch(self) -> None:
        """End the connection if a request was not answered in time; else watch the one that is due next."""
        self._watchdog = None
        due = [one for one in self._unanswered if one[2] is not None and not one[1].done()]
        if not due:
            return
        name, future, deadline, _ = min(due, key=lambda one: one[2] or 0)
        assert deadline is not None
        if deadline > self._loop.time():
            self._watch_until(deadline)
            return
        future.set_exception(RequestTimedOut(f"{self.called} did not answer {name} in time"))
        self._end(f"{name} was not answered in time")

    def _end(self, reason: str, kind: type[Disconnected] = Disconnected, *, flush: bool = False) -> None:
        """Close the connection; every request that waits for its answer fails with the reason."""
        if self._why_ended is not None:
            return
        self._why_ended = reason
        self._writable.set()
        if self._watchdog is not None:
            self._watchdog.cancel()
        if self._transport is not None:
            if flush:
                self._transport.close()
            else:
                self._transport.abort()
        while self._unanswered:
            name, future, _, _ = self._unanswered.popleft()
            if not future.done():
                unanswered = f", {name} was not answered" if self._has_answered else ""
                future.set_exception(kind(f"{self.called}: {reason}{unanswered}"))


async def negotiate_versions(connection: Connection) -> None:
    """Ask for the versions that the broker serves (KIP-35). A broker without our newest ApiVersions names its own."""
    version = ApiVersionsRequest.max_version
    for _ in range(2):
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        response: ApiVersionsResponse = await connection.send(request, version=version)
        ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.error_code != UnsupportedVersion.code:
            break
        lowest, highest = ranges.get(ApiVersionsRequest.api_key, (0, 0))
        version = max(min(highest, ApiVersionsRequest.max_version), lowest)
    check(response.error_code, f"{connection.called} refused ApiVersions")
    connection.versions = ranges


def _other_protocol(first_bytes: bytes) -> str:
    """Describe a peer whose first bytes are no answer of a Kafka broker."""
    if first_bytes.startswith(b"HTTP"):
        return "answers in HTTP, so it is no Kafka broker"
    if first_bytes[:2] == b"\x15\x03":
        return "answers with a TLS alert: it expects TLS, which this client does not speak"
    return f"answers {first_bytes!r}, so it is no Kafka broker"


def _reason(error: OSError) -> str:
    """The reason in a few words, without the address that asyncio adds."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
