"""The host and port of each broker that a client is told, in Metadata, FindCoordinator and DescribeCluster.

A client gets the address that the broker has for the listener at which the client arrived, the first of these:

1. the one that was set while the broker runs (`overrides`);
2. that of `advertised.listeners`;
3. that of `kmini.mapped.listeners`, if the client came through a published port of the host (`port_mapping.py`);
4. the one at which it arrived; for another broker, that host with the port of the other broker's listener.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .port_mapping import PortMapping, read_routes

if TYPE_CHECKING:
    from ..services import Services
    from .listeners import Listener


class ArrivedConnection(Protocol):
    """A connection, as far as it decides on the addresses that its client is told."""

    listener: Listener
    peer: tuple[str, int]

    @property
    def arrived_at(self) -> tuple[str, int]: ...


class AdvertisedAddresses:
    """The addresses that clients of one broker are told."""

    def __init__(self, services: Services, listeners: Sequence[Listener]) -> None:
        """`listeners` are those of the broker that are bound; the caller adds to them."""
        self._services = services
        self._listeners = listeners
        self._mapped = services.config.current.kmini_mapped_listeners
        self._port_mapping = read_routes() if self._mapped else PortMapping("")
        self.overrides: dict[str, tuple[str, int]] = {}
        """Host and port that clients are told instead of `advertised.listeners`, by listener name."""

    def addresses_for(self, connection: ArrivedConnection) -> dict[int, tuple[str, int]]:
        """The host and port of each live broker for this client, by node id: of the listener of the same name."""
        services, addresses = self._services, {}
        is_mapped = self._is_mapped(connection)
        for registered in services.controller.brokers:
            if registered.node_id == services.node_id:
                addresses[registered.node_id] = self.address_for(connection)
            elif registered.broker is not None:
                found = registered.broker.address_for(
                    connection.listener.name, connection.arrived_at[0], is_mapped=is_mapped
                )
                if found is not None:
                    addresses[registered.node_id] = found
        return addresses

    def address_for(self, connection: ArrivedConnection) -> tuple[str, int]:
        """The host and port of this broker for a client of it."""
        advertised = self.advertised_at(connection.listener)
        if advertised is not None:
            return advertised
        mapped = self._mapped.get(connection.listener.name)
        return mapped if mapped and self._is_mapped(connection) else connection.arrived_at

    def address_elsewhere(self, listener: Listener, host: str, *, is_mapped: bool) -> tuple[str, int]:
        """The host and port of this broker for a client that arrived at the same listener of another broker, at `host`,
        or through a published port."""
        mapped = self._mapped.get(listener.name) if is_mapped else None
        return self.advertised_at(listener) or mapped or (host, listener.port)

    def advertised_at(self, listener: Listener) -> tuple[str, int] | None:
        """The host and port that all clients of a listener are told; None for those at which they arrived."""
        return self.overrides.get(listener.name, listener.advertised) if self.overrides else listener.advertised

    def override(self, host: str | None, port: int | None = None) -> None:
        """Tell clients of all listeners this address; without a port, that of each listener. None ends it."""
        self.overrides.clear()
        if host is not None:
            self.overrides.update({each.name: (host, each.port if port is None else port) for each in self._listeners})

    def _is_mapped(self, connection: ArrivedConnection) -> bool:
        """Whether a client arrived through a published port of the host."""
        return self._port_mapping.was_passed_by(connection.peer[0], connection.arrived_at[0])
