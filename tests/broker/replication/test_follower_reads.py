"""Consumers read from the replica that is near them (KIP-392)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Confluent

from kmini import Cluster as Embedded
from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.replication.replica_selection import LEADER
from kmini.broker.settings.broker_config import ConfigError
from kmini.broker.settings.replica_selectors import RACK_AWARE
from kmini.client import Address, Client, Connection, parse_addresses
from kmini.client.produce import record
from kmini.protocol.errors import (
    NONE,
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.list_offsets import LATEST, ListOffsetsRequest
from kmini.protocol.topics import TopicPartition
from support.broker.clusters import Clusters, broker_configs
from support.until import until_async

pytestmark = pytest.mark.sockets

T0 = TopicPartition("t", 0)
RACKS = {1: "a", 2: "b", 3: "c"}
LONG_MS = 60_000
"""Longer than any test: nothing here may depend on its end."""


async def start(clusters: Clusters, **settings: object) -> LocalCluster:
    """Three brokers in three racks, and the topic "t" with a replica on each, led by the one in rack "a"."""
    cluster = await clusters.start(3, racks=RACKS, **settings)
    topics.create(cluster.brokers[1], "t", replication_factor=3)
    if cluster.state(T0).leader != 1:
        await until_async(lambda: {*cluster.state(T0).isr} == {1, 2, 3})
        cluster.move_leader(T0, 1)
    return cluster


@pytest.fixture
async def cluster(clusters: Clusters) -> LocalCluster:
    return await start(clusters, replica_selector_class=RACK_AWARE)


async def produce(cluster: LocalCluster, *values: bytes, **options: Any) -> None:
    async with Client(cluster.brokers[1].address) as client:
        for value in values:
            await client.produce("t", 0, [record(value)], **options)


def high_watermark(cluster: LocalCluster, node_id: int) -> int:
    return cluster.replica_offsets(T0)[node_id].high_watermark


def fetch(offset: int, *, rack: str = "", max_wait_ms: int = 0, epoch: int = -1, **fields: Any) -> FetchRequest:
    asked = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        rack_id=rack,
        topics=[FetchRequest.Topic(topic="t", partitions=[asked])],
        **fields,
    )


async def send(broker: BrokerServer, request: Any, version: int | None = None) -> Any:
    """What a broker answers for the one partition that is asked for."""
    connection = await Connection.open(address_of(broker))
    try:
        response = await connection.send(request, version=version, timeout_ms=20_000)
    finally:
        await connection.close()
    topics = response.responses if isinstance(request, FetchRequest) else response.topics
    return topics[0].partitions[0]


def address_of(broker: BrokerServer) -> Address:
    (address,) = parse_addresses(broker.address)
    return address


# --- what the leader says


async def test_the_leader_names_the_replica_in_the_consumers_rack_and_sends_no_records(cluster: LocalCluster) -> None:
    await produce(cluster, b"value")
    for node_id, rack in ((2, "b"), (3, "c")):
        answer = await send(cluster.brokers[1], fetch(0, rack=rack, max_wait_ms=LONG_MS), 12)
        assert (answer.error_code, answer.preferred_read_replica) == (NONE, node_id)
        assert not answer.records
        assert (answer.high_watermark, answer.log_start_offset) == (1, 0)


@pytest.mark.parametrize("rack", ["a", "nowhere", ""])
async def test_the_leader_serves_its_own_rack_and_those_that_have_no_replica(cluster: LocalCluster, rack: str) -> None:
    await produce(cluster, b"value")
    answer = await send(cluster.brokers[1], fetch(0, rack=rack), 12)
    assert answer.preferred_read_replica == LEADER
    assert answer.records


async def test_clients_that_do_not_know_of_it_are_served_by_the_leader(cluster: LocalCluster) -> None:
    await produce(cluster, b"value")
    assert (await send(cluster.brokers[1], fetch(0, rack="b"), 10)).records


async def test_without_a_selector_the_leader_serves_everybody(clusters: Clusters) -> None:
    cluster = await start(clusters)
    await produce(cluster, b"value")
    answer = await send(cluster.brokers[1], fetch(0, rack="b"), 12)
    assert answer.preferred_read_replica == LEADER
    assert answer.records


async def test_a_replica_without_the_offset_is_not_named(cluster: LocalCluster) -> None:
    await produce(cluster, b"1")
    await cluster.brokers[2].replica_manager.fetcher_manager.hold()
    await produce(cluster, b"2", acks=1)
    await until_async(lambda: cluster.replica_offsets(T0)[3].log_end_offset == 2)
    assert (await send(cluster.brokers[1], fetch(1, rack="b"), 12)).preferred_read_replica == 2
    assert (await send(cluster.brokers[1], fetch(2, rack="b"), 12)).preferred_read_replica == LEADER


async def test_a_replica_that_is_not_in_sync_is_not_named(cluster: LocalCluster) -> None:
    await produce(cluster, b"1")
    await cluster.kill(2)
    assert (await send(cluster.brokers[1], fetch(0, rack="b"), 12)).preferred_read_replica == LEADER
    await cluster.restart(2)
    await until_async(lambda: 2 in cluster.state(T0).isr)
    assert (await send(cluster.brokers[1], fetch(0, rack="b"), 12)).preferred_read_replica == 2


async def test_a_session_is_told_again_as_long_as_it_asks_the_leader(cluster: LocalCluster) -> None:
    await produce(cluster, b"value")
    connection = await Connection.open(address_of(cluster.brokers[1]))
    try:
        first = await connection.send(fetch(0, rack="b", session_epoch=0), version=12)
        assert first.session_id
        again = FetchRequest(
            replica_id=-1,
            max_wait_ms=LONG_MS,
            min_bytes=1,
            session_id=first.session_id,
            session_epoch=1,
            rack_id="b",
            topics=[],
        )
        second = await connection.send(again, version=12, timeout_ms=20_000)
        assert second.responses[0].partitions[0].preferred_read_replica == 2
    finally:
        await connection.close()


# --- what a follower does


async def test_a_follower_serves_consumers_up_to_its_high_watermark(cluster: LocalCluster) -> None:
    await produce(cluster, b"1", b"2")
    await until_async(lambda: high_watermark(cluster, 2) == 2)
    await cluster.brokers[3].replica_manager.fetcher_manager.hold()
    await produce(cluster, b"3", acks=1)  # which is on one follower, and not committed
    await until_async(lambda: cluster.replica_offsets(T0)[2].log_end_offset == 3)
    answer = await send(cluster.brokers[2], fetch(0, rack="b"), 12)
    assert (answer.error_code, answer.high_watermark, answer.preferred_read_replica) == (NONE, 2, LEADER)
    assert bytes(answer.records) == cluster.brokers[1].logs.logs[T0].read(0, 1 << 20, limit_offset=2)
    for offset in (2, 3):  # committed or not: there is nothing to be had yet
        answer = await send(cluster.brokers[2], fetch(offset), 12)
        assert (answer.error_code, bytes(answer.records)) == (NONE, b"")
    assert (await send(cluster.brokers[2], fetch(4), 12)).error_code == OffsetOutOfRange.code


async def test_a_follower_serves_topics_by_id(cluster: LocalCluster) -> None:
    await produce(cluster, b"1")
    await until_async(lambda: high_watermark(cluster, 2) == 1)
    asked = fetch(0)
    asked.topics[0].topic_id = cluster.controller.topics["t"].id
    assert (await send(cluster.brokers[2], asked)).records


async def test_a_follower_refuses_what_lies_below_its_log_start_offset(cluster: LocalCluster) -> None:
    await produce(cluster, b"1", b"2")
    async with Client(cluster.brokers[1].address) as client:
        await client.delete_records_before({T0: 1})
    answer = await send(cluster.brokers[2], fetch(0), 12)
    assert answer.error_code == OffsetOutOfRange.code


async def test_a_leader_that_was_cut_off_serves_no_records_that_were_deleted_meanwhile(cluster: LocalCluster) -> None:
    await produce(cluster, b"1", b"2")
    await until_async(lambda: high_watermark(cluster, 3) == high_watermark(cluster, 2) == 2)
    await cluster.cut_off(1)
    cluster._fence(1)  # its session is over
    leader = cluster.brokers[cluster.state(T0).leader]
    async with Client(leader.address) as client:
        await client.delete_records_before({T0: 1})
    for broker in cluster.brokers.values():  # a consumer asks before the fetchers do
        await broker.replica_manager.fetcher_manager.hold()
    cluster.reconnect(1)
    assert (await send(cluster.brokers[1], fetch(0, rack="a"), 12)).error_code == NotLeaderOrFollower.code
    cluster.brokers[1].replica_manager.fetcher_manager.release()
    await until_async(lambda: cluster.replica_offsets(T0)[1].log_start_offset == 1)
    assert (await send(cluster.brokers[1], fetch(0, rack="a"), 12)).error_code == OffsetOutOfRange.code
    assert (await send(cluster.brokers[1], fetch(1, rack="a"), 12)).records


async def test_a_follower_checks_the_epoch_of_its_leader(cluster: LocalCluster) -> None:
    for node_id in (2, 1):
        cluster.move_leader(T0, node_id)
    epoch = cluster.state(T0).leader_epoch
    for asked, expected in ((epoch, NONE), (epoch - 1, FencedLeaderEpoch.code), (epoch + 1, UnknownLeaderEpoch.code)):
        assert (await send(cluster.brokers[2], fetch(0, epoch=asked), 12)).error_code == expected


async def test_a_follower_refuses_old_clients_and_followers_and_questions_for_offsets(cluster: LocalCluster) -> None:
    assert (await send(cluster.brokers[2], fetch(0), 10)).error_code == NotLeaderOrFollower.code
    asked = fetch(0)
    asked.replica_id = 3
    assert (await send(cluster.brokers[2], asked, 12)).error_code == NotLeaderOrFollower.code
    Topic = ListOffsetsRequest.Topic
    latest = ListOffsetsRequest(
        replica_id=-1, topics=[Topic(name="t", partitions=[Topic.Partition(partition_index=0, timestamp=LATEST)])]
    )
    assert (await send(cluster.brokers[2], latest)).error_code == NotLeaderOrFollower.code


async def test_who_waits_at_a_follower_gets_what_is_committed_as_soon_as_it_is(clusters: Clusters) -> None:
    """The leader answers a follower at once when the high watermark moves: its fetches may wait for a minute here."""
    waits = {"replica_fetch_wait_max_ms": LONG_MS, "replica_lag_time_max_ms": 2 * LONG_MS}
    cluster = await start(clusters, replica_selector_class=RACK_AWARE, **waits)
    for count in range(1, 4):
        waiting = asyncio.ensure_future(send(cluster.brokers[2], fetch(count - 1, max_wait_ms=LONG_MS), 12))
        await until_async(lambda: len(cluster.brokers[2].purgatory) == 1)
        await produce(cluster, b"value")
        answer = await waiting
        assert (answer.error_code, answer.high_watermark) == (NONE, count)
        assert answer.records


async def test_who_waits_at_a_follower_that_comes_to_lead_is_sent_to_look_again(cluster: LocalCluster) -> None:
    await produce(cluster, b"value")
    await until_async(lambda: high_watermark(cluster, 2) == 1)
    waiting = asyncio.ensure_future(send(cluster.brokers[2], fetch(1, max_wait_ms=LONG_MS), 12))
    await until_async(lambda: len(cluster.brokers[2].purgatory) == 1)
    cluster.move_leader(T0, 2)
    assert (await waiting).error_code == NotLeaderOrFollower.code


async def test_a_change_of_who_is_in_sync_disturbs_nobody_who_waits_at_a_follower(cluster: LocalCluster) -> None:
    await produce(cluster, b"value")
    await until_async(lambda: high_watermark(cluster, 2) == 1)
    waiting = asyncio.ensure_future(send(cluster.brokers[2], fetch(1, max_wait_ms=LONG_MS), 12))
    await until_async(lambda: len(cluster.brokers[2].purgatory) == 1)
    await cluster.kill(3)
    assert {*cluster.state(T0).isr} == {1, 2}
    assert not waiting.done()
    await produce(cluster, b"another")
    assert (await waiting).records


def test_another_selector_than_kafkas_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replica\.selector\.class"):
        broker_configs(3, replica_selector_class="com.example.Selector")


# --- with a client of somebody else's


@pytest.fixture
def embedded() -> Iterator[Embedded]:
    with Embedded(
        brokers=3, racks=RACKS, config={"replica.selector.class": RACK_AWARE, "num.partitions": 1}
    ) as cluster:
        yield cluster


def test_confluent_kafka_reads_from_the_replica_in_its_rack(embedded: Embedded) -> None:
    embedded.create_topic("near", replication_factor=3)
    near = next(node_id for node_id in embedded.replicas("near") if node_id != embedded.leader("near"))

    async def write() -> None:
        async with Client(embedded.bootstrap_servers) as client:
            for number in range(100):
                await client.produce("near", 0, [record(b"%d" % number)])

    asyncio.run(write())
    consumer = Consumer(
        {
            "bootstrap.servers": embedded.bootstrap_servers,
            "group.id": "near",
            "client.rack": RACKS[near],
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([Confluent("near", 0, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + 30
        while len(values) < 100:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None
                values.append(message.value())
    finally:
        consumer.close()
    assert values == [b"%d" % number for number in range(100)]
    brokers = embedded._operations.core.brokers
    sent = {node_id: broker.metrics.total().bytes_out for node_id, broker in brokers.items()}
    assert sent.pop(near) > 100
    assert {*sent.values()} == {0}
