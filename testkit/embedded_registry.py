"""The schema registry beside a broker or a cluster inside a program: `Broker(registry=True)`.

The registry itself (`kmini.registry`, extra "registry") is imported when the first one starts: its libraries take time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kmini.broker.network.listeners import Endpoint
from kmini.broker.network.socket_server import listening_socket
from kmini.testkit import argument_checks, installed
from kmini.testkit.operations import Operations

if TYPE_CHECKING:
    from kmini.registry.registry_server import RegistryServer

BACKLOG = 128
"""Connections that wait to be accepted."""


class EmbeddedRegistry:
    """A schema registry in front of what runs. It keeps its port over a stop and a start, as the brokers do."""

    def __init__(self, host: str, port: int) -> None:
        """`port` 0 takes any free port. Raises ImportError where the extra is not installed."""
        if absent := installed.missing(installed.REGISTRY):
            raise ImportError(
                f"{', '.join(absent)} is not installed, which registry=True needs: install kmini with its extra "
                "registry, as pip install '.[registry]' in a clone does"
            )
        self._host = host
        self._port = port
        self._server: RegistryServer | None = None
        self.url = ""
        """Where clients reach it; empty while it does not run."""

    async def begin(self, running: Operations) -> None:
        """Serve requests. Raises PortTaken."""
        server_of = await asyncio.get_running_loop().run_in_executor(None, _registry_server)
        listening = listening_socket("schema registry", self._host, self._port, BACKLOG)
        try:
            server = server_of(lambda: running.running, self._host)
            await server.start(listening)
        except BaseException:
            listening.close()
            raise
        self._server, self._port = server, listening.getsockname()[1]
        self.url = f"http://{Endpoint('HTTP', self._host, self._port).address}"

    async def end(self) -> None:
        """End all connections."""
        server, self._server, self.url = self._server, None, ""
        if server is not None:
            await server.stop()


def _registry_server() -> type[RegistryServer]:
    from kmini.registry.registry_server import RegistryServer

    return RegistryServer


def embedded_registry(registry: bool, registry_port: int, host: str) -> EmbeddedRegistry | None:
    """The registry that arguments of a `Broker` or a `Cluster` ask for. Raises TypeError, ValueError, ImportError."""
    argument_checks.flag("registry", registry)
    argument_checks.integer("registry_port", registry_port, "a port, 0 for any free one", 0, 65_535)
    if registry_port and not registry:
        raise ValueError(f"registry_port={registry_port}: there is no registry without registry=True")
    return EmbeddedRegistry(host, registry_port) if registry else None
