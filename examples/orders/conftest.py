"""Fixtures of the shop's tests, on those of kmini's pytest plugin: each test has a broker as it was after its start."""

import json
from collections.abc import Callable, Iterator

import pytest
from billing import Billing
from places import Kafka

WEEK_MS = 7 * 24 * 3_600_000
TOPICS = {
    "orders": {"retention.ms": WEEK_MS},
    "invoices": {},
    "parcels": {},
    "status": {"cleanup.policy": "compact", "delete.retention.ms": 24 * 3_600_000},
}
"""Each topic of the shop with its settings."""


@pytest.fixture
def kafka(kafka_broker, kafka_prefix: str) -> Kafka:
    """A Kafka with the topics of the shop: kmini, or the one that `--kafka-bootstrap` names."""
    found = Kafka(kafka_broker.bootstrap_servers, kafka_prefix)
    for name, configs in TOPICS.items():
        kafka_broker.create_topic(found.name(name), partitions=2, config=configs)
    return found


@pytest.fixture
def topic(kafka_broker, kafka: Kafka) -> Callable:
    """`topic("orders")`: the handle of a topic of the shop."""
    return lambda name: kafka_broker.topic(kafka.name(name))


@pytest.fixture
def cluster(kafka_cluster) -> Kafka:
    """Three brokers with the topics of the shop, each partition on all of them."""
    for name, configs in TOPICS.items():
        kafka_cluster.create_topic(name, replication_factor=3, config=configs)
    return Kafka(kafka_cluster.bootstrap_servers)


@pytest.fixture
def open_billing() -> Iterator[Callable[[Kafka], Billing]]:
    """`open_billing(kafka)`: a billing service that is closed at the end of the test."""
    opened = []

    def open_one(kafka: Kafka) -> Billing:
        opened.append(Billing(kafka))
        return opened[-1]

    yield open_one
    while opened:
        opened.pop().close()


@pytest.fixture
def place(topic: Callable) -> Callable[[str, int], None]:
    """`place(order, cents)` without the shop: where a test of billing begins. All orders are in one partition, so
    they have an order."""

    def place_one(order: str, cents: int = 100) -> None:
        topic("orders").produce(json.dumps({"cents": cents}).encode(), key=order.encode(), partition=0)

    return place_one
