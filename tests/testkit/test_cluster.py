"""A cluster inside a program: blocking and awaitable methods, its life, and each handle, seen by a real client."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from kmini import AsyncCluster, BrokerNotRunning, Cluster
from kmini.broker.network.socket_server import PortTaken
from kmini.broker.settings.broker_config import ConfigError
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.errors import (
    CoordinatorLoadInProgress,
    ElectionNotNeeded,
    InvalidReplicationFactor,
    PreferredLeaderNotAvailable,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.topics import TopicPartition
from kmini.testing import Wire
from kmini.testkit.cluster import ClusterOperations
from support.own_threads import own_threads, until_no_thread_is_new
from support.public_api import operations_of, public_methods
from support.until import until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("orders", replication_factor=3)
        yield running


def produce(cluster: Cluster, value: bytes, topic: str = "orders", acks: int = -1, key: bytes | None = None) -> int:
    """The offset of a record that a client of ours has written."""

    async def run() -> int:
        async with Client(cluster.bootstrap_servers) as client:
            return (await client.produce(topic, 0, [record(value)], acks=acks)).base_offset

    return asyncio.run(run())


def log_ends(cluster: Cluster) -> dict[int, int]:
    return {broker: offsets.log_end_offset for broker, offsets in cluster.offsets("orders").items()}


def has_fetched_all(cluster: Cluster, follower: int) -> bool:
    """Whether the leader knows that a follower has all records; a follower appends before it fetches again."""
    leader = cluster.leader("orders")
    partitions = cluster._operations.core.brokers[leader].replica_manager.partitions
    replica = partitions[TopicPartition("orders", 0)].replicas.get(follower)
    return replica is not None and replica.log_end_offset == log_ends(cluster)[leader]


# --- blocking and awaitable methods


def test_blocking_and_awaitable_methods_have_the_signatures_of_their_table() -> None:
    table = operations_of(ClusterOperations)
    for cls in (Cluster, AsyncCluster):
        methods = public_methods(cls)
        assert {name: methods[name] for name in table} == table, cls
    assert public_methods(AsyncCluster)["address_of"] == public_methods(Cluster)["address_of"]


def test_blocking_methods_return_values_and_the_others_coroutines() -> None:
    for name in operations_of(ClusterOperations):
        assert inspect.iscoroutinefunction(getattr(AsyncCluster, name)), name
        assert not inspect.iscoroutinefunction(getattr(Cluster, name)), name


async def test_the_same_from_an_event_loop() -> None:
    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("orders", replication_factor=2)
        leader = await cluster.leader("orders")
        async with Client(cluster.bootstrap_servers) as client:
            await client.produce("orders", 0, [record(b"one")])
            await cluster.kill(leader)
            assert await cluster.leader("orders") == 3 - leader
            await client.produce("orders", 0, [record(b"two")])
        await cluster.restart(leader)
        await cluster.wait_until_in_sync("orders")
        offsets = await cluster.offsets("orders")
        assert {broker: one.log_end_offset for broker, one in offsets.items()} == {1: 2, 2: 2}
        assert cluster.address_of(leader) in cluster.bootstrap_servers


# --- life


def test_every_broker_has_a_port_of_its_own_and_knows_the_others(cluster: Cluster) -> None:
    addresses = {broker: cluster.address_of(broker) for broker in cluster.brokers()}
    assert cluster.bootstrap_servers.split(",") == [*addresses.values()]
    for address in addresses.values():
        with Wire(address) as wire:
            told = wire.ask(MetadataRequest(topics=None)).brokers
        assert {one.node_id: f"{one.host}:{one.port}" for one in told} == addresses


def test_the_ports_follow_one_another_if_the_first_is_given() -> None:
    for _ in range(20):  # other programs take ports, too
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        try:
            with Cluster(brokers=2, port=port) as cluster:
                assert cluster.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"
                return
        except PortTaken:
            continue
    pytest.fail("no two ports were free")


def test_a_taken_port_is_a_sentence_and_leaves_nothing_behind() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        cluster = Cluster(port=port)
        before = own_threads()
        with pytest.raises(PortTaken, match=str(port)):
            cluster.start()
        until_no_thread_is_new(before)
        assert cluster.data_dir is None


def test_nothing_of_it_is_left_running() -> None:
    before = own_threads()
    with Cluster() as cluster:
        cluster.create_topic("orders", replication_factor=3)
        produce(cluster, b"one")
        cluster.kill(1)
        cluster.pause(2)
        cluster.cut_off(3)
        data_dir = cluster.data_dir
    until_no_thread_is_new(before)
    assert data_dir is not None
    assert not os.path.exists(data_dir)


def test_a_given_data_directory_stays(tmp_path: Path) -> None:
    for count in (1, 2):
        with Cluster(data_dir=tmp_path) as cluster:
            if count == 1:
                cluster.create_topic("orders", replication_factor=3)
            produce(cluster, b"one")
            cluster.wait_until_in_sync("orders")
            assert log_ends(cluster) == {1: count, 2: count, 3: count}
    assert sorted(path.name for path in tmp_path.glob("broker-*")) == ["broker-1", "broker-2", "broker-3"]


def test_a_stopped_cluster_comes_back_on_its_ports_with_its_data_and_its_time(cluster: Cluster) -> None:
    addresses = cluster.bootstrap_servers
    produce(cluster, b"one")
    cluster.advance_clock("3d")
    ahead_ms = cluster._operations.core.clock.now_ms() - time.time() * 1000
    cluster.stop()
    cluster.start()
    assert cluster.bootstrap_servers == addresses
    assert cluster._operations.core.clock.now_ms() - time.time() * 1000 >= ahead_ms - 1_000
    cluster.wait_until_in_sync("orders")
    assert log_ends(cluster) == {1: 1, 2: 1, 3: 1}


def test_asking_a_cluster_that_does_not_run_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="does not run"):
        Cluster().leader("orders")
    assert Cluster().bootstrap_servers == ""
    Cluster().close()


def test_it_cannot_be_started_twice(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="runs already"):
        cluster.start()
    assert produce(cluster, b"it goes on") == 0


def test_there_is_at_least_one_broker_and_settings_are_by_kafkas_names() -> None:
    with pytest.raises(ValueError, match="brokers=0"):
        Cluster(brokers=0)
    with pytest.raises(ConfigError, match=r"log\.retention\.ms"):
        Cluster(config={"log.retenton.ms": 1})
    with Cluster(brokers=1, config={"auto.create.topics.enable": False}) as cluster:
        with Wire(cluster.address_of(1)) as wire:
            topics = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name="t")]), 9).topics
        assert topics[0].error_code == UnknownTopicOrPartition.code


def test_replicas_are_spread_over_racks() -> None:
    with Cluster(brokers=4, racks={1: "a", 2: "a", 3: "b", 4: "b"}) as cluster:
        cluster.create_topic("orders", partitions=4, replication_factor=2)
        for partition in range(4):
            first, second = cluster.replicas("orders", partition)
            assert (first <= 2) != (second <= 2)


# --- topics


def test_topics_are_made_and_deleted(cluster: Cluster) -> None:
    with pytest.raises(TopicAlreadyExists):
        cluster.create_topic("orders")
    with pytest.raises(InvalidReplicationFactor):
        cluster.create_topic("wide", replication_factor=4)
    cluster.create_topic("wide", partitions=2, config={"min.insync.replicas": 2})
    assert len(cluster.replicas("wide", 1)) == 1, "default.replication.factor"
    cluster.delete_topic("wide")
    with pytest.raises(UnknownTopicOrPartition):
        cluster.leader("wide")
    with pytest.raises(UnknownTopicOrPartition):
        cluster.delete_topic("wide")


# --- brokers that die


def test_another_broker_leads_at_once_when_one_is_killed_and_a_client_goes_on(
    cluster: Cluster, leaky_clients: None
) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
    producer.send("orders", b"before").get(30)
    dead = cluster.leader("orders")
    cluster.kill(dead)
    assert cluster.leader("orders") not in (dead, -1)
    assert cluster.isr("orders") == {1, 2, 3} - {dead}
    assert dead not in cluster.brokers()
    assert dead not in cluster.offsets("orders")
    producer.send("orders", b"without it").get(30)
    producer.close()
    cluster.restart(dead)
    cluster.wait_until_in_sync("orders")
    assert log_ends(cluster) == {1: 2, 2: 2, 3: 2}
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    consumer.assign([TopicPartition("orders", 0)])
    values: list[bytes] = []
    until(
        lambda: bool(values.extend(one.value for got in consumer.poll(500).values() for one in got)) or len(values) == 2
    )
    assert values == [b"before", b"without it"]
    consumer.close()


@pytest.mark.parametrize("end", [Cluster.kill, Cluster.stop_broker])
def test_a_broker_comes_back_on_its_port_with_its_data(cluster: Cluster, end: Callable[[Cluster, int], None]) -> None:
    assert produce(cluster, b"one") == 0
    leader = cluster.leader("orders")
    address = cluster.address_of(leader)
    end(cluster, leader)
    with pytest.raises(ConnectionRefusedError):
        Wire(address)
    with pytest.raises(KeyError):
        cluster.address_of(leader)
    with pytest.raises(KeyError):
        end(cluster, leader)
    cluster.restart(leader)
    with pytest.raises(ValueError, match="runs"):
        cluster.restart(leader)
    assert cluster.address_of(leader) == address
    cluster.wait_until_in_sync("orders")
    assert log_ends(cluster) == {1: 1, 2: 1, 3: 1}


def test_restarting_a_broker_that_there_never_was_is_an_error(cluster: Cluster) -> None:
    with pytest.raises(KeyError):
        cluster.restart(4)


def test_nobody_leads_while_no_replica_lives(cluster: Cluster) -> None:
    cluster.create_topic("single", replication_factor=1)
    cluster.kill(cluster.leader("single"))
    assert cluster.leader("single") == -1


# --- leaders that move


def test_leadership_moves_to_who_is_named_or_preferred(cluster: Cluster) -> None:
    first, second, third = cluster.replicas("orders")
    assert cluster.leader("orders") == first
    cluster.move_leader("orders", to=second)
    assert cluster.leader("orders") == second
    assert produce(cluster, b"one") == 0
    with pytest.raises(ElectionNotNeeded):
        cluster.move_leader("orders", to=second)
    cluster.move_leader("orders")
    assert cluster.leader("orders") == first
    cluster.kill(third)
    with pytest.raises(PreferredLeaderNotAvailable):
        cluster.move_leader("orders", to=third)


# --- followers that lag


def test_a_follower_that_is_held_has_nothing_new_until_it_is_released(cluster: Cluster) -> None:
    leader, held, other = cluster.replicas("orders")
    cluster.hold(held)
    assert produce(cluster, b"one", acks=1) == 0
    until(lambda: log_ends(cluster) == {leader: 1, other: 1, held: 0} and has_fetched_all(cluster, other))
    assert cluster.offsets("orders")[leader].high_watermark == 0
    cluster.advance_clock(timedelta(minutes=1), liveness=True)
    assert cluster.isr("orders") == {leader, other}
    with pytest.raises(RequestTimedOut, match=r"are in sync"):
        cluster.wait_until_in_sync("orders", timeout_ms=100)
    cluster.release(held)
    cluster.wait_until_in_sync("orders")
    assert log_ends(cluster) == {1: 1, 2: 1, 3: 1}


def test_acks_all_waits_for_a_follower_that_is_held_only_while_it_is_in_sync() -> None:
    with Cluster(config={"replica.lag.time.max.ms": 2_000}) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        _, held, other = cluster.replicas("orders")
        produce(cluster, b"one")
        cluster.hold(held)
        cluster.advance_clock("1m", liveness=True)
        assert cluster.isr("orders") == {1, 2, 3}, "it has all that there is"
        offsets: list[int] = []
        producer = threading.Thread(target=lambda: offsets.append(produce(cluster, b"two")))
        producer.start()
        until(lambda: sorted(log_ends(cluster).values()) == [1, 2, 2] and has_fetched_all(cluster, other))
        cluster.advance_clock("5s", liveness=True)
        producer.join(60)
        assert offsets == [1]
        assert cluster.isr("orders") == {1, 2, 3} - {held}


def test_a_follower_of_an_older_release_fetches_with_its_version(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, old, _ = cluster.replicas("orders")
    handlers = cluster._operations.core.brokers[leader].server.handlers
    handler = handlers[FetchRequest.api_key]
    versions: set[int] = set()

    async def note(request: FetchRequest, context: object) -> object:
        replica = request.replica_state.replica_id if request.replica_state else -1
        if old in (replica, request.replica_id):
            versions.add(context.version)  # type: ignore[attr-defined]
        return await handler.function(request, context)  # type: ignore[arg-type, misc]

    cluster.limit_fetch_version(old, 4)
    monkeypatch.setitem(handlers, FetchRequest.api_key, handler.answered_by(note))
    produce(cluster, b"one")
    until(lambda: versions == {4})
    cluster.limit_fetch_version(old, None)
    until(lambda: max(versions) > 4)
    assert log_ends(cluster) == {1: 1, 2: 1, 3: 1}


# --- networks that part


def test_a_leader_that_is_cut_off_is_replaced_when_its_session_ends(cluster: Cluster) -> None:
    old = cluster.leader("orders")
    cluster.cut_off(old)
    with Wire(cluster.address_of(old)) as wire:
        assert wire.ask(MetadataRequest(topics=None)).brokers
    assert cluster.leader("orders") == old
    cluster.advance_clock("10s", liveness=True)
    assert cluster.leader("orders") not in (old, -1)
    assert old in cluster.brokers()
    cluster.reconnect(old)
    cluster.wait_until_in_sync("orders")


def test_a_broker_that_pauses_answers_when_it_goes_on(cluster: Cluster) -> None:
    paused = cluster.leader("orders")
    cluster.pause(paused)
    with Wire(cluster.address_of(paused)) as wire:
        request = MetadataRequest(topics=None)
        sent = wire.send(request, 9)
        wire.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            wire.receive_frame()
        wire.socket.settimeout(30)
        cluster.reconnect(paused)
        assert wire.receive(type(request).response, 9, sent)
    assert cluster.leader("orders") == paused


# --- coordinators


def test_coordinators_move_when_they_are_killed(cluster: Cluster) -> None:
    for coordinator in (cluster.coordinator, cluster.transaction_coordinator):
        before = coordinator("readers")
        cluster.kill(before)
        assert coordinator("readers") in {1, 2, 3} - {before}
        cluster.restart(before)
        cluster.wait_until_in_sync("orders")


def test_the_same_brokers_coordinate_whichever_topic_comes_first() -> None:
    found = set()
    for first in ("group", "transaction", "topic"):
        with Cluster() as cluster:
            if first == "topic":
                cluster.create_topic("invoices", partitions=2)
            asked = [cluster.coordinator, cluster.transaction_coordinator]
            for coordinator in asked if first == "group" else reversed(asked):
                coordinator("billing")
            names = ("billing", "readers", "shipping")
            found.add(tuple(coordinator(name) for coordinator in asked for name in names))
            assert [cluster.replicas("__consumer_offsets", number)[0] for number in range(4)] == [1, 2, 3, 1]
    assert len(found) == 1


def test_a_test_chooses_the_coordinator(cluster: Cluster) -> None:
    for coordinator, move in (
        (cluster.coordinator, cluster.move_coordinator),
        (cluster.transaction_coordinator, cluster.move_transaction_coordinator),
    ):
        for broker in (3, 1, 2, 2):
            move("readers", broker)
            assert coordinator("readers") == broker
        with pytest.raises(BrokerNotRunning):
            move("readers", 7)
        cluster.kill(3)
        with pytest.raises(PreferredLeaderNotAvailable):
            move("readers", 3)
        cluster.restart(3)
        until(lambda: 3 in cluster.isr("orders"))


def test_a_group_goes_on_at_the_coordinator_that_a_test_chose(cluster: Cluster) -> None:
    cluster.produce("orders", b"placed")
    cluster.group("readers").commit({("orders", 0): 1})
    cluster.move_coordinator("readers", cluster.coordinator("readers") % 3 + 1)

    def is_loaded() -> bool:
        try:
            return cluster.group("readers").offsets() == {("orders", 0): 1}
        except CoordinatorLoadInProgress:
            return False

    until(is_loaded)
