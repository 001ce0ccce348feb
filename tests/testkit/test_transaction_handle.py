"""`broker.transactions`: open transactions, waiting for their end, and aborting them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kmini import Broker, Cluster, NotInTime
from kmini.protocol.errors import InvalidTxnState, TransactionalIdNotFound
from support.transactional_clients import Confluent, KafkaPython

Host = Broker | Cluster


@pytest.fixture(params=[Broker, Cluster])
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    with request.param(topics={"orders": 2}) as running:
        yield running


@pytest.fixture
def producer(host: Host) -> Iterator[Confluent]:
    producer = Confluent(host.bootstrap_servers, "billing-1", 30_000)
    yield producer
    producer.close()


def test_an_open_transaction_is_told_with_its_producer_partitions_and_age(host: Host, producer: Confluent) -> None:
    assert host.transactions.open() == []
    producer.begin()
    producer.produce("orders", b"v", partition=1)
    producer.send_offsets("readers", {("orders", 0): 0})
    (found,) = host.transactions.open()
    assert (found.transactional_id, found.state, found.timeout_ms) == ("billing-1", "Ongoing", 30_000)
    assert found.producer_epoch == 0
    assert {place.topic for place in found.partitions} == {"__consumer_offsets", "orders"}
    assert ("orders", 1) in found.partitions
    assert 0 <= found.age_ms < 30_000
    host.clock.advance("10s", liveness=True)
    assert host.transactions.open()[0].age_ms >= 10_000
    producer.commit()
    host.transactions.wait_ended()
    assert host.transactions.open() == []


def test_a_wait_ends_with_the_transaction_and_its_records_are_there(host: Host, producer: Confluent) -> None:
    producer.begin()
    producer.produce("orders", b"v")
    for transactional_id in ("billing-1", None):
        with pytest.raises(
            NotInTime, match=r"billing-1 is Ongoing for \d+ of 30000 ms, producer \d+ epoch 0, in orders-0"
        ):
            host.transactions.wait_ended(transactional_id, timeout_ms=1)
    found: list[bytes | None] = []

    def wait() -> None:
        host.transactions.wait_ended("billing-1")
        found.extend(record.value for record in host.records("orders"))

    waiter = threading.Thread(target=wait)
    waiter.start()
    producer.commit()
    waiter.join(30)
    assert found == [b"v"]


def test_a_misspelt_id_is_told_with_those_that_exist(host: Host, producer: Confluent) -> None:
    told = "there is no transactional id biling-1; there are: billing-1"
    with pytest.raises(NotInTime, match=told):
        host.transactions.wait_ended("biling-1", timeout_ms=1)
    with pytest.raises(TransactionalIdNotFound, match=told):
        host.transactions.abort("biling-1")


def test_an_id_that_no_producer_has_yet_is_waited_for(host: Host) -> None:
    done: list[None] = []
    waiter = threading.Thread(target=lambda: done.append(host.transactions.wait_ended("billing-1")))
    waiter.start()
    assert done == []
    Confluent(host.bootstrap_servers, "billing-1").close()
    waiter.join(30)
    assert done == [None]


@pytest.mark.parametrize("client", [Confluent, KafkaPython])
def test_an_aborted_transaction_hides_its_records_and_fences_its_producer(
    host: Host, client: type[Confluent] | type[KafkaPython]
) -> None:
    producer = client(host.bootstrap_servers, "billing-1")
    producer.begin()
    producer.produce("orders", b"undone")
    host.transactions.abort("billing-1")
    assert host.transactions.open() == []
    assert host.records("orders") == []
    assert [record.state for record in host.records("orders", isolation="uncommitted")] == ["aborted"]
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        producer.commit()
    with pytest.raises(
        InvalidTxnState, match="the last transaction of billing-1 is CompleteAbort: there is nothing to abort"
    ):
        host.transactions.abort("billing-1")
    producer.close()


def test_without_transactions_there_is_nothing_to_wait_for_and_asking_makes_no_topic(kafka_broker: Broker) -> None:
    kafka_broker.transactions.wait_ended(timeout_ms=0)
    assert kafka_broker.transactions.open() == []
    assert "__transaction_state" not in kafka_broker.topics()


def test_what_is_open_is_unknown_without_the_coordinator() -> None:
    config = {"transaction.state.log.replication.factor": 1}
    with Cluster(2, topics=["orders"], config=config) as cluster:
        producer = Confluent(cluster.bootstrap_servers, "billing-1")
        producer.begin()
        producer.produce("orders", b"v")
        cluster.kill(cluster.transaction_coordinator("billing-1"))
        with pytest.raises(NotInTime, match="a partition of __transaction_state has no leader that runs"):
            cluster.transactions.wait_ended(timeout_ms=1)
