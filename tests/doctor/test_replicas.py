"""Partitions without leaders or replicas are named."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kmini import Broker, Cluster

from .conftest import Examine


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as running:
        yield running


def first_of(cluster: Cluster) -> str:
    return cluster.bootstrap_servers.split(",")[0]


def test_healthy_partitions_are_counted(diagnose: Examine) -> None:
    with Broker(topics={"orders": 3, "bills": 2}) as broker:
        found = diagnose(broker.bootstrap_servers)["replicas-in-sync"]
    assert found.text.startswith("5 partitions of 2 topics: each has a leader")


def test_a_partition_whose_only_broker_is_down_is_leaderless(diagnose: Examine, cluster: Cluster) -> None:
    cluster.create_topic("orders", 2, replication_factor=1)
    cluster.stop_broker(2)
    found = diagnose(first_of(cluster))["leaderless"]
    assert "no leader, so nothing can be read or written there" in found.text
    assert "start the brokers that are missing: 2" in found.change


def test_a_replica_that_is_down_is_named_with_its_broker(diagnose: Examine, cluster: Cluster) -> None:
    cluster.create_topic("orders", 1, replication_factor=2)
    cluster.stop_broker(2)
    found = diagnose(first_of(cluster))["under-replicated"]
    assert found.text.startswith("orders-0 (1 of 2 replicas in sync)")
    assert found.change.endswith("other replicas: 2")


def test_too_few_replicas_in_sync_for_acks_all_is_a_failure(diagnose: Examine, cluster: Cluster) -> None:
    cluster.create_topic("orders", 1, replication_factor=2, config={"min.insync.replicas": 2})
    cluster.stop_broker(2)
    found = diagnose(first_of(cluster))["under-min-isr"]
    assert found.text.startswith("orders-0 (1 of 2 replicas in sync, 2 wanted)")
    assert "NOT_ENOUGH_REPLICAS" in found.text


def test_a_replica_is_missing_where_min_insync_replicas_is_larger_than_their_number(
    diagnose: Examine, cluster: Cluster
) -> None:
    cluster.create_topic("orders", 1, replication_factor=2, config={"min.insync.replicas": 3})
    cluster.stop_broker(2)
    found = diagnose(first_of(cluster))["under-min-isr"]
    assert found.text.startswith("orders-0 (1 of 2 replicas in sync, 2 wanted)")


def test_a_replication_factor_below_min_insync_replicas_is_a_warning(diagnose: Examine) -> None:
    """Since 3.7, Apache Kafka takes the replication factor for a min.insync.replicas that is larger (KAFKA-15583)."""
    with Broker() as broker:
        for number in range(5):
            broker.create_topic(f"orders-{number}", config={"min.insync.replicas": 2})
        found = diagnose(broker.bootstrap_servers)["too-few-replicas"]
    assert "orders-0-0 (replication factor 1, 2 wanted)" in found.text
    assert "and 2 more" in found.text
    assert found.level == "warn"
    assert "before Apache Kafka 3.7 it can never succeed" in found.text
    assert "kmini topic alter NAME -c min.insync.replicas=1" in found.change
