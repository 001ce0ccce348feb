"""Transactional producers of three client libraries behind one small surface that blocks."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

TIMEOUT_S = 30.0

Offsets = Mapping[tuple[str, int], int]
"""The next offset to read, by topic and partition."""


class TransactionalClient(Protocol):
    """A producer with a transactional id, ready for its first transaction when it is made."""

    name: ClassVar[str]

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    def begin(self) -> None: ...

    def produce(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Return when the broker has it."""

    def send_offsets(self, group: str, offsets: Offsets) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Confluent:
    name = "confluent-kafka"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from confluent_kafka import Consumer, Producer

        self._servers = servers
        self._consumer_class = Consumer
        self._producer: Any = Producer(
            {
                "bootstrap.servers": servers,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic: str, value: bytes, partition: int = 0) -> None:
        failures: list[Any] = []
        self._producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error) if error else None
        )
        assert self._producer.flush(TIMEOUT_S) == 0
        if failures:
            raise RuntimeError(str(failures[0]))

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._consumer_class({"bootstrap.servers": self._servers, "group.id": group, "log_level": 0})
        try:
            wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
            self._producer.send_offsets_to_transaction(wanted, consumer.consumer_group_metadata(), TIMEOUT_S)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a fenced producer
            self._producer.purge()
            self._producer.flush(1)


class KafkaPython:
    name = "kafka-python"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        from kafka import KafkaProducer

        self._producer: Any = KafkaProducer(
            bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition).get(TIMEOUT_S)

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        from kafka.structs import OffsetAndMetadata, TopicPartition

        wanted = {
            TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
            for (topic, partition), offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(wanted, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AioKafka:
    name = "aiokafka"

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer: Any = self._run(self._start(servers, transactional_id, timeout_ms))

    async def _start(self, servers: str, transactional_id: str, timeout_ms: int) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _run(self, coroutine: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, TIMEOUT_S))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def produce(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._run(self._producer.send_and_wait(topic, value, partition=partition))

    def send_offsets(self, group: str, offsets: Offsets) -> None:
        from aiokafka import TopicPartition

        wanted = {TopicPartition(topic, partition): offset for (topic, partition), offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(wanted, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        with contextlib.suppress(Exception):  # of a fenced producer
            self._run(self._producer.stop())
        self._loop.close()


CLIENTS: dict[str, type[TransactionalClient]] = {each.name: each for each in (Confluent, KafkaPython, AioKafka)}


def read_committed(servers: str, topic: str, partitions: int = 1) -> list[bytes]:
    """Everything committed in the topic, up to its last stable offsets."""
    return read_to_end(servers, topic, partitions, "read_committed")


def read_to_end(servers: str, topic: str, partitions: int, isolation_level: str) -> list[bytes]:
    """The values that a reader of librdkafka gets until it is told, for each partition, that there are no more."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reader-{random.random()}",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        ended: set[int] = set()
        deadline = time.monotonic() + 60
        while len(ended) < partitions:
            assert time.monotonic() < deadline, "the end is never reached"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                values.append(message.value())
            else:
                ended.add(message.partition())
    finally:
        consumer.close()
    return values
