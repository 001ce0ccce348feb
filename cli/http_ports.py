"""`kmini serve`: the ports beside Kafka's, those of the control API (`--http`), of the schema registry (`--registry`)
and of the issuer of tokens (`--issuer`). Nothing of this is imported where none is asked for.

All listen before the broker starts: a taken port is told at once, and a client that comes early waits for its answer.
Their servers are imported once clients of Kafka can connect, in a thread, so that their first answer does not wait.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kmini.broker.network.listeners import Endpoint
from kmini.broker.network.socket_server import PortTaken, listening_socket
from kmini.broker.security.inter_broker import inter_broker_listener
from kmini.cli.environment import Environment
from kmini.cli.extras import need_extra
from kmini.testkit.installed import OAUTH, REGISTRY
from kmini.web.http_hosts import is_loopback

if TYPE_CHECKING:
    import ssl

    from kmini.broker.broker import BrokerServer
    from kmini.broker.quick_security import QuickSecurity
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.cli.init_directory import InitDirectory
    from kmini.control.control_server import ControlServer
    from kmini.control.managed_brokers import ManagedBrokers
    from kmini.registry.registry import Registry
    from kmini.registry.registry_server import RegistryServer
    from kmini.registry.schema_log import Brokers
    from kmini.testkit.embedded_issuer import EmbeddedIssuer

BACKLOG = 128
"""Connections that wait to be accepted."""

Port = TypeVar("Port", bound="ListeningPort")

LOOPBACK = "127.0.0.1"

TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The token that requests must bring. It is no option, because other users of a machine see the options of programs."""


# --- which are wanted


class _Kind(NamedTuple):
    """A port that may be wanted."""

    option: str
    what: str


_HTTP = _Kind("http", "control API")
_REGISTRY = _Kind("registry", "schema registry")


@contextmanager
def open_ports(
    environment: Environment,
    given: Mapping[str, Any],
    host: str | None,
    init: InitDirectory | None,
    write: Callable[[str, str], None],
    security: QuickSecurity | None,
) -> Iterator[ExtraPorts]:
    """The ports that options or the environment ask for, which listen from now on. `host` is the broker's, where an
    option says it: that of the issuer of tokens, too. The start runs the files of `init`; `write` writes a text to a
    file. Control API and registry are served by the TLS of `security`, if it has any, where others than this machine
    reach them. Raises click.UsageError."""
    tls = None if security is None else security.http_context()
    with ExitStack() as stack:
        http = registry = issuer = None
        place = _place(_HTTP, given, environment.http_port, environment.http_host, environment)
        if place is None and init is not None:
            raise click.UsageError(
                "the files of an init directory need the control API, which says when they are done: add --http PORT, "
                "or set KMINI_HTTP"
            )
        if place is not None:
            http = stack.enter_context(opened(lambda: ControlPort(*place, tls, init), "--http"))
        registry_place = _place(_REGISTRY, given, environment.registry_port, environment.registry_host, environment)
        if registry_place is not None:
            registry = stack.enter_context(opened(lambda: RegistryPort(*registry_place, tls), "--registry"))
        if security is not None and security.has_tokens:
            users, address = security.users, host or ("" if environment.is_read else LOOPBACK)
            number = (environment.issuer_port if given["issuer"] is None else given["issuer"]) or 0
            issuer = stack.enter_context(opened(lambda: IssuerPort(address, number, users), "--issuer"))
        elif (given["issuer"], environment.issuer_port) != (None, None):
            raise click.UsageError("--issuer (KMINI_ISSUER): only --sasl OAUTHBEARER needs an issuer of tokens")
        files = {kind.option: given[f"{kind.option}_port_file"] for kind in (_HTTP, _REGISTRY)}
        yield ExtraPorts(http, registry, issuer, files, write)


