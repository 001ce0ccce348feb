"""What real client libraries do when the broker's clock jumps, and when records carry times that are far from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support.readers import READERS, reading
from support.until import until

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0
CLIENTS = [*READERS]
WEEK_MS = 7 * 86_400_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that stamps records with its own clock, except in the topic `dated`."""
    topics = {"orders": 1, "dated": {"partitions": 1, "config": {"message.timestamp.type": "CreateTime"}}}
    config = {"group.initial.rebalance.delay.ms": 0}
    with Broker(topics=topics, config=config, timestamps="append") as broker:
        yield broker


def delivered(broker: Broker, topic: str, timestamp_ms: int = 0) -> Any:
    """Produce one record with confluent-kafka; return the error of its delivery report, or None."""
    client = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    reports: list[Any] = []
    options = {"timestamp": timestamp_ms} if timestamp_ms else {}
    client.produce(topic, b"v", partition=0, on_delivery=lambda error, record: reports.append(error), **options)
    assert client.flush(TIMEOUT_S) == 0
    (error,) = reports
    return error


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_follows_a_clock_that_jumps_forward_and_backward(broker: Broker, name: str) -> None:
    with reading(name, broker.bootstrap_servers) as reader:
        assert delivered(broker, "orders") is None
        reader.read(1)
        broker.clock.advance("1d")
        assert delivered(broker, "orders") is None
        reader.read(2)
        broker.clock.turn_back("2d")
        assert delivered(broker, "orders") is None
        now, tomorrow, yesterday = (found.timestamp for found in reader.read(3))
        assert yesterday < now - 86_000_000 < now < now + 86_000_000 < tomorrow
        assert [found.offset for found in reader.records] == [0, 1, 2]


def test_a_member_joins_again_when_the_clock_jumps_over_its_session(broker: Broker) -> None:
    client = confluent.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 50,
            "session.timeout.ms": 6_000,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        client.subscribe(["orders"])
        client.poll(0)
        (before,) = broker.group("billing").stable(members=1).members
        rejoins = broker.faults.on("JoinGroup", group="billing").delay(0)
        broker.clock.advance("10m", liveness=True)
        until(lambda: (client.poll(0.02), rejoins.hits)[1])
        (after,) = broker.group("billing").stable(members=1).members
        assert before.member_id != after.member_id
        assert delivered(broker, "orders") is None
        assert until(lambda: client.poll(0.05), poll_s=0).value() == b"v"
    finally:
        client.close()


def test_confluent_is_told_of_a_time_too_far_in_the_future(broker: Broker) -> None:
    now = time.time_ns() // 1_000_000
    assert delivered(broker, "dated", now + WEEK_MS).name() == "INVALID_TIMESTAMP"
    assert delivered(broker, "orders", now + WEEK_MS) is None
    assert broker.records("dated") == []


def test_kafka_python_is_told_of_a_time_too_far_in_the_future(broker: Broker) -> None:
    kafka = pytest.importorskip("kafka")
    errors = pytest.importorskip("kafka.errors")
    client = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
    try:
        future = time.time_ns() // 1_000_000 + WEEK_MS
        with pytest.raises(errors.InvalidTimestampError):
            client.send("dated", b"v", partition=0, timestamp_ms=future).get(TIMEOUT_S)
    finally:
        client.close()


async def test_aiokafka_is_told_of_a_time_too_far_in_the_future(broker: Broker) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as client:
        future = time.time_ns() // 1_000_000 + WEEK_MS
        with pytest.raises(aiokafka.errors.InvalidTimestampError):
            await client.send_and_wait("dated", b"v", partition=0, timestamp_ms=future)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_record_of_the_far_past_is_read_until_retention_takes_it_first(broker: Broker, name: str) -> None:
    assert delivered(broker, "dated", 1_000) is None
    with reading(name, broker.bootstrap_servers, "dated") as reader:
        assert [found.timestamp for found in reader.read(1)] == [1_000]
        broker.topic("dated").apply_retention()
        assert delivered(broker, "dated") is None
        assert [found.offset for found in reader.read(2)] == [0, 1]
    assert broker.offsets("dated").log_start_offset == 1
