"""What transactional producers of real client libraries do when a request fails, as `broker.faults` makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker
from support import transactional_clients
from support.librdkafka import impatient
from support.transactional_clients import TransactionalClient, read_committed

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0


def producer(broker: Broker, transactional_id: str) -> Any:
    return confluent.Producer(impatient(broker.bootstrap_servers, transactional_id=transactional_id, linger_ms=0))


def begun(broker: Broker, transactional_id: str) -> Any:
    """A producer with an open transaction, in which the broker has one record."""
    client = producer(broker, transactional_id)
    client.init_transactions(TIMEOUT_S)
    client.begin_transaction()
    client.produce("orders", b"placed", partition=0)
    assert client.flush(TIMEOUT_S) == 0
    return client


def committed(broker: Broker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders")]


PASSING = [
    ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ("InitProducerId", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("InitProducerId", "CONCURRENT_TRANSACTIONS"),
    ("InitProducerId", "NOT_COORDINATOR"),
    ("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
    ("AddPartitionsToTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("EndTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
    ("EndTxn", "CONCURRENT_TRANSACTIONS"),
    ("EndTxn", "NOT_COORDINATOR"),
]


@pytest.mark.parametrize(("api", "code"), PASSING)
def test_a_transaction_is_committed_in_spite_of_a_passing_error(
    broker: Broker, transactional_id: str, api: str, code: str
) -> None:
    rule = broker.faults.on(api, transactional_id=transactional_id).once().error(code)
    begun(broker, transactional_id).commit_transaction(TIMEOUT_S)
    rule.assert_hit(times=1)
    assert committed(broker) == [b"placed"]


def test_a_commit_whose_answer_is_lost_is_asked_for_again_and_counts_once(
    broker: Broker, transactional_id: str
) -> None:
    client = begun(broker, transactional_id)
    rule = broker.faults.commit_answer_is_lost(transactional_id)
    client.commit_transaction(TIMEOUT_S)
    rule.assert_hit(times=1)
    assert rule.seen == 2
    assert committed(broker) == [b"placed"]


FATAL = [
    ("AddPartitionsToTxn", "INVALID_PRODUCER_EPOCH"),
    ("EndTxn", "PRODUCER_FENCED"),
    ("EndTxn", "INVALID_PRODUCER_EPOCH"),
    ("EndTxn", "INVALID_TXN_STATE"),
]


@pytest.mark.parametrize(("api", "code"), FATAL)
def test_a_producer_that_is_fenced_fails_for_good(broker: Broker, transactional_id: str, api: str, code: str) -> None:
    broker.faults.on(api, transactional_id=transactional_id).error(code)
    with pytest.raises(confluent.KafkaException) as failed:
        begun(broker, transactional_id).commit_transaction(TIMEOUT_S)
    assert failed.value.args[0].fatal()
    broker.faults.assert_all_hit()
    assert committed(broker) == []


def test_a_zombie_learns_that_it_is_one(broker: Broker, transactional_id: str) -> None:
    client = begun(broker, transactional_id)
    broker.faults.producer_fenced(transactional_id)
    with pytest.raises(confluent.KafkaException) as failed:
        client.commit_transaction(TIMEOUT_S)
    assert failed.value.args[0].fatal()


def test_a_transactional_id_that_may_not_be_used_is_reported(broker: Broker, transactional_id: str) -> None:
    broker.faults.on("InitProducerId", transactional_id=transactional_id).error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    with pytest.raises(confluent.KafkaException) as failed:
        producer(broker, transactional_id).init_transactions(TIMEOUT_S)
    assert failed.value.args[0].name() == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


def test_an_abort_is_due_where_a_record_was_refused(broker: Broker, transactional_id: str) -> None:
    client = producer(broker, transactional_id)
    client.init_transactions(TIMEOUT_S)
    client.begin_transaction()
    broker.faults.on("Produce", transactional_id=transactional_id).once().error("MESSAGE_TOO_LARGE")
    client.produce("orders", b"placed", partition=0)
    with pytest.raises(confluent.KafkaException) as failed:
        client.commit_transaction(TIMEOUT_S)
    assert failed.value.args[0].txn_requires_abort()
    client.abort_transaction(TIMEOUT_S)
    broker.faults.assert_all_hit()
    assert committed(broker) == []


def test_a_held_commit_leaves_the_transaction_open_until_it_is_released(broker: Broker, transactional_id: str) -> None:
    client = begun(broker, transactional_id)
    with broker.faults.on("EndTxn", transactional_id=transactional_id).hold() as held:
        with pytest.raises(confluent.KafkaException) as failed:
            client.commit_transaction(0.2)
        assert failed.value.args[0].retriable()
        held.arrived()
        assert committed(broker) == []
        held.release()
    client.commit_transaction(TIMEOUT_S)
    assert committed(broker) == [b"placed"]


def test_offsets_are_sent_again_while_the_coordinator_loads(broker: Broker, transactional_id: str) -> None:
    client = begun(broker, transactional_id)
    consumer = confluent.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "billing"})
    broker.faults.on("TxnOffsetCommit", group="billing").once().error("COORDINATOR_LOAD_IN_PROGRESS")
    broker.faults.on("AddOffsetsToTxn", group="billing").once().error("CONCURRENT_TRANSACTIONS")
    offsets = [confluent.TopicPartition("orders", 0, 1)]
    client.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    client.commit_transaction(TIMEOUT_S)
    broker.faults.assert_all_hit()
    consumer.close()


def test_a_consumer_stops_at_a_transaction_that_hangs_until_it_is_aborted(
    broker: Broker, transactional_id: str
) -> None:
    hangs = broker.faults.transaction_hangs(transactional_id)
    client = begun(broker, transactional_id)
    with pytest.raises(confluent.KafkaException) as failed:
        client.commit_transaction(0.2)
    assert failed.value.args[0].retriable()
    hangs.arrived()
    broker.produce("orders", b"paid")
    assert read_committed(broker.bootstrap_servers, "orders") == []
    broker.transactions.abort(transactional_id)
    assert read_committed(broker.bootstrap_servers, "orders") == [b"paid"]
    hangs.remove()
    with pytest.raises(confluent.KafkaException) as fenced:
        client.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()


@pytest.fixture(params=transactional_clients.CLIENTS)
def started(request: pytest.FixtureRequest, broker: Broker, transactional_id: str) -> Iterator[TransactionalClient]:
    """A producer of each library with an open transaction, in which the broker has one record."""
    client = transactional_clients.CLIENTS[request.param](broker.bootstrap_servers, transactional_id)
    client.begin()
    client.produce("orders", b"placed")
    yield client
    broker.faults.clear()
    client.close()


FENCED = {"confluent-kafka": "KafkaException", "kafka-python": "ProducerFencedError", "aiokafka": "ProducerFenced"}


def test_a_producer_is_fenced_by_the_time_out_of_its_transaction(
    broker: Broker, transactional_id: str, started: TransactionalClient
) -> None:
    broker.clock.advance("2m", liveness=True)
    broker.transactions.wait_ended(transactional_id)
    with pytest.raises(Exception, match=r"(?i)fence|epoch") as raised:
        started.commit()
    assert type(raised.value).__name__ == FENCED[started.name]
    assert committed(broker) == []


def test_a_producer_looks_for_its_coordinator_again_when_that_has_moved(
    broker: Broker, transactional_id: str, started: TransactionalClient
) -> None:
    moved = broker.faults.coordinator_moved(transactional_id=transactional_id, times=2)
    looked = broker.faults.on("FindCoordinator", transactional_id=transactional_id).delay(0)
    started.commit()
    moved.assert_hit(times=2)
    looked.assert_hit()
    assert committed(broker) == [b"placed"]


def test_a_producer_waits_while_its_coordinator_loads(
    broker: Broker, transactional_id: str, started: TransactionalClient
) -> None:
    loading = broker.faults.coordinator_load_in_progress(transactional_id=transactional_id, for_ms="100ms")
    started.commit()
    loading.assert_hit()
    assert committed(broker) == [b"placed"]


async def test_aiokafka_commits_in_spite_of_passing_errors(broker: Broker, transactional_id: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    faults = broker.aio.faults
    for api in ("InitProducerId", "AddPartitionsToTxn", "EndTxn"):
        await faults.on(api, transactional_id=transactional_id).once().error("COORDINATOR_LOAD_IN_PROGRESS")
    async with (
        aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id, retry_backoff_ms=10
        ) as client,
        client.transaction(),
    ):
        await client.send_and_wait("orders", b"placed", partition=0)
    await faults.assert_all_hit()
    assert committed(broker) == [b"placed"]
