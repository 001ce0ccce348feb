"""The broker inside a program: `with Broker() as broker:` blocks, `async with Broker() as broker:` awaits.

The broker runs on a thread and an event loop of its own, so that it answers while the code around it blocks, and does
not care which loop a test runs on. What can be asked of it is written once, as the coroutines of `Operations`; `Broker`
and `AsyncBroker` are that table in two voices.
"""

import asyncio
import functools
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from kmini.broker import topics
from kmini.broker.broker import Broker as Core
from kmini.broker.clock import MovableClock
from kmini.broker.config import BrokerConfig
from kmini.broker.event_loop import new_event_loop, raise_descriptor_limit
from kmini.broker.listeners import Endpoint
from kmini.broker.metrics import metrics_text
from kmini.broker.partition import HIGH_WATERMARK, Partition
from kmini.broker.purgatory import Operation
from kmini.protocol.errors import PolicyViolation, RequestTimedOut
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.record import Record, decode_records
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from kmini.storage.validation import validate

if TYPE_CHECKING:
    from kmini.storage.cleaner.stats import PassReport

P = ParamSpec("P")
T = TypeVar("T")
Headers = Iterable[tuple[str, bytes | None]]


READ_BYTES = 1024 * 1024
"""Read from a log at a time when its records are asked for."""


class PartitionOffsets(NamedTuple):
    """Where a partition begins and ends. All are offsets of a next record, so an empty log has three equal ones."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class Operations:
    """What can be asked of a running broker. Every coroutine runs on the broker's loop and raises KafkaError."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | int] | None = None
    ) -> None:
        """Create a topic; when this returns it can be produced to. Raises TopicAlreadyExists, InvalidConfig,
        InvalidTopic."""
        texts = {key: str(value) for key, value in (configs or {}).items()}
        topics.create(self.core, name, partitions=partitions, configs=texts)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartition."""
        topics.delete(self.core, name)

    async def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(self.core.controller.topics)

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append one record, creating the topic if the configuration says so; return its offset."""
        if self.core.controller.topic(topic) is None and self.core.config.auto_create_topics_enable:
            topics.create(self.core, topic)
        led = self.core.leader_of(TopicPartition(topic, partition))
        now_ms = self.core.clock.now_ms()
        timestamp = now_ms if timestamp_ms is None else timestamp_ms
        batch = build_batch([Record(0, timestamp, key, value, tuple(headers))])
        limit = self.core.config.kmini_max_decompressed_message_bytes
        validated = validate(memoryview(batch), led.log.config, now_ms, max_decompressed_bytes=limit)
        return led.append(validated, now_ms).first_offset

    async def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Every record that a consumer could read now, from one partition or from all, in order of partition and
        offset."""
        return [record for led in self._partitions(topic, partition) for record in readable(led.log)]

    async def wait_for_records(self, topic: str, count: int, *, timeout_ms: int = 10_000) -> list[Record]:
        """The records of a topic once there are at least `count`. Raises RequestTimedOut, saying what there was."""
        clock = self.core.clock
        deadline_ms = clock.liveness_ms() + timeout_ms
        while not (arrival := Arrival(self, topic, count)).has_come():
            left_ms = deadline_ms - clock.liveness_ms()
            if not await self.core.purgatory.wait(arrival, timeout_ms=left_ms, waiter=arrival):
                there = await self.records(topic) if self.core.controller.topic(topic) else []
                shown = ", ".join(repr(record.value) for record in there[:10])
                raise RequestTimedOut(f"{topic} holds {len(there)} of {count} records after {timeout_ms} ms: [{shown}]")
        return await self.records(topic)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """Where a partition begins and ends."""
        log = self.core.leader_of(TopicPartition(topic, partition)).log
        return PartitionOffsets(log.log_start_offset, log.high_watermark, log.log_end_offset)

    async def delete_records(self, topic: str, offset: int = HIGH_WATERMARK, *, partition: int = 0) -> int:
        """Delete what lies before `offset` (-1: everything committed); return the low watermark. KIP-107, without the
        network."""
        led = self.core.leader_of(TopicPartition(topic, partition))
        led.delete_records(offset)
        await self.core.log_start_checkpoint.written()
        return led.low_watermark

    async def apply_retention(self) -> None:
        """Do now what retention would do at its next check."""
        await self.core.apply_retention()

    async def compact(self, topic: str, partition: int | None = None) -> "list[PassReport]":
        """Compact a topic, or one partition of it, now, up to the last record; return what each pass did. Raises
        PolicyViolation unless its cleanup.policy says compact, KafkaStorageError if a partition cannot be cleaned."""
        reports = []
        for led in self._partitions(topic, partition):
            if not led.log.config.is_compacted:
                raise PolicyViolation(f"cleanup.policy of {topic} is not compact")
            reports += await self.core.cleaner.compact(led.topic_partition)
        return reports

    async def advance_clock(self, duration_ms: int, *, liveness: bool = False) -> None:
        """Move log time, and on request liveness too; return when everything that fell due has run
        (`broker/clock.py`)."""
        assert isinstance(self.core.clock, MovableClock)
        await self.core.clock.advance(duration_ms, liveness=liveness)

    async def metrics_text(self) -> str:
        """The metrics, in Prometheus' text format."""
        return metrics_text(self.core)

    def _partitions(self, topic: str, partition: int | None) -> list[Partition]:
        known = self.core.controller.topic(topic)
        indexes = range(len(known.partitions) if known else 1) if partition is None else [partition]
        return [self.core.leader_of(TopicPartition(topic, index)) for index in indexes]


