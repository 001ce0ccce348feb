"""`kmini serve`: a broker in the foreground, or several.

The first line on stdout is the address of the broker, printed once clients can connect; several brokers have a line
each, printed once all can be reached. Everything else goes to stderr: the data directory, first steps, and logs. The
broker is imported after the arguments are checked; no client is imported.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import click

from kmini.cli.environment import (
    EVERY_ADDRESS,
    MAX_BROKERS,
    MAX_INIT_TIMEOUT_MS,
    MAX_PORT,
    NO_ENVIRONMENT,
    Environment,
    Security,
    complete,
    mounted_file,
    read_environment,
)
from kmini.cli.first_steps import show_first_steps
from kmini.cli.log_output import log_format_option, log_to_stderr, notice
from kmini.cli.option_values import parse_setting, read_properties

if TYPE_CHECKING:
    import asyncio

    from kmini.broker.broker import BrokerServer
    from kmini.broker.local_cluster import LocalCluster
    from kmini.broker.quick_security import QuickSecurity
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.cli.http_ports import ExtraPorts
    from kmini.cli.init_directory import InitDirectory
    from kmini.cli.wanted_topics import NewTopic
    from kmini.control.managed_brokers import ManagedBrokers

LOG_LEVELS = ("debug", "info", "warning", "error")


@click.command()
@click.argument("properties_file", metavar="[server.properties]", required=False, type=click.Path(dir_okay=False))
@click.option("-c", "--config", "settings", metavar="KEY=VALUE", multiple=True, help="A setting, by Kafka's name.")
@click.option("--host", metavar="HOST", help="Listen on this address.  [default: 127.0.0.1]")
@click.option(
    "--port", metavar="PORT", type=click.IntRange(0, MAX_PORT), help="0 takes any free port.  [default: 9092]"
)
@click.option(
    "--brokers",
    "count",
    metavar="NUMBER",
    type=click.IntRange(1, MAX_BROKERS),
    help="Number of brokers, on PORT and the ports after it.  [default: 1]",
)
@click.option(
    "--data-dir", metavar="DIR", help="Keep the data here.  [default: a temporary directory, removed at the end]"
)
@click.option(
    "--topic",
    "topics",
    metavar="NAME:PARTITIONS[:compact]",
    multiple=True,
    help="Create this topic if it does not exist.",
)
@click.option(
    "--as-version",
    metavar="RELEASE",
    help="Serve the requests and versions of Apache Kafka 2.8, 3.9, 4.0 or 4.3, and no others.",
)
@click.option(
    "--port-file",
    metavar="FILE",
    help="File for the port of each broker, a line each, once clients can connect; removed at the end.",
)
@click.option(
    "--log-level",
    type=click.Choice(LOG_LEVELS),
    help="Least level of the log on stderr; debug logs each request.  [default: info]",
)
@click.option(
    "--http",
    metavar="PORT",
    type=click.IntRange(0, MAX_PORT),
    help="Serve the control API here too; 0 takes any free port.",
)
@click.option(
    "--http-host",
    metavar="HOST",
    help="Address of the control API; another one than this machine's own needs a token.  [default: 127.0.0.1]",
)
@click.option("--http-port-file", metavar="FILE", help="File for the port of the control API, once it is served.")
@click.option(
    "--registry",
    metavar="PORT",
    type=click.IntRange(0, MAX_PORT),
    help="Serve a schema registry here too; 0 takes any free port.",
)
@click.option("--registry-host", metavar="HOST", help="Address of the schema registry.  [default: 127.0.0.1]")
@click.option(
    "--registry-port-file", metavar="FILE", help="File for the port of the schema registry, once it is served."
)
@click.option(
    "--issuer",
    metavar="PORT",
    type=click.IntRange(0, MAX_PORT),
    help="Serve the issuer of tokens of --sasl OAUTHBEARER here.  [default: any free port]",
)
@click.option(
    "--init-dir",
    metavar="DIR",
    help="Run the files in DIR, *.topics, *.jsonl, *.json and *.sh, before the control API says ready.",
)
@click.option(
    "--init-timeout-ms",
    metavar="MS",
    type=click.IntRange(1, MAX_INIT_TIMEOUT_MS),
    help="Time that a script of --init-dir may take.  [default: 60000]",
)
@click.option(
    "--tls",
    type=click.Choice(("auto", "mutual")),
    help="Serve TLS, with certificates that kmini makes; mutual wants certificates of clients, too.",
)
@click.option(
    "--sasl",
    metavar="MECHANISM",
    help="Have clients log in by PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.  [default with --user: "
    "SCRAM-SHA-512]",
)
@click.option(
    "--user", "users", metavar="NAME[:PASSWORD]", multiple=True, help="A user, with a random password if none is given."
)
@click.option("--acl", "acls", metavar="RULE", multiple=True, help='What a user may do: "alice Write topic:orders".')
@log_format_option
@click.option(
    "--env",
    "from_environment",
    is_flag=True,
    help="Run as in a container: use KAFKA_* variables, listen on every address.",
)
def serve(
    properties_file: str | None,
    settings: tuple[str, ...],
    host: str | None,
    port: int | None,
    count: int | None,
    data_dir: str | None,
    topics: tuple[str, ...],
    as_version: str | None,
    port_file: str | None,
    log_level: str | None,
    init_dir: str | None,
    init_timeout_ms: int | None,
    tls: str | None,
    sasl: str | None,
    users: tuple[str, ...],
    acls: tuple[str, ...],
    log_format: str,
    from_environment: bool,
    **beside: Any,
) -> None:
    """Run a broker until it is stopped (Ctrl-C, or SIGTERM).

    Settings come from server.properties, then from the environment if --env says so, then from -c, then from the
    options, the later ones winning; names and meanings are Kafka's. The first line on stdout is the address; with
    --brokers, each has a line. Topics have as many replicas as default.replication.factor says, which is 1.

    With --registry, the line after them has the address of the schema registry, and with --http the next one is the
    link of the control API, each once it is served. Where the control API listens at another address than this
    machine's own, requests need a token: that of KMINI_HTTP_TOKEN, or a new one that the link has.
    With --init-dir, /health of the control API says ready when the files have been run, in the order of their names.

    With --tls, --sasl or --user, a file for --command-config has all that a client needs to come in as the user; its
    path is on stderr, and `kmini client-config` says the same in the words of other clients.

    \b
    kmini serve                                     to try it: 127.0.0.1:9092, no stored data
    kmini serve --data-dir data --topic orders:3    with stored data, and a topic
    kmini serve --port 0 --port-file port           for scripts: any free port
    kmini serve -c log.retention.ms=60000           with a setting of Kafka's
    kmini serve --brokers 3 -c default.replication.factor=3    a cluster, and a replica on each
    kmini serve --http 8090                         with the control API by curl, and its page
    kmini serve --registry 8081                     with a schema registry
    kmini serve --tls auto --user alice             with TLS, and a user with a password
    """
    with _collection_paused():
        new_topics = _topics(topics)
        environment = read_environment(os.environ) if from_environment else NO_ENVIRONMENT
        properties = settings_of(properties_file, environment, settings, is_container=from_environment)
        if data_dir is not None:
            properties["log.dirs"] = data_dir
        if as_version is not None:
            properties["kmini.as.version"] = as_version
        asked = environment.security.beneath(Security(tls, sasl, users, acls))
        own = (beside["http_host"] or environment.http_host, beside["registry_host"] or environment.registry_host)
        security = _security(properties, asked, [*filter(None, (host, *own))], environment)
        if from_environment:
            complete(properties, os.environ)
        log_to_stderr(log_format, log_level or environment.log_level or "info")
        environment.say()
        config = _config(properties, host, port)
        configs = [config]
        count = count or environment.brokers
        if count > 1:
            from kmini.cli.several_brokers import configs_after

            configs += configs_after(config, count)
        wanted = [*environment.topics, *new_topics]
        init = _init(init_dir or environment.init_dir, init_timeout_ms or environment.init_timeout_ms, wanted)
        with _extra_ports(environment, beside, host, init, security) as ports, _data_directory(config) as directory:
            if ports is not None:
                configs = [ports.trusted(config, security) for config in configs]
            _run(configs, directory, wanted, port_file, environment, ports, security)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause the garbage collector, which `_serve` resumes: the objects that a start makes stay, and it would examine
    them again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _run(
    configs: Sequence[BrokerConfig],
    directory: str,
    topics: list[NewTopic],
    port_file: str | None,
    environment: Environment,
    ports: ExtraPorts | None,
    security: QuickSecurity | None,
) -> None:
    """Serve until stopped; turn errors of the start into sentences."""
    from kmini.broker.controller.controller import ControllerError
    from kmini.broker.network.event_loop import new_event_loop, raise_descriptor_limit
    from kmini.broker.network.socket_server import PortTaken
    from kmini.protocol.errors import KafkaStorageError
    from kmini.storage.filesystem import LockHeld
    from kmini.storage.log_manager import WrongLogDirectory

    raise_descriptor_limit()
    loop = new_event_loop()
    make = Plain if ports is None or ports.http is None else ports.http.manage

    def prepare(broker: BrokerServer) -> None:
        if security is not None:
            security.create(broker.controller, directory)
        if topics:
            from kmini.cli.wanted_topics import create_missing

            create_missing(broker, topics)

    try:
        served: Plain | ManagedBrokers = make(
            configs,
            directory,
            prepare,
            is_temporary=not configs[0].data_dir,
            cluster_id=environment.cluster_id,
        )
        loop.run_until_complete(_serve(loop, served, port_file, environment, ports, security))
        loop.run_until_complete(loop.shutdown_default_executor())
    except PortTaken as error:
        from kmini.cli.http_ports import remedy

        raise click.UsageError(f"{error}; {remedy(error, '--port', '--host')}") from error
    except (ControllerError, KafkaStorageError, LockHeld, WrongLogDirectory) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"cannot use {error.filename or directory}: {error.strerror or error}") from error
    finally:
        loop.close()


class Plain:
    """A broker or a cluster without a control API, which imports nothing of the test kit. `ManagedBrokers` of control/
    is the one with it."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        directory: str,
        create_topics: Callable[[BrokerServer], None],
        *,
        is_temporary: bool,
        cluster_id: str,
    ) -> None:
        """A broker for each configuration. `create_topics` creates the missing ones of the wanted topics."""
        self.brokers: Sequence[BrokerServer] = ()
        self._create_topics = create_topics
        self._several: LocalCluster | None = None
        self._start_one: Callable[[], Awaitable[BrokerServer]] | None = None
        if len(configs) == 1:
            from kmini.broker.broker import BrokerServer

            self._start_one = lambda: BrokerServer.start(
                configs[0], directory, is_temporary=is_temporary, cluster_id=cluster_id, before_open=create_topics
            )
        else:
            from kmini.broker.local_cluster import LocalCluster

            self._several = LocalCluster(configs, directory, is_temporary=is_temporary, cluster_id=cluster_id)

    async def start(self) -> None:
        if self._start_one is not None:
            self.brokers = [await self._start_one()]
        elif self._several is not None:
            several = self._several
            await several.start(before_open=lambda: self._create_topics(next(iter(several.brokers.values()))))
            self.brokers = [*several.brokers.values()]

    async def stop(self) -> None:
        if self._several is not None:
            await self._several.stop()
        else:
            for broker in self.brokers:
                await broker.stop()


