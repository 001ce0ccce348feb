"""The broker inside a program: `with Broker() as broker:` blocks, `async with Broker() as broker:` awaits.

The broker runs on a thread and an event loop of its own, so that it answers while the code around it blocks, and does
not care which loop a test runs on. What can be asked of it is written once (`operations.py`); `Broker` and
`AsyncBroker`, with the handles `topic(...)` and `clock`, are those tables in two voices.
"""

import asyncio
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from kmini.broker import topics
from kmini.broker.broker import Broker as Core
from kmini.broker.clock import MovableClock
from kmini.broker.config import BrokerConfig
from kmini.broker.listeners import Endpoint
from kmini.loop_thread import LoopThread
from kmini.operations import ClockOperations, Operations, PartitionOffsets, TopicOperations

__all__ = ["AsyncBroker", "AsyncClock", "AsyncTopic", "Broker", "Clock", "PartitionOffsets", "Topic"]

P = ParamSpec("P")
T = TypeVar("T")
Table = TypeVar("Table", covariant=True)


class Blocking(Protocol[Table]):
    """Who speaks a table by blocking."""

    @property
    def _operations(self) -> Table: ...

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T: ...


class Awaiting(Protocol[Table]):
    """Who speaks a table by awaiting."""

    @property
    def _operations(self) -> Table: ...

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop: ...


