"""What real client libraries do when brokers, leaders, topics and partitions change under them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster
from support.librdkafka import impatient
from support.until import until

confluent = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

TIMEOUT_S = 30.0
GROUP = "billing"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "replica.selector.class": RACK_AWARE}


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=2, racks={1: "north", 2: "south"}, config=SETTINGS, journal=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Cluster:
    """Two brokers, of which the first one leads the topic `orders`, which has one record; and no rule."""
    running.reset()
    running.create_topic("orders", 1, replication_factor=2)
    running.wait_until_in_sync("orders")
    if running.leader("orders") != 1:
        running.move_leader("orders", to=1)
    running.produce("orders", b"placed")
    return running


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(config={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


def settings(servers: str, **config: Any) -> dict[str, Any]:
    return {"topic.metadata.refresh.interval.ms": 50, **impatient(servers, **config)}


@contextlib.contextmanager
def consumer(servers: str, **config: Any) -> Iterator[Any]:
    reading = {"group_id": GROUP, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    waiting = {"fetch_wait_max_ms": 20, "fetch_error_backoff_ms": 5, "heartbeat_interval_ms": 20}
    client = confluent.Consumer(settings(servers, **reading, **waiting, **config))
    try:
        yield client
    finally:
        client.close()


def producer(servers: str, **config: Any) -> Any:
    return confluent.Producer(settings(servers, linger_ms=0, **config))


def deliver(client: Any, value: bytes, topic: str = "orders", partition: int = 0) -> Any:
    """Produce one record; return the error of its delivery report, or None."""
    reports: list[Any] = []
    client.produce(topic, value, partition=partition, on_delivery=lambda error, record: reports.append(error))
    assert client.flush(TIMEOUT_S) == 0
    (error,) = reports
    return error


def next_value(client: Any) -> bytes:
    """The value of the next record; errors before it are what the library tells and goes on from."""
    while (found := until(lambda: client.poll(0.05), timeout_s=TIMEOUT_S, poll_s=0)).error():
        pass
    value: bytes = found.value()
    return value


def assigned(client: Any, offset: int = 0) -> Any:
    client.assign([confluent.TopicPartition("orders", 0, offset)])
    return client


# --- leaders and brokers


def test_confluent_does_not_go_back_to_a_leader_of_an_older_epoch(cluster: Cluster) -> None:
    with consumer(cluster.bootstrap_servers) as client:
        assert next_value(assigned(client)) == b"placed"
        cluster.move_leader("orders", to=2)
        stale = cluster.faults.stale_leader("orders", leader=1, epoch=0, times=2)
        stale.wait_hit(2)
        cluster.produce("orders", b"paid")
        assert next_value(client) == b"paid"


def test_kafka_python_believes_a_leader_that_is_out_of_date_and_asks_again(cluster: Cluster) -> None:
    kafka = pytest.importorskip("kafka")
    cluster.move_leader("orders", to=2)
    stale = cluster.faults.stale_leader("orders", leader=1, times=2)
    client = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10)
    try:
        assert client.send("orders", b"paid", partition=0).get(TIMEOUT_S).offset == 1
    finally:
        client.close()
    stale.assert_hit(times=2)
    cluster.requests.assert_some("Produce", error="NOT_LEADER_OR_FOLLOWER", where=lambda one: one.broker == 1)


def test_a_broker_that_clients_are_not_told_of_is_waited_for(cluster: Cluster) -> None:
    missing = cluster.faults.broker_missing_from_metadata(1)
    client = producer(cluster.bootstrap_servers)
    client.produce("orders", b"paid", partition=0)
    missing.wait_hit(2)
    assert client.flush(0) == 1
    missing.remove()
    assert client.flush(TIMEOUT_S) == 0
    assert len(cluster.records("orders")) == 2


def test_a_client_that_knows_a_broker_uses_it_although_it_is_missing_from_metadata(cluster: Cluster) -> None:
    kafka = pytest.importorskip("kafka")
    client = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        with cluster.faults.broker_missing_from_metadata(1) as missing:
            assert [one["broker_id"] for one in client.describe_cluster()["brokers"]] == [2]
            missing.assert_hit()
        assert {one["broker_id"] for one in client.describe_cluster()["brokers"]} == {1, 2}
    finally:
        client.close()


def test_a_consumer_waits_for_a_broker_that_is_down(cluster: Cluster) -> None:
    with consumer(cluster.bootstrap_servers) as client:
        assert next_value(assigned(client)) == b"placed"
        for number in (1, 2):
            cluster.kill(number)
        for number in (1, 2):
            cluster.restart(number)
        cluster.wait_until_in_sync("orders")
        cluster.produce("orders", b"paid")
        assert next_value(client) == b"paid"


def test_a_broker_that_joins_leads_partitions_for_clients_that_never_heard_of_it(cluster: Cluster) -> None:
    cluster.stop_broker(2)
    client = producer(cluster.bootstrap_servers)
    assert deliver(client, b"paid") is None
    assert [*client.list_topics(timeout=TIMEOUT_S).brokers] == [1]
    cluster.restart(2)
    grown = admin.AdminClient({"bootstrap.servers": cluster.address_of(1)})
    new = admin.NewPartitions("orders", 2, replica_assignment=[[2, 1]])
    grown.create_partitions([new])["orders"].result(TIMEOUT_S)
    until(lambda: len(client.list_topics("orders", TIMEOUT_S).topics["orders"].partitions) == 2)
    assert deliver(client, b"sent", partition=1) is None
    cluster.requests.assert_some("Produce", topic="orders", partition=1, where=lambda one: one.broker == 2)


def test_clients_come_to_the_address_that_they_are_told_from_now_on() -> None:
    listeners = "PLAINTEXT://127.0.0.1:0,MAPPED://127.0.0.1:0"
    config = {"listeners": listeners, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MAPPED:PLAINTEXT"}
    with Broker(topics=["orders"], config=config) as broker:
        client = producer(broker.bootstrap_servers)
        assert deliver(client, b"placed") is None
        mapped = broker._operations.one_broker(None).server.listener("MAPPED")
        broker.advertise("127.0.0.1", mapped.port)
        until(lambda: any(one.listener == "MAPPED" for one in broker.clients()))
        assert deliver(client, b"paid") is None
        assert len(broker.records("orders")) == 2


def test_a_consumer_reads_from_the_replica_in_its_rack(cluster: Cluster) -> None:
    with consumer(cluster.bootstrap_servers, client_rack="south", client_id="southern") as client:
        assert next_value(assigned(client)) == b"placed"
        cluster.produce("orders", b"paid")
        assert next_value(client) == b"paid"
    fetches = cluster.requests.assert_some("Fetch", client_id="southern")
    assert {one.broker for one in fetches} == {1, 2}
    assert fetches[-1].broker == 2


def test_an_administrator_looks_for_the_controller_again(cluster: Cluster) -> None:
    kafka = pytest.importorskip("kafka")
    from kafka.admin import KafkaAdminClient, NewTopic

    moved = cluster.faults.controller_moved()
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers, retry_backoff_ms=10)
    try:
        client.create_topics([NewTopic("invoices", 1, 1)])
    finally:
        client.close()
    moved.assert_hit(times=1)
    assert "invoices" in cluster.topics(), kafka.__version__


# --- coordinators


def test_a_member_looks_for_its_coordinator_until_there_is_one(cluster: Cluster) -> None:
    rule = cluster.faults.no_coordinator(GROUP)
    with consumer(cluster.bootstrap_servers, coordinator_query_interval_ms=20) as client:
        client.subscribe(["orders"])
        assert next_value(client) == b"placed"
    rule.assert_hit(times=1)


# --- topics and partitions


def test_a_group_reads_on_where_it_was_in_a_topic_that_vanishes_and_returns(cluster: Cluster) -> None:
    with consumer(cluster.bootstrap_servers) as client:
        client.subscribe(["orders"])
        assert next_value(client) == b"placed"
        client.commit(asynchronous=False)
        gone = cluster.faults.unknown_topic_until("orders", times=3)
        gone.wait_hit(3)
        cluster.produce("orders", b"paid")
        assert next_value(client) == b"paid"


def test_a_topic_that_returns_under_another_id_is_read_from_its_beginning(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    for value in (b"first", b"second"):
        broker.produce("orders", value)
    with consumer(broker.bootstrap_servers) as client:
        client.subscribe(["orders"])
        assert [next_value(client) for _ in range(2)] == [b"first", b"second"]
        broker.delete_topic("orders")
        broker.create_topic("orders", 1)
        broker.produce("orders", b"anew")
        assert next_value(client) == b"anew"


def test_a_producer_writes_to_a_topic_that_was_made_anew(broker: Broker) -> None:
    broker.create_topic("orders", 1)
    client = producer(broker.bootstrap_servers)
    assert deliver(client, b"before") is None
    broker.delete_topic("orders")
    broker.create_topic("orders", 1)
    assert deliver(client, b"anew") is None
    assert [record.value for record in broker.records("orders")] == [b"anew"]


def test_partitions_that_are_added_are_written_and_read_by_clients_that_run(cluster: Cluster) -> None:
    writing = producer(cluster.bootstrap_servers)
    assert deliver(writing, b"paid") is None
    with consumer(cluster.bootstrap_servers) as reading:
        reading.subscribe(["orders"])
        assert [next_value(reading) for _ in range(2)] == [b"placed", b"paid"]
        reading.commit(asynchronous=False)
        grown = admin.AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        grown.create_partitions([admin.NewPartitions("orders", 2)])["orders"].result(TIMEOUT_S)
        until(lambda: len(writing.list_topics("orders", TIMEOUT_S).topics["orders"].partitions) == 2)
        assert deliver(writing, b"sent", partition=1) is None
        assert next_value(reading) == b"sent"
        assert len(reading.assignment()) == 2


def test_a_topic_whose_automatic_creation_takes_a_while_is_waited_for(broker: Broker) -> None:
    delayed = broker.faults.leader_not_available("invoices", for_ms="1m")
    client = producer(broker.bootstrap_servers)
    client.produce("invoices", b"paid")
    delayed.wait_hit(2)
    assert client.flush(0) == 1
    broker.clock.advance("1m", liveness=True)
    assert client.flush(TIMEOUT_S) == 0
    assert len(broker.records("invoices")) == 1
