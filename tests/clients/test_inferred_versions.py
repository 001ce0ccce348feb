"""What clients take the broker for, and what they send it for that reason."""

from __future__ import annotations

import logging
import re

import pytest

from support.server_process import ServerProcess, StartServer

RELEASES = [None, "4.3", "4.0", "3.9", "2.8"]
FETCH = {"4.0": 17, "3.9": 17, "2.8": 12}


@pytest.fixture(params=RELEASES, ids=lambda release: f"as {release}" if release else "by default")
def release(request: pytest.FixtureRequest) -> str | None:
    value: str | None = request.param
    return value


@pytest.fixture
def broker(start_server: StartServer, release: str | None, against_kafka: bool, leaky_clients: None) -> ServerProcess:
    if against_kafka and release:
        pytest.skip("Apache Kafka is what it is")
    return start_server(**({"kmini_as_version": release} if release else {}))


def test_kafka_python(broker: ServerProcess, release: str | None) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert producer.send("inferred", b"value").get(10).offset == 0
        assert producer.config["api_version"] == expected(release)
    finally:
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    try:
        consumer.assign([TopicPartition("inferred", 0)])
        assert next(consumer).value == b"value"
    finally:
        consumer.close()


def expected(release: str | None) -> tuple[int, ...]:
    return tuple(map(int, (release or "4.3").split(".")))


async def test_aiokafka(broker: ServerProcess, release: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True) as producer:
        assert (await producer.send_and_wait("inferred", b"value")).offset == 0
        (connection, *_) = producer.client._conns.values()
        told = connection._versions
    assert told[1][1] == FETCH.get(release or "", 18), "Fetch"
    assert told[0][0] == 0, "librdkafka compresses only for brokers that list Produce 0"
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest")
    async with consumer:
        consumer.assign([TopicPartition("inferred", 0)])
        assert (await consumer.getone()).value == b"value"


LIBRDKAFKA_FEATURES = {
    *("MsgVer1", "MsgVer2", "ApiVersion", "ThrottleTime", "LZ4", "OffsetTime", "IdempotentProducer", "ZSTD"),
    *("BrokerGroupCoordinator", "BrokerBalancedConsumer"),
}
"""All that it finds in Apache Kafka, but for those of SASL."""


def test_librdkafka(broker: ServerProcess) -> None:
    """Its features are named in its log; each needs versions of several requests."""
    from confluent_kafka import Producer

    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    logger = logging.Logger("librdkafka")
    logger.addHandler(Collect())
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "debug": "feature"}, logger=logger)
    producer.produce("inferred", b"value")
    assert producer.flush(10) == 0
    features = {found[1] for line in lines if (found := re.search(r"Enabling feature (\w+)", line))}
    assert {name for name in features if not name.startswith("Sasl")} == LIBRDKAFKA_FEATURES
