"""Three brokers in one process: what is written to one is on all, whoever dies."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import elections, topics
from kmini.broker.controller.reassignments import reassign
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.network.memory_transport import MemoryTransport
from kmini.broker.share_state.persister import SharePartitionKey
from kmini.client import Client
from kmini.client.address import parse_addresses
from kmini.client.connection import Connection
from kmini.client.produce import record
from kmini.protocol.errors import NONE, KafkaError, RequestTimedOut, UnknownTopicId
from kmini.protocol.messages import FetchRequest, ProduceRequest
from kmini.protocol.schema import Request
from kmini.protocol.topics import TopicPartition
from support.batches import Item, batch
from support.broker.clusters import Clusters, broker_configs
from support.broker.compacting_brokers import passes
from support.until import until_async

pytestmark = pytest.mark.sockets

T0 = TopicPartition("t", 0)


SETTINGS = {"replica.fetch.wait.max.ms": 100}


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    return await clusters.start(3, SETTINGS)


def leader(cluster: LocalCluster, topic_partition: TopicPartition = T0) -> BrokerServer:
    topic = cluster.controller.topics[topic_partition.topic]
    return cluster.brokers[topic.partitions[topic_partition.partition].leader]


def isr(cluster: LocalCluster) -> set[int]:
    return {*cluster.controller.topics["t"].partitions[0].isr}


def create(cluster: LocalCluster, **options: object) -> None:
    topics.create(next(iter(cluster.brokers.values())), "t", replication_factor=3, **options)  # type: ignore[arg-type]


def client(cluster: LocalCluster) -> Client:
    return Client(",".join(broker.address for broker in cluster.brokers.values()))


async def fetched_by_id(cluster: LocalCluster, node_id: int) -> int:
    """The error code that a consumer gets from this broker."""
    topic = FetchRequest.Topic(
        topic_id=cluster.controller.topics["t"].id,
        partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
    )
    answer = await asked_by_id(cluster, node_id, FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]))
    return int(answer.responses[0].partitions[0].error_code)


async def produced_by_id(cluster: LocalCluster, node_id: int, value: bytes) -> int:
    """The error code that a producer with acks=1 gets from this broker."""
    part = ProduceRequest.Topic.Partition(index=0, records=batch([Item(value=value)]))
    topic = ProduceRequest.Topic(topic_id=cluster.controller.topics["t"].id, partition_data=[part])
    answer = await asked_by_id(cluster, node_id, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic]))
    return int(answer.responses[0].partition_responses[0].error_code)


async def asked_by_id(cluster: LocalCluster, node_id: int, request: Request) -> Any:
    connection = await Connection.open(parse_addresses(cluster.brokers[node_id].address)[0])
    try:
        return await connection.send(request, version=13)
    finally:
        await connection.close()


def ends(cluster: LocalCluster) -> list[int]:
    return [broker.logs.logs[T0].log_end_offset for broker in cluster.brokers.values()]


async def test_what_is_written_is_on_every_replica_when_acks_all_is_answered(cluster: LocalCluster) -> None:
    create(cluster)
    async with client(cluster) as ours:
        for number in range(10):
            result = await ours.produce("t", 0, [record(b"%d" % number)])
            assert result.base_offset == number
            assert ends(cluster) == [number + 1] * 3
    log = leader(cluster).logs.logs[T0]
    data = log.read(0, 1 << 20, limit_offset=10)
    for broker in cluster.brokers.values():
        assert broker.logs.logs[T0].read(0, 1 << 20, limit_offset=10) == data


async def test_followers_fetch_with_frames_of_the_wire_protocol_and_without_sockets(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    create(cluster)
    leading = leader(cluster)
    with caplog.at_level(logging.DEBUG, "kmini.request"):
        async with client(cluster) as ours:
            await ours.produce("t", 0, [record(b"value")])
    assert ends(cluster) == [1, 1, 1]
    followers = [connection for connection in leading.server.connections if connection.peer[1] == 0]
    assert len(followers) == 2
    assert all(type(connection._transport) is MemoryTransport for connection in followers)
    fetches = [line for line in caplog.messages if line.startswith("Fetch ") and "peer=127.0.0.1:0 " in line]
    for node_id in {*cluster.brokers} - {leading.node_id}:
        assert any(f"client=broker-{node_id}-fetcher-0 " in line and " topics=t[0@0] " in line for line in fetches)


async def test_the_records_survive_the_leader_and_the_old_leader_comes_back_in_sync(cluster: LocalCluster) -> None:
    create(cluster)
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"before")])
        dead = leader(cluster).node_id
        await cluster.kill(dead)
        assert leader(cluster).node_id != dead
        assert isr(cluster) == {1, 2, 3} - {dead}
        await ours.produce("t", 0, [record(b"without it")])
        await cluster.restart(dead)
        await until_async(lambda: isr(cluster) == {1, 2, 3})
        await ours.produce("t", 0, [record(b"with it")])
        assert ends(cluster) == [3, 3, 3]
        read = [found.value async for found in ours.consume({T0: 0}, until={T0: 3})]
        assert read == [b"before", b"without it", b"with it"]


async def test_each_replica_of_a_busy_log_is_cleaned_at_most_once_for_what_comes_while_the_clock_is_moved(
    clusters: Clusters,
) -> None:
    clock = MovableClock()
    cluster = await clusters.start(3, clock=clock)
    create(cluster, configs={"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"})
    found = [passes(broker) for broker in cluster.brokers.values()]
    is_moved = False
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"before", key=b"key")])

        async def write() -> None:
            while not is_moved:
                await ours.produce("t", 0, [record(b"meanwhile", key=b"key")])

        writing = asyncio.ensure_future(write())
        await clock.advance("30d")
        is_moved = True
        await writing
    assert all(len(one) <= 2 for one in found), found  # a replica that lags at the end is cleaned after it
    assert any(found)


async def test_who_was_alone_in_sync_leads_again_when_it_comes_back(cluster: LocalCluster) -> None:
    create(cluster)
    last = leader(cluster).node_id
    for node_id in {1, 2, 3} - {last}:
        await cluster.kill(node_id)
    assert isr(cluster) == {last}
    address = leader(cluster).address
    async with Client(address) as ours:
        await ours.produce("t", 0, [record(b"only there")])
    await cluster.kill(last)
    other = min({1, 2, 3} - {last})
    await cluster.restart(other)
    assert cluster.controller.topics["t"].partitions[0].leader == -1
    await cluster.restart(last)
    await until_async(lambda: isr(cluster) == {last, other})
    assert ends(cluster) == [1, 1]


async def test_a_deletion_is_answered_when_every_live_replica_has_followed(cluster: LocalCluster) -> None:
    create(cluster)
    async with client(cluster) as ours:
        for number in range(5):
            await ours.produce("t", 0, [record(b"%d" % number)])
        results = await ours.delete_records_before({T0: 3})
        assert results[T0].low_watermark == 3
        assert [broker.logs.logs[T0].log_start_offset for broker in cluster.brokers.values()] == [3, 3, 3]


async def test_all_of_it_is_there_after_a_restart_of_all(tmp_path: Path) -> None:
    first = LocalCluster(broker_configs(3, SETTINGS), str(tmp_path))
    await first.start()
    create(first)
    async with client(first) as ours:
        await ours.produce("t", 0, [record(b"value")])
    await first.stop()
    again = LocalCluster(broker_configs(3, SETTINGS), str(tmp_path))
    await again.start()
    try:
        assert isr(again) == {1, 2, 3}
        async with client(again) as ours:
            assert (await ours.produce("t", 0, [record(b"another")])).base_offset == 1
    finally:
        await again.stop()


async def test_a_broker_that_is_stopped_hands_over_first(cluster: LocalCluster) -> None:
    create(cluster)
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"1")])
        stopped = leader(cluster).node_id
        await cluster.stop_broker(stopped)
        await ours.produce("t", 0, [record(b"2")])
        with pytest.raises(KafkaError):
            elections.elect(cluster.controller, T0, stopped)
        await cluster.restart(stopped)
        await until_async(lambda: stopped in isr(cluster))
        elections.elect(cluster.controller, T0, stopped)
        assert leader(cluster).node_id == stopped
        await ours.produce("t", 0, [record(b"3")])
        assert ends(cluster) == [3, 3, 3]


async def test_a_partition_moves_to_other_brokers_while_it_is_written(cluster: LocalCluster) -> None:
    topics.create(cluster.brokers[1], "t", replication_factor=1)
    (old,) = cluster.state(T0).replicas
    target = sorted({1, 2, 3} - {old})
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"before")])
        reassign(cluster.controller, T0, target)
        assert cluster.state(T0).is_reassigned
        await ours.produce("t", 0, [record(b"meanwhile")])
        await until_async(lambda: not cluster.state(T0).is_reassigned)
        await ours.produce("t", 0, [record(b"after")])
        assert {*cluster.state(T0).replicas} == {*target}
        assert cluster.replica_offsets(T0).keys() == {*target}
        assert cluster.brokers[old].logs.get(T0) is None
        read = [found.value async for found in ours.consume({T0: 0}, until={T0: 3})]
        assert read == [b"before", b"meanwhile", b"after"]


async def test_a_broker_that_was_dead_while_its_replica_was_given_to_another_one_puts_the_log_away(
    cluster: LocalCluster,
) -> None:
    topics.create(cluster.brokers[1], "t", replication_factor=2)
    stays, dead = cluster.state(T0).replicas
    (new,) = {1, 2, 3} - {stays, dead}
    await cluster.kill(dead)
    reassign(cluster.controller, T0, [stays, new])
    await until_async(lambda: {*cluster.state(T0).replicas} == {stays, new})
    await cluster.restart(dead)
    assert cluster.brokers[dead].logs.get(T0) is None


async def test_a_reassignment_that_cannot_end_is_called_off(cluster: LocalCluster) -> None:
    topics.create(cluster.brokers[1], "t", replication_factor=1)
    before = cluster.state(T0)
    (old,) = before.replicas
    new = min({1, 2, 3} - {old})
    await cluster.brokers[new].replica_manager.fetcher_manager.hold()
    reassign(cluster.controller, T0, [new])
    assert (cluster.state(T0).adding, cluster.state(T0).removing) == ((new,), (old,))
    reassign(cluster.controller, T0, None)
    assert cluster.state(T0)._replace(partition_epoch=0) == before._replace(partition_epoch=0)
    assert cluster.brokers[new].logs.get(T0) is None


@pytest.fixture
def start(clusters: Clusters) -> Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]]:
    """A maker of clusters whose clock is moved; settings are written with underscores for dots."""

    async def start(**settings: object) -> tuple[LocalCluster, MovableClock]:
        clock = MovableClock()
        return await clusters.start(3, SETTINGS, clock=clock, **settings), clock

    return start


async def test_a_leader_that_is_cut_off_is_replaced_and_what_only_it_has_is_given_up(
    start: Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]],
) -> None:
    cluster, clock = await start()
    create(cluster)
    old = leader(cluster).node_id
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"common")])
    await cluster.cut_off(old)
    async with Client(cluster.brokers[old].address) as ours:
        await ours.produce("t", 0, [record(b"only there")], acks=1)
        with pytest.raises(RequestTimedOut):
            await ours.produce("t", 0, [record(b"on no other")], timeout_ms=200)
    await clock.advance(9_000, liveness=True)
    assert leader(cluster).node_id != old
    async with Client(leader(cluster).address) as ours:
        await ours.produce("t", 0, [record(b"after")])
    cluster.reconnect(old)
    await until_async(lambda: isr(cluster) == {1, 2, 3})
    await until_async(lambda: ends(cluster) == [2, 2, 2])
    async with client(cluster) as ours:
        assert [found.value async for found in ours.consume({T0: 0}, until={T0: 2})] == [b"common", b"after"]


async def test_a_broker_that_was_dead_when_a_topic_was_created_gets_its_replica_when_it_comes_back(
    cluster: LocalCluster,
) -> None:
    await cluster.kill(2)
    create(cluster)
    assert {*cluster.state(T0).replicas} == {1, 2, 3}
    assert isr(cluster) == {1, 3}
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"before")])
        await cluster.restart(2)
        await until_async(lambda: isr(cluster) == {1, 2, 3})
    assert ends(cluster) == [1, 1, 1]


async def test_a_broker_that_was_away_has_nothing_of_a_deleted_topic_for_the_next_one_of_its_name(
    start: Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]],
) -> None:
    cluster, clock = await start()
    create(cluster)
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"of the deleted topic")])
    away = 3
    await cluster.cut_off(away)
    await clock.advance(9_000, liveness=True)
    topics.delete(cluster.brokers[1], "t")
    create(cluster)
    async with Client(leader(cluster).address) as ours:
        await ours.produce("t", 0, [record(b"new")])
        assert await fetched_by_id(cluster, away) == UnknownTopicId.code
        cluster.reconnect(away)
        await until_async(lambda: isr(cluster) == {1, 2, 3})
    assert ends(cluster) == [1, 1, 1]
    assert {broker.logs.logs[T0].topic_id for broker in cluster.brokers.values()} == {cluster.controller.topics["t"].id}
    cluster.move_leader(T0, away)
    async with client(cluster) as ours:
        assert [found.value async for found in ours.consume({T0: 0}, until={T0: 1})] == [b"new"]
    assert cluster.controller.deleted_topics(away) == {}


async def test_a_leader_that_is_cut_off_takes_and_shares_no_records_of_the_next_topic_of_the_name(
    start: Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]],
) -> None:
    cluster, clock = await start()
    create(cluster)
    away = leader(cluster).node_id
    assert await produced_by_id(cluster, away, b"of the deleted topic") == NONE
    await cluster.cut_off(away)
    await clock.advance(9_000, liveness=True)
    topics.delete(cluster.brokers[away % 3 + 1], "t")
    create(cluster)
    assert await produced_by_id(cluster, away, b"new") == UnknownTopicId.code
    assert cluster.brokers[away].logs.logs[T0].log_end_offset == 1
    with pytest.raises(UnknownTopicId):
        cluster.brokers[away].services.share_partitions.open(
            SharePartitionKey("group", cluster.controller.topics["t"].id, 0)
        )


async def test_a_log_that_lost_its_topic_id_with_the_power_is_not_taken_for_one_of_the_next_topic_of_its_name(
    cluster: LocalCluster,
) -> None:
    create(cluster)
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"of the deleted topic")])
        directory = cluster.brokers[3].logs.logs[T0].directory
        await cluster.kill(3)
        os.unlink(os.path.join(directory, "partition.metadata"))
        topics.delete(cluster.brokers[1], "t")
        create(cluster)
        await ours.produce("t", 0, [record(b"new")])
        await cluster.restart(3)
        await until_async(lambda: isr(cluster) == {1, 2, 3})
    cluster.move_leader(T0, 3)
    async with client(cluster) as ours:
        assert [found.value async for found in ours.consume({T0: 0}, until={T0: 1})] == [b"new"]


async def test_a_broker_that_pauses_for_less_than_its_session_goes_on_as_if_nothing_was(
    start: Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]],
) -> None:
    cluster, clock = await start()
    create(cluster)
    paused = leader(cluster).node_id
    before = cluster.state(T0)
    await cluster.pause(paused)
    async with Client(cluster.brokers[paused].address) as ours:
        waiting = asyncio.ensure_future(ours.produce("t", 0, [record(b"late")]))
        await clock.advance(4_000, liveness=True)
        assert not waiting.done()
        cluster.reconnect(paused)
        await waiting
    assert cluster.state(T0) == before
    assert ends(cluster) == [1, 1, 1]


async def test_a_follower_that_lags_for_too_long_leaves_the_isr_and_returns_when_it_has_caught_up(
    start: Callable[..., Awaitable[tuple[LocalCluster, MovableClock]]],
) -> None:
    cluster, clock = await start(replica_lag_time_max_ms=1_000)
    create(cluster)
    late, other = sorted({1, 2, 3} - {leader(cluster).node_id})
    async with client(cluster) as ours:
        await ours.produce("t", 0, [record(b"1")])
        await cluster.brokers[late].replica_manager.fetcher_manager.hold()
        writing = asyncio.ensure_future(ours.produce("t", 0, [record(b"2")]))
        await until_async(lambda: sorted(ends(cluster)) == [1, 2, 2])
        replica = leader(cluster).replica_manager.partitions[T0].replicas.get(other)
        assert replica is not None
        await until_async(lambda: replica.log_end_offset == 2)  # else it lags, too, when time passes
        assert not writing.done(), "it waits for the one that is still in sync"
        await clock.advance(1_500, liveness=True)
        await writing
        assert isr(cluster) == {1, 2, 3} - {late}
        cluster.brokers[late].replica_manager.fetcher_manager.release()
        await until_async(lambda: isr(cluster) == {1, 2, 3})
