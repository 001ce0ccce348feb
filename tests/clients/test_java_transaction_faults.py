"""What Kafka's own transactional producers do when a request fails, as `broker.faults` makes it fail.

They use the second version of transactions (KIP-890), which has no AddPartitionsToTxn and AddOffsetsToTxn: where a test
is about one of these, `transaction.version` is 1.

The Javadoc of KafkaProducer and of its exceptions says it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster
from support.feature_levels import set_transaction_version
from support.java_clients import JavaClients, JavaError, JavaProducer
from support.transactional_clients import read_committed
from support.until import PATIENCE, until


@pytest.fixture(autouse=True)
def _leaky_clients() -> None:
    """These clients leave no sockets in this process: a test need not collect them."""


@pytest.fixture
def producer(broker: Broker, java_clients: JavaClients, transactional_id: str) -> Iterator[JavaProducer]:
    """A producer that has not asked for its producer id yet."""
    with java_clients.producer(broker.bootstrap_servers, transactional_id=transactional_id) as client:
        yield client


@pytest.fixture
def begun(producer: JavaProducer) -> JavaProducer:
    """A producer with an open transaction, in which the broker has one record."""
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "placed")
    return producer


def committed(broker: Broker) -> list[str]:
    return [record.text() for record in broker.records("orders")]


def choose_version(broker: Broker, api: str) -> None:
    """Have producers use the version of transactions that has this API."""
    if api in ("AddPartitionsToTxn", "AddOffsetsToTxn"):
        set_transaction_version(broker.bootstrap_servers, 1)


def thrown(call: Callable[..., Any], *arguments: Any) -> list[str]:
    """The classes of the exception that a call throws, and of its causes."""
    with pytest.raises(JavaError) as raised:
        call(*arguments)
    return raised.value.thrown


PASSING = [
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
    ("InitProducerId", "NOT_COORDINATOR"),
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
    ("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("AddPartitionsToTxn", "NOT_COORDINATOR"),
    ("Produce", "CONCURRENT_TRANSACTIONS"),
    ("Produce", "NOT_ENOUGH_REPLICAS"),
    ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("EndTxn", "NOT_COORDINATOR"),
]


@pytest.mark.parametrize(("api", "code"), PASSING)
def test_a_transaction_is_committed_in_spite_of_a_passing_error(
    broker: Broker, producer: JavaProducer, transactional_id: str, api: str, code: str
) -> None:
    choose_version(broker, api)
    rule = broker.faults.on(api, transactional_id=transactional_id).times(2).error(code)
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "placed")
    producer.commit()
    rule.assert_hit(times=2)
    assert committed(broker) == ["placed"]


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("AddOffsetsToTxn", "CONCURRENT_TRANSACTIONS"),
        ("TxnOffsetCommit", "CONCURRENT_TRANSACTIONS"),
        ("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("TxnOffsetCommit", "NOT_COORDINATOR"),
    ],
)
def test_offsets_are_sent_again_after_a_retriable_error(
    broker: Broker, producer: JavaProducer, java_clients: JavaClients, api: str, code: str
) -> None:
    choose_version(broker, api)
    producer.init_transactions()
    producer.begin()
    rule = broker.faults.on(api, group="billing").once().error(code)
    with java_clients.consumer(broker.bootstrap_servers, group_id="billing") as consumer:
        producer.send_offsets(consumer, "orders", 1)
        producer.commit()
        assert consumer.committed("orders") == 1
    rule.assert_hit(times=1)


def test_a_commit_whose_answer_is_lost_is_asked_for_again_and_counts_once(
    broker: Broker, begun: JavaProducer, transactional_id: str
) -> None:
    rule = broker.faults.commit_answer_is_lost(transactional_id)
    begun.commit()
    rule.assert_hit(times=1)
    assert rule.seen == 2
    assert committed(broker) == ["placed"]
    begun.begin()
    begun.send("orders", "paid")
    begun.commit()
    assert committed(broker) == ["placed", "paid"]


def test_a_commit_that_takes_too_long_may_be_asked_for_again(
    broker: Broker, java_clients: JavaClients, transactional_id: str
) -> None:
    limit = {"max_block_ms": 1_500 * PATIENCE}  # short: the first commit takes all of it
    with java_clients.producer(broker.bootstrap_servers, transactional_id=transactional_id, **limit) as client:
        client.init_transactions()
        client.begin()
        client.send("orders", "placed")
        with broker.faults.on("EndTxn", transactional_id=transactional_id).hold() as held:
            assert thrown(client.commit) == ["TimeoutException"]
            held.arrived()
            assert committed(broker) == []
        client.commit()
    assert committed(broker) == ["placed"]


FATAL = [
    ("AddPartitionsToTxn", "PRODUCER_FENCED", "ProducerFencedException"),
    ("AddPartitionsToTxn", "INVALID_PRODUCER_EPOCH", "ProducerFencedException"),
    ("Produce", "INVALID_PRODUCER_ID_MAPPING", "InvalidPidMappingException"),
    ("EndTxn", "PRODUCER_FENCED", "ProducerFencedException"),
    ("EndTxn", "INVALID_PRODUCER_EPOCH", "ProducerFencedException"),
    ("EndTxn", "INVALID_TXN_STATE", "InvalidTxnStateException"),
    ("EndTxn", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TransactionalIdAuthorizationException"),
]


@pytest.mark.parametrize(("api", "code", "exception"), FATAL)
def test_a_producer_that_may_not_go_on_fails_for_good(
    broker: Broker, producer: JavaProducer, transactional_id: str, api: str, code: str, exception: str
) -> None:
    choose_version(broker, api)
    broker.faults.on(api, transactional_id=transactional_id).once().error(code)
    producer.init_transactions()
    producer.begin()

    def send_and_commit() -> None:
        producer.send("orders", "placed")
        producer.commit()

    assert exception in thrown(send_and_commit)
    broker.faults.assert_all_hit()
    # Java fails the send before its sender thread has the producer in the fatal state.
    until(lambda: exception in thrown(producer.begin))
    assert committed(broker) == []


def test_a_transactional_id_that_may_not_be_used_is_thrown(
    broker: Broker, producer: JavaProducer, transactional_id: str
) -> None:
    broker.faults.on("InitProducerId", transactional_id=transactional_id).error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert "TransactionalIdAuthorizationException" in thrown(producer.init_transactions)


def test_an_older_producer_of_an_id_is_fenced_by_a_newer_one(
    broker: Broker, begun: JavaProducer, java_clients: JavaClients, transactional_id: str
) -> None:
    with java_clients.producer(broker.bootstrap_servers, transactional_id=transactional_id) as newer:
        newer.init_transactions()
        assert "ProducerFencedException" in thrown(begun.commit)
        newer.begin()
        newer.send("orders", "paid")
        newer.commit()
    assert committed(broker) == ["paid"]


def test_a_transaction_with_a_refused_record_is_aborted_and_the_next_one_passes(
    broker: Broker, producer: JavaProducer, transactional_id: str
) -> None:
    producer.init_transactions()
    producer.begin()
    rule = broker.faults.on("Produce", transactional_id=transactional_id).once().error("MESSAGE_TOO_LARGE")
    assert "RecordTooLargeException" in thrown(producer.send, "orders", "placed")
    rule.assert_hit(times=1)
    assert "RecordTooLargeException" in thrown(producer.commit)
    producer.abort()
    producer.begin()
    producer.send("orders", "paid")
    producer.commit()
    assert committed(broker) == ["paid"]


@pytest.mark.parametrize(("level", "exception"), [(1, "ProducerFencedException"), (2, "InvalidTxnStateException")])
def test_a_producer_cannot_commit_after_the_time_out_of_its_transaction(
    broker: Broker, producer: JavaProducer, transactional_id: str, level: int, exception: str
) -> None:
    set_transaction_version(broker.bootstrap_servers, level)
    producer.init_transactions()
    producer.begin()
    producer.send("orders", "placed")
    broker.clock.advance("2m", liveness=True)
    broker.transactions.wait_ended(transactional_id)
    assert thrown(producer.commit) == [exception]
    assert committed(broker) == []


def test_a_producer_goes_on_after_the_time_out_of_its_transaction_when_it_aborts(
    broker: Broker, begun: JavaProducer, transactional_id: str
) -> None:
    broker.clock.advance("2m", liveness=True)
    broker.transactions.wait_ended(transactional_id)
    begun.abort()
    begun.begin()
    begun.send("orders", "paid")
    begun.commit()
    assert committed(broker) == ["paid"]


@pytest.mark.parametrize("api", ["Produce", "TxnOffsetCommit", "EndTxn"])
def test_a_transaction_that_has_to_be_aborted_is_and_the_next_one_passes(
    broker: Broker, begun: JavaProducer, java_clients: JavaClients, transactional_id: str, api: str
) -> None:
    rule = broker.faults.on(api, transactional_id=transactional_id).once().error("TRANSACTION_ABORTABLE")

    def go_on() -> None:
        begun.send("orders", "paid")
        begun.send_offsets(consumer, "orders", 1)
        begun.commit()

    with java_clients.consumer(broker.bootstrap_servers, group_id="billing") as consumer:
        assert "TransactionAbortableException" in thrown(go_on)
        rule.assert_hit(times=1)
        begun.abort()
        begun.begin()
        go_on()
    assert committed(broker) == ["paid"]


def test_a_consumer_stops_at_a_transaction_that_hangs_until_it_is_aborted(
    broker: Broker, begun: JavaProducer, java_clients: JavaClients, transactional_id: str
) -> None:
    broker.produce("orders", b"paid")
    with java_clients.consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign("orders")
        asked = broker.faults.on("Fetch", topic="orders").delay(0)
        while asked.hits < 2:
            assert consumer.poll() == []
        broker.transactions.abort(transactional_id)
        assert consumer.poll_some() == ["paid"]


def test_offsets_of_an_open_transaction_are_waited_for(
    broker: Broker, begun: JavaProducer, java_clients: JavaClients, transactional_id: str
) -> None:
    settings: dict[str, object] = {"group_id": "billing", "isolation_level": "read_committed"}
    limit = {"default_api_timeout_ms": 1_000 * PATIENCE}  # short: it is to pass
    with (
        java_clients.consumer(broker.bootstrap_servers, **settings) as consumer,
        java_clients.consumer(broker.bootstrap_servers, **settings, **limit) as impatient,
    ):
        begun.send_offsets(consumer, "orders", 1)
        assert thrown(impatient.committed, "orders") == ["TimeoutException"]
        begun.commit()
        assert consumer.committed("orders") == 1


def test_a_transaction_is_committed_though_its_leader_and_its_coordinator_die(java_clients: JavaClients) -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", replication_factor=3)
        with java_clients.producer(cluster.bootstrap_servers, transactional_id="payments") as client:
            client.init_transactions()
            for kill in (lambda: cluster.leader("orders"), lambda: cluster.transaction_coordinator("payments")):
                client.begin()
                client.send("orders", "placed")
                dead = kill()
                cluster.kill(dead)
                client.send("orders", "paid")
                client.commit()
                cluster.restart(dead)
                cluster.wait_until_in_sync("orders")
        assert read_committed(cluster.bootstrap_servers, "orders") == [b"placed", b"paid"] * 2
