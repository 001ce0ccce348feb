"""The listeners of a broker and the connections they accepted: their limits, and the end of idle ones."""

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import AnswerError
from ...protocol.framing import ReceiveBuffer
from ...storage.config_key import MAX_INT
from ..api.registry import Handler, served
from ..clock import Timer
from ..security.security_settings import listener_limit, listener_tls, sasl_settings
from .advertised_addresses import AdvertisedAddresses
from .client_hints import ClientHints
from .connection import Connection, address_of
from .event_loop import descriptors_for_connections
from .listeners import Listener

if TYPE_CHECKING:
    from ..quotas.rates import Rate
    from ..security.tls import Verdict
    from ..services import Services
    from .handshakes import Handshakes
    from .memory_transport import MemoryNetwork

log = logging.getLogger("kmini.server")

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address at which a listener for all addresses is reached from the same machine."""
GRACE_MS = 1_000
"""Milliseconds that requests in service have to finish when the broker stops."""


MOST_HANDSHAKE_MS = 10_000
"""Milliseconds that a TLS handshake may take, where `kmini.authentication.timeout.ms` is not shorter."""


class PortTaken(AnswerError):
    """The broker cannot listen where it is asked to: the port is taken or not allowed, or the host is not here."""


class ClosedClient(NamedTuple):
    """A client whose connection a reset closed."""

    client_id: str | None
    """The name that the client gave itself; None if it sent no request."""
    address: tuple[str, int]
    """Its host and port."""

    def __str__(self) -> str:
        return f"{self.client_id or 'a client without a name'} at {self.address[0]}:{self.address[1]}"


class Server:
    """Accepts connections and holds them to the limits of the configuration."""

    def __init__(self, services: "Services", handlers: dict[int, Handler]) -> None:
        self._all_handlers = handlers
        self.listeners: list[Listener] = []
        self._use(services)
        self.receive_buffer = ReceiveBuffer()
        """The buffer in which the bytes of all connections arrive."""
        self.is_closed = False
        """Whether the broker stops: it refuses connections from then on."""
        self.is_suspended = False
        """Whether arriving requests wait, as in a process that was stopped with SIGSTOP."""
        self.connections: dict[Connection, None] = {}
        """In the order in which they were made. A set would have another order in each run."""
        self.when_left: list[Callable[[Connection], None]] = []
        """Are called with every connection that has ended; they must be quick."""
        self._handshaking: dict[Connection, str] = {}
        """The host of each connection that is amid its TLS handshake."""
        self._per_host: Counter[str] = Counter()
        self._servers: list[asyncio.AbstractServer | Handshakes] = []
        self._most_connections = descriptors_for_connections()
        self.gate: Callable[[Connection], str | None] | None = None
        """Asked about each new connection that the limits admit: why it is to be refused, or None. A fault that a test
        asks for (`broker/faults/active_rules.py`)."""
        self.handshake_gate: Callable[[Listener], Verdict | None] | None = None
        """Asked about each TLS handshake, in the same way."""
        self._memory_network: MemoryNetwork | None = None
        """Carries the connections of other brokers of this process; made with the first one."""
        self._idle_timer: Timer | None = None

    def _use(self, services: "Services") -> None:
        """Serve by these parts of the broker."""
        self.services = services
        self.handlers = served(self._all_handlers, services.release)
        if services.authorizer is not None:
            from ..security.guarding import guarded

            self.handlers = guarded(self.handlers, services.authorizer)
        self._creations: dict[str, Rate] = {}
        """How many connections a second were made where there is a limit: to each listener, and to all under ""."""
        self.max_request_bytes: int = services.config.current.socket_request_max_bytes
        self.advertised = AdvertisedAddresses(services, self.listeners)
        self.hints = ClientHints(services.clock, self.advertised.address_for)

    async def start(self) -> None:
        """Open the listeners; an open port means that the broker is ready. Raises PortTaken."""
        loop = asyncio.get_running_loop()
        config = self.services.config.current
        opened = []
        try:
            for name, host, port in config.listeners:
                opened.append((name, listening_socket(name, host, port, config.socket_listen_backlog_size)))
        except PortTaken:
            for _, listening in opened:
                listening.close()
            raise
        for name, listening in opened:
            _set_buffers(listening, config.socket_send_buffer_bytes, config.socket_receive_buffer_bytes)
            host, port = address_of(listening.getsockname())
            advertised = config.advertised_listeners.get(name)
            sasl, tls = sasl_settings(config, name), listener_tls(lambda: self.services.config.current, name)
            if sasl is not None and sasl.tokens is not None:
                sasl.tokens.preparation("")
            listener = Listener(name, host, port, advertised, sasl, tls)
            if tls is not None:
                tls.gate = partial(self._gate_of_handshake, listener)
            self.listeners.append(listener)
            accept = partial(Connection, self, listener)
            if tls is None:
                self._servers.append(await loop.create_server(accept, sock=listening))
            else:
                from .handshakes import MOST_HANDSHAKES, Handshakes  # most brokers have no TLS

                limit_s = min(config.kmini_authentication_timeout_ms, MOST_HANDSHAKE_MS) / 1000
                most = min(MOST_HANDSHAKES, self._most_connections // 4)
                # Kafka accepts on a thread of its own. Here handshakes take the same time, and a queue that is full
                # drops connections, which come again after a second.
                listening.listen(max(config.socket_listen_backlog_size, most))
                self._servers.append(Handshakes(listening, accept, tls.context, self, limit_s=limit_s, most=most))
        self._watch_idle()

    def connect(self, client: asyncio.Protocol, listener: Listener) -> None:
        """Accept a connection of another broker of this process, at `listener` but without a socket.

        It is held to the same limits as others. It comes from the address of the listener, as over a socket, and from
        port 0. Raises ConnectionRefusedError when the listener is closed.
        """
        if self.is_closed:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        if self._memory_network is None:
            from .memory_transport import MemoryNetwork  # a broker without followers needs none

            self._memory_network = MemoryNetwork()
        host = _LOOPBACK.get(listener.host, listener.host)
        self._memory_network.connect(
            client, Connection(self, listener), client_name=(host, 0), server_name=(host, listener.port)
        )

    def _gate_of_handshake(self, listener: Listener) -> "Verdict | None":
        return None if self.handshake_gate is None else self.handshake_gate(listener)

    def renew_tls(self) -> None:
        """Read the stores of listeners with TLS again, for handshakes from now on."""
        for listener in self.listeners:
            if listener.tls is not None:
                listener.tls.renew()

    async def stop(self) -> None:
        """Accept no more connections, end the requests that wait, give the others GRACE_MS to finish, and hang up."""
        self._accept_no_more()
        for connection in list(self.connections):
            if connection.is_waiting or connection.in_service is None:
                connection.close()
        working = [connection.in_service for connection in self.connections if connection.in_service is not None]
        if working:
            await asyncio.wait(working, timeout=GRACE_MS / 1000)
        for connection in list(self.connections):
            connection.abort()
        await self._forget_listeners()

    def break_off(self) -> list[asyncio.Future[bool]]:
        """Break every connection at once, and accept no more. Returns the work that is cancelled by it."""
        self._accept_no_more()
        working = [connection.in_service for connection in self.connections if connection.in_service is not None]
        for connection in list(self.connections):
            connection.abort()
        for task in working:
            task.cancel()
        return working

    async def kill(self) -> None:
        """End everything at once, as the end of a process does."""
        working = self.break_off()
        if working:
            await asyncio.wait(working)
        await self._forget_listeners()

    # --- a reset of the broker

    async def suspend(self, is_kept: Callable[[Connection], bool]) -> list[ClosedClient]:
        """Serve no request until `begin_anew`, and close the connections that were made since the last reset, except
        those that are kept. Returns the clients of the closed ones."""
        self.is_suspended = True
        closed = [one for one in self.connections if not one.outlives_resets and not is_kept(one)]
        await self._abort(closed)
        for connection in self.connections:
            connection.outlives_resets = True
        # A follower, which is no client, comes through memory, and so from no port.
        return [ClosedClient(one.client_id, one.peer) for one in closed if one.peer[1]]

    async def _abort(self, connections: Sequence[Connection]) -> None:
        """Hang up at once, and return when nothing works on the requests of these connections."""
        working = [connection.in_service for connection in connections if connection.in_service is not None]
        for connection in connections:
            connection.abort()
        for task in working:
            task.cancel()
        if working:
            await asyncio.wait(working)
        await asyncio.sleep(0)  # the loop tells each connection that it is lost

    async def finish_requests(self) -> list[ClosedClient]:
        """Give the requests in service GRACE_MS to finish, and close the connections of those that do not. Returns the
        clients of these."""
        deadline_s = time.monotonic() + GRACE_MS / 1000
        while working := [one.in_service for one in self.connections if one.in_service is not None]:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                late = [one for one in self.connections if one.in_service is not None]
                await self._abort(late)
                return [ClosedClient(one.client_id, one.peer) for one in late]
            await asyncio.wait(working, timeout=left_s)
            await asyncio.sleep(0)  # what a wait has released goes on in this turn
        return []

    def begin_anew(self, services: "Services", *, set_back_ms: int) -> None:
        """Serve again, after `suspend` and by new parts of the broker, with addresses as at the start. The
        clock of liveness was set back by `set_back_ms`."""
        self.hints.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._use(services)
        for connection in self.connections:
            connection.begin_anew(set_back_ms=set_back_ms)
        self._watch_idle()
        self.resume()

    def _accept_no_more(self) -> None:
        self.is_closed = True
        self.hints.close()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        for server in self._servers:
            server.close()

    async def _forget_listeners(self) -> None:
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()
        self.listeners.clear()

    def resume(self) -> None:
        """Serve again after `is_suspended`."""
        self.is_suspended = False
        for connection in list(self.connections):
            connection.resume()

    def register(self, connection: Connection) -> str | None:
        """Register a new connection; return why it has to be refused, or None."""
        self.dismiss(connection)
        self.connections[connection] = None
        if self._idle_timer is None:
            self._watch_idle()
        connection.connected_at_ms = self.services.clock.now_ms()
        host = connection.peer[0]
        self._per_host[host] += 1
        if self.is_closed:
            return "it was accepted just when the listener closed"
        if len(self.connections) > self._most_connections:
            return f"the limit of open files leaves room for {self._most_connections} connections"
        refusal = self._over_a_limit(host, connection.listener.name)
        return refusal if refusal or self.gate is None else self.gate(connection)

    def admit(self, connection: Connection, host: str) -> str | None:
        """Count a connection from this host, whose TLS handshake begins; return why it has to be refused, or None."""
        self._handshaking[connection] = host
        self._per_host[host] += 1
        return self._over_a_limit(host, connection.listener.name)

    def dismiss(self, connection: Connection) -> None:
        """Count a connection no more as one amid its handshake, if it is."""
        host = self._handshaking.pop(connection, None)
        if host is not None:
            self._leave(host)

    def _over_a_limit(self, host: str, name: str) -> str | None:
        """The limit that the newest connection from this host to the listener of this name exceeds, in words."""
        config = self.services.config.current
        if len(self.connections) + len(self._handshaking) > config.max_connections:
            return f"max.connections is {config.max_connections}"
        most = listener_limit(config, name, "max.connections")
        if most is not None:
            count = sum(one.listener.name == name for one in (*self.connections, *self._handshaking))
            if count > most:
                return f"max.connections of the listener {name} is {most}"
        limit = config.max_connections_per_ip_overrides.get(host, config.max_connections_per_ip)
        return f"max.connections.per.ip is {limit}" if self._per_host[host] > limit else None

    def _leave(self, host: str) -> None:
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def throttle_ms(self, connection: Connection) -> int:
        """If the address of a new connection makes too many of them, after how many milliseconds this one is to be
        closed; else 0. Brokers of this process, which come from no port, are not counted."""
        quotas, (host, port) = self.services.quotas, connection.peer
        if quotas is None or not port:
            return 0
        return quotas.connection_throttle_ms(host, self.services.clock.liveness_ms())

    def hold_ms(self, connection: Connection) -> int:
        """How long a new connection has to wait until it is served, if more of them come than
        `max.connection.creation.rate`, to the broker or to its listener; else 0."""
        if not connection.peer[1]:
            return 0
        config, name = self.services.config.current, connection.listener.name
        bounds = {"": config.max_connection_creation_rate}
        own = listener_limit(config, name, "max.connection.creation.rate")
        if own is not None:
            bounds[name] = own
        return max(self._hold_ms(sharers, bound) for sharers, bound in bounds.items())

    def _hold_ms(self, sharers: str, bound: int) -> int:
        """Count a connection to the listener of this name, or to all under "", against that rate."""
        if bound == MAX_INT:
            return 0
        from ..quotas.rates import Rate, Windows  # most brokers have no such limit

        config, now_ms = self.services.config.current, self.services.clock.liveness_ms()
        creations = self._creations.get(sharers)
        if creations is None:
            windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
            creations = self._creations[sharers] = Rate(windows)
        creations.record(1, now_ms)
        # Kafka lets one pass each window where the rate is 0.
        return creations.throttle_ms(bound or 1 / config.quota_window_size_seconds, now_ms)

    def unregister(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        for watcher in self.when_left:
            watcher(connection)
        self._leave(connection.peer[0])

    def listener(self, name: str) -> Listener | None:
        """The listener of this name; None if the broker has none."""
        return next((listener for listener in self.listeners if listener.name == name), None)

    def _watch_idle(self) -> None:
        """Close connections that were idle for `connections.max.idle.ms`. Runs four times in that time, so a connection
        is closed late by a quarter of it at most.

        It rests while only brokers of this process are connected: they hold no sockets, and fetch as long as they run.
        """
        self._idle_timer = None
        watched = [connection for connection in self.connections if connection.peer[1]]
        max_idle_ms = self.services.config.current.connections_max_idle_ms
        if max_idle_ms < 0 or not watched:
            return
        now_ms = self.services.clock.liveness_ms()
        for connection in watched:
            is_worked_on = connection.in_service is not None and connection.waiting is None
            if connection.was_active or is_worked_on:
                connection.was_active = False
                connection.idle_since_ms = now_ms
            elif now_ms - connection.idle_since_ms >= max_idle_ms:
                connection.abort()  # its client has read nothing that was written to it, either
            else:
                connection.trim()
        self._idle_timer = self.services.clock.call_later(max(max_idle_ms // 4, 100), self._watch_idle, liveness=True)


def _set_buffers(listening: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    """Set the buffers that the connections of a listener inherit; -1 leaves a size to the system."""
    for option, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
        if size >= 0:
            listening.setsockopt(socket.SOL_SOCKET, option, size)


def listening_socket(name: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a socket that listens: clients can connect, and wait until a loop accepts them. An empty host is every
    address. Raises PortTaken."""
    family = socket.AF_INET6 if ":" in host or (not host and socket.has_dualstack_ipv6()) else socket.AF_INET
    try:
        if host:
            # As bytes, because text goes through a codec that is slow to import; only a name beyond ASCII needs it.
            socket.getaddrinfo(host.encode() if host.isascii() else host, port, family)
        return socket.create_server(
            (host, port), family=family, backlog=backlog, dualstack_ipv6=not host and family == socket.AF_INET6
        )
    except (socket.gaierror, UnicodeError) as error:
        raise PortTaken(f"cannot listen on {name}://{host}:{port}: the name has no address") from error
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise PortTaken(f"cannot listen on {name}://{host}:{port}: {os.strerror(error.errno)}") from error
        raise
