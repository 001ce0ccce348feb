"""The proxy: it listens on one local port for each broker, and keeps the clients on these ports.

The first port stands for the address that is traced. The others are opened when an answer first names their broker,
before that answer goes on. A broker that moves to another address keeps its port.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kmini.broker.network.listeners import Endpoint
from kmini.trace.proxied_connection import ProxiedConnection
from kmini.trace.rewriting import Node

if TYPE_CHECKING:
    import ssl

    from kmini.trace.observer import Observer
    from kmini.trace.proxied_faults import ProxiedFaults
    from kmini.trace.rewriting import LocalAddress

MOST_PORTS = 1_000
"""Ports that the proxy opens; the addresses of further brokers stay as they are."""
_BACKLOG = 1_024

Address = tuple[str, int]


class BrokerPort:
    """A local port, and the broker that it stands for."""

    def __init__(self, listener: socket.socket, upstream: Address, node: Node | None) -> None:
        self.listener = listener
        self.port: int = listener.getsockname()[1]
        self.upstream = upstream
        """Host and port of the broker."""
        self.node = node
        """None for the address that is traced, until an answer names it."""
        self.server: asyncio.Server | None = None

    @property
    def node_id(self) -> int:
        """The number of the broker; -1 while it is not known."""
        return -1 if self.node is None else self.node.id


class Proxy:
    """A proxy in front of the brokers of a cluster. `note` is told what happens beside the requests."""

    def __init__(
        self,
        target: Address,
        listen: Address,
        observer: Observer,
        note: Callable[[str], None],
        faults: ProxiedFaults | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """With `tls` the brokers are reached over TLS, and clients reach the proxy without."""
        self.observer = observer
        self.faults = faults
        self.tls = tls
        self.note = note
        self._target = target
        self._host, self._first_port = listen
        self._ports: list[BrokerPort] = []
        self._by_node: dict[Node, BrokerPort] = {}
        self._connections: set[ProxiedConnection] = set()
        self._count = 0
        self._starting: set[asyncio.Task[None]] = set()
        self._is_full = False

    async def start(self) -> int:
        """Listen; return the port that stands for the traced address. Raises OSError."""
        first = self._open(self._target, None, self._first_port)
        await self._serve(first)
        return first.port

    async def close(self) -> None:
        """Close all ports and connections."""
        for port in self._ports:
            if port.server is not None:
                port.server.close()
            port.listener.close()
        for connection in [*self._connections]:
            connection.close()
        await asyncio.sleep(0)  # the transports close in the loop's next turn
        for connection in [*self._connections]:
            connection.abort()
        if self.faults is not None:
            self.faults.close()

    # --- what connections call

    def opened(self, connection: ProxiedConnection) -> int:
        """Take a connection in; return its number."""
        self._connections.add(connection)
        self._count += 1
        return self._count

    def ended(self, connection: ProxiedConnection) -> None:
        """Forget a connection that has ended."""
        self._connections.discard(connection)

    def local_address(self, host: str) -> LocalAddress:
        """The addresses for a client that came to the proxy at `host`."""

        def local(node: Node, upstream_host: str, upstream_port: int) -> Address:
            port = self._port_for(node, (upstream_host, upstream_port))
            return (upstream_host, upstream_port) if port is None else (host, port.port)

        return local

    # --- ports

    def _port_for(self, node: Node, upstream: Address) -> BrokerPort | None:
        """The port that stands for a broker; None if there are too many."""
        known = self._by_node.get(node)
        if known is None:
            known = self._adopt_first(node, upstream) or self._open_for(node, upstream)
        elif known.upstream != upstream:
            if known is self._ports[0]:  # it goes on to stand for the traced address
                known.node = None
                known = self._open_for(node, upstream)
            else:
                self.note(f"{node} has moved from {shown(known.upstream)} to {shown(upstream)}")
                known.upstream = upstream
        return known

    def _adopt_first(self, node: Node, upstream: Address) -> BrokerPort | None:
        """The first port, if this node is at the traced address."""
        first = self._ports[0]
        if first.upstream != upstream or (first.node is not None and first.node != node):
            return None
        first.node = node
        self._by_node[node] = first
        return first

    def _open_for(self, node: Node, upstream: Address) -> BrokerPort | None:
        if len(self._ports) >= MOST_PORTS:
            if not self._is_full:
                self._is_full = True
                self.note(f"there are more than {MOST_PORTS} brokers: clients reach the others without the proxy")
            return None
        port = self._by_node[node] = self._open(upstream, node, self._ports[-1].port + 1)
        starting = asyncio.get_running_loop().create_task(self._serve(port))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)
        self.note(f"{shown((self._host, port.port))} -> {shown(upstream)} ({node})")
        return port

    def _open(self, upstream: Address, node: Node | None, port: int) -> BrokerPort:
        """Listen at a port; at any free one, if that is taken and not the first."""
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((self._host, port if self._first_port else 0))
            except (OSError, OverflowError):
                if not self._ports:
                    raise
                listener.bind((self._host, 0))
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        except BaseException:
            listener.close()
            raise
        opened = BrokerPort(listener, upstream, node)
        self._ports.append(opened)
        if self.faults is not None:
            self.faults.attach(opened)
        return opened

    async def _serve(self, port: BrokerPort) -> None:
        loop = asyncio.get_running_loop()
        port.server = await loop.create_server(lambda: ProxiedConnection(self, port).client, sock=port.listener)


def shown(address: Address) -> str:
    """host:port, with an IPv6 address in brackets."""
    return Endpoint("", *address).address
