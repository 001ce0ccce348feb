"""The records of transactions that `records` and `wait_for_records` show (testkit/contents.py)."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster, Record
from kmini.client import Client
from kmini.client.produce import record
from kmini.protocol.errors import LeaderNotAvailable, RequestTimedOut, UnknownTopicOrPartition
from support.transactional_clients import Confluent
from support.turns import every_step_a_turn

Host = Broker | Cluster


def one_broker() -> Host:
    return Broker(topics={"orders": 2})


def two_brokers() -> Host:
    return Cluster(brokers=2, topics={"orders": {"partitions": 2, "replication_factor": 2}})


@pytest.fixture(params=[one_broker, two_brokers])
def broker(request: pytest.FixtureRequest) -> Iterator[Host]:
    with request.param() as running:
        yield running


@pytest.fixture
def begin(broker: Host) -> Iterator[Callable[[str], Confluent]]:
    """Begins a transaction of a real client."""
    clients: list[Confluent] = []

    def client(transactional_id: str) -> Confluent:
        made = Confluent(broker.bootstrap_servers, transactional_id)
        clients.append(made)
        made.begin()
        return made

    yield client
    for made in clients:
        made.close()


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def states(records: list[Record]) -> list[tuple[int, str]]:
    return [(record.offset, record.state) for record in records]


def until_ended(broker: Host, count: int) -> None:
    """Return when `orders` holds so many records with their markers: clients go on before the markers are written."""
    broker.wait_for_records("orders", count, isolation="all")


def test_records_of_an_open_transaction_are_not_shown_before_it_is_committed(
    broker: Host, begin: Callable[[str], Confluent]
) -> None:
    client = begin("billing-1")
    client.produce("orders", b"one")
    assert broker.records("orders") == []
    assert states(broker.records("orders", isolation="uncommitted")) == [(0, "open")]
    client.commit()
    assert values(broker.wait_for_records("orders", 1)) == [b"one"]
    assert states(broker.records("orders", isolation="all")) == [(0, "committed"), (1, "commit marker")]


def test_records_of_an_aborted_transaction_are_never_shown(broker: Host, begin: Callable[[str], Confluent]) -> None:
    client = begin("billing-1")
    client.produce("orders", b"undone")
    client.abort()
    until_ended(broker, 2)
    broker.produce("orders", b"kept")
    assert values(broker.wait_for_records("orders", 1)) == [b"kept"]
    assert values(broker.records("orders")) == [b"kept"]
    assert states(broker.records("orders", isolation="uncommitted")) == [(0, "aborted"), (2, "committed")]
    assert states(broker.records("orders", isolation="all")) == [
        (0, "aborted"),
        (1, "abort marker"),
        (2, "committed"),
    ]


def test_a_producer_whose_transaction_was_aborted_commits_the_next(
    broker: Host, begin: Callable[[str], Confluent]
) -> None:
    client = begin("billing-1")
    for number, end in enumerate([client.abort, client.commit, client.abort]):
        if number:
            client.begin()
        client.produce("orders", b"%d" % number)
        end()
    until_ended(broker, 6)
    assert values(broker.records("orders")) == [b"1"]
    assert [state for _, state in states(broker.records("orders", isolation="uncommitted"))] == [
        "aborted",
        "committed",
        "aborted",
    ]


def test_records_behind_an_open_transaction_are_not_shown(broker: Host, begin: Callable[[str], Confluent]) -> None:
    broker.produce("orders", b"before")
    client = begin("billing-1")
    client.produce("orders", b"open")
    broker.produce("orders", b"behind")
    assert values(broker.records("orders")) == [b"before"]
    client.abort()
    assert values(broker.wait_for_records("orders", 2)) == [b"before", b"behind"]


def test_a_wait_in_vain_says_what_is_there_and_what_is_hidden(broker: Host, begin: Callable[[str], Confluent]) -> None:
    broker.produce("orders", b"one")
    broker.produce("orders", b"two", partition=1)
    undone = begin("billing-2")
    undone.produce("orders", b"undone")
    undone.abort()
    until_ended(broker, 4)
    billing = begin("billing-1")
    billing.produce("orders", b"open")
    broker.produce("orders", b"behind")
    sentence = (
        "orders holds 2 of 3 records after 1 ms: [b'one', b'two']; 1 more in an aborted transaction of billing-2; "
        "1 more in an open transaction of billing-1; 1 more beyond the last stable offset"
    )
    with pytest.raises(RequestTimedOut, match=re.escape(sentence) + "$"):
        broker.wait_for_records("orders", 3, timeout_ms=1)
    with pytest.raises(RequestTimedOut, match=r"holds 5 of 6 records after 1 ms: \[[^]]*\]$"):
        broker.wait_for_records("orders", 6, timeout_ms=1, isolation="uncommitted")
    assert len(broker.wait_for_records("orders", 6, isolation="all")) == 6


def test_waiting_for_uncommitted_records_shows_open_transactions(
    broker: Host, begin: Callable[[str], Confluent]
) -> None:
    begin("billing-1").produce("orders", b"open")
    assert values(broker.wait_for_records("orders", 1, isolation="uncommitted")) == [b"open"]


def test_the_records_are_those_of_a_read_committed_consumer(broker: Host, begin: Callable[[str], Confluent]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    for number in range(4):
        client = begin(f"billing-{number}")
        for partition in (0, 1):
            client.produce("orders", b"%d" % number, partition)
        if number < 3:
            (client.commit if number % 2 else client.abort)()
            broker.produce("orders", b"plain")
    until_ended(broker, 17)
    consumer: Any = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    try:
        consumer.assign([TopicPartition("orders", partition, 0) for partition in (0, 1)])
        consumed = []
        shown = broker.records("orders")
        while len(consumed) < len(shown):
            message = consumer.poll(30)
            assert message is not None
            consumed.append((message.partition(), message.offset(), message.value()))
        assert consumer.poll(0.05) is None
    finally:
        consumer.close()
    assert sorted(consumed) == [(record.partition, record.offset, record.value) for record in shown]


def test_the_log_start_offset_hides_what_was_deleted(broker: Host, begin: Callable[[str], Confluent]) -> None:
    client = begin("billing-1")
    for value in (b"one", b"two"):
        client.produce("orders", value)
    client.abort()
    until_ended(broker, 3)
    broker.delete_records("orders", 1)
    assert states(broker.records("orders", isolation="all")) == [(1, "aborted"), (2, "abort marker")]
    assert broker.records("orders") == []


def test_a_record_tells_its_topic_and_partition(broker: Host) -> None:
    broker.produce("orders", b"one", partition=1)
    (record,) = broker.records("orders")
    assert (record.topic, record.partition, record.offset, record.state) == ("orders", 1, 0, "committed")
    assert broker.records("orders", 1) == [record]
    assert broker.records("orders", 0) == []


def test_offsets_tell_the_last_stable_offset(begin: Callable[[str], Confluent], broker: Host) -> None:
    broker.produce("orders", b"one")
    client = begin("billing-1")
    client.produce("orders", b"two")

    def stable() -> set[tuple[int, int]]:
        told = broker.offsets("orders")
        each = [told] if isinstance(broker, Broker) else [told[broker.leader("orders")]]  # type: ignore[index, list-item]
        return {(one.last_stable_offset, one.high_watermark) for one in each}  # type: ignore[union-attr]

    assert stable() == {(1, 2)}
    client.commit()
    until_ended(broker, 3)
    assert stable() == {(3, 3)}


def test_a_follower_that_is_held_hides_what_it_has_not_and_the_message_says_so() -> None:
    with Cluster(brokers=2, topics={"orders": {"replication_factor": 2}}) as cluster:
        cluster.hold(3 - cluster.leader("orders"))

        async def produce() -> None:
            async with Client(cluster.bootstrap_servers) as client:
                await client.produce("orders", 0, [record(b"one")], acks=1)

        asyncio.run(produce())
        assert cluster.records("orders") == []
        with pytest.raises(RequestTimedOut, match=r"holds 0 of 1 .*; 1 more beyond the high watermark$"):
            cluster.wait_for_records("orders", 1, timeout_ms=1)


def test_a_wait_goes_on_when_another_broker_leads() -> None:
    with Cluster(brokers=2, topics={"orders": {"replication_factor": 2}}) as cluster:
        found: list[Record] = []
        waiter = threading.Thread(target=lambda: found.extend(cluster.wait_for_records("orders", 1, timeout_ms=60_000)))
        waiter.start()
        cluster.kill(cluster.leader("orders"))
        cluster.produce("orders", b"one")
        waiter.join(60)
        assert values(found) == [b"one"]


@pytest.fixture
def six_batches(broker: Host) -> Host:
    """Three batches of a record in each of two partitions."""
    for number in range(6):
        broker.produce("orders", b"%d" % number, partition=number % 2)
    return broker


@pytest.mark.parametrize(
    "read", [lambda broker: broker.records("orders"), lambda broker: broker.topic("orders").records()]
)
def test_a_topic_is_read_in_turns_of_the_loop(
    six_batches: Host, read: Callable[[Host], list[Record]], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = every_step_a_turn(monkeypatch)
    assert values(read(six_batches)) == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert len(turns) >= 6


def test_a_read_in_turns_has_the_records_of_its_beginning(six_batches: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = six_batches._operations
    every_step_a_turn(monkeypatch, lambda: operations.produce("orders", b"late", partition=1))
    assert values(six_batches.records("orders")) == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert values(six_batches.records("orders", 1)) == [b"1", b"3", b"5", b"late"]


def test_records_that_are_deleted_during_a_read_may_be_missing(
    six_batches: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = six_batches._operations
    every_step_a_turn(monkeypatch, lambda: operations.delete_records("orders", 2, partition=1))
    assert values(six_batches.records("orders")) == [b"0", b"2", b"4", b"5"]


def test_a_topic_that_is_deleted_during_a_read_is_told(six_batches: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = six_batches._operations
    every_step_a_turn(monkeypatch, lambda: operations.delete_topic("orders"))
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic orders"):
        six_batches.records("orders")


def test_a_topic_that_is_made_anew_during_a_read_is_told(six_batches: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = six_batches._operations

    async def make_anew() -> None:
        await operations.delete_topic("orders")
        await operations.create_topic("orders", partitions=2)

    every_step_a_turn(monkeypatch, make_anew)
    with pytest.raises(LeaderNotAvailable, match="orders-0: its leader, or the topic, has changed during this call"):
        six_batches.records("orders")