def blocking(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[Table], P], T]:
    """The method as a blocking one."""

    def call(self: Blocking[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._operations, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def awaitable(
    method: Callable[Concatenate[Table, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Awaiting[Table], P], Coroutine[Any, Any, T]]:
    """The method as one that any event loop can await."""

    async def call(self: Awaiting[Table], /, *args: P.args, **kwargs: P.kwargs) -> T:
        future = asyncio.run_coroutine_threadsafe(method(self._operations, *args, **kwargs), self._running_loop)
        return await asyncio.wrap_future(future)

    functools.update_wrapper(call, method)
    return call


class Broker:
    """A broker on a port of its own, with a private data directory that is removed at the end.

    `port` 0 takes any free port. `config` holds settings by Kafka's names ("auto.create.topics.enable": "false").
    `topics` are created before it is ready: names with their number of partitions. With `data_dir` the data stay there.
    `as_version` ("3.9", "4.3") serves the requests and versions of that release of Apache Kafka and no others. With
    `timestamps="append"` records carry the time of this broker, which tests move (LogAppendTime), unless a topic says
    otherwise; by default the time that their producer gives them. Raises PortTaken and ConfigError.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        config: Mapping[str, str | int | bool] | None = None,
        topics: Mapping[str, int] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        as_version: str | None = None,
        timestamps: Literal["create", "append"] = "create",
    ) -> None:
        properties = {"listeners": f"PLAINTEXT://{host}:{port}"}
        if timestamps not in ("create", "append"):
            raise ValueError(f'timestamps={timestamps!r}: must be "create" or "append"')
        if timestamps == "append":
            properties["log.message.timestamp.type"] = "LogAppendTime"
        if as_version is not None:
            properties["kmini.as.version"] = as_version
        properties.update({key: setting_text(value) for key, value in (config or {}).items()})
        self._config = BrokerConfig.parse(properties)
        self._topics = dict(topics or {})
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._temporary: str | None = None
        self._port = port
        self._ahead_ms = 0
        """What its clock was moved by: time does not go back when it is stopped and started again."""
        self._thread = LoopThread("broker")
        self._table: Operations | None = None
        self.bootstrap_servers = ""
        """host:port, for any client; empty while the broker does not run."""

    # --- life

    def start(self) -> "Broker":
        """Start and return once the port is open. A stopped broker starts on the same port, with the same data, and its
        clock goes on where it was."""
        self._thread.start()
        data_dir = self._data_dir or self._temporary
        if data_dir is None:
            data_dir = self._temporary = tempfile.mkdtemp(prefix="kmini-")
        try:
            self._run(self._start(data_dir))
        except BaseException:
            self._thread.end()
            self._remove_temporary()
            raise
        return self

    async def _start(self, data_dir: str) -> None:
        core = Core(self._config, data_dir, clock=MovableClock(self._ahead_ms), is_temporary=self._data_dir is None)

        def create_missing() -> None:
            for name, partitions in self._topics.items():
                if core.controller.topic(name) is None:
                    topics.create(core, name, partitions=partitions)

        await core.start(before_open=create_missing)
        self._table = Operations(core)
        self.bootstrap_servers = core.address
        # Started again, it comes back to the port that its clients know.
        bound = tuple(Endpoint(listener.name, listener.host, listener.port) for listener in core.server.listeners)
        self._config = self._config.replace(listeners=bound)

    def stop(self) -> None:
        """Stop as Kafka does on SIGTERM. The data stay until `close`."""
        if not self._thread.is_running:
            return
        core = self._operations.core
        try:
            self._run(core.stop())
        finally:
            assert isinstance(core.clock, MovableClock)
            self._ahead_ms = core.clock.ahead_ms
            self.bootstrap_servers = ""
            self._table = None
            self._thread.end()

    def close(self) -> None:
        """Stop, and remove the private data directory."""
        try:
            self.stop()
        finally:
            self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    @property
    def data_dir(self) -> str | None:
        """Where the data are: `kmini.db`, and a Kafka log directory `broker-1`. None before the first start of a
        private one."""
        return self._data_dir or self._temporary

    @property
    def _operations(self) -> Operations:
        if self._table is None:
            raise RuntimeError("the broker does not run")
        return self._table

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        return self._thread.loop

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> "AsyncBroker":
        await asyncio.get_running_loop().run_in_executor(None, self.start)
        return AsyncBroker(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    # --- what can be asked of it

    @property
    def clock(self) -> "Clock":
        """Its clock, which a test moves."""
        return Clock(self)

    def topic(self, name: str) -> "Topic":
        """What can be asked of one topic, which need not be there yet."""
        return Topic(self, name)

    create_topic = blocking(Operations.create_topic)
    delete_topic = blocking(Operations.delete_topic)
    topics = blocking(Operations.topics)
    produce = blocking(Operations.produce)
    records = blocking(Operations.records)
    wait_for_records = blocking(Operations.wait_for_records)
    offsets = blocking(Operations.offsets)
    delete_records = blocking(Operations.delete_records)
    apply_retention = blocking(Operations.apply_retention)
    compact = blocking(Operations.compact)
    advance_clock = blocking(Operations.advance_clock)
    metrics_text = blocking(Operations.metrics_text)


class Topic:
    """One topic of a broker."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name

    @property
    def _operations(self) -> TopicOperations:
        return TopicOperations(self._broker._operations, self.name)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._broker._run(coroutine)

    compact = blocking(TopicOperations.compact)
    roll = blocking(TopicOperations.roll)
    apply_retention = blocking(TopicOperations.apply_retention)


class Clock:
    """The clock of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def _operations(self) -> ClockOperations:
        return ClockOperations(self._broker._operations)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._broker._run(coroutine)

    advance = blocking(ClockOperations.advance)
    now_ms = blocking(ClockOperations.now_ms)


class AsyncBroker:
    """What `async with Broker()` gives: the same methods, awaitable from any event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def bootstrap_servers(self) -> str:
        """host:port, for any client."""
        return self._broker.bootstrap_servers

    @property
    def _operations(self) -> Operations:
        return self._broker._operations

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        return self._broker._running_loop

    @property
    def clock(self) -> "AsyncClock":
        """Its clock, which a test moves."""
        return AsyncClock(self._broker)

    def topic(self, name: str) -> "AsyncTopic":
        """What can be asked of one topic, which need not be there yet."""
        return AsyncTopic(self._broker, name)

    create_topic = awaitable(Operations.create_topic)
    delete_topic = awaitable(Operations.delete_topic)
    topics = awaitable(Operations.topics)
    produce = awaitable(Operations.produce)
    records = awaitable(Operations.records)
    wait_for_records = awaitable(Operations.wait_for_records)
    offsets = awaitable(Operations.offsets)
    delete_records = awaitable(Operations.delete_records)
    apply_retention = awaitable(Operations.apply_retention)
    compact = awaitable(Operations.compact)
    advance_clock = awaitable(Operations.advance_clock)
    metrics_text = awaitable(Operations.metrics_text)


class AsyncTopic:
    """One topic of a broker; see Topic."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name

    @property
    def _operations(self) -> TopicOperations:
        return TopicOperations(self._broker._operations, self.name)

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        return self._broker._running_loop

    compact = awaitable(TopicOperations.compact)
    roll = awaitable(TopicOperations.roll)
    apply_retention = awaitable(TopicOperations.apply_retention)


class AsyncClock:
    """The clock of a broker; see Clock."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def _operations(self) -> ClockOperations:
        return ClockOperations(self._broker._operations)

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        return self._broker._running_loop

    advance = awaitable(ClockOperations.advance)
    now_ms = awaitable(ClockOperations.now_ms)


def setting_text(value: str | int | bool) -> str:
    """A setting as server.properties writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
