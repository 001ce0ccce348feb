"""The same two sentences through every client: write these records to a partition; read that partition back.

Each adapter uses its client as an application would; all but kcat produce idempotently.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import random
import shutil
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias

from support.java_peer import JavaPeer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMEOUT_S = 30.0
READ_UNCOMMITTED, READ_COMMITTED = "read_uncommitted", "read_committed"


class Sent(NamedTuple):
    """A record as the application has it; a timestamp of None leaves it to the client."""

    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Received(NamedTuple):
    """A record as the application gets it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def make_records(count: int, seed: object, *, compressible: bool = True) -> list[Sent]:
    """Make records with all that a record may have: null and empty keys and values, headers that repeat or are null.

    Header values are text without commas, because that is how kcat separates them.
    """
    chance = random.Random(str(seed))
    now = time.time_ns() // 1_000_000
    word = b"kafka records squeeze well "
    records = []
    for _ in range(count):
        key = chance.choice((None, b"", chance.randbytes(chance.randrange(1, 20))))
        size = chance.randrange(1, 200)
        filled = (word * 8)[:size] if compressible and chance.random() < 0.7 else chance.randbytes(size)
        value = None if key is not None and chance.random() < 0.05 else chance.choice((b"", filled, filled, filled))
        names = chance.choices(("trace", "trace", "größe", ""), k=chance.choice((0, 0, 0, 1, 2, 3)))
        headers = tuple((name, chance.choice((None, b"", chance.randbytes(5).hex().encode()))) for name in names)
        records.append(Sent(now - chance.randrange(3_600_000), key, value, headers))
    return records


class Adapter:
    """What the adapters share."""

    name: ClassVar[str]
    module: ClassVar[str] = ""

    def sayable(self, records: Sequence[Sent]) -> list[Sent]:
        """Return the records with whatever this client cannot write replaced by something it can."""
        return [*records]


