"""Producers of the first and of the second version of transactions (KIP-890) beside each other, on one broker.

Java's and franz-go's producers take the second version where `transaction.version` is 2; librdkafka's, kafka-python's
and aiokafka's have the first one only.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kmini import Broker
from kmini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kmini.testing import Wire
from support import apache_kafka
from support.feature_levels import set_transaction_version
from support.java_clients import JavaClients, JavaError
from support.transactional_clients import CLIENTS, TransactionalClient, read_committed
from support.until import until

GO_TRANSFORMER = apache_kafka.REPOSITORY / ".peers" / "group-clients" / "franz-go-transformer"
each_client = pytest.mark.parametrize("maker", CLIENTS.values(), ids=CLIENTS)


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 1000}
    with Broker(topics={"orders": 2}, journal=True, config=config) as broker:
        yield broker


@pytest.fixture
def old(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Callable[..., TransactionalClient]]:
    """A maker of producers of the first version, closed in the end; clients that are not installed are skipped."""
    made: list[TransactionalClient] = []

    def make(maker: type[TransactionalClient], transactional_id: str) -> TransactionalClient:
        pytest.importorskip({"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}.get(maker.name, maker.name))
        made.append(maker(broker.bootstrap_servers, transactional_id))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def epoch_of(broker: Broker, transactional_id: str) -> int:
    """The epoch with which the id's producer goes on."""
    with Wire(broker.bootstrap_servers) as wire:
        (state,) = wire.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
        assert state.error_code == 0, state
        return int(state.producer_epoch)


def asked(broker: Broker, api: str) -> set[int]:
    """The versions of an API in which the broker was asked."""
    return {entry.version for entry in broker.requests.all(api)}


def test_a_java_producer_uses_the_second_version(broker: Broker, java_clients: JavaClients) -> None:
    with java_clients.producer(broker.bootstrap_servers, transactional_id="t") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin()
            producer.send("orders", str(number))
            (producer.abort if number == 2 else producer.commit)()
    assert read_committed(broker.bootstrap_servers, "orders", 2) == [b"0", b"1", b"3"]
    assert (asked(broker, "EndTxn"), asked(broker, "Produce")) == ({5}, {13})
    assert not broker.requests.all("AddPartitionsToTxn")
    assert epoch_of(broker, "t") == 4


def test_a_java_producer_commits_offsets_by_the_second_version(broker: Broker, java_clients: JavaClients) -> None:
    servers = broker.bootstrap_servers
    with (
        java_clients.consumer(servers, group_id="g") as consumer,
        java_clients.producer(servers, transactional_id="t") as producer,
    ):
        broker.produce("orders", b"input", partition=0)
        consumer.subscribe("orders")
        assert consumer.poll_some() == ["input"]
        producer.init_transactions()
        for offset, end in ((1, producer.commit), (9, producer.abort)):
            producer.begin()
            producer.send_offsets(consumer, "orders", offset)
            end()
            assert consumer.committed("orders") == 1
    assert asked(broker, "TxnOffsetCommit") == {5}
    assert not broker.requests.all("AddOffsetsToTxn")


def test_java_goes_back_to_the_first_version_where_the_feature_is_lowered_and_forth_again(
    broker: Broker, java_clients: JavaClients
) -> None:
    with ExitStack() as stack:
        for level, version in ((1, 4), (2, 5)):
            set_transaction_version(broker.bootstrap_servers, level)
            mark = broker.requests.mark()
            producer = stack.enter_context(java_clients.producer(broker.bootstrap_servers, transactional_id="t"))
            producer.init_transactions()
            producer.begin()
            producer.send("orders", str(level))
            producer.commit()
            assert {entry.version for entry in broker.requests.all("EndTxn", since=mark)} == {version}
    assert read_committed(broker.bootstrap_servers, "orders", 2) == [b"1", b"2"]


def test_franz_go_uses_the_second_version(broker: Broker) -> None:
    if not GO_TRANSFORMER.exists():
        pytest.skip(f"{GO_TRANSFORMER} is missing (`make group-clients` compiles it)")
    broker.create_topic("inputs")
    broker.create_topic("outputs")
    for number in range(10):
        broker.produce("inputs", b"%d" % number)
    arguments = [broker.bootstrap_servers, "transformers", "0", "1", "no seed that ends at once"]
    with subprocess.Popen([str(GO_TRANSFORMER), *arguments], stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: broker.requests.all("EndTxn", error="NONE"), "the end of a transaction")
        finally:
            process.kill()
    assert (asked(broker, "EndTxn"), asked(broker, "TxnOffsetCommit")) == ({5}, {5})
    assert min(asked(broker, "Produce")) >= 12
    assert not broker.requests.all("AddPartitionsToTxn")


@each_client
def test_producers_of_both_versions_write_to_the_same_partitions(
    broker: Broker,
    java_clients: JavaClients,
    old: Callable[..., TransactionalClient],
    maker: type[TransactionalClient],
) -> None:
    older = old(maker, "old")
    with java_clients.producer(broker.bootstrap_servers, transactional_id="new") as newer:
        newer.init_transactions()
        for number in range(6):
            newer.begin()
            older.begin()
            newer.send("orders", f"new {number}")
            older.produce("orders", b"old %d" % number)
            (newer.abort if number % 3 == 0 else newer.commit)()
            (older.abort if number % 3 == 1 else older.commit)()
    values = [value.decode() for value in read_committed(broker.bootstrap_servers, "orders", 2)]
    assert [value for value in values if value.startswith("new")] == [f"new {number}" for number in (1, 2, 4, 5)]
    assert [value for value in values if value.startswith("old")] == [f"old {number}" for number in (0, 2, 3, 5)]
    assert max(asked(broker, "EndTxn")) == 5
    assert min(asked(broker, "EndTxn")) < 5
    assert epoch_of(broker, "new") == 6
    assert epoch_of(broker, "old") == 0


@each_client
def test_a_transactional_id_goes_from_one_version_to_the_other_and_each_fences_the_other(
    broker: Broker,
    java_clients: JavaClients,
    old: Callable[..., TransactionalClient],
    maker: type[TransactionalClient],
) -> None:
    first = old(maker, "t")
    first.begin()
    first.produce("orders", b"of the first")
    with java_clients.producer(broker.bootstrap_servers, transactional_id="t") as second:
        second.init_transactions()
        with pytest.raises(Exception, match=r"(?i)fence|epoch|newer"):
            first.commit()
        second.begin()
        second.send("orders", "of the second")
        second.commit()
        second.begin()
        second.send("orders", "never seen")
        third = old(maker, "t")
        with pytest.raises(JavaError, match=r"Fenced|InvalidProducerEpoch"):
            second.commit()
    third.begin()
    third.produce("orders", b"of the third")
    third.commit()
    assert read_committed(broker.bootstrap_servers, "orders", 2) == [b"of the second", b"of the third"]
