"""Replicas that come back, begin anew, or lose the lead while something waits: what each of them may have and show."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.client import Client
from kmini.client.address import Address
from kmini.client.connection import Connection, ConnectionSettings
from kmini.client.produce import record
from kmini.protocol.errors import NotLeaderOrFollower
from kmini.protocol.messages import FetchRequest
from kmini.protocol.topics import TopicPartition
from support.broker.clusters import Clusters
from support.until import until_async

pytestmark = pytest.mark.sockets

T0 = TopicPartition("t", 0)
SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:0", "replica.fetch.wait.max.ms": "100"}


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    cluster = await clusters.start(3, SETTINGS)
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    return cluster


def client(cluster: LocalCluster) -> Client:
    return Client(",".join(broker.address for broker in cluster.brokers.values()))


async def fetch_code(broker: BrokerServer, offset: int) -> int:
    """The error code that a consumer gets at one broker, with a version in which followers may be read."""
    asked = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchRequest.Topic(topic="t", partitions=[asked])]
    )
    host, port = broker.address.rsplit(":", 1)
    connection = await Connection.open(Address(host, int(port)))
    try:
        response = await connection.send(request, version=12)
        return int(response.responses[0].partitions[0].error_code)
    finally:
        await connection.close()


async def test_a_replica_that_comes_back_is_not_read_before_it_knows_where_the_log_starts(
    cluster: LocalCluster,
) -> None:
    async with client(cluster) as ours:
        for _ in range(5):
            await ours.produce("t", 0, [record(b"value")])
        first = cluster.state(T0).leader
        away, other = sorted({1, 2, 3} - {first})
        await until_async(lambda: cluster.replica_offsets(T0)[away].high_watermark == 5)
        await cluster.kill(away)
        assert (await ours.delete_records_before({T0: 4}))[T0].low_watermark == 4
        await cluster.kill(other)
        await cluster.kill(first)
        await cluster.restart(away)
        assert cluster.replica_offsets(T0)[away].log_start_offset == 0, "nobody leads, who could tell it"
        assert await fetch_code(cluster.brokers[away], 0) == NotLeaderOrFollower.code
        await cluster.restart(first)
        await until_async(lambda: cluster.replica_offsets(T0)[away].log_start_offset == 4)
        assert await fetch_code(cluster.brokers[away], 4) == 0


async def test_a_follower_is_read_on_while_the_leader_moves(cluster: LocalCluster) -> None:
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"value")])
    old = cluster.state(T0).leader
    follower, new = sorted({1, 2, 3} - {old})
    await cluster.brokers[follower].replica_manager.fetcher_manager.hold()
    cluster.move_leader(T0, new)
    assert await fetch_code(cluster.brokers[follower], 0) == 0
    assert await fetch_code(cluster.brokers[old], 0) == 0


async def test_a_restart_that_is_called_off_leaves_a_broker_that_can_be_started(cluster: LocalCluster) -> None:
    await cluster.kill(2)
    for _ in range(3):
        starting = asyncio.ensure_future(cluster.restart(2))
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="runs"):
            await cluster.restart(2)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert not cluster.controller.is_live(2)
    await cluster.restart(2)
    await until_async(lambda: 2 in cluster.state(T0).isr)


async def test_whoever_is_cancelled_when_a_connection_is_made_is_cancelled(cluster: LocalCluster) -> None:
    """Else a broker that stops waits for a follower that does not."""
    host, port = cluster.brokers[1].address.rsplit(":", 1)

    async def cancel(_: Connection) -> None:
        asyncio.get_running_loop().call_soon(opening.cancel)

    opening = asyncio.ensure_future(Connection.open(Address(host, int(port)), ConnectionSettings(set_up=(cancel,))))
    await asyncio.wait([opening])
    assert opening.cancelled()


async def test_nobody_takes_the_port_of_a_broker_that_does_not_run(cluster: LocalCluster) -> None:
    address = cluster.brokers[2].server.listeners[0]
    await cluster.kill(2)
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind((address.host, address.port))
    with socket.socket() as visitor, pytest.raises(ConnectionRefusedError):
        visitor.connect((address.host, address.port))
    await cluster.restart(2)
    assert cluster.brokers[2].server.listeners[0].port == address.port


async def test_a_topic_that_was_deleted_and_made_again_while_a_broker_was_away_is_the_new_one_there(
    cluster: LocalCluster,
) -> None:
    away = cluster.state(T0).leader
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"old"), record(b"older")])
        await cluster.kill(away)
        host = next(iter(cluster.brokers.values()))
        topics.delete(host, "t")
        topics.create(host, "t", replication_factor=2)
        old_id = cluster.controller.topics["t"].id
        await cluster.restart(away)
        topics.delete(host, "t")
        topics.create(host, "t", replication_factor=3)
        assert cluster.controller.topics["t"].id != old_id
        await ours.produce("t", 0, [record(b"new")])
        assert {log.log_end_offset for log in (broker.logs.logs[T0] for broker in cluster.brokers.values())} == {1}
        assert {broker.logs.logs[T0].topic_id for broker in cluster.brokers.values()} == {
            cluster.controller.topics["t"].id
        }


async def test_a_cluster_stops_with_brokers_that_are_cut_off_stand_still_and_are_dead(cluster: LocalCluster) -> None:
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"value")])
    await cluster.kill(1)
    await cluster.cut_off(2)
    await cluster.pause(3)
    await cluster.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_replica_comes_back_to_a_log_that_begins_with_a_segment_without_batches(cluster: LocalCluster) -> None:
    config = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    topics.create(cluster.brokers[1], "c", replication_factor=3, configs=config)
    partition = TopicPartition("c", 0)
    first = cluster.state(partition).leader
    away = min({1, 2, 3} - {first})
    await cluster.kill(away)
    async with client(cluster) as ours:
        log = cluster.brokers[first].logs.logs[partition]
        for number in range(4):
            padding = b"" if number == 3 else b"x" * 600_000
            await ours.produce("c", 0, [record(b"%d" % number + padding, key=b"key")])
            log.roll(cluster.brokers[first].clock.now_ms())
        await cluster.brokers[first].cleaner.compact(partition)
        assert (log.segments.oldest.base_offset, log.segments.oldest.size) == (0, 0)
        await cluster.restart(away)
        await until_async(lambda: away in cluster.state(partition).isr)
        assert cluster.replica_offsets(partition)[away] == cluster.replica_offsets(partition)[first]
        await cluster.kill(first)
        await cluster.restart(first)
        await until_async(lambda: first in cluster.state(partition).isr)
        for node_id in (away, first):
            cluster.move_leader(partition, node_id)
            read = [(found.offset, found.value) async for found in ours.consume({partition: 0}, until={partition: 4})]
            assert read == [(3, b"3")]


async def test_a_fetch_from_before_a_restart_does_not_say_what_the_broker_has_now(cluster: LocalCluster) -> None:
    """KIP-903: it was sent before the power failed, say, and came late. The follower has lost what it had then."""
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"value")])
        leader = cluster.state(T0).leader
        follower = min({1, 2, 3} - {leader})
        await cluster.kill(follower)
        await ours.produce("t", 0, [record(b"value")])
        await cluster.restart(follower)
        await cluster.brokers[follower].replica_manager.fetcher_manager.hold()
        partition = cluster.brokers[leader].replica_manager.partitions[T0]
        partition.replicas.forget(follower)
        epoch = cluster.controller.broker_epoch(follower)
        for sent_in, is_believed in ((epoch - 1, False), (epoch, True)):
            await fetch_as(follower, sent_in, cluster.brokers[leader], topic_id=cluster.controller.topics["t"].id)
            replica = partition.replicas.get(follower)
            assert replica is not None
            assert (replica.log_end_offset == 2) is is_believed


async def fetch_as(node_id: int, broker_epoch: int, leader: BrokerServer, *, topic_id: bytes) -> None:
    """Fetch as a follower that has two records."""
    asked = FetchRequest.Topic.Partition(partition=0, fetch_offset=2, log_start_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        replica_state=FetchRequest.ReplicaState(replica_id=node_id, replica_epoch=broker_epoch),
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.Topic(topic="t", topic_id=topic_id, partitions=[asked])],
    )
    host, port = leader.address.rsplit(":", 1)
    connection = await Connection.open(Address(host, int(port)))
    try:
        response = await connection.send(request, version=17)
        assert response.responses[0].partitions[0].error_code == 0
    finally:
        await connection.close()
