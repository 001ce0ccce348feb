"""Writing a record and reading a topic with each Python client, as its users do. What comes back is the client's."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar, TypeAlias

TIMEOUT_S = 30.0


class KafkaPython:
    name: ClassVar[str] = "kafka-python"
    module: ClassVar[str] = "kafka"
    refusal: ClassVar[str] = r"InvalidRecordError: .*kmini\.tombstone"
    """How the client tells that a record was refused."""

    def send(self, servers: str, topic: str, **record: Any) -> None:
        """Write one record; the client's error if it is refused."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=servers)
        try:
            producer.send(topic, **record).get(timeout=TIMEOUT_S)
        finally:
            producer.close(timeout=5)

    def read(self, servers: str, topic: str, count: int) -> list[Any]:
        """The first `count` records of partition 0, or more."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", enable_auto_commit=False)
        found: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(topic, 0)])
            while len(found) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=1_000).values():
                    found += records
        finally:
            consumer.close()
        return found

    def key_of(self, record: Any) -> Any:
        return record.key

    def value_of(self, record: Any) -> Any:
        return record.value

    def headers_of(self, record: Any) -> dict[str, bytes]:
        return dict(record.headers)

    def timestamp_of(self, record: Any) -> int:
        return int(record.timestamp)


class Aiokafka(KafkaPython):
    name = "aiokafka"
    module = "aiokafka"
    refusal = "UnknownError"
    """Up to 0.14 it has no name for INVALID_RECORD."""

    def send(self, servers: str, topic: str, **record: Any) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait(topic, **record)

        asyncio.run(run())

    def read(self, servers: str, topic: str, count: int) -> list[Any]:
        async def run() -> list[Any]:
            from aiokafka import AIOKafkaConsumer, TopicPartition

            found: list[Any] = []
            settings: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
            async with AIOKafkaConsumer(bootstrap_servers=servers, **settings) as consumer:
                consumer.assign([TopicPartition(topic, 0)])
                deadline = time.monotonic() + TIMEOUT_S
                while len(found) < count and time.monotonic() < deadline:
                    for records in (await consumer.getmany(timeout_ms=1_000)).values():
                        found += records
            return found

        return asyncio.run(run())


class ConfluentKafka:
    name = "confluent-kafka"
    module = "confluent_kafka"
    refusal = "INVALID_RECORD"

    def send(self, servers: str, topic: str, **record: Any) -> None:
        from confluent_kafka import KafkaException, Producer

        errors: list[Any] = []
        producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        producer.produce(topic, **record, on_delivery=lambda error, message: errors.append(error))
        producer.flush(TIMEOUT_S)
        assert errors, "nothing was heard of the record"
        if errors[0] is not None:
            raise KafkaException(errors[0])

    def read(self, servers: str, topic: str, count: int) -> list[Any]:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        settings = {"bootstrap.servers": servers, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({**settings, "fetch.queue.backoff.ms": 2, "fetch.wait.max.ms": 50})
        found: list[Any] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            while len(found) < count and time.monotonic() < deadline:
                found += consumer.consume(count, 0.2)
        finally:
            consumer.close()
        assert not [message for message in found if message.error()]
        return found

    def key_of(self, record: Any) -> Any:
        return record.key()

    def value_of(self, record: Any) -> Any:
        return record.value()

    def headers_of(self, record: Any) -> dict[str, bytes]:
        return dict(record.headers() or ())

    def timestamp_of(self, record: Any) -> int:
        return int(record.timestamp()[1])


TombstoneClient: TypeAlias = KafkaPython | Aiokafka | ConfluentKafka
CLIENTS: dict[str, type[TombstoneClient]] = {each.name: each for each in (KafkaPython, Aiokafka, ConfluentKafka)}
