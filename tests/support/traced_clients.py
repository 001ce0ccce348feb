"""What clients do through a proxy, and ought to do as without it: write and read, in groups and in transactions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from support.client_adapters import TIMEOUT_S, Client, create_topic, make_records
from support.transactional_clients import TransactionalClient, read_committed

RECORDS = 200
PARTITIONS = 3


def write_and_read(client: Client, servers: str, topic: str) -> None:
    """Records that a client writes are those that it reads, in each partition."""
    create_topic(servers, topic, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = client.sayable(make_records(RECORDS, seed=(client.name, partition)))
        assert client.produce(servers, topic, partition, records, "gzip") == [*range(RECORDS)]
        received = client.consume(servers, topic, partition, RECORDS)
        assert [(one.key, one.value, one.headers) for one in received] == [
            (one.key, one.value, one.headers) for one in records
        ]


def commit_in_transactions(maker: type[TransactionalClient], servers: str, topic: str) -> None:
    """What was committed is read, and what was aborted is not; offsets go with the transaction."""
    create_topic(servers, topic, partitions=2)
    producer = maker(servers, f"{topic}-t")
    try:
        for number in range(4):
            producer.begin()
            for partition in (0, 1):
                producer.produce(topic, b"%d-%d" % (number, partition), partition)
            producer.send_offsets(f"{topic}-group", {(topic, 0): number})
            (producer.commit if number % 2 else producer.abort)()
    finally:
        producer.close()
    assert sorted(read_committed(servers, topic, 2)) == [b"1-0", b"1-1", b"3-0", b"3-1"]


def read_in_a_group(name: str, servers: str, topic: str) -> list[bytes]:
    """The ten values that a client reads as the only member of a group, which commits them."""
    return _GROUP_READERS[name](servers, topic)


def _confluent(servers: str, topic: str) -> list[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"{topic}-group", "auto.offset.reset": "earliest"})
    values: list[bytes] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < 10 and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def _kafka_python(servers: str, topic: str) -> list[bytes]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}-group",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    values: list[bytes] = []
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < 10 and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=1000).values():
                values += [record.value for record in records]
        consumer.commit()
    finally:
        consumer.close()
    return values


def _aiokafka(servers: str, topic: str) -> list[bytes]:
    from aiokafka import AIOKafkaConsumer

    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=servers,
            group_id=f"{topic}-group",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        values: list[bytes] = []
        try:
            while len(values) < 10:
                record: Any = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
                values.append(record.value)
            await consumer.commit()
        finally:
            await consumer.stop()
        return values

    return asyncio.run(read())


_GROUP_READERS: dict[str, Callable[[str, str], list[bytes]]] = {
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent,
    "kafka-python": _kafka_python,
}