class Arrival(Operation):
    """Complete when a topic holds at least `count` records, or has other partitions than when the wait began."""

    def __init__(self, operations: Operations, topic: str, count: int) -> None:
        self.waiting: asyncio.Future[bool] | None = None
        self._core = operations.core
        self._topic = topic
        self._count = count
        self._partitions = self._led()

    def _led(self) -> list[Partition]:
        return [led for name, led in self._core.partitions.items() if name.topic == self._topic]

    @property
    def keys(self) -> list[TopicPartition | str]:
        return [self._topic, *(partition.topic_partition for partition in self._partitions)]

    def is_complete(self) -> bool:
        return self._led() != self._partitions or self.has_come()

    def has_come(self) -> bool:
        logs = [partition.log for partition in self._partitions]
        # Offsets are an upper bound on records, and cheap: only when they suffice are records counted.
        if sum(log.high_watermark - log.log_start_offset for log in logs) < self._count:
            return False
        return sum(1 for log in logs for _ in readable(log)) >= self._count


def readable(log: PartitionLog) -> Iterator[Record]:
    """The records that a consumer could read: from the log start offset to the high watermark, without control
    records."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        batches = log.read(offset, READ_BYTES, limit_offset=log.high_watermark)
        if not batches:
            return
        for position, header in iter_batches(batches):
            if not header.is_control:
                records = decode_records(batches, position, header)
                yield from (record for record in records if log.log_start_offset <= record.offset)
            offset = header.next_offset


def blocking(
    method: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[Broker, P], T]":
    """The method as a blocking one."""

    def call(self: "Broker", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._operations, *args, **kwargs))

    functools.update_wrapper(call, method)
    return call


def awaitable(
    method: Callable[Concatenate[Operations, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[AsyncBroker, P], Coroutine[Any, Any, T]]":
    """The method as one that any event loop can await."""

    async def call(self: "AsyncBroker", /, *args: P.args, **kwargs: P.kwargs) -> T:
        broker = self._broker
        future = asyncio.run_coroutine_threadsafe(method(broker._operations, *args, **kwargs), broker._running_loop)
        return await asyncio.wrap_future(future)

    functools.update_wrapper(call, method)
    return call


class Broker:
    """A broker on a port of its own, with a private data directory that is removed at the end.

    `port` 0 takes any free port. `config` holds settings by Kafka's names ("auto.create.topics.enable": "false").
    `topics` are created before it is ready: names with their number of partitions. With `data_dir` the data stay there.
    `as_version` ("3.9", "4.3") serves the requests and versions of that release of Apache Kafka and no others. Raises
    PortTaken and ConfigError.
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
    ) -> None:
        properties = {"listeners": f"PLAINTEXT://{host}:{port}"}
        if as_version is not None:
            properties["kmini.as.version"] = as_version
        properties.update({key: _text(value) for key, value in (config or {}).items()})
        self._config = BrokerConfig.parse(properties)
        self._topics = dict(topics or {})
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        self._temporary: str | None = None
        self._port = port
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._table: Operations | None = None
        self.bootstrap_servers = ""
        """host:port, for any client; empty while the broker does not run."""

    # --- life

    def start(self) -> "Broker":
        """Start and return once the port is open. A stopped broker starts on the same port, with the same data."""
        if self._loop is not None:
            raise RuntimeError("the broker runs already")
        raise_descriptor_limit()
        data_dir = self._data_dir or self._temporary
        if data_dir is None:
            data_dir = self._temporary = tempfile.mkdtemp(prefix="kmini-")
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kmini", daemon=True)
        self._thread.start()
        try:
            self._run(self._start(data_dir))
        except BaseException:
            self._end_loop()
            self._remove_temporary()
            raise
        return self

    async def _start(self, data_dir: str) -> None:
        core = Core(self._config, data_dir, clock=MovableClock(), is_temporary=self._data_dir is None)

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
        if self._loop is None:
            return
        try:
            self._run(self._operations.core.stop())
        finally:
            self.bootstrap_servers = ""
            self._table = None
            self._end_loop()

    def close(self) -> None:
        """Stop, and remove the private data directory."""
        try:
            self.stop()
        finally:
            self._remove_temporary()

    def _end_loop(self) -> None:
        loop, self._loop = self._running_loop, None
        loop.call_soon_threadsafe(loop.stop)
        assert self._thread is not None
        self._thread.join()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

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
        if self._loop is None:
            raise RuntimeError("the broker does not run")
        return self._loop

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._running_loop).result()

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


class AsyncBroker:
    """What `async with Broker()` gives: the same methods, awaitable from any event loop."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def bootstrap_servers(self) -> str:
        """host:port, for any client."""
        return self._broker.bootstrap_servers

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


def _text(value: str | int | bool) -> str:
    """A setting as server.properties writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
