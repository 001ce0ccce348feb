"""`kmini serve --http`: the port of the control API, its token, and when it begins to be served."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kmini.cli.extras import need_extra
from kmini.cli.listening_port import ListeningPort, import_server

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.control.control_server import ControlServer
    from kmini.control.steered import Steered

TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The token that requests must bring. It is no option, because other users of a machine see the options of programs."""


class HttpPort(ListeningPort):
    """The port of the control API, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, and UsageError where the
        extra "http" is not installed."""
        need_extra("http", "aiohttp")
        super().__init__("HTTP", host, port)
        self._steered: Steered | None = None
        self._server: ControlServer | None = None

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
        return self._steered

    def tell_of_registry(self, port: int) -> None:
        """Have the control API tell the port of the schema registry."""
        assert self._steered is not None
        self._steered.registry_port = port

    async def serve(self) -> str:
        """Serve the requests that wait and those to come. Return the link to the server.

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
        assert self._steered is not None
        self._server = ControlServer(self._steered, token or None)
        await self._server.start(self._listening)
        return link

    async def stop(self) -> None:
        """End all connections."""
        if self._server is not None:
            await self._server.stop()