class KafkaPython(Adapter):
    name = "kafka-python"
    module = "kafka"

    def sayable(self, records: Sequence[Sent]) -> list[Sent]:
        return [r._replace(headers=tuple((name, value or b"") for name, value in r.headers)) for r in records]

    def produce(
        self, servers: str, topic: str, partition: int, records: Iterable[Sent], codec: str
    ) -> list[int | None]:
        """Return the offset of each record, None where it was not acknowledged."""
        from kafka import KafkaProducer

        compression = None if codec == "none" else codec
        producer = KafkaProducer(bootstrap_servers=servers, compression_type=compression, linger_ms=5)
        try:
            futures = [producer.send(topic, r.value, r.key, [*r.headers], partition, r.timestamp) for r in records]
            producer.flush(TIMEOUT_S)
            return [future.value.offset if future.succeeded() else None for future in futures]
        finally:
            producer.close(timeout=5)

    def consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str = READ_UNCOMMITTED
    ) -> list[Received]:
        """Return at least the first `count` records, fewer only when the time is up."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level=isolation_level,
        )
        received: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(topic, partition)])
            while len(received) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=1000, max_records=10_000).values():
                    received += [Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
        finally:
            consumer.close()
        return received


class Aiokafka(Adapter):
    name = "aiokafka"
    module = "aiokafka"

    def produce(
        self, servers: str, topic: str, partition: int, records: Iterable[Sent], codec: str
    ) -> list[int | None]:
        return asyncio.run(self._produce(servers, topic, partition, records, codec))

    def consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str = READ_UNCOMMITTED
    ) -> list[Received]:
        return asyncio.run(self._consume(servers, topic, partition, count, isolation_level))

    async def _produce(
        self, servers: str, topic: str, partition: int, records: Iterable[Sent], codec: str
    ) -> list[int | None]:
        from aiokafka import AIOKafkaProducer

        compression = None if codec == "none" else codec
        settings: dict[str, Any] = {"compression_type": compression, "linger_ms": 5, "enable_idempotence": True}
        async with AIOKafkaProducer(bootstrap_servers=servers, **settings) as producer:
            futures = [
                await producer.send(topic, r.value, r.key, partition, r.timestamp, [*r.headers]) for r in records
            ]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
        return [None if isinstance(outcome, BaseException) else outcome.offset for outcome in outcomes]

    async def _consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str
    ) -> list[Received]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        received: list[Received] = []
        settings: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
        settings["isolation_level"] = isolation_level
        async with AIOKafkaConsumer(bootstrap_servers=servers, **settings) as consumer:
            consumer.assign([TopicPartition(topic, partition)])
            deadline = time.monotonic() + TIMEOUT_S
            while len(received) < count and time.monotonic() < deadline:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=10_000)).values():
                    received += [Received(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in records]
        return received


class ConfluentKafka(Adapter):
    name = "confluent-kafka"
    module = "confluent_kafka"
    idempotent = True

    def produce(
        self, servers: str, topic: str, partition: int, records: Iterable[Sent], codec: str
    ) -> list[int | None]:
        from confluent_kafka import Producer

        offsets: dict[int, int | None] = {}

        def note(index: int, error: Any, message: Any) -> None:
            offsets[index] = None if error else message.offset()

        safety = {"enable.idempotence": True} if self.idempotent else {"acks": 1}
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "log_level": 0, **safety})
        for index, r in enumerate(records):
            options: dict[str, Any] = {} if r.timestamp is None else {"timestamp": r.timestamp}
            callback = lambda error, message, index=index: note(index, error, message)  # noqa: E731
            producer.produce(topic, r.value, r.key, partition, headers=[*r.headers], on_delivery=callback, **options)
            producer.poll(0)
        producer.flush(TIMEOUT_S)
        return [offset for _, offset in sorted(offsets.items())]

    def consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str = READ_UNCOMMITTED
    ) -> list[Received]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        impatience = {"fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 50}
        consumer = Consumer({**settings, **impatience, "isolation.level": isolation_level})
        received: list[Received] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            while len(received) < count and time.monotonic() < deadline:
                received += [self._received(message) for message in consumer.consume(count - len(received), 0.2)]
        finally:
            consumer.close()
        return received

    @staticmethod
    def _received(message: Any) -> Received:
        assert message.error() is None, message.error()
        headers = tuple(message.headers() or ())
        return Received(message.offset(), message.timestamp()[1], message.key(), message.value(), headers)


class Kcat(Adapter):
    """kcat knows no timestamps to write and no bytes that would end its lines, so it is given plainer records."""

    name = "kcat"
    headers = (("made-by", b"kcat"),)

    def produce(
        self, servers: str, topic: str, partition: int, records: Sequence[Sent], codec: str
    ) -> list[int | None]:
        lines = b"".join(b"%b|%b\n" % (r.key or b"", r.value or b"") for r in records)
        command = ["kcat", "-q", "-b", servers, "-P", "-t", topic, "-p", str(partition), "-K", "|", "-z", codec]
        for name, value in self.headers:
            command += ["-H", f"{name}={value.decode()}"]
        subprocess.run(command, input=lines, check=True, timeout=TIMEOUT_S)
        return [*range(len(records))]

    def sayable(self, records: Sequence[Sent]) -> list[Sent]:
        return [Sent(None, _hex(r.key), _hex(r.value), self.headers) for r in records]

    def consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str = READ_UNCOMMITTED
    ) -> list[Received]:
        layout = "%K %S %T %o\n%k%s%h\n"
        command = ["kcat", "-q", "-b", servers, "-C", "-t", topic, "-p", str(partition), "-o", "beginning"]
        command += ["-c", str(count), "-f", layout, "-X", f"isolation.level={isolation_level}"]
        output = subprocess.run(command, capture_output=True, check=True, timeout=TIMEOUT_S).stdout
        received, position = [], 0
        while position < len(output):
            line_end = output.index(b"\n", position)
            key_size, value_size, timestamp, offset = map(int, output[position:line_end].split())
            key, position = _take(output, line_end + 1, key_size)
            value, position = _take(output, position, value_size)
            line_end = output.index(b"\n", position)
            received.append(Received(offset, timestamp, key, value, _kcat_headers(output[position:line_end])))
            position = line_end + 1
        return received


def _hex(data: bytes | None) -> bytes:
    return (data or b"none").hex().encode()


def _take(data: bytes, position: int, size: int) -> tuple[bytes | None, int]:
    return (None, position) if size < 0 else (data[position : position + size], position + size)


def _kcat_headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = [pair.split(b"=", 1) for pair in text.split(b",")] if text else []
    return tuple((name.decode(), None if value == b"NULL" else value) for name, value in pairs)


class Java(Adapter):
    """Apache Kafka's own client, in the run's JVM."""

    name = "java"

    def __init__(self, peer: JavaPeer, directory: Path) -> None:
        self.peer = peer
        self.directory = directory
        self.hold = directory
        """The producer keeps its last ten records back until this exists."""

    def produce(
        self, servers: str, topic: str, partition: int, records: Iterable[Sent], codec: str
    ) -> list[int | None]:
        path = self.directory / f"to-{topic}-{partition}.jsonl"
        path.write_text("".join(json.dumps(self._encoded(r)) + "\n" for r in records), encoding="utf-8")
        settings = [f"bootstrap.servers={servers}", f"compression.type={codec}", "linger.ms=5"]
        finished = self.peer.run("produce", topic, partition, path, self.hold, *settings, timeout=TIMEOUT_S)
        assert finished.exit == 0, finished.stderr
        return [None if line == "error" else int(line) for line in finished.lines]

    def consume(
        self, servers: str, topic: str, partition: int, count: int, isolation_level: str = READ_UNCOMMITTED
    ) -> list[Received]:
        path = self.directory / f"from-{topic}-{partition}.jsonl"
        settings = [f"bootstrap.servers={servers}", f"isolation.level={isolation_level}"]
        finished = self.peer.run("consume", topic, partition, count, path, *settings, timeout=TIMEOUT_S)
        assert finished.exit == 0, finished.stderr
        with path.open(encoding="utf-8") as lines:
            return [self._decoded(json.loads(line)) for line in lines]

    @staticmethod
    def _encoded(record: Sent) -> dict[str, Any]:
        headers = [(name, _base64(value)) for name, value in record.headers]
        key, value = _base64(record.key), _base64(record.value)
        return {"timestamp": record.timestamp, "key": key, "value": value, "headers": headers}

    @staticmethod
    def _decoded(line: dict[str, Any]) -> Received:
        headers = tuple((name, _bytes(value)) for name, value in line["headers"])
        return Received(line["offset"], line["timestamp"], _bytes(line["key"]), _bytes(line["value"]), headers)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


Client: TypeAlias = KafkaPython | Aiokafka | ConfluentKafka | Kcat | Java
PYTHON_CLIENTS: dict[str, type[KafkaPython | Aiokafka | ConfluentKafka]] = {
    adapter.name: adapter for adapter in (KafkaPython, Aiokafka, ConfluentKafka)
}


def create_topic(servers: str, name: str, *, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs or {})])
    finally:
        admin.close()


def why_unavailable(name: str) -> str | None:
    """Return why a Python client or kcat cannot run here, or None when it can."""
    if name == Kcat.name:
        return None if shutil.which("kcat") else "kcat is not installed"
    try:
        importlib.import_module(PYTHON_CLIENTS[name].module)
    except ImportError as error:
        return str(error)
    return None
