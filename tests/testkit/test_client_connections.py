"""`broker.clients()`, `disconnect`, `advertise` and `crash`: what they tell, and what real clients feel."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Producer

from kmini import AsyncBroker, Broker, BrokerNotRunning, Cluster, PortTaken
from kmini.protocol.errors import ResourceNotFound
from kmini.protocol.messages.describe_cluster import DescribeClusterRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.join_group import JoinGroupRequest
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.testing import ConnectionClosed, Wire
from support.transactional_clients import Confluent
from support.until import until, until_async

Host = Broker | Cluster

SOON = {"reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 10, "log_level": 0}
"""Settings of confluent-kafka with which a client comes back at once."""


@pytest.fixture(params=[Broker, Cluster])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with request.param(topics={"orders": 1}) as running:
        yield running


# --- connected clients


def test_a_client_is_told_with_its_software_address_and_listener(host: Host) -> None:
    assert host.clients() == []
    before_ms = host.clock.now_ms()
    producer = Producer({"bootstrap.servers": host.bootstrap_servers, "client.id": "billing-1"})
    producer.produce("orders", b"v")
    assert producer.flush(30) == 0
    found = [client for client in host.clients() if client.client_id == "billing-1"]
    assert found
    for client in found:
        assert "rdkafka" in client.software
        assert client.listener == "PLAINTEXT"
        assert client.address.startswith("127.0.0.1:")
        assert before_ms <= client.since_ms <= host.clock.now_ms()
        assert client.broker >= 1


def test_followers_are_no_clients() -> None:
    with Cluster(2, topics={"orders": {"replication_factor": 2}}) as cluster:
        cluster.wait_until_in_sync("orders")
        assert cluster.clients() == []


async def test_a_long_poll_is_told_with_its_partitions() -> None:
    async with Broker(topics={"orders": 5}) as broker:
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, client_id="billing-1")
        async with consumer:
            polling = asyncio.ensure_future(consumer.getone())
            await until_async(lambda: waits_of(broker, "Fetch of orders-0, orders-1, orders-2 and 2 more"))
            await broker.produce("orders", b"v")
            assert (await polling).value == b"v"


async def waits_of(broker: AsyncBroker, what: str) -> bool:
    return what in {client.waits_for for client in await broker.clients()}


def joining(group: str, **fields: Any) -> JoinGroupRequest:
    protocol = JoinGroupRequest.Protocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[protocol],
        **fields,
    )


def test_a_join_that_waits_for_others_is_told_with_its_group() -> None:
    with Broker(config={"group.initial.rebalance.delay.ms": 60_000}) as broker:
        with Wire(broker.bootstrap_servers, client_id="billing-1") as wire:
            wire.ask(FindCoordinatorRequest(key="billing"), 0)
            wire.send(joining("billing"), 3)
            until(lambda: [client.waits_for for client in broker.clients()] == ["JoinGroup of group billing"])
        until(lambda: broker.clients() == [])


def test_a_request_that_a_fault_rule_holds_is_told(host: Host) -> None:
    with Wire(host.bootstrap_servers.split(",")[0], client_id="billing-1") as wire:
        host.faults.on("Metadata").hold()
        sent = wire.send(MetadataRequest(topics=[]), 12)
        until(lambda: [client.waits_for for client in host.clients()] == ["Metadata held by a fault rule"])
        host.faults.clear()
        wire.receive(MetadataResponse, 12, sent)
        assert [client.waits_for for client in host.clients()] == [""]


# --- ending connections


def test_a_client_that_is_disconnected_comes_back(host: Host) -> None:
    once = {"enable.idempotence": True}  # what is sent while the connection ends is sent again, and stored once
    producer = Producer({"bootstrap.servers": host.bootstrap_servers, "client.id": "billing-1", **SOON, **once})
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0
    before = {client.address for client in host.clients()}
    with Wire(host.bootstrap_servers.split(",")[0], client_id="shipping-1") as other:
        other.ask(MetadataRequest(topics=None))
        assert host.disconnect("billing-*") >= 1
        other.ask(MetadataRequest(topics=None))
    producer.produce("orders", b"two")
    assert producer.flush(30) == 0
    assert not before & {client.address for client in host.clients() if client.client_id == "billing-1"}
    assert [record.value for record in host.records("orders")] == [b"one", b"two"]


def test_a_client_that_is_not_connected_is_told_with_those_that_are(host: Host) -> None:
    with pytest.raises(ResourceNotFound, match="no client 'biling-1' is connected; none is connected"):
        host.disconnect("biling-1")
    with Wire(host.bootstrap_servers.split(",")[0], client_id="billing-1") as wire:
        wire.ask(MetadataRequest(topics=None))
        with pytest.raises(ResourceNotFound, match="no client 'biling-1' is connected; connected are: 'billing-1'"):
            host.disconnect("biling-1")


def test_a_request_that_waits_is_never_answered() -> None:
    with Broker(config={"group.initial.rebalance.delay.ms": 60_000}) as broker:
        with Wire(broker.bootstrap_servers, client_id="billing-1") as wire:
            wire.ask(FindCoordinatorRequest(key="billing"), 0)
            wire.send(joining("billing"), 3)
            until(lambda: any(client.waits_for for client in broker.clients()))
            assert broker.disconnect("billing-1") == 1
            with pytest.raises(ConnectionClosed):
                wire.receive_frame()
        until(lambda: broker.clients() == [])


# --- members that leave with their connection

EXPEL = {"kmini.group.expel.on.disconnect": True}

CONSUMER = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "billing", "heartbeat.interval.ms": 100})
consumer.subscribe(["orders"])
while True:
    consumer.poll(1)
"""
"""A consumer whose session lasts 45 s."""


