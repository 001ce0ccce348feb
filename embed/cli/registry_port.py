"""`kmini serve --registry`: the port of the schema registry, and when it begins to be served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.cli.extras import need_extra
from kmini.cli.listening_port import ListeningPort, import_server
from kmini.installed import REGISTRY

if TYPE_CHECKING:
    from kmini.registry.registry import Registry
    from kmini.registry.registry_server import RegistryServer
    from kmini.registry.schema_log import Served


class RegistryPort(ListeningPort):
    """The port of the schema registry, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, and UsageError where the
        extra "registry" is not installed."""
        need_extra("registry", *REGISTRY)
        super().__init__("schema registry", host, port)
        self._server: RegistryServer | None = None

    async def serve(self, served: Served) -> str:
        """Serve the requests that wait and those to come, in front of what runs. Return the address."""
        await import_server("kmini.registry.registry_server")
        from kmini.registry.registry_server import RegistryServer

        self._server = RegistryServer(served, self._host)
        await self._server.start(self._listening)
        return self.link

    @property
    def registry(self) -> Registry:
        """What is served."""
        assert self._server is not None
        return self._server.registry

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            await self._server.stop()
