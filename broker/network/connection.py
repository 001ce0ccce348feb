"""One client connection: the asyncio shell around `protocol.framing`.

The shell feeds what arrives, writes answers, and bounds the cost of a peer to one request and one reply. Until the
client has authenticated, `authentication_gate.py` decides which requests are admitted; `dispatch.py` runs their
handlers.

Requests of a connection are served one by one and answered in order, as in Kafka. Pipelined requests wait in the
receive buffer, and beyond a bound in the socket. A connection is not read from while a reply to it is unsent.

`socket_server.py` closes idle ones. A connection can be muted; `quotas/throttling.py` says whose is, and for how long.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from ...protocol.errors import MalformedMessage
from ...protocol.framing import NEED_DATA, ServerConnection, response_frame
from ..purgatory import Operation
from ..scheduler import end_of_turn_s
from ..security.resources import ANONYMOUS, Principal
from .dispatch import Dispatcher
from .peer_log import PeerLog

if TYPE_CHECKING:
    from ...protocol.framing import Frame, NeedData, ReceiveBuffer
    from ...protocol.messages.headers import RequestHeader
    from ...protocol.primitives import Buffer
    from ...protocol.schema import Response
    from ..api.registry import Handler
    from ..security.sasl import SaslSession
    from ..services import Services
    from .advertised_addresses import AdvertisedAddresses
    from .client_hints import ClientHints, RedirectWatch
    from .listeners import Listener

    NextFrame = Callable[[], Frame | Literal[NeedData.NEED_DATA] | None]

log = logging.getLogger("kmini.connection")
peer_log = PeerLog(log)

_PIPELINED_BYTES = 256 * 1024
"""Bytes of unserved requests beyond which a connection is not read from until its request is answered."""

_WAKING_BYTES = 32 * 1024 if sys.platform == "linux" else 1
"""Bytes of a large request that have to arrive before the system wakes the loop. A client that encrypts what it sends
is no quicker than the broker, which would wake up for each 4 KB: half of the time of both would go into that."""

SLICE_BYTES = 5 * 1024 * 1024
"""Bytes of an answer that are written at once. The system copies them to the socket while the loop waits: some tenths
of a millisecond for each MiB. Large fetches for one partition often ask for 4 MiB, which is one slice."""


class AcceptingServer(Protocol):
    """The server that accepted a connection, as the connection uses it."""

    services: Services
    handlers: dict[int, Handler]
    hints: ClientHints
    max_request_bytes: int
    advertised: AdvertisedAddresses
    receive_buffer: ReceiveBuffer
    is_suspended: bool
    is_closed: bool

    def register(self, connection: Connection) -> str | None: ...

    def throttle_ms(self, connection: Connection) -> int: ...

    def hold_ms(self, connection: Connection) -> int: ...

    def unregister(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """A client connection. `waiting` is the future that its request waits for, if it waits; it is cancelled when the
    connection ends."""

    in_service: asyncio.Future[Any] | None
    """While it is set, no further request is served. One of

    - a `Wait` of the purgatory, whose end goes on with the handler (`Dispatcher._wait`)
    - a task: the rest of a handler that awaits anything else (`Dispatcher._wait`), the delay after a failed login
      (`AuthenticationGate._fail`), or the time for which the connection is muted (`_stay_muted`)
    - a future that only the end of a fault rule or of the connection ends (`faults/active_rules.py`)
    """
    _next_frame: NextFrame
    """Returns the next request, or None where one was dealt with or has to wait. One of

    - `ServerConnection.next_frame`: without authentication, and after one that does not expire
    - `AuthenticationGate.next_frame`: before that, and always where authentications expire
    - `_next_frame_unless_muted`: after `mute`, until the next request is admitted
    """
    _muted_until_ms = 0
    """When requests that arrive after `mute` are served again, in liveness time. The class has this and `_admit` for
    the connections that are never muted."""
    _admit: NextFrame | None = None
    """While `_next_frame` is `_next_frame_unless_muted`: what it is afterwards."""

    def __init__(self, server: AcceptingServer, listener: Listener) -> None:
        self.server = server
        self.listener = listener
        self.waiting: asyncio.Future[bool] | None = None
        self.peer: tuple[str, int] = ("", 0)
        self.was_active = True
        """Whether the client sent or read anything since the server last looked."""
        self.idle_since_ms = 0
        """When the server last found it active, in liveness time."""
        self.principal: Principal = ANONYMOUS
        """The authenticated user."""
        self.client_id: str | None = None
        """The client id of its last request; None before the first one, and where the client gives none."""
        self.software = ("", "")
        """Name and version of the client's software, as ApiVersions tells them (KIP-511); empty if it does not."""
        self.waiting_what = ""
        """What its request waits for, where the wait is none in the purgatory: "of group billing"."""
        self._when_lost: tuple[Callable[[], None], ...] = ()
        self.connected_at_ms = 0
        """When it was accepted, in log time."""
        self.redirect_watch: RedirectWatch | None = None
        """Watches whether the client connects to the address it is told; None where that is the address it came to."""
        self.outlives_resets = False
        """Whether a reset of the broker has spared it: later resets do, too."""
        self.in_service = None
        max_frame_bytes = server.max_request_bytes if listener.sasl is None else listener.sasl.max_receive_bytes
        self._framing = ServerConnection(max_frame_bytes, server.receive_buffer)
        self.get_buffer = self._framing.get_buffer  # type: ignore[method-assign, assignment]  # which the loop calls directly
        self._dispatcher = Dispatcher(self, server.services, server.handlers, server.hints)
        self.sasl: SaslSession | None = None
        """Its authentication; None at a listener without."""
        self._next_frame = self._framing.next_frame
        if listener.sasl is not None:
            # Imported here, because most listeners have no authentication.
            from ..security.sasl import SaslSession
            from .authentication_gate import AuthenticationGate

            services = server.services
            self.sasl = SaslSession(
                listener.sasl,
                self,
                times=services.config.current,
                clock=services.clock,
                scram_credentials=services.controller.scram_credentials,
                token_logins=services.token_logins,
            )
            self._next_frame = AuthenticationGate(self.sasl, self, self._framing, self._dispatcher).next_frame
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._is_read = True
        self._waking_bytes = 1
        """Bytes that have to arrive before the loop is told (SO_RCVLOWAT)."""
        self._write_paused = False
        self._unwritten: Iterator[list[Buffer]] | None = None
        """The slices of a large answer that are not written yet; no further request is served before they are."""
        self.is_closing = False
        """Whether the connection has ended, or is about to: no further request is answered."""

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.peer = address_of(transport.get_extra_info("peername"))
        refusal = self.server.register(self)
        if refusal is not None:
            say = peer_log.info if self.server.is_closed else peer_log.warning  # that the broker stops is no fault
            say("refused a connection from %s: %s", self.peer[0], refusal)
            self.is_closing = True
            self._transport.abort()
            return
        throttle_ms = self.server.throttle_ms(self)
        if throttle_ms:
            self._stay_unserved(throttle_ms)
            return
        hold_ms = self.server.hold_ms(self)
        if hold_ms:
            self.mute(hold_ms)
        self.redirect_watch = self.server.hints.watch(self)
        if self.sasl is not None:
            self.sasl.begin()
        elif self.listener.tls is not None:
            secured = transport.get_extra_info("ssl_object")
            if secured is not None:  # None for a broker of this process, whose connection has no socket
                self.principal = self.listener.tls.principal_of(secured.getpeercert())

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closing = True
        self._unwritten = None
        if self.sasl is not None:
            self.sasl.end()
        self.server.unregister(self)
        if self.waiting is not None:
            self.waiting.cancel()
        if self._when_lost and not self.server.is_closed:
            for callback in self._when_lost:
                callback()

    def buffer_updated(self, count: int) -> None:
        self.was_active = True
        self._framing.buffer_updated(count)
        self.serve()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True
        self._set_reading(False)

    def resume_writing(self) -> None:
        self._write_paused = False
        self.was_active = True
        if self._unwritten is not None:
            self._write_slices()
        self.serve()

    # --- what handlers call

    @property
    def arrived_at(self) -> tuple[str, int]:
        """Host and port of the broker, as this client reached it. The transport keeps them: most connections never need
        them again."""
        return address_of(self._transport.get_extra_info("sockname"))

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the connection has ended, unless the broker stops."""
        self._when_lost += (callback,)

    def advertised(self) -> dict[int, tuple[str, int]]:
        """Host and port of each live broker that this client can reach, by node id."""
        return self.server.advertised.addresses_for(self)

    # --- what the server calls

    @property
    def is_waiting(self) -> bool:
        """Whether its request waits, and nothing has ended the wait."""
        return self.waiting is not None and not self.waiting.done()

    @property
    def waits_for(self) -> str:
        """What its request waits for: an API, and the keys that may end the wait ("Fetch of orders-0"). Empty while
        none waits."""
        return "" if self.in_service is None else self._dispatcher.waits_for

    def close(self) -> None:
        """Send what is written and hang up; a request that waits is abandoned."""
        if self.waiting is not None:
            self.waiting.cancel()
        self._hang_up()

    def resume(self) -> None:
        """Serve the requests that arrived while the server was suspended."""
        if self.in_service is None:
            self.serve()

    def begin_anew(self, *, set_back_ms: int) -> None:
        """Serve by the parts that the server has now, after a reset. The clock of liveness was set back by
        `set_back_ms`. No request may be in service."""
        server = self.server
        self.was_active = True
        self._muted_until_ms = 0
        self.connected_at_ms = min(self.connected_at_ms, server.services.clock.now_ms())
        self._dispatcher.use(server.services, server.handlers, server.hints)
        self.redirect_watch = server.hints.watch(self)
        if self.sasl is not None:
            services = server.services
            self.sasl.begin_anew(services.controller.scram_credentials, services.token_logins, set_back_ms=set_back_ms)

    def trim(self) -> None:
        """Give back the receive buffer of an idle connection, and take what has arrived, however little: a slow client
        is not idle."""
        self._framing.trim()
        self._wake_at(1)
        self._dispatcher.forget()

    def abort(self) -> None:
        """Hang up at once."""
        self.is_closing = True
        self._unwritten = None
        self._transport.abort()

    # --- authentication

    def authenticated(self, principal: Principal, *, for_good: bool) -> None:
        """The client has authenticated: admit all requests, unless `for_good` only until that expires."""
        self.principal = principal
        self._framing.allow(self.server.max_request_bytes)
        if for_good:
            if self._admit is None:
                self._next_frame = self._framing.next_frame
            else:
                self._admit = self._framing.next_frame  # the connection stays muted

    def close_after_answer(self) -> None:
        """Hang up once the answer to the present request is sent."""
        self._loop.call_soon(self.close)

    # --- requests and answers

    def serve(self) -> None:
        """Answer what has arrived, until input is missing, a request has to wait, or the turn is over."""
        framing = self._framing
        is_read, waking_bytes = True, 1
        turn_ends_s = 0.0
        while pending_bytes := framing.pending_bytes:
            if self.is_closing or self._write_paused:
                return
            if self.in_service is not None or self.server.is_suspended:
                # The end of a connection is noticed only by reading from it, and ends its request's wait.
                is_read = pending_bytes <= _PIPELINED_BYTES
                break
            if turn_ends_s and time.perf_counter() >= turn_ends_s:
                # More may arrive meanwhile than is served: read no more until all that has arrived is served.
                is_read = False
                self._loop.call_soon(self.serve)
                break
            try:
                frame = self._next_frame()
            except MalformedMessage as error:
                self.drop(error)
                return
            if frame is NEED_DATA:
                # Some of what is missing may be here: up to 16 KiB of a TLS record that is not complete.
                if framing.missing_bytes >= 2 * _WAKING_BYTES:
                    waking_bytes = _WAKING_BYTES
                break
            if not turn_ends_s and framing.pending_bytes:
                turn_ends_s = end_of_turn_s()
            if frame is not None:
                self._dispatcher.dispatch(frame)
        if waking_bytes != self._waking_bytes:
            self._wake_at(waking_bytes)
        if is_read is not self._is_read and not self._write_paused:
            self._set_reading(is_read)

    def send(self, correlation_id: int, version: int, response: Response) -> bytearray:
        """Write an answer; return the first of its buffers, in which its size is."""
        buffers = response_frame(correlation_id, response, version)
        first: bytearray = buffers[0]  # type: ignore[assignment]
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        elif sum(map(len, buffers)) <= SLICE_BYTES:
            self._transport.writelines(buffers)
        else:
            self._unwritten = slices(buffers)
            self._write_slices()
        return first

    def _write_slices(self) -> None:
        """Write slices of a large answer until none is left, the client has to read first, or the turn is over."""
        assert self._unwritten is not None
        turn_ends_s = end_of_turn_s()
        for buffers in self._unwritten:
            self._transport.writelines(buffers)
            if self._write_paused:
                return
            if time.perf_counter() >= turn_ends_s:
                self.pause_writing()
                self._loop.call_soon(self.resume_writing)
                return
        self._unwritten = None

    def write(self, buffers: Iterable[bytes | bytearray | memoryview]) -> None:
        """Write bytes as they are."""
        self._transport.writelines(buffers)

    def drop(self, reason: object, header: RequestHeader | None = None) -> None:
        """Hang up on a peer that broke the protocol, and log one line; other connections are unaffected."""
        if header is None:
            peer_log.warning("closed the connection of %s:%d: %s", *self.peer, reason)
        else:
            peer_log.warning(
                "closed the connection of %s:%d: api key %d version %d: %s",
                *(*self.peer, header.api_key, header.api_version, reason),
            )
        self._hang_up()

    def _hang_up(self) -> None:
        """Serve nothing more, and end the connection once the client has what it was to be sent."""
        self.is_closing = True
        if self._unwritten is not None:
            for buffers in self._unwritten:
                self._transport.writelines(buffers)
            self._unwritten = None
        self._transport.close()

    def _set_reading(self, is_read: bool) -> None:
        if is_read is self._is_read or self._transport.is_closing():
            return
        self._is_read = is_read
        if is_read:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _wake_at(self, count: int) -> None:
        connected = self._transport.get_extra_info("socket")  # None for a client of this process
        if count != self._waking_bytes and connected is not None and not self._transport.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._waking_bytes = count

    # --- what quotas and faults do to it (broker/quotas/, broker/faults/)

    def mute(self, duration_ms: int) -> None:
        """Once the present request is answered, serve no other one for this long: what Kafka does to a client that it
        throttles, whether the client heeds throttle_time_ms or not (KIP-219)."""
        now_ms = self.server.services.clock.liveness_ms()
        self._muted_until_ms = max(self._muted_until_ms, now_ms + duration_ms)
        if self._admit is None:
            self._admit, self._next_frame = self._next_frame, self._next_frame_unless_muted

    def _stay_unserved(self, duration_ms: int) -> None:
        """Serve nothing, and hang up after this time: what Kafka does where an address makes too many connections
        (KIP-612)."""
        self.is_closing = True
        self._set_reading(False)
        timer = self.server.services.clock.call_later(duration_ms, self._transport.close, liveness=True)
        self.when_lost(timer.cancel)

    def _next_frame_unless_muted(self) -> Frame | Literal[NeedData.NEED_DATA] | None:
        left_ms = self._muted_until_ms - self.server.services.clock.liveness_ms()
        if left_ms > 0:
            self.in_service = self._loop.create_task(self._stay_muted(left_ms))
            return None
        assert self._admit is not None
        self._next_frame, self._admit = self._admit, None
        return self._next_frame()

    async def _stay_muted(self, left_ms: int) -> None:
        try:
            await self.server.services.purgatory.wait(_Throttled(), timeout_ms=left_ms, waiter=self)
        except asyncio.CancelledError:
            return  # the connection has ended
        self.in_service = None
        self.serve()

    def reset(self) -> None:
        """Hang up at once, so that the client's system reports a reset (RST) instead of an end."""
        disable_linger(self._transport)
        self.abort()