@contextlib.contextmanager
def consumer_process(servers: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", CONSUMER, servers], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_consumer_that_is_killed_leaves_its_group_at_once_if_the_setting_says_so() -> None:
    with Broker(topics={"orders": 2}, config=EXPEL) as broker:
        group = broker.group("billing")
        with consumer_process(broker.bootstrap_servers) as one, consumer_process(broker.bootstrap_servers):
            group.stable(members=2, timeout_ms=60_000)
            one.kill()
            (left,) = group.stable(members=1, timeout_ms=30_000).members
            assert left.assignment == (("orders", 0), ("orders", 1))


@pytest.mark.parametrize("config", [EXPEL, {}])
def test_without_the_setting_a_member_stays_until_its_session_ends(config: dict[str, bool]) -> None:
    with Broker(config=config) as broker:
        group = broker.group("billing")
        with Wire(broker.bootstrap_servers) as wire:
            wire.ask(FindCoordinatorRequest(key="billing"), 0)
            member_id = wire.ask(joining("billing"), 3).member_id
        until(lambda: broker.clients() == [])
        if config:
            group.stable(members=0, timeout_ms=0)
        else:
            assert [member.member_id for member in group.describe().members] == [member_id]
            broker.clock.advance("31s", liveness=True)
            group.stable(members=0, timeout_ms=0)


def test_a_broker_that_stops_expels_no_member() -> None:
    with Broker(topics=["orders"], config=EXPEL) as broker, consumer_process(broker.bootstrap_servers):
        before = broker.group("billing").stable(members=1, timeout_ms=60_000)
        broker.crash()
        assert [one.member_id for one in broker.group("billing").describe().members] == [before.members[0].member_id]


# --- the address that clients are told


def told(servers: str) -> set[tuple[str, int]]:
    """The addresses of all brokers, as Metadata, DescribeCluster and FindCoordinator tell them; they agree."""
    with Wire(servers.split(",")[0]) as wire:
        metadata = {(one.host, one.port) for one in wire.ask(MetadataRequest(topics=[])).brokers}
        assert {(one.host, one.port) for one in wire.ask(DescribeClusterRequest()).brokers} == metadata
        coordinator = wire.ask(FindCoordinatorRequest(key="billing"), 2)
        assert (coordinator.host, coordinator.port) in metadata
    return metadata


def test_every_answer_has_the_address_that_is_advertised_now() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        assert told(broker.bootstrap_servers) == {(host, int(port))}
        broker.advertise("proxy.example", 19_092)
        assert told(broker.bootstrap_servers) == {("proxy.example", 19_092)}
        broker.advertise("proxy.example")
        assert told(broker.bootstrap_servers) == {("proxy.example", int(port))}
        broker.crash()
        assert told(broker.bootstrap_servers) == {("proxy.example", int(port))}
        broker.advertise(None)
        assert told(broker.bootstrap_servers) == {(host, int(port))}
        broker.advertise("proxy.example", 19_092)
        broker.reset()
        assert told(broker.bootstrap_servers) == {(host, int(port))}


def test_each_broker_of_a_cluster_has_its_own_address() -> None:
    with Cluster(2) as cluster:
        first, second = told(cluster.bootstrap_servers)
        with pytest.raises(ValueError, match="broker=None: the cluster has the brokers 1, 2; name one"):
            cluster.advertise("proxy.example", 19_092)
        cluster.advertise("proxy.example", 19_092, broker=2)
        host, _, port = cluster.address_of(1).partition(":")
        assert told(cluster.bootstrap_servers) == {(host, int(port)), ("proxy.example", 19_092)}
        cluster.crash(2)
        assert told(cluster.bootstrap_servers) == {(host, int(port)), ("proxy.example", 19_092)}
        cluster.advertise(None, broker=2)
        assert told(cluster.bootstrap_servers) == {first, second}


async def test_a_client_goes_through_the_proxy_that_was_started_after_the_broker() -> None:
    async with Broker(topics=["orders"]) as broker:
        host, port = broker.bootstrap_servers.split(":")
        passed: list[str] = []

        async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError), contextlib.closing(writer):
                while data := await reader.read(65_536):
                    writer.write(data)

        async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(host, int(port))
            passed.append("{}:{}".format(*back.get_extra_info("sockname")))
            await asyncio.gather(pipe(reader, back), pipe(there, writer))

        async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as proxy:
            proxy_port = proxy.sockets[0].getsockname()[1]
            await broker.advertise("127.0.0.1", proxy_port)
            producer = AIOKafkaProducer(bootstrap_servers=f"127.0.0.1:{proxy_port}")
            async with producer:
                await producer.send_and_wait("orders", b"v")
                assert {client.address for client in await broker.clients()} <= {*passed}
                assert len(passed) >= 2, "one to bootstrap, and one to the address that it was told"


