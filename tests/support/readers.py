"""Consumers of three client libraries behind one small surface that blocks. Each reads one partition, in no group."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import pytest

from support.librdkafka import impatient
from support.until import until

TIMEOUT_S = 30.0
STEP_MS = 20
"""Milliseconds that a reader waits for records at a time."""


class Found(NamedTuple):
    """A record as a client library gave it."""

    offset: int
    value: bytes | None
    timestamp: int


class Reader(ABC):
    """Reads partition 0 of a topic from an offset on. `reset` is what it does where its offset is gone."""

    name: ClassVar[str]
    resets: ClassVar[dict[str, str]] = {"earliest": "earliest", "latest": "latest", "none": "none"}

    def __init__(self, servers: str, topic: str, offset: int, reset: str, isolation: str) -> None:
        self.servers = servers
        self.topic = topic
        self.offset = offset
        self.reset = self.resets[reset]
        self.isolation = isolation
        self.records: list[Found] = []
        """What it has read so far."""
        self.errors: list[str] = []
        """The names of the errors that the library has told."""

    @abstractmethod
    def poll(self) -> None:
        """Take what has come, or wait a step for it."""

    @abstractmethod
    def end_of_time(self, timestamp: int) -> int | None:
        """The offset of the first record since a timestamp; None if there is none."""

    @abstractmethod
    def close(self) -> None: ...

    def read(self, count: int) -> list[Found]:
        """Poll until so many records have come in all; return these."""
        return self.poll_until(lambda: len(self.records) >= count)

    def poll_until(self, is_done: Callable[[], Any], shown: Callable[[], object] = str) -> list[Found]:
        """Poll until the function returns something true; return the records so far. A failure has what `shown`
        returns."""

        def state() -> object:
            return self.records, self.errors, shown()

        until(lambda: (self.poll(), is_done())[1], state, timeout_s=TIMEOUT_S, poll_s=0)
        return self.records


class ConfluentReader(Reader):
    name = "confluent-kafka"
    resets: ClassVar[dict[str, str]] = {"earliest": "earliest", "latest": "latest", "none": "error"}

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        import confluent_kafka

        self._library = confluent_kafka
        self._consumer: Any = confluent_kafka.Consumer(
            {
                **impatient(self.servers),
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": self.reset,
                "isolation.level": self.isolation,
                "fetch.wait.max.ms": STEP_MS,
                "fetch.error.backoff.ms": 5,
                "topic.metadata.refresh.interval.ms": 100,
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, self.offset)])

    def poll(self) -> None:
        message = self._consumer.poll(STEP_MS / 1000)
        if message is None:
            return
        if message.error():
            self.errors.append(message.error().name())
        else:
            self.records.append(Found(message.offset(), message.value(), message.timestamp()[1]))

    def end_of_time(self, timestamp: int) -> int | None:
        asked = self._library.TopicPartition(self.topic, 0, timestamp)
        (found,) = self._consumer.offsets_for_times([asked], TIMEOUT_S)
        return None if found.offset == self._library.OFFSET_END else found.offset

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonReader(Reader):
    name = "kafka-python"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        from kafka import KafkaConsumer, TopicPartition

        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=self.servers,
            auto_offset_reset=self.reset,
            enable_auto_commit=False,
            isolation_level=self.isolation,
            fetch_max_wait_ms=STEP_MS,
            retry_backoff_ms=10,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=20,
        )
        self._partition = TopicPartition(self.topic, 0)
        self._consumer.assign([self._partition])
        self._consumer.seek(self._partition, self.offset)

    def poll(self) -> None:
        from kafka.errors import KafkaError

        try:
            polled = self._consumer.poll(STEP_MS)
        except KafkaError as error:
            self.errors.append(type(error).__name__)
            return
        for records in polled.values():
            self.records += [Found(one.offset, one.value, one.timestamp) for one in records]

    def end_of_time(self, timestamp: int) -> int | None:
        found = self._consumer.offsets_for_times({self._partition: timestamp})[self._partition]
        return None if found is None else found.offset

    def close(self) -> None:
        self._consumer.close()


class AiokafkaReader(Reader):
    """Its event loop runs while it is asked, and stands still otherwise."""

    name = "aiokafka"

    def __init__(self, *place: Any) -> None:
        super().__init__(*place)
        self._loop = asyncio.new_event_loop()
        self._run = self._loop.run_until_complete
        self._run(self._start())

    async def _start(self) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self._partition = TopicPartition(self.topic, 0)
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            auto_offset_reset=self.reset,
            enable_auto_commit=False,
            isolation_level=self.isolation,
            fetch_max_wait_ms=STEP_MS,
            retry_backoff_ms=10,
        )
        await self._consumer.start()
        self._consumer.assign([self._partition])
        self._consumer.seek(self._partition, self.offset)

    def poll(self) -> None:
        from aiokafka.errors import KafkaError

        try:
            polled = self._run(self._consumer.getmany(timeout_ms=STEP_MS))
        except KafkaError as error:
            self.errors.append(type(error).__name__)
            return
        for records in polled.values():
            self.records += [Found(one.offset, one.value, one.timestamp) for one in records]

    def end_of_time(self, timestamp: int) -> int | None:
        found = self._run(self._consumer.offsets_for_times({self._partition: timestamp}))[self._partition]
        return None if found is None else found.offset

    def close(self) -> None:
        with contextlib.closing(self._loop):
            self._run(self._consumer.stop())


READERS: dict[str, type[Reader]] = {one.name: one for one in (ConfluentReader, KafkaPythonReader, AiokafkaReader)}
_MODULES = {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka", "aiokafka": "aiokafka"}


@contextlib.contextmanager
def reading(
    name: str,
    servers: str,
    topic: str = "orders",
    *,
    offset: int = 0,
    reset: str = "earliest",
    isolation: str = "read_committed",
) -> Iterator[Reader]:
    """A reader of this library; the test is skipped where the library is not installed."""
    pytest.importorskip(_MODULES[name])
    with contextlib.closing(READERS[name](servers, topic, offset, reset, isolation)) as reader:
        yield reader
