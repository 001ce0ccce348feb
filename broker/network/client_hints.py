"""Hints about clients that cannot work with this broker, each logged once per client, at info.

- A client sends a request, or a version of it, that is not served.
- A client bootstraps through one address (`bootstrap.servers`), is told another (`advertised.listeners`), and does not
  connect to that one: with a wrong address, all that clients report is a time-out.

A client is a client id and a host. The number of remembered clients is bounded, so a peer with many client ids takes a
few hundred KiB at most; a hint about a forgotten client may come again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ...protocol.api_keys import API_KEYS, API_NAMES
from .listeners import Endpoint
from .peer_log import PeerLog, remember, remembered

if TYPE_CHECKING:
    from ...protocol.messages.headers import RequestHeader
    from ..api.registry import Handler
    from ..clock import Clock, Timer
    from .listeners import Listener

peer_log = PeerLog(logging.getLogger("kmini.client"))

REDIRECT_TIMEOUT_MS = 10_000
"""Milliseconds of liveness time that a client has to connect to the address it is told, before a hint. Less than the
time-outs of clients, which are 30 s or more."""

_REDIRECTING_APIS = frozenset({API_KEYS["Metadata"], API_KEYS["DescribeCluster"]})
"""Requests whose answer tells a client the addresses of brokers."""
_BOOTSTRAP_APIS = _REDIRECTING_APIS | {
    API_KEYS[name] for name in ("ApiVersions", "SaslHandshake", "SaslAuthenticate", "FindCoordinator", "InitProducerId")
}
"""Requests that clients also send on connections to `bootstrap.servers`. All others go to addresses from metadata."""
_RETRIES = 3
"""From this number on, later connections with bootstrap requests only show a client that bootstraps again and again.
One or two belong to a client that connects to the address it is told and has no other request yet."""

_ADVERTISED = "advertised.listeners (in a container KAFKA_ADVERTISED_LISTENERS)"
_MAPPED = "kmini.mapped.listeners (in a container KMINI_MAPPED_LISTENERS)"
"""The settings that tell clients another address than that at which they arrived."""

_Client = tuple[str, str]
"""Client id and host."""


class HintedConnection(Protocol):
    """A connection, as hints use it."""

    listener: Listener
    peer: tuple[str, int]
    redirect_watch: RedirectWatch | None

    @property
    def arrived_at(self) -> tuple[str, int]: ...


class ClientHints:
    """The clients of one broker's listeners about which a hint was given, or may be given soon."""

    def __init__(self, clock: Clock, address_for: Callable[[HintedConnection], tuple[str, int]]) -> None:
        """`address_for` gives the host and port that the client of a connection is told."""
        self._clock = clock
        self._address_for = address_for
        self._refused: dict[tuple[str, str, int], None] = {}
        """Client id, host and API key about which the hint was given."""
        self._redirected: dict[_Client, _RedirectedClient] = {}

    def close(self) -> None:
        """Cancel the hints that are due."""
        for client in self._redirected.values():
            client.cancel()
        self._redirected.clear()

    def not_served(self, connection: HintedConnection, header: RequestHeader, handler: Handler | None) -> None:
        """Log, the first time, that a client sent a request that is not served, and its outcome."""
        key = (*_client_of(connection, header), header.api_key)
        if key in self._refused:
            return
        remember(self._refused, key, None)
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

    def watch(self, connection: HintedConnection) -> RedirectWatch | None:
        """Return the watch over a new connection; None where clients are told the address at which they arrived."""
        advertised = self._address_for(connection)
        return None if _is_same(advertised, connection.arrived_at) else RedirectWatch(self, connection, advertised)

    def redirected(self, connection: HintedConnection, header: RequestHeader) -> _RedirectedClient | None:
        """Return the client that sends this request if it was told an address before, else None."""
        return self._redirected.get(_client_of(connection, header))

    def redirect(self, connection: HintedConnection, header: RequestHeader, advertised: tuple[str, int]) -> None:
        """Expect that this client connects to the address that it is told, `advertised`."""
        client = _client_of(connection, header)
        expected = _RedirectedClient(self._clock, client, connection, advertised)
        if (forgotten := remember(self._redirected, client, expected)) is not None:
            forgotten.cancel()


class RedirectWatch:
    """Observes the first requests of a connection to a listener that tells clients another address."""

    __slots__ = ("_advertised", "_connection", "_hints", "_is_counted")

    def __init__(self, hints: ClientHints, connection: HintedConnection, advertised: tuple[str, int]) -> None:
        self._hints = hints
        self._connection = connection
        self._advertised = advertised
        self._is_counted = False

    def request(self, header: RequestHeader) -> None:
        """Observe a request. The first request other than a bootstrap request ends the watch."""
        client = self._hints.redirected(self._connection, header)
        if header.api_key not in _BOOTSTRAP_APIS:
            self._connection.redirect_watch = None
            if client is not None:
                client.cancel()
        elif client is None:
            if header.api_key in _REDIRECTING_APIS:
                self._is_counted = True
                self._hints.redirect(self._connection, header, self._advertised)
        elif not self._is_counted:
            self._is_counted = True
            client.later_connections += 1


class _RedirectedClient:
    """A client that is expected at the address it was told; logs the hint when its time is up."""

    def __init__(
        self, clock: Clock, client: _Client, connection: HintedConnection, advertised: tuple[str, int]
    ) -> None:
        self.later_connections = 0
        """Connections of the client after the one on which it was told the address."""
        self._client = client
        self._listener = connection.listener
        self._arrived_at = connection.arrived_at
        self._advertised = advertised
        self._timer: Timer | None = clock.call_later(REDIRECT_TIMEOUT_MS, self._time_out, liveness=True)

    def cancel(self) -> None:
        """Give no hint about this client."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if 0 < self.later_connections < _RETRIES:
            return
        client_id, host = self._client
        peer_log.info(
            "client %s at %s came to %s, was told to connect to %s, and has not done so in %d s. If it cannot reach "
            "that address, change %s for listener %s, or give the client a listener of its own in listeners",
            *(client_id or "without a name", host, _address(self._arrived_at), _address(self._advertised)),
            *(REDIRECT_TIMEOUT_MS // 1000, _MAPPED if self._listener.advertised is None else _ADVERTISED),
            self._listener.name,
        )


def _client_of(connection: HintedConnection, header: RequestHeader) -> _Client:
    return remembered(header.client_id), connection.peer[0]


def _is_same(one: tuple[str, int], other: tuple[str, int]) -> bool:
    return one == other or (one[1] == other[1] and _is_loopback(one[0]) and _is_loopback(other[0]))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _address(where: tuple[str, int]) -> str:
    return Endpoint("", *where).address