# --- the end of a process


def test_after_a_crash_the_broker_has_what_it_had_written(host: Host) -> None:
    servers = host.bootstrap_servers
    host.produce("orders", b"one")
    host.group("billing").commit({("orders", 0): 1})
    producer = Confluent(servers, "billing-1")
    producer.begin()
    producer.produce("orders", b"open")
    host.create_topic("more")
    host.crash()
    assert set(host.bootstrap_servers.split(",")) == set(servers.split(","))
    assert {"orders", "more"} <= set(host.topics())
    assert [record.value for record in host.topic("orders").records(isolation="uncommitted")] == [b"one", b"open"]
    assert host.group("billing").offsets() == {("orders", 0): 1}
    assert [one.transactional_id for one in host.transactions.open()] == ["billing-1"]
    producer.commit()
    host.transactions.wait_ended("billing-1")
    assert [record.value for record in host.records("orders")] == [b"one", b"open"]
    producer.close()


def test_a_topic_that_was_deleted_is_not_there_after_a_crash_and_the_clock_goes_on(kafka_broker: Broker) -> None:
    with Broker(topics=["orders", "events"]) as broker:
        broker.delete_topic("events")
        broker.clock.advance("7d")
        before_ms = broker.clock.now_ms()
        broker.crash()
        assert broker.topics() == ["orders"]
        assert broker.clock.now_ms() >= before_ms
        broker.reset()
        assert broker.topics() == ["events", "orders"]


def test_connections_break_and_clients_come_back(host: Host) -> None:
    once = {"enable.idempotence": True}  # what is sent while the connection ends is sent again, and stored once
    producer = Producer({"bootstrap.servers": host.bootstrap_servers, "client.id": "billing-1", **SOON, **once})
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0
    before = {client.address for client in host.clients()}
    host.crash()
    assert not before & {client.address for client in host.clients()}
    producer.produce("orders", b"two")
    assert producer.flush(30) == 0
    assert [record.value for record in host.records("orders")] == [b"one", b"two"]


def test_a_wait_outlives_the_crash(host: Host) -> None:
    found: list[Any] = []
    waiter = threading.Thread(target=lambda: found.append(host.wait_for_records("orders", 1)))
    waiter.start()
    for _ in range(3):
        host.crash()
    host.produce("orders", b"v")
    waiter.join(30)
    assert [record.value for (record,) in found] == [b"v"]


def test_one_broker_of_a_cluster_crashes_and_others_lead() -> None:
    with Cluster(2, topics={"orders": {"replication_factor": 2}}) as cluster:
        cluster.wait_until_in_sync("orders")
        leader = cluster.leader("orders")
        cluster.crash(leader)
        assert cluster.leader("orders") == 3 - leader
        assert cluster.brokers() == [1, 2]
        with pytest.raises(BrokerNotRunning, match="there is no broker 9"):
            cluster.crash(9)


def test_a_start_after_a_crash_finds_records_that_no_checkpoint_names(kafka_broker: Broker) -> None:
    for number in range(100):
        kafka_broker.produce("orders", b"%d" % number)
    assert kafka_broker.data_dir is not None
    checkpoint = Path(kafka_broker.data_dir, "broker-1", "replication-offset-checkpoint")
    assert not checkpoint.exists() or "orders 0 100" not in checkpoint.read_text()
    kafka_broker.crash()
    assert kafka_broker.offsets("orders").high_watermark == 100
    kafka_broker.stop()
    assert "orders 0 100" in checkpoint.read_text(), "a clean stop writes it"


def test_a_broker_that_does_not_start_again_says_so_and_can_be_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(topics=["orders"]) as broker:

        async def fail(number: int) -> None:
            raise PortTaken("cannot listen on PLAINTEXT://127.0.0.1:9092")

        broker.produce("orders", b"one")
        monkeypatch.setattr(broker._operations.core, "restart", fail)
        with pytest.raises(PortTaken):
            broker.crash()
        for call in (broker.crash, lambda: broker.create_topic("more")):
            with pytest.raises((BrokerNotRunning, RuntimeError), match="the broker has crashed and does not run again"):
                call()
        broker.stop()
        broker.start()
        assert [record.value for record in broker.records("orders")] == [b"one"]
