"""Hints for people whose client does not get on with this broker, each logged once per client, at info.

- The client asks for a request, or a version of it, that is not served.
- The client came to one address (`bootstrap.servers`), was told another (`advertised.listeners`), and does not come to
  that one: with a wrong address, all that clients say is that they time out.

A client is a client id and a host. So many clients are remembered that a peer with many names takes no more than some
hundred KiB, and a hint may come again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.api_keys import API_KEYS, API_NAMES
from .clock import Timer
from .listeners import Endpoint
from .peer_log import PeerLog

if TYPE_CHECKING:
    from ..protocol.messages.headers import RequestHeader
    from .connection import Connection
    from .registry import Handler
    from .server import Server

peer_log = PeerLog(logging.getLogger("kmini.client"))

ARRIVAL_MS = 10_000
"""Milliseconds that a client has to come to the address it was told, before a hint says that it did not. Less than the
time-outs of clients, which are 30 s and more."""

MAX_CLIENTS = 1_000
"""Clients remembered for each kind of hint; the one that came first is forgotten."""
_MAX_NAME = 200
"""Characters of a client id that tell clients apart."""

_METADATA = frozenset({API_KEYS["Metadata"], API_KEYS["DescribeCluster"]})
"""Requests whose answer tells a client where to go."""
_BEFORE_ARRIVAL = _METADATA | {
    API_KEYS[name] for name in ("ApiVersions", "SaslHandshake", "SaslAuthenticate", "FindCoordinator", "InitProducerId")
}
"""Requests that clients also send to the address in `bootstrap.servers`. They send all others to brokers they were told
of."""
_RETRIES = 3
"""Connections without any other request, after the one on which the client was told an address, that show a client
which bootstraps again and again. One or two are a client that came, and has nothing to ask yet."""

_Client = tuple[str, str]
"""Client id and host."""


class ClientHints:
    """What is known of the clients of one broker's listeners."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._refused: dict[tuple[str, str, int], None] = {}
        """Client and API of requests that are not served."""
        self._travellers: dict[_Client, _Traveller] = {}

    def close(self) -> None:
        """Give no hints any more."""
        for traveller in self._travellers.values():
            traveller.cancel()
        self._travellers.clear()

    def not_served(self, connection: Connection, header: RequestHeader, handler: Handler | None) -> None:
        """Log that a client asks for what is not served, and what happens now: the first time."""
        key = (*_client_of(connection, header), header.api_key)
        if key in self._refused:
            return
        if len(self._refused) >= MAX_CLIENTS:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = None
        api = API_NAMES.get(header.api_key, f"API {header.api_key}")
        served = "" if handler is None else f" in versions {handler.min_version} to {handler.max_version}"
        if handler is not None and header.api_key == API_KEYS["ApiVersions"]:
            then = "it is answered in version 0, with the versions that are, and the client asks again"
        else:
            then = "its connection is closed, as by Apache Kafka; the answer to ApiVersions has what is served"
        peer_log.info(
            "client %s at %s asks for %s v%d, which is %sserved%s: %s",
            *(header.client_id or "without a name", connection.peer[0], api, header.api_version),
            *("not " if handler is None else "only ", served, then),
        )

    def watch(self, connection: Connection) -> Arrival | None:
        """What to tell of the requests of a new connection; None where clients are told the address they came to."""
        told = self._server.address_for(connection)
        return None if _is_same(told, connection.arrived_at) else Arrival(self, connection, told)

    def traveller(self, connection: Connection, header: RequestHeader) -> _Traveller | None:
        """What is known of a client that was told an address, or None."""
        return self._travellers.get(_client_of(connection, header))

    def depart(self, connection: Connection, header: RequestHeader, told: tuple[str, int]) -> None:
        """A client is told an address: expect it there."""
        if len(self._travellers) >= MAX_CLIENTS:
            self._travellers.pop(next(iter(self._travellers))).cancel()
        client = _client_of(connection, header)
        self._travellers[client] = _Traveller(self._server, client, connection, told)


class Arrival:
    """The first requests of a connection to a listener that tells clients another address."""

    __slots__ = ("_connection", "_hints", "_is_counted", "_told")

    def __init__(self, hints: ClientHints, connection: Connection, told: tuple[str, int]) -> None:
        self._hints = hints
        self._connection = connection
        self._told = told
        self._is_counted = False

    def asks(self, header: RequestHeader) -> None:
        """Take note of a request. Once the client does more than bootstrapping, the connection's `arrival` ends."""
        traveller = self._hints.traveller(self._connection, header)
        if header.api_key not in _BEFORE_ARRIVAL:
            self._connection.arrival = None
            if traveller is not None:
                traveller.arrived()
        elif traveller is None:
            if header.api_key in _METADATA:
                self._is_counted = True
                self._hints.depart(self._connection, header, self._told)
        elif not self._is_counted:
            self._is_counted = True
            traveller.connections += 1


class _Traveller:
    """A client that was told an address."""

    def __init__(self, server: Server, client: _Client, connection: Connection, told: tuple[str, int]) -> None:
        self.connections = 0
        """How many it has opened since."""
        self._client = client
        self._listener = connection.listener.name
        self._came_to = connection.arrived_at
        self._told = told
        self._timer: Timer | None = server.broker.clock.call_later(ARRIVAL_MS, self._is_late, liveness=True)

    def arrived(self) -> None:
        """It does what clients do at the address they were told: nothing is left to say about it."""
        self.cancel()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_late(self) -> None:
        self._timer = None
        if 0 < self.connections < _RETRIES:
            return
        client_id, host = self._client
        peer_log.info(
            "client %s at %s came to %s, was told to connect to %s, and has not done so in %d s. If it cannot reach "
            "that address, change advertised.listeners (in a container KAFKA_ADVERTISED_LISTENERS) for listener %s, or "
            "give the client a listener of its own in listeners",
            *(client_id or "without a name", host, _address(self._came_to), _address(self._told)),
            *(ARRIVAL_MS // 1000, self._listener),
        )


def _client_of(connection: Connection, header: RequestHeader) -> _Client:
    return (header.client_id or "")[:_MAX_NAME], connection.peer[0]


def _is_same(one: tuple[str, int], other: tuple[str, int]) -> bool:
    return one == other or (one[1] == other[1] and _is_loopback(one[0]) and _is_loopback(other[0]))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _address(where: tuple[str, int]) -> str:
    return Endpoint("", *where).address