def disable_linger(transport: Any) -> None:
    """Have the end of a connection be a reset (RST). Between the brokers of a process there is no socket to tell."""
    own_socket = transport.get_extra_info("socket")
    if own_socket is not None:
        own_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class _Throttled(Operation):
    """Never complete: the requests of a throttled client wait until its time is over."""

    __slots__ = ()
    what = "throttled"

    @property
    def keys(self) -> tuple[object]:
        return (self,)  # so that a reset finds it

    def is_complete(self) -> bool:
        return False


def address_of(name: Any) -> tuple[str, int]:
    """Host and port of a socket name; an IPv4 address that came through an IPv6 socket is given as IPv4. Connections
    from one host share its name."""
    if not isinstance(name, tuple):
        return ("", 0)
    return sys.intern(name[0].removeprefix("::ffff:")), name[1]


def slices(buffers: list[Buffer]) -> Iterator[list[Buffer]]:
    """The bytes of the buffers in order, SLICE_BYTES at a time. Takes the buffers out of the list: each is freed as
    soon as it is sent."""
    buffers.reverse()
    while buffers:
        taken: list[Buffer] = []
        room = SLICE_BYTES
        while room and buffers:
            buffer = memoryview(buffers.pop())
            taken.append(buffer[:room])
            if len(buffer) > room:
                buffers.append(buffer[room:])
            room -= len(taken[-1])
        yield taken
