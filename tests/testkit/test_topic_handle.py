"""`broker.topic("orders")`: what a topic holds, waits for its records, and what the broker would do to it later."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import AsyncTopic, Broker, Cluster, Record, RecordsMissing, Topic, TopicPartitionState
from kmini.broker.scheduler import Turn
from kmini.protocol.errors import InvalidTopic, OffsetOutOfRange, RequestTimedOut, UnknownTopicOrPartition
from kmini.protocol.records.partitioner import partition_for_key
from support.transactional_clients import Confluent
from support.until import until

Host = Broker | Cluster


@pytest.fixture(scope="module", params=["broker", "cluster"])
def host(request: pytest.FixtureRequest, hosts: dict[str, Any]) -> Host:
    found: Host = hosts[request.param]
    return found


@pytest.fixture
def orders(host: Host, request: pytest.FixtureRequest) -> Iterator[Topic]:
    """A topic of three partitions, for one test."""
    host.create_topic("orders-of-a-test", 3)
    yield host.topic("orders-of-a-test")
    host.delete_topic("orders-of-a-test")


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_a_handle_of_a_topic_has_its_name_and_checks_it() -> None:
    for topic in (Broker().topic, Broker().aio.topic):
        assert topic("orders").name == "orders"
        with pytest.raises(TypeError, match="name=1: must be the name of a topic as str"):
            topic(1)  # type: ignore[arg-type]


# --- looking


def test_partitions_are_told_with_leaders_and_replicas() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", 2, replication_factor=2)
        cluster.kill(1)
        assert cluster.topic("orders").partitions() == [
            TopicPartitionState(0, 2, (1, 2), (2,)),
            TopicPartitionState(1, 2, (2, 1), (2,)),
        ]


def test_offsets_are_told_by_partition(orders: Topic) -> None:
    for value in (b"1", b"2"):
        orders.produce(value, partition=1)
    orders.delete_records(1, partition=1)
    assert orders.offsets() == {0: (0, 0, 0, 0), 1: (1, 2, 2, 2), 2: (0, 0, 0, 0)}


def test_records_are_chosen_by_partition_key_predicate_and_offset(orders: Topic) -> None:
    for number in range(6):
        orders.produce(b"%d" % number, key=b"even" if number % 2 == 0 else b"odd", partition=number % 3)
    assert values(orders.records()) == [b"0", b"3", b"1", b"4", b"2", b"5"]
    assert values(orders.records(1)) == [b"1", b"4"]
    assert values(orders.records(key=b"odd")) == [b"3", b"1", b"5"]
    assert values(orders.records(since=1)) == [b"3", b"4", b"5"]
    assert values(orders.records(1, key=b"even", since=1)) == [b"4"]
    assert values(orders.records(where=lambda record: record.text() > "3")) == [b"4", b"5"]
    assert orders.records(key=b"neither") == []


def test_a_mark_tells_old_records_from_new_ones_in_every_partition(orders: Topic) -> None:
    for partition in (0, 1, 1):
        orders.produce(b"old", partition=partition)
    mark = orders.mark()
    assert orders.records(since=mark) == []
    for partition in (1, 2):
        orders.produce(b"new", partition=partition)
    assert values(orders.records(since=mark)) == [b"new", b"new"]
    assert [record.partition for record in orders.records(since=mark)] == [1, 2]


def test_a_record_of_a_transaction_came_when_it_was_committed(host: Host, orders: Topic) -> None:
    client = Confluent(host.bootstrap_servers, "billing-of-a-test")
    try:
        client.begin()
        client.produce(orders.name, b"open")
        mark = orders.mark()
        assert values(orders.records(isolation="uncommitted")) == [b"open"]
        assert orders.records(since=mark, isolation="uncommitted") == []
        client.commit()
        assert values(orders.wait_for(1, since=mark)) == [b"open"]
    finally:
        client.close()


def test_all_records_of_a_topic_that_was_made_anew_came_since_the_mark(host: Host) -> None:
    topic = host.topic("made-anew")
    before_it_was_there = topic.mark()
    topic.produce(b"one")
    mark = topic.mark()
    host.delete_topic("made-anew")
    topic.produce(b"another")
    assert values(topic.records(since=mark)) == values(topic.records(since=before_it_was_there)) == [b"another"]
    host.delete_topic("made-anew")


def test_the_mark_of_another_topic_is_refused(host: Host, orders: Topic) -> None:
    mark = host.topic("orders").mark()
    for call in (orders.records, lambda since: orders.wait_for(1, since=since)):
        with pytest.raises(ValueError, match="since is a mark of orders, and this is orders-of-a-test"):
            call(since=mark)


# --- waiting


def wait_in_a_thread(topic: Topic, *args: Any, **kwargs: Any) -> tuple[threading.Thread, list[Record]]:
    found: list[Record] = []
    thread = threading.Thread(target=lambda: found.extend(topic.wait_for(*args, **kwargs)))
    thread.start()
    return thread, found


def test_a_wait_for_a_number_ends_with_the_last_record_that_is_meant(orders: Topic) -> None:
    orders.produce(b"earlier", key=b"42")
    thread, found = wait_in_a_thread(orders, 2, key=b"42", since=orders.mark())
    for value in (b"1", b"2"):
        orders.produce(b"other", key=b"43")
        assert thread.is_alive()
        orders.produce(value, key=b"42")
    thread.join(60)
    assert values(found) == [b"1", b"2"]


def test_a_wait_for_a_predicate_ends_with_the_record_that_it_takes(orders: Topic) -> None:
    thread, found = wait_in_a_thread(orders, lambda record: record.json()["state"] == "placed")
    orders.produce(b'{"state": "new"}', partition=1)
    orders.produce(b'{"state": "placed"}', partition=2)
    thread.join(60)
    assert [(record.partition, record.json()) for record in found] == [(2, {"state": "placed"})]


def test_a_predicate_and_where_both_have_to_take_a_record(orders: Topic) -> None:
    orders.produce(b"no")
    orders.produce(b"yes", key=b"42")
    found = orders.wait_for(lambda record: record.key is not None, where=lambda record: record.text() == "yes")
    assert values(found) == [b"yes"]
    with pytest.raises(RequestTimedOut):
        orders.wait_for(lambda record: record.key is None, where=lambda record: record.text() == "yes", timeout_ms=1)


def test_a_wait_sees_records_of_a_topic_that_is_created_meanwhile(host: Host) -> None:
    thread, found = wait_in_a_thread(host.topic("later"), 1, key=b"42")
    host.create_topic("later", 2)
    host.topic("later").produce(b"one", key=b"42")
    thread.join(60)
    assert values(found) == [b"one"]
    host.delete_topic("later")


def test_a_wait_goes_on_with_the_next_leader() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", replication_factor=2)
        orders = cluster.topic("orders")
        orders.produce(b"1")
        thread, found = wait_in_a_thread(orders, 2)
        cluster.kill(cluster.leader("orders"))
        orders.produce(b"2")
        thread.join(60)
        assert values(found) == [b"1", b"2"]


def test_an_error_of_a_predicate_ends_the_wait(orders: Topic) -> None:
    orders.produce(b"no JSON")
    with pytest.raises(ValueError, match="the value of the record at offset 0 of orders-of-a-test-0 is no JSON"):
        orders.wait_for(lambda record: bool(record.json()))
    errors: list[BaseException] = []
    mark = orders.mark()

    def wait() -> None:
        try:
            orders.wait_for(lambda record: bool(record.json()), since=mark)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    orders.produce(b"no JSON either")
    thread.join(60)
    assert [isinstance(error, ValueError) for error in errors] == [True]


def test_a_predicate_that_asks_the_broker_is_told_that_it_cannot(host: Host, orders: Topic) -> None:
    orders.produce(b"one")
    with pytest.raises(RuntimeError, match=r"the thread that the (broker|cluster) runs on cannot wait"):
        orders.wait_for(lambda record: bool(host.topics()))


def test_a_wait_in_vain_is_an_assertion_that_failed_and_a_time_out(orders: Topic) -> None:
    for kind in (AssertionError, RequestTimedOut, RecordsMissing):
        with pytest.raises(kind, match="orders-of-a-test holds 0 of 1 record after 1 ms"):
            orders.wait_for(1, timeout_ms=1)


def test_on_the_thread_of_a_running_loop_a_wait_returns_what_is_there_and_never_waits(
    host: Host, orders: Topic
) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError) as caught:
            orders.wait_for(1)
        what = "broker" if isinstance(host, Broker) else "cluster"
        assert str(caught.value) == (
            "wait_for would stop the event loop that your client runs on: "
            f"await {what}.aio.topic('orders-of-a-test').wait_for(...)"
        )
        orders.produce(b"one")
        assert values(orders.wait_for(1)) == [b"one"]

    asyncio.run(main())


def test_a_wait_is_awaited_while_the_same_loop_writes(host: Host, orders: Topic) -> None:
    async def main() -> None:
        topic = host.aio.topic(orders.name)
        assert type(topic) is AsyncTopic
        waiting = asyncio.ensure_future(topic.wait_for(1, key=b"42"))
        await topic.produce(b"one", key=b"42")
        assert values(await waiting) == [b"one"]

    asyncio.run(main())


# --- writing


def test_keys_choose_the_partition_as_in_kafkas_own_producer(orders: Topic) -> None:
    keys = [b"%d" % number for number in range(20)]
    partitions = [orders.produce(b"v", key=key).partition for key in keys]
    assert partitions == [partition_for_key(key, 3) for key in keys]
    assert {*partitions} == {0, 1, 2}
    assert orders.produce(b"v").partition == 0
    assert orders.produce(b"v", key=b"0", partition=2).partition == 2


def test_what_was_produced_is_returned_as_it_is_read(orders: Topic) -> None:
    written = orders.produce(b"v", key=b"k", headers={"source": "web"}, timestamp_ms=1_000_000)
    assert [written] == orders.records()
    assert written.timestamp == 1_000_000


def test_a_record_has_the_time_of_a_broker_that_stamps_it() -> None:
    with Broker(timestamps="append") as broker:
        written = broker.topic("orders").produce(b"v", timestamp_ms=1)
        assert [written] == broker.records("orders")
        assert written.timestamp > 1


def test_a_missing_topic_is_created_if_that_is_allowed(host: Host) -> None:
    assert host.topic("created-by-itself").produce(b"v", key=b"k").offset == 0
    host.delete_topic("created-by-itself")
    with pytest.raises(InvalidTopic, match="__consumer_offsets is internal"):
        host.topic("__consumer_offsets").produce(b"v")
    with (
        Broker(config={"auto.create.topics.enable": False}) as broker,
        pytest.raises(UnknownTopicOrPartition, match="there is no topic ordres; there are none"),
    ):
        broker.topic("ordres").produce(b"v")


def test_records_are_deleted_in_one_partition_or_in_all(orders: Topic) -> None:
    for partition in (0, 1, 2, 2):
        orders.produce(b"v", partition=partition)
    assert orders.delete_records(1, partition=2) == {2: 1}
    assert orders.delete_records() == {0: 1, 1: 1, 2: 2}
    assert orders.records() == []
    with pytest.raises(OffsetOutOfRange):
        orders.delete_records(2)


def test_a_wait_stops_reading_a_thousand_records_after_what_it_waits_for(orders: Topic) -> None:
    for number in range(1_500):
        orders.produce(b"%d" % number)
    assert values(orders.wait_for(1)) == [b"%d" % number for number in range(1_001)]
    assert len(orders.wait_for(1_200)) == 1_500
    assert values(orders.wait_for(lambda record: record.value == b"1499")) == [b"1499"]


def test_a_wait_in_vain_ends_in_time_though_the_topic_is_long(orders: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not read on to the end before it looks at the clock."""
    monkeypatch.setattr("kmini.testkit.contents.READ_BYTES", 1_000)
    monkeypatch.setattr("kmini.testkit.arrivals.CATCH_UP_MS", 1)
    monkeypatch.setattr("kmini.testkit.arrivals.Turn", lambda: Turn(0.0))
    for number in range(100):
        orders.produce(b"%d" % number)
    began_ns: list[int] = []

    def is_meant(record: Record) -> bool:
        """Takes longer than the time-out."""
        began_ns.append(time.monotonic_ns())
        until(lambda: time.monotonic_ns() - began_ns[0] > 5_000_000)
        return False

    with pytest.raises(RecordsMissing, match="not all of its records could be read in this time"):
        orders.wait_for(is_meant, timeout_ms=1)
    with pytest.raises(RecordsMissing, match=r"after 0 ms: \[\]; 100 others"):
        orders.wait_for(lambda record: False, timeout_ms=0)