async def _serve(
    loop: asyncio.AbstractEventLoop,
    served: Plain | ManagedBrokers,
    port_file: str | None,
    environment: Environment,
    ports: ExtraPorts | None,
    security: QuickSecurity | None,
) -> None:
    stopping = told_to_stop(loop)

    def say_ready() -> None:
        for broker in served.brokers:
            environment.say_ready(broker.node_id)

    await served.start()
    gc.freeze()  # these objects stay: no collection needs to examine them
    gc.enable()
    try:
        client_properties: list[str] = []
        if security is not None:  # before the addresses: a script that waits for them may read the files at once
            addresses = ",".join(broker.server.listeners[0].address for broker in served.brokers)
            client_properties = security.write_client_properties(addresses)
            os.environ.setdefault("KMINI_COMMAND_CONFIG", client_properties[0])  # for the scripts of the init directory
            security.keep_renewed(lambda: served.brokers)
        for broker in served.brokers:
            for listener in broker.server.listeners:
                click.echo(listener.address)
        if ports is None or not ports.runs_files:
            say_ready()
        if not environment.is_read:
            show_first_steps(served.brokers[0], client_properties)
        if port_file is not None:
            _write_whole(port_file, "".join(f"{broker.server.listeners[0].port}\n" for broker in served.brokers))
        if ports is not None:
            await ports.serve(lambda: served.brokers, say_ready)
        await stopping
    finally:
        if port_file is not None:
            with suppress(FileNotFoundError):
                os.remove(port_file)
        if ports is not None:
            await ports.stop()
        await served.stop()


