"""Clients that are not polled in time leave their group, and the failure report says so.

Of these only Java gives a reason (KIP-800); of the others the report infers it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini import Broker

pytestmark = pytest.mark.soak

MAX_POLL_INTERVAL_MS = 6_500
SESSION_MS = 6_000
"""Milliseconds that a busy machine may hold up heartbeats: a session that ends is another failure."""


def with_confluent_kafka(bootstrap_servers: str) -> Any:
    consumer = pytest.importorskip("confluent_kafka").Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "client.id": "billing-1",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 200,
            "max.poll.interval.ms": MAX_POLL_INTERVAL_MS,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    assert consumer.poll(30) is not None
    return consumer


def with_kafka_python(bootstrap_servers: str) -> Any:
    consumer = pytest.importorskip("kafka").KafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        client_id="billing-1",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=200,
        max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    assert consumer.poll(30_000)
    return consumer


@pytest.mark.parametrize("consume", [with_confluent_kafka, with_kafka_python])
def test_the_report_says_that_a_consumer_was_not_polled(consume: Callable[[str], Any]) -> None:
    with Broker(topics=["orders"], journal=True) as broker:
        broker.produce("orders", b"placed")
        consumer = consume(broker.bootstrap_servers)
        try:
            broker.group("billing").stable(members=0, timeout_ms=30_000)
            broker.requests.wait_for("LeaveGroup", where=lambda entry: not entry.is_in_service)
            first, second, *_ = broker.report().splitlines()
        finally:
            consumer.close()
    assert first.startswith("LIKELY  consumer 'billing-1' left group billing")
    assert f"not polled for max.poll.interval.ms={MAX_POLL_INTERVAL_MS}" in second
