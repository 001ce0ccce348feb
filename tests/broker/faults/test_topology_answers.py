"""Answers about the cluster that differ from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Cluster
from kmini.protocol import messages as m
from kmini.testing import Wire

pytestmark = pytest.mark.sockets

LEADER_NOT_AVAILABLE = 5


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", 1, replication_factor=2)
        cluster.create_topic("other", 1, replication_factor=2)
        for topic in ("orders", "other"):
            cluster.wait_until_in_sync(topic)
            if cluster.leader(topic) != 1:
                cluster.move_leader(topic, to=1)
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """Two brokers, of which the first one leads the topics `orders` and `other`, and no rule."""
    yield running
    running.faults.clear()


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Wire]:
    with Wire(cluster.address_of(2)) as connection:
        yield connection


def described(wire: Wire, *names: str) -> dict[str, tuple[int, int, int]]:
    """Leader, error code and leader epoch of partition 0 of each topic."""
    asked: Any = [m.MetadataRequest.Topic(name=name) for name in names] or None
    answer = wire.ask(m.MetadataRequest(topics=asked), 12)
    found = {topic.name: topic.partitions[0] for topic in answer.topics}
    return {name: (one.leader_id, one.error_code, one.leader_epoch) for name, one in found.items()}


def test_another_leader_is_named_for_the_partitions_that_are_meant(cluster: Cluster, wire: Wire) -> None:
    before = described(wire, "orders", "other")
    rule = cluster.faults.stale_leader("orders", leader=2, epoch=0, times=2)
    assert described(wire, "orders", "other") == {"orders": (2, 0, 0), "other": before["other"]}
    assert described(wire)["orders"] == (2, 0, 0)
    assert described(wire, "orders", "other") == before
    rule.assert_hit(times=2)


def test_a_leader_that_is_none_is_an_error_of_the_partition(cluster: Cluster, wire: Wire) -> None:
    _, _, epoch = described(wire, "orders")["orders"]
    cluster.faults.on("Metadata", topic="orders").leader(-1)
    assert described(wire, "orders")["orders"] == (-1, LEADER_NOT_AVAILABLE, epoch)


def test_a_rule_about_a_partition_that_is_not_in_the_answer_has_not_acted(cluster: Cluster, wire: Wire) -> None:
    rule = cluster.faults.on("Metadata", topic="orders", partition=7).leader(2)
    described(wire, "orders")
    rule.assert_hit(times=0)


def test_a_broker_is_left_out_with_what_it_leads(cluster: Cluster, wire: Wire) -> None:
    with cluster.faults.broker_missing_from_metadata(1):
        answer = wire.ask(m.MetadataRequest(topics=[m.MetadataRequest.Topic(name="orders")]), 12)
        assert [broker.node_id for broker in answer.brokers] == [2]
        assert answer.controller_id == 2
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.error_code) == (-1, LEADER_NOT_AVAILABLE)
        assert partition.offline_replicas == [1]
        told = wire.ask(m.DescribeClusterRequest(), 1)
        assert [broker.broker_id for broker in told.brokers] == [2]
        with Wire(cluster.address_of(1)) as first:
            first.ask(m.ListGroupsRequest(), 2)
    assert described(wire, "orders")["orders"][:2] == (1, 0)


def test_no_coordinator_is_node_minus_1(cluster: Cluster, wire: Wire) -> None:
    rule = cluster.faults.no_coordinator("billing")
    for version in (3, 4):
        request = m.FindCoordinatorRequest(key="billing", coordinator_keys=["billing"] if version == 4 else [])
        answer = wire.ask(request, version)
        (found,) = answer.coordinators if version == 4 else (answer,)
        if version == 3:
            assert (found.error_code, found.node_id, found.host, found.port) == (15, -1, "", -1)
        else:
            assert found.error_code == 0
    rule.assert_hit(times=1)
