"""`kmini serve --http`: the port of the control API, its token, and when it begins to be served.

The port listens before the broker starts: a taken one is told at once, and a client that comes early waits for its
answer. aiohttp is imported once clients of Kafka can connect, in a thread, so that their first answer does not wait.
"""

from __future__ import annotations

import asyncio
import mimetypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kmini.broker.network.listeners import Endpoint
from kmini.broker.network.socket_server import PortTaken, listening_socket
from kmini.broker.security.inter_broker import inter_broker_listener
from kmini.cli.extras import need_extra
from kmini.cli.taken_port import remedy

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.cli.init_directory import InitDirectory
    from kmini.control.control_server import ControlServer
    from kmini.control.steered import Steered

TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The token that requests must bring. It is no option, because other users of a machine see the options of programs."""

IMPORT_SWITCHES = {
    "SSL_CERT_FILE": os.devnull,
    "SSL_CERT_DIR": os.devnull,
    "FROZENLIST_NO_EXTENSIONS": "1",
}
"""Environment variables while aiohttp is imported, so that it leaves out of memory what the server does not use: the
certificates of the system for aiohttp's client (2 MiB), and the C++ library under frozenlist (1 MiB), which keeps some
lists that a request only reads."""

BACKLOG = 128
"""Connections that wait to be accepted."""


class HttpPort:
    """The port of the control API, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, and UsageError where the
        extra "http" is not installed."""
        need_extra("http", "aiohttp")
        self._host = host
        self._listening = listening_socket("HTTP", host, port, BACKLOG)
        self.port: int = self._listening.getsockname()[1]
        """The port that was bound."""
        self._steered: Steered | None = None
        self._server: ControlServer | None = None
        self._token = ""
        self._initializing: asyncio.Task[None] | None = None
        self.init: InitDirectory | None = None
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

    async def serve(self, say_ready: Callable[[], None]) -> str:
        """Serve the requests that wait and those to come, and run the files of the init directory; `say_ready` is
        called when these are done. Return the link to the server.

        Requests must bring the token of KMINI_HTTP_TOKEN. Without one, loopback needs none, and any other address gets
        a new one: the link has it in its fragment, which browsers send nowhere.
        """
        await asyncio.get_running_loop().run_in_executor(None, _import_server)
        from kmini.control.access import is_loopback, new_token
        from kmini.control.control_server import ControlServer

        link = f"{self._url}/"
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token and not is_loopback(self._host):
            token = new_token()
            link += f"#token={token}"
        self._token = token
        assert self._steered is not None
        self._server = ControlServer(self._steered, token or None)
        await self._server.start(self._listening)
        if self.init is not None:
            self._initializing = asyncio.create_task(self._initialize(self.init, say_ready))
        return link

    async def _initialize(self, init: InitDirectory, say_ready: Callable[[], None]) -> None:
        assert self._steered is not None
        environ = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": ",".join(map(address_inside, self._steered.brokers)),
            "KMINI_HTTP_URL": self._url,
        }
        if self._token:
            environ[TOKEN_VARIABLE] = self._token
        if await init.run(self._steered, environ):
            say_ready()

    @property
    def _url(self) -> str:
        return f"http://{Endpoint('HTTP', self._host, self.port).address}"

    async def stop(self) -> None:
        """End what runs of the init directory, and all connections."""
        if self._initializing is not None:
            self._initializing.cancel()
            await asyncio.wait([self._initializing])
        if self._server is not None:
            await self._server.stop()

    def close(self) -> None:
        """Close the port."""
        self._listening.close()


@contextmanager
def open_http_port(host: str, port: int, init: InitDirectory | None = None) -> Iterator[HttpPort]:
    """The port, which listens from now on. Its server also runs `init`. Raises click.UsageError if it cannot be had."""
    try:
        http = HttpPort(host, port)
    except PortTaken as error:
        raise click.UsageError(f"{error}; {remedy(error, '--http', '--http-host')}") from error
    http.init = init
    try:
        yield http
    finally:
        http.close()


def address_inside(broker: BrokerServer) -> str:
    """host:port of the listener of a broker that programs beside it can use whatever clients outside are told: that of
    the other brokers."""
    name = inter_broker_listener(broker.config.current)
    return next(listener.address for listener in broker.server.listeners if listener.name == name)


def _import_server() -> None:
    """Import the server, and with it aiohttp, without what of that the server does not use."""
    mimetypes.init(files=())  # otherwise aiohttp reads the machine's tables of media types
    before = {name: os.environ.get(name) for name in IMPORT_SWITCHES}
    os.environ.update(IMPORT_SWITCHES)
    try:
        import kmini.control.control_server  # noqa: F401 (it is wanted in memory)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
