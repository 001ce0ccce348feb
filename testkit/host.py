"""The life of a broker or a cluster inside a program: start, stop and close, from any thread and any loop."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kmini.protocol.errors import InvalidState
from kmini.testkit import argument_checks, installed
from kmini.testkit.embedded_registry import embedded_registry
from kmini.testkit.handle import DEADLINE_S, LONG_DEADLINE_S, Awaiting, Blocking, check_can_await
from kmini.testkit.lifecycle import Lifecycle
from kmini.testkit.loop_thread import LoopThread, run_aside

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.broker.faults.active_rules import ActiveRules
    from kmini.broker.journal.request_journal import RequestJournal
    from kmini.broker.local_cluster import LocalCluster
    from kmini.broker.quick_security import QuickSecurity
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.testkit.argument_checks import Topics
    from kmini.testkit.embedded_issuer import EmbeddedIssuer
    from kmini.testkit.operations import Operations

Table = TypeVar("Table", bound="Operations")
Awaited = TypeVar("Awaited", bound="AsyncHost[Any]")
H = TypeVar("H", bound="Host[Any, Any]")
A = TypeVar("A", bound="AsyncHost[Any]")


class Host(Blocking[Table], Generic[Table, Awaited]):
    """Runs on its own thread, with a given data directory, or a private one that is removed at the end.

    `with` returns the host itself, `async with` its `aio`. Every method may be called from any thread; `start`, `stop`
    and `close` of several threads run one after the other.
    """

    def __init__(self, what: str, data_dir: str | os.PathLike[str] | None) -> None:
        """`what` it is: a word for error messages."""
        super().__init__(LoopThread(what), self._what_runs)
        self._what = what
        self._given_directory = None if data_dir is None else os.fspath(data_dir)
        self._private_directory: str | None = None
        self._running: Table | None = None
        self._lifecycle: Lifecycle[Table]
        self._lock = threading.Lock()
        self._fault_seed = 0
        """The seed of fault rules that act by chance and have none of their own."""
        self._faults: ActiveRules | None = None
        """The fault rules, once a test has asked for them. They stay in force when a broker starts again."""

    def _live(
        self,
        table: Callable[[LocalCluster], Table],
        configs: Sequence[BrokerConfig],
        host: str,
        *,
        topics: Topics | None,
        journal: bool,
        registry: bool,
        registry_port: int,
        security: QuickSecurity | None,
    ) -> None:
        """Have a life, whose brokers have these configurations and are used by this table of operations. The other
        arguments are those of `Broker`. Raises TypeError, ValueError, and ImportError."""
        new_topics = argument_checks.topics("topics", topics)
        self._security = security

        def prepare(operations: Table) -> None:
            if security is not None:
                security.create(operations.core.controller, operations.core.data_dir)
            operations.create_missing(new_topics)

        self._lifecycle = Lifecycle(
            table,
            configs,
            prepare,
            self._place_faults,
            security=security,
            issuer=_issuer(security, host),
            journal=_new_journal() if argument_checks.flag("journal", journal) else None,
            registry=embedded_registry(registry, registry_port, host),
        )

    @property
    @abstractmethod
    def aio(self) -> Awaited:
        """The same methods, awaitable on any asyncio event loop."""

    def _fault_rules(self) -> ActiveRules:
        """The fault rules, made when a test first asks for them."""
        if self._faults is None:
            from kmini.broker.faults.active_rules import ActiveRules  # start-up time counts

            self._faults = ActiveRules(seed=self._fault_seed)
        return self._faults

    def _place_faults(self, broker: BrokerServer) -> None:
        """Have the fault rules act on a broker that starts, before clients can connect."""
        if self._faults is not None:
            self._faults.attach(broker)

    def _what_runs(self) -> Table:
        if self._running is None:
            raise InvalidState(f"the {self._what} does not run")
        return self._running

    @property
    def bootstrap_servers(self) -> str:
        """host:port of every running broker, separated by commas, for any client; empty while none runs."""
        self._thread.told_address_s = time.time()
        return self._addresses

    @property
    def _addresses(self) -> str:
        brokers = () if self._running is None else list(self._running.running)  # the loop may change it
        return ",".join(broker.address for broker in brokers)

    def client_config(self, kind: str, user: str | None = None) -> dict[str, Any]:
        """The settings with which a client comes to this broker or cluster: address, certificates and credentials.

        `kind` is the client: "aiokafka" and "kafka-python" (keyword arguments), "confluent-kafka", "librdkafka", "java"
        or "spark" (settings by their names). `user` is one of `users`, by default the first; with `tls="mutual"` and
        without SASL any name. Certificates are in files of the data directory. Raises TypeError, ValueError, and
        InvalidState while nothing runs.
        """
        from kmini.client.client_config import SETTINGS, Access  # start-up time counts

        kind = argument_checks.ARGUMENTS["kind"]("kind", kind)
        user = argument_checks.ARGUMENTS["user"]("user", user)
        self._what_runs()
        at = self.bootstrap_servers
        return SETTINGS[kind](Access(at) if self._security is None else self._security.access(at, user))

    @property
    def registry_url(self) -> str:
        """The address of the schema registry, as http://127.0.0.1:8081; empty without `registry=True`, and while
        nothing runs."""
        return "" if self._lifecycle.registry is None else self._lifecycle.registry.url

    @property
    def data_dir(self) -> str | None:
        """The data directory: it holds `kmini.db`, and the Kafka log directory `broker-N` of each broker. None while a
        private one does not exist."""
        return self._given_directory or self._private_directory

    def start(self: H) -> H:
        """Start, and return once clients can connect; after `stop`, on the same ports, with the same data and the
        clock's time. Raises RuntimeError if it runs, PortTaken, ConfigError, KafkaError for topics that cannot be
        created, and OSError."""
        self._thread.check_caller()
        with self._lock:
            self._thread.start()
            is_first = self.data_dir is None
            try:
                if is_first:
                    self._private_directory = tempfile.mkdtemp(prefix="kmini-")
                    _WITH_DIRECTORIES.add(self)
                assert self.data_dir is not None
                is_temporary = self._given_directory is None
                self._running = self._thread.run(
                    self._lifecycle.begin(self.data_dir, is_temporary=is_temporary), deadline_s=LONG_DEADLINE_S
                )
            except BaseException:
                self._thread.end()
                if is_first:
                    self._remove_directory()
                raise
        return self

    def stop(self) -> None:
        """Stop as Kafka does on SIGTERM; does nothing while nothing runs. The data stay until `close`."""
        self._thread.check_caller()
        with self._lock:
            self._stop(keeps_data=True)

    def _stop(self, *, keeps_data: bool) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                deadline_s = LONG_DEADLINE_S if keeps_data else DEADLINE_S
                self._thread.run(self._lifecycle.finish(running, keeps_data=keeps_data), deadline_s=deadline_s)
            finally:
                self._thread.end()

    def close(self) -> None:
        """Stop, and remove the private data directory. A closed host can be started again, and is empty then."""
        self._thread.check_caller()
        with self._lock:
            try:
                self._stop(keeps_data=self._private_directory is None)
            finally:
                self._remove_directory()

    def _remove_directory(self) -> None:
        if self._private_directory is not None:
            shutil.rmtree(self._private_directory, ignore_errors=True)
            self._private_directory = None
            _WITH_DIRECTORIES.discard(self)

    def _remove_at_exit(self) -> None:
        """Remove the private directory of a host that was never closed, in the process that made it."""
        if self._thread.is_of_this_process:
            self._remove_directory()

    def __enter__(self: H) -> H:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Awaited:
        aio = self.aio
        await aio.start()
        return aio

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aio.close()


def quick_security(
    tls: str | None,
    sasl: str | None,
    users: Mapping[str, str] | None,
    acls: Sequence[str] | None,
    host: str,
    data_dir: str | os.PathLike[str] | None,
) -> QuickSecurity | None:
    """What these arguments ask for; None for nothing. Raises TypeError, ValueError, and ImportError."""
    if tls is None and sasl is None and users is None and acls is None:
        return None
    from kmini.broker.quick_security import QuickSecurity  # start-up time counts

    return QuickSecurity(tls, sasl, users, acls, hosts=[host], data_dir=data_dir)


def _issuer(security: QuickSecurity | None, host: str) -> EmbeddedIssuer | None:
    """The issuer of tokens that OAUTHBEARER needs. Raises ImportError."""
    if security is None or not security.has_tokens:
        return None
    if absent := installed.missing(installed.OAUTH):
        raise ImportError(
            f"{', '.join(absent)} is not installed, which OAUTHBEARER needs: install kmini with its extras oauth and "
            "http, as pip install '.[oauth,http]' in a clone does"
        )
    from kmini.testkit.embedded_issuer import EmbeddedIssuer  # start-up time counts

    return EmbeddedIssuer(host, security.users)


def settings_of(security: QuickSecurity | None, address: str) -> dict[str, str]:
    """The settings of a broker that listens at this address."""
    if security is None:
        return {"listeners": f"PLAINTEXT://{address}"}
    return {"listeners": f"{security.protocol}://{address}", **security.settings()}


def _new_journal() -> RequestJournal:
    from kmini.broker.journal.request_journal import RequestJournal  # start-up time counts

    return RequestJournal()


class AsyncHost(Awaiting[Table]):
    """Has the methods of a `Host`, awaitable on any asyncio event loop. RuntimeError on trio.

    A cancelled call leaves nothing half done: a start is undone, a stop runs to its end.
    """

    def __init__(self, host: Host[Table, Any]) -> None:
        super().__init__(host._thread, host._what_runs)
        self._host = host

    @property
    def aio(self: A) -> A:
        """This object, so that a helper can take either kind."""
        return self

    @property
    def bootstrap_servers(self) -> str:
        """See `Host.bootstrap_servers`."""
        return self._host.bootstrap_servers

    def client_config(self, kind: str, user: str | None = None) -> dict[str, Any]:
        """See `Host.client_config`."""
        return self._host.client_config(kind, user)

    @property
    def registry_url(self) -> str:
        """See `Host.registry_url`."""
        return self._host.registry_url

    @property
    def data_dir(self) -> str | None:
        """See `Host.data_dir`."""
        return self._host.data_dir

    async def start(self: A) -> A:
        """See `Host.start`."""
        check_can_await()
        undo: Callable[[], None] = self._host.close if self._host.data_dir is None else self._host.stop
        await run_aside(self._host.start, undo=undo)
        return self

    async def stop(self) -> None:
        """See `Host.stop`."""
        check_can_await()
        await run_aside(self._host.stop)

    async def close(self) -> None:
        """See `Host.close`."""
        check_can_await()
        await run_aside(self._host.close)

    async def __aenter__(self: A) -> A:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


_WITH_DIRECTORIES: set[Host[Any, Any]] = set()
"""The hosts that have private directories. One function is registered for all: atexit keeps room for each that ever
was."""


@atexit.register
def _remove_directories_at_exit() -> None:
    for host in list(_WITH_DIRECTORIES):
        host._remove_at_exit()
