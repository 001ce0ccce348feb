"""The connections of clients: which exist, what they wait for, how they end; and the address that clients are told."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from kmini.protocol.errors import ResourceNotFound

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.network.connection import Connection

SHOWN = 10
"""Most client ids in an error message."""


class ClientConnection(NamedTuple):
    """A connection of a client. A client has several: Java's and librdkafka's have one to each broker, and more."""

    client_id: str
    """The client id of its last request; empty before the first one, and where the client gives none."""
    software: str
    """Name and version of the client's software, as it tells them ("librdkafka 2.10.0"); empty if it does not."""
    address: str
    """host:port of the client."""
    listener: str
    """The name of the listener that it came to ("PLAINTEXT")."""
    since_ms: int
    """When it connected, in milliseconds since the epoch of the broker's clock."""
    waits_for: str
    """Its request that waits: "Fetch of orders-0" is a long poll, "JoinGroup of group billing" a join that waits for
    other members, "Produce held by a fault rule" one that a test holds. Empty if none waits."""
    broker: int
    """The number of the broker."""


class ClientOperations(ABC):
    """The operations on the connections of clients, of a broker and of a cluster."""

    @property
    @abstractmethod
    def running(self) -> Collection[BrokerServer]:
        """The running brokers."""

    @abstractmethod
    def one_broker(self, number: int | None) -> BrokerServer:
        """The running broker of this number; None is the only one. Raises BrokerNotRunning, and ValueError for None
        where there are several."""

    async def clients(self) -> list[ClientConnection]:
        """The connections of clients, the oldest first.

        >>> [client.client_id for client in broker.clients()]
        []
        """
        found = [_shown(broker, connection) for broker, connection in _connections(self.running)]
        return sorted(found, key=lambda client: (client.since_ms, client.address))

    async def disconnect(self, client_id: str) -> int:
        """End all connections of a client as they are: a request that waits is never answered. Return how many there
        were. The client may connect again.

        `client_id` may have `*` for any text. Raises ResourceNotFound, which lists the connected ones.
        """
        named = [
            connection
            for _, connection in _connections(self.running)
            if fnmatchcase(connection.client_id or "", client_id) or connection.client_id == client_id
        ]
        if not named:
            names = sorted({connection.client_id or "" for _, connection in _connections(self.running)})
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            others = f"connected are: {', '.join(map(repr, names[:SHOWN]))}{more}" if names else "none is connected"
            raise ResourceNotFound(f"no client {client_id!r} is connected; {others}")
        for connection in named:
            connection.close()
        return len(named)

    async def advertise(self, host: str | None, port: int | None = None, *, broker: int | None = None) -> None:
        """Tell clients this host and port from now on, in every answer that has the address of a broker: Metadata,
        FindCoordinator, DescribeCluster. For a proxy or a mapped port in front of a broker that runs already.

        Without a port it is that of each listener; `host` None ends it, and so does a reset. `broker` is needed where
        there are several. `bootstrap_servers` stays, and so do connections. Raises ValueError and BrokerNotRunning.

        >>> broker.advertise("127.0.0.1", 19092)
        >>> broker.advertise(None)
        """
        self.one_broker(broker).server.advertised.override(host, port)


def host_and_port(host: str, port: int) -> str:
    """An address as text; an IPv6 address stands in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connections(running: Collection[BrokerServer]) -> Iterator[tuple[BrokerServer, Connection]]:
    """The connections of clients; those of other brokers come from port 0."""
    for broker in running:
        for connection in list(broker.server.connections):
            if connection.peer[1] != 0 and not connection.is_closing:
                yield broker, connection


def _shown(broker: BrokerServer, connection: Connection) -> ClientConnection:
    return ClientConnection(
        connection.client_id or "",
        " ".join(filter(None, connection.software)),
        host_and_port(*connection.peer),
        connection.listener.name,
        connection.connected_at_ms,
        connection.waits_for,
        broker.node_id,
    )
