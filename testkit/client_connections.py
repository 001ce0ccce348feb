"""The connections of clients: which exist, what they wait for, how they end."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from kmini.protocol.errors import ResourceNotFound

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.local_cluster import LocalCluster
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


class ClientOperations:
    """The operations on the connections of clients, of a broker and of a cluster."""

    core: LocalCluster

    async def clients(self) -> list[ClientConnection]:
        """The connections of clients, the oldest first.

        >>> [client.client_id for client in broker.clients()]
        []
        """
        found = [_shown(broker, connection) for broker, connection in _connections(self.core.brokers.values())]
        return sorted(found, key=lambda client: (client.since_ms, client.address))

    async def disconnect(self, client_id: str) -> int:
        """End all connections of a client as they are: a request that waits is never answered. Return how many there
        were. The client may connect again.

        `client_id` may have `*` for any text. Raises ResourceNotFound, which lists the connected ones.
        """
        named = [
            connection
            for _, connection in _connections(self.core.brokers.values())
            if fnmatchcase(connection.client_id or "", client_id) or connection.client_id == client_id
        ]
        if not named:
            names = sorted({connection.client_id or "" for _, connection in _connections(self.core.brokers.values())})
            more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            others = f"connected are: {', '.join(map(repr, names[:SHOWN]))}{more}" if names else "none is connected"
            raise ResourceNotFound(f"no client {client_id!r} is connected; {others}")
        for connection in named:
            connection.close()
        return len(named)


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
