"""Fixtures of the shop's tests. kmini's pytest plugin brings `kafka_broker`: each test has a broker of its own."""

import json
from collections.abc import Callable, Iterator

import pytest
from billing import Billing

from kmini import Broker, Cluster

TOPICS = {
    "orders": {"retention.ms": 7 * 24 * 3_600_000},
    "invoices": {},
    "parcels": {},
    "status": {"cleanup.policy": "compact", "delete.retention.ms": 24 * 3_600_000},
}
"""Each topic of the shop with its settings."""


@pytest.fixture
def broker(kafka_broker: Broker) -> Broker:
    """A broker with the topics of the shop."""
    for name, configs in TOPICS.items():
        kafka_broker.create_topic(name, partitions=2, configs=configs)
    return kafka_broker


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three brokers with the topics of the shop, each partition on all of them."""
    one_each = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with Cluster(brokers=3, config=one_each) as running:
        for name, configs in TOPICS.items():
            running.create_topic(name, replication_factor=3, configs=configs)
        yield running


@pytest.fixture
def open_billing() -> Iterator[Callable[[str], Billing]]:
    """`open_billing(servers)`: a billing service that is closed at the end of the test."""
    opened = []

    def open_one(servers: str) -> Billing:
        opened.append(Billing(servers))
        return opened[-1]

    yield open_one
    for billing in opened:
        billing.close()


@pytest.fixture
def place(broker: Broker) -> Callable[[str, int], None]:
    """`place(order, cents)` without the shop: where a test of billing begins."""

    def place_one(order: str, cents: int = 100) -> None:
        broker.produce("orders", json.dumps({"cents": cents}).encode(), key=order.encode())

    return place_one