def _place(
    kind: _Kind, given: Mapping[str, Any], port_of_environment: int | None, host: str, environment: Environment
) -> tuple[str, int] | None:
    """The host and the port of a wanted server; None if it is not wanted. Raises click.UsageError."""
    port = port_of_environment if given[kind.option] is None else given[kind.option]
    if port is not None:
        return given[f"{kind.option}_host"] or (host if environment.is_read else LOOPBACK), port
    for name in ("host", "port_file"):
        if given[f"{kind.option}_{name}"] is not None:
            option = f"--{kind.option}-{name.replace('_', '-')}"
            raise click.UsageError(f"{option}: there is no {kind.what} without --{kind.option} PORT")
    return None


# --- their life


class ExtraPorts:
    """The wanted ports, which listen from the beginning, and their servers."""

    def __init__(
        self,
        http: ControlPort | None,
        registry: RegistryPort | None,
        issuer: IssuerPort | None,
        files: Mapping[str, str | None],
        write: Callable[[str, str], None],
    ) -> None:
        """`files` has the file for the port of each, by its option; `write` writes a text to one."""
        self.http = http
        self._registry = registry
        self._issuer = issuer
        self._files = files
        self._write = write

    @property
    def runs_files(self) -> bool:
        """Whether there is an init directory: `serve` says when its files have been run."""
        return self.http is not None and self.http.init is not None

    def trusted(self, config: BrokerConfig, security: QuickSecurity | None) -> BrokerConfig:
        """The configuration of a broker that takes the tokens of the issuer, if there is one."""
        if self._issuer is None or security is None:
            return config
        return self._issuer.issuer.trusted(config, security)

    async def serve(self, brokers: Brokers, say_ready: Callable[[], None]) -> None:
        """Serve what is wanted in front of what runs, and tell where. The control API comes last: when it says that all
        is ready, the others are. `say_ready` is called when the files of the init directory have been run, if there is
        one."""
        if self._issuer is not None:
            await self._issuer.issuer.begin()
            click.echo(f"issuer of tokens {self._issuer.issuer.url}")
        if self._registry is not None:
            click.echo(f"schema registry {await self._registry.serve(brokers)}")
            self._tell(_REGISTRY, self._registry.port)
            if self.http is not None:
                self.http.tell_of_registry(self._registry)
        if self.http is not None:
            click.echo(await self.http.serve(say_ready))
            self._tell(_HTTP, self.http.port)

    def _tell(self, kind: _Kind, port: int) -> None:
        file = self._files[kind.option]
        if file is not None:
            self._write(file, f"{port}\n")

    async def stop(self) -> None:
        """End all connections, and remove the files."""
        for file in filter(None, self._files.values()):
            with suppress(FileNotFoundError):
                os.remove(file)
        if self.http is not None:
            await self.http.stop()
        if self._registry is not None:
            await self._registry.stop()
        if self._issuer is not None:
            await self._issuer.issuer.end()


# --- a port that listens


