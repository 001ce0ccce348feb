"""`kmini serve --http`: the port of the control API, its token, and when it begins to be served."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kmini.broker.security.inter_broker import inter_broker_listener
from kmini.cli.extras import need_extra
from kmini.cli.listening_port import ListeningPort, import_server

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.cli.init_directory import InitDirectory
    from kmini.cli.registry_port import RegistryPort
    from kmini.control.control_server import ControlServer
    from kmini.control.steered import Steered

TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The token that requests must bring. It is no option, because other users of a machine see the options of programs."""


class HttpPort(ListeningPort):
    """The port of the control API, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int, init: InitDirectory | None) -> None:
        """Listen. An empty host is every address, port 0 any free port. `init` has the files that the start runs, if
        there are any. Raises PortTaken, and UsageError where the extra "http" is not installed."""
        need_extra("http", "aiohttp")
        super().__init__("HTTP", host, port)
        self._steered: Steered | None = None
        self._server: ControlServer | None = None
        self._token = ""
        self._registry_link = ""
        self._initializing: asyncio.Task[None] | None = None
        self.init = init
        """The files that the start runs, if there are any."""

    def steer(
        self,
        configs: Sequence[BrokerConfig],
        directory: str,
        create_topics: Callable[[BrokerServer], None],
        *,
        is_temporary: bool,
        cluster_id: str,
    ) -> Steered:
        """Return the broker, or the cluster of several, that the control API steers."""
        from kmini.control.steered import Steered

        self._steered = Steered(configs, directory, create_topics, is_temporary=is_temporary, cluster_id=cluster_id)
        if self.init is not None:
            self.init.announce(self._steered)
        return self._steered

    def tell_of_registry(self, port: RegistryPort) -> None:
        """Have the control API show the schema registry and tell its port, and the scripts of the init directory its
        address."""
        assert self._steered is not None
        self._steered.registry_port, self._steered.registry = port.port, port.registry
        self._registry_link = port.link

    async def serve(self, say_ready: Callable[[], None]) -> str:
        """Serve the requests that wait and those to come, and run the files of the init directory; `say_ready` is
        called when these are done. Return the link to the server.

        Requests must bring the token of KMINI_HTTP_TOKEN. Without one, loopback needs none, and any other address gets
        a new one: the link has it in its fragment, which browsers send nowhere.
        """
        await import_server("kmini.control.control_server")
        from kmini.control.access import new_token
        from kmini.control.control_server import ControlServer
        from kmini.http_hosts import is_loopback

        link = f"{self.link}/"
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token and not is_loopback(self._host):
            token = new_token()
            link += f"#token={token}"
        self._token = token
        assert self._steered is not None
        self._server = ControlServer(self._steered, token or None)
        await self._server.start(self._listening)
        gc.freeze()  # the objects of the server stay: no collection needs to examine them
        if self.init is not None:
            self._initializing = asyncio.create_task(self._initialize(self.init, say_ready))
        return link

    async def _initialize(self, init: InitDirectory, say_ready: Callable[[], None]) -> None:
        assert self._steered is not None
        environ = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": ",".join(map(address_inside, self._steered.brokers)),
            "KMINI_HTTP_URL": self.link,
        }
        if self._registry_link:
            environ["KMINI_SCHEMA_REGISTRY_URL"] = self._registry_link
        if self._token:
            environ[TOKEN_VARIABLE] = self._token
        if await init.run(self._steered, environ):
            say_ready()

    async def stop(self) -> None:
        """End what runs of the init directory, and all connections."""
        if self._initializing is not None:
            self._initializing.cancel()
            await asyncio.wait([self._initializing])
        if self._server is not None:
            await self._server.stop()


def address_inside(broker: BrokerServer) -> str:
    """host:port of the listener of a broker that programs beside it can use whatever clients outside are told: that of
    the other brokers."""
    name = inter_broker_listener(broker.config.current)
    return next(listener.address for listener in broker.server.listeners if listener.name == name)
