"""What three brokers tell of replication, by Kafka's names."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.controller.reassignments import reassign
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.metrics_text import metrics_text
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.messages.fetch import FetchResponse
from kmini.protocol.topics import TopicPartition
from support.broker.clusters import Clusters
from support.until import until_async

T0 = TopicPartition("t", 0)
NODES = (1, 2, 3)


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    """Three brokers, and the topic "t" with a replica on each, of which all have to be in sync."""
    cluster = await clusters.start(3, clock=MovableClock(), replica_lag_time_max_ms=1000)
    topics.create(cluster.brokers[1], "t", replication_factor=3, configs={"min.insync.replicas": "3"})
    return cluster


def told(cluster: LocalCluster, node_id: int, name: str) -> float:
    """The one sample of a metric of Kafka's, given without its domain and type."""
    (value,) = (
        sample.value
        for family in text_string_to_metric_families(metrics_text(cluster.brokers[node_id]))
        for sample in family.samples
        if sample.name.endswith(f"_{name.lower()}")
        and sample.labels in ({}, {"clientId": "Replica"})
        and sample.name.startswith(("kafka_server_replica", "kafka_controller", "kafka_server_brokertopicmetrics"))
    )
    return value


def by_node(cluster: LocalCluster, name: str) -> dict[int, float]:
    return {node_id: told(cluster, node_id, name) for node_id in sorted(cluster.brokers)}


async def test_partitions_and_leaders_are_counted_where_they_are(cluster: LocalCluster) -> None:
    topics.create(cluster.brokers[1], "u", partitions=3)
    leaders = [cluster.state(TopicPartition("u", number)).leader for number in range(3)]
    leaders.append(cluster.state(T0).leader)
    assert by_node(cluster, "LeaderCount") == {node_id: leaders.count(node_id) for node_id in NODES}
    assert by_node(cluster, "PartitionCount") == {node_id: 1 + leaders[:3].count(node_id) for node_id in NODES}


async def test_one_broker_is_the_controller_and_another_takes_its_place(cluster: LocalCluster) -> None:
    assert by_node(cluster, "ActiveControllerCount") == {1: 1, 2: 0, 3: 0}
    await cluster.kill(1)
    assert by_node(cluster, "ActiveControllerCount") == {2: 1, 3: 0}
    assert by_node(cluster, "FencedBrokerCount") == {2: 1, 3: 1}
    assert by_node(cluster, "ActiveBrokerCount") == {2: 2, 3: 2}


async def test_a_replica_that_is_missing_is_told_by_the_leader(cluster: LocalCluster) -> None:
    leader = cluster.state(T0).leader
    dead = next(node_id for node_id in NODES if node_id != leader)
    nobody = dict.fromkeys(NODES, 0)
    for name in ("UnderReplicatedPartitions", "UnderMinIsrPartitionCount"):
        assert by_node(cluster, name) == nobody
    await cluster.kill(dead)
    missing = {node_id: int(node_id == leader) for node_id in NODES if node_id != dead}
    for name in ("UnderReplicatedPartitions", "UnderMinIsrPartitionCount"):
        assert by_node(cluster, name) == missing
    await cluster.restart(dead)
    await until_async(lambda: dead in cluster.state(T0).isr)
    for name in ("UnderReplicatedPartitions", "UnderMinIsrPartitionCount"):
        assert by_node(cluster, name) == nobody


@pytest.mark.sockets
async def test_changes_of_who_is_in_sync_are_counted_by_the_leader(cluster: LocalCluster) -> None:
    leader = cluster.state(T0).leader
    late = next(node_id for node_id in NODES if node_id != leader)
    async with Client(cluster.brokers[leader].address) as client:
        await client.produce("t", 0, [record(b"1")])
        await cluster.brokers[late].replica_manager.fetcher_manager.hold()
        await client.produce("t", 0, [record(b"2")], acks=1)
    other = ({*NODES} - {leader, late}).pop()
    await until_async(lambda: cluster.replica_offsets(T0)[other].log_end_offset == 2)
    assert isinstance(cluster.clock, MovableClock)
    await cluster.clock.advance(1_500, liveness=True)
    await until_async(lambda: cluster.state(T0).isr != NODES and late not in cluster.state(T0).isr)
    shrinks = told(cluster, leader, "IsrShrinks_total")
    assert shrinks >= 1
    cluster.brokers[late].replica_manager.fetcher_manager.release()
    await until_async(lambda: {*cluster.state(T0).isr} == {*NODES})
    assert told(cluster, leader, "IsrExpands_total") == told(cluster, leader, "IsrShrinks_total")
    assert told(cluster, late, "IsrExpands_total") == 0


async def test_partitions_without_a_leader_are_told_by_everybody(cluster: LocalCluster) -> None:
    topics.create(cluster.brokers[1], "alone")
    alone = cluster.state(TopicPartition("alone", 0)).leader
    assert set(by_node(cluster, "OfflinePartitionsCount").values()) == {0}
    await cluster.kill(alone)
    assert set(by_node(cluster, "OfflinePartitionsCount").values()) == {1}


async def test_replicas_that_are_added_are_not_missing_and_the_reassignment_is_told(cluster: LocalCluster) -> None:
    topics.create(cluster.brokers[1], "u")
    partition = TopicPartition("u", 0)
    old = cluster.state(partition).leader
    new = next(node_id for node_id in NODES if node_id != old)
    await cluster.brokers[new].replica_manager.fetcher_manager.hold()
    reassign(cluster.controller, partition, [new])
    assert told(cluster, old, "ReassigningPartitions") == 1
    assert told(cluster, old, "UnderReplicatedPartitions") == 0


async def test_a_leader_that_is_not_the_first_replica_is_told(cluster: LocalCluster) -> None:
    assert told(cluster, 1, "PreferredReplicaImbalanceCount") == 0
    cluster.move_leader(T0, cluster.state(T0).replicas[1])
    assert told(cluster, 1, "PreferredReplicaImbalanceCount") == 1


@pytest.mark.sockets
async def test_what_followers_fetch_is_told_apart_from_what_consumers_do(cluster: LocalCluster) -> None:
    leader = cluster.state(T0).leader
    async with Client(cluster.brokers[leader].address) as client:
        await client.produce("t", 0, [record(b"x" * 1_000)])
    assert told(cluster, leader, "ReplicationBytesOut_total") >= 2_000
    assert told(cluster, leader, "BytesOut_total") == 0
    for node_id in {*NODES} - {leader}:
        assert told(cluster, node_id, "ReplicationBytesIn_total") >= 1_000


async def test_a_follower_tells_how_far_behind_it_is(cluster: LocalCluster) -> None:
    leader = cluster.state(T0).leader
    broker = cluster.brokers[next(node_id for node_id in NODES if node_id != leader)]
    manager = broker.replica_manager.fetcher_manager
    fetcher, followed = manager._fetchers[leader], manager.followed[T0]
    assert told(cluster, broker.node_id, "MaxLag") == 0
    answer = FetchResponse.Topic.Partition(partition_index=0, high_watermark=7, log_start_offset=0, records=b"")
    fetcher._follow(followed, answer, [])
    assert told(cluster, broker.node_id, "MaxLag") == 7