class ListeningPort:
    """A port that listens from the beginning."""

    def __init__(self, what: str, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen. An empty host is every address, port 0 any free port. `tls` is used unless only this machine reaches
        the host. Raises PortTaken, which says what the port is for."""
        self._host = host
        self._tls = None if is_loopback(host) else tls
        self._listening = listening_socket(what, host, port, BACKLOG)
        self.port: int = self._listening.getsockname()[1]
        """The port that was bound."""

    @property
    def link(self) -> str:
        """The address by which a client on this machine reaches it."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{Endpoint('HTTP', self._host, self.port).address}"

    def close(self) -> None:
        """Close the port."""
        self._listening.close()


@contextmanager
def opened(listen: Callable[[], Port], option: str) -> Iterator[Port]:
    """The port that `listen` makes, which listens from now on. `option` names it, and with `-host` behind it its
    address. Raises click.UsageError if it cannot be had."""
    try:
        port = listen()
    except PortTaken as error:
        raise click.UsageError(f"{error}; {remedy(error, option, f'{option}-host')}") from error
    try:
        yield port
    finally:
        port.close()


async def import_server(module: str) -> None:
    """Import a server in a thread: clients of Kafka are served meanwhile."""
    await asyncio.get_running_loop().run_in_executor(None, import_module, module)


def remedy(error: Exception, port_option: str, host_option: str) -> str:
    """The remedy for a PortTaken error, with the options that name the port and the address."""
    number = getattr(error.__cause__, "errno", None)
    if number == errno.EADDRINUSE:
        return f"stop the program that listens there, or choose another port with {port_option} (0 takes any free one)"
    if number == errno.EACCES:
        return f"ports below 1024 are the administrator's, choose another one with {port_option}"
    return f"choose an address of this machine with {host_option}"


# --- the control API


class ControlPort(ListeningPort):
    """The port of the control API, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, init: InitDirectory | None) -> None:
        """Listen. An empty host is every address, port 0 any free port. `init` has the files that the start runs, if
        there are any. Raises PortTaken, and UsageError where the extra "http" is not installed."""
        need_extra("http", "h11")
        super().__init__("HTTP", host, port, tls)
        self._managed: ManagedBrokers | None = None
        self._server: ControlServer | None = None
        self._token = ""
        self._registry_link = ""
        self._initializing: asyncio.Task[None] | None = None
        self.init = init
        """The files that the start runs, if there are any."""

    def manage(
        self,
        configs: Sequence[BrokerConfig],
        directory: str,
        create_topics: Callable[[BrokerServer], None],
        *,
        is_temporary: bool,
        cluster_id: str,
    ) -> ManagedBrokers:
        """Return the broker, or the cluster of several, that the control API steers."""
        from kmini.control.managed_brokers import ManagedBrokers

        self._managed = ManagedBrokers(
            configs, directory, create_topics, is_temporary=is_temporary, cluster_id=cluster_id
        )
        if self.init is not None:
            self.init.announce(self._managed)
        return self._managed

    def tell_of_registry(self, port: RegistryPort) -> None:
        """Have the control API show the schema registry and tell its port, and the scripts of the init directory its
        address."""
        assert self._managed is not None
        self._managed.registry_port, self._managed.registry = port.port, port.registry
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

        link = f"{self.link}/"
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token and not is_loopback(self._host):
            token = new_token()
            link += f"#token={token}"
        self._token = token
        assert self._managed is not None
        self._server = ControlServer(self._managed, token or None)
        await self._server.start(self._listening, self._tls)
        gc.freeze()  # the objects of the server stay: no collection needs to examine them
        if self.init is not None:
            self._initializing = asyncio.create_task(self._initialize(self.init, say_ready))
        return link

    async def _initialize(self, init: InitDirectory, say_ready: Callable[[], None]) -> None:
        assert self._managed is not None
        environ = {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": ",".join(map(address_inside, self._managed.brokers)),
            "KMINI_HTTP_URL": self.link,
        }
        if self._registry_link:
            environ["KMINI_SCHEMA_REGISTRY_URL"] = self._registry_link
        if self._token:
            environ[TOKEN_VARIABLE] = self._token
        if await init.run(self._managed, environ):
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


# --- the schema registry


class RegistryPort(ListeningPort):
    """The port of the schema registry, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, and UsageError where the
        extra "registry" is not installed."""
        need_extra("registry", *REGISTRY)
        super().__init__("schema registry", host, port, tls)
        self._server: RegistryServer | None = None

    async def serve(self, brokers: Brokers) -> str:
        """Serve the requests that wait and those to come, in front of what runs. Return the address."""
        await import_server("kmini.registry.registry_server")
        from kmini.registry.registry_server import RegistryServer

        self._server = RegistryServer(brokers, self._host)
        await self._server.start(self._listening, self._tls)
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


# --- the issuer of tokens


class IssuerPort(ListeningPort):
    """The port of the issuer of tokens, which listens from the beginning, and its server."""

    def __init__(self, host: str, port: int, users: Mapping[str, str]) -> None:
        """Listen. An empty host is every address, port 0 any free port. Raises PortTaken, and UsageError where the
        extra "oauth" is not installed."""
        need_extra("oauth", *OAUTH)
        super().__init__("issuer of tokens", host, port, None)
        from kmini.testkit.embedded_issuer import EmbeddedIssuer

        self.issuer: EmbeddedIssuer = EmbeddedIssuer(host, users, self._listening)