def told_to_stop(loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    """A future that the first SIGINT, SIGTERM or SIGHUP completes; a second signal ends the process at once."""
    import signal

    stopping: asyncio.Future[None] = loop.create_future()
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def stop() -> None:
        if not stopping.done():
            stopping.set_result(None)
        for number in numbers:
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            signal.signal(number, signal.default_int_handler)

    for number in numbers:
        try:
            loop.add_signal_handler(number, stop)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
    return stopping


# --- arguments


def _security(
    properties: dict[str, str], asked: Security, hosts: Sequence[str], environment: Environment
) -> QuickSecurity | None:
    """What is asked for, and set, among the properties; None without any. Certificates are for these hosts, and in a
    container for its own."""
    if not any(asked):
        return None
    tls, sasl, users, acls = asked
    from kmini.broker.quick_security import QuickSecurity, drawn_password

    passwords = {name: text or drawn_password() for name, _, text in (user.partition(":") for user in users)}
    try:
        security = QuickSecurity(
            tls,
            sasl or ("SCRAM-SHA-512" if users else None),
            passwords or None,
            acls or None,
            hosts=[*hosts, *(_hosts_in_container(properties) if environment.is_read else ())],
            data_dir=properties.get("log.dirs"),
        )
    except (ValueError, ImportError) as error:
        raise click.UsageError(str(error)) from None
    given = [text.partition("://")[0].strip().upper() for text in properties.get("listeners", "").split(",")]
    if given != [""] and {*given} != {security.protocol}:
        raise click.UsageError(
            f"listeners={properties['listeners']}: the one listener of --tls, --sasl, --user and --acl is named "
            f"{security.protocol}; leave listeners unset, or name it so"
        )
    address = EVERY_ADDRESS if environment.is_read else "://127.0.0.1:9092"
    made = {"listeners": security.protocol + address, **security.settings()}
    properties.update({key: text for key, text in made.items() if key not in properties})
    return security


def _hosts_in_container(properties: Mapping[str, str]) -> list[str]:
    """The names and addresses by which clients may know a container: those advertised to them, and its own."""
    import socket

    advertised = [item.rpartition("://")[2] for item in properties.get("advertised.listeners", "").split(",")]
    hosts = [address.rpartition(":")[0].strip("[]") for address in advertised]
    name = socket.gethostname()
    with suppress(OSError):
        hosts += [str(found[4][0]) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
    return [name, *filter(None, hosts)]


def _topics(texts: Iterable[str]) -> list[NewTopic]:
    if not texts:
        return []
    from kmini.cli.wanted_topics import parse_topic

    return [parse_topic(text) for text in texts]


def settings_of(
    properties_file: str | None, environment: Environment, settings: Iterable[str] = (), *, is_container: bool
) -> dict[str, str]:
    """The settings of all sources by key; later sources override earlier ones. A container has its own file."""
    path = properties_file or (mounted_file() if is_container else None)
    properties = read_properties(path) if path else {}
    properties.update(environment.properties)
    properties.update(parse_setting("-c", text) for text in settings)
    return properties


def _config(properties: Mapping[str, str], host: str | None, port: int | None) -> BrokerConfig:
    """The configuration; `--host` and `--port` replace those of the first listener."""
    from kmini.broker.settings.broker_config import BrokerConfig, ConfigError

    try:
        config = BrokerConfig.parse(properties)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    if host is None and port is None:
        return config
    first, *others = config.listeners
    first = first._replace(host=first.host if host is None else host, port=first.port if port is None else port)
    return config.replace(listeners=(first, *others))


def _extra_ports(
    environment: Environment,
    given: Mapping[str, Any],
    host: str | None,
    init: InitDirectory | None,
    security: QuickSecurity | None,
) -> AbstractContextManager[ExtraPorts | None]:
    """The ports beside Kafka's that are asked for, which listen from now on; None without any. `host` is the broker's,
    where an option says it."""
    asked = [*given.values(), environment.http_port, environment.registry_port, environment.issuer_port, init]
    if all(one is None for one in asked) and not (security is not None and security.has_tokens):
        return nullcontext()
    from kmini.cli.http_ports import open_ports

    return open_ports(environment, given, host, init, _write_whole, security)


def _init(directory: str, timeout_ms: int | None, topics: list[NewTopic]) -> InitDirectory | None:
    if not directory:
        return None
    from kmini.cli.init_directory import init_directory

    return init_directory(directory, timeout_ms, topics)


@contextmanager
def _data_directory(config: BrokerConfig) -> Iterator[str]:
    """The data directory: the configured one, or a temporary one that is removed at the end."""
    if config.data_dir is not None:
        notice(f"data are in {config.data_dir}")
        yield config.data_dir
        return
    import shutil
    import tempfile

    directory = tempfile.mkdtemp(prefix="kmini-")
    notice(f"data go to {directory}, which is removed at the end; --data-dir DIR keeps them")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


# --- output


def _write_whole(path: str, text: str) -> None:
    """Write a file atomically: a reader never sees a part of it."""
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="ascii") as file:
        file.write(text)
    os.replace(temporary, path)
