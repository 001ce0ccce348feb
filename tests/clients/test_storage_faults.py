"""What real client libraries do when the broker's storage fails them: torn, slow, or emptied while they read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker
from support.librdkafka import impatient
from support.readers import READERS, Reader, reading

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0
CLIENTS = [*READERS]
FLUSHES_EACH = {"log.flush.interval.messages": 1}


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with an empty topic `orders`."""
    with Broker(topics=["orders"]) as broker:
        yield broker


def producer(broker: Broker, **config: Any) -> Any:
    return confluent.Producer(impatient(broker.bootstrap_servers, **config))


def deliver(client: Any, value: bytes, topic: str = "orders") -> Any:
    """Produce one record; return the error of its delivery report, or None."""
    reports: list[Any] = []
    client.produce(topic, value, partition=0, on_delivery=lambda error, record: reports.append(error))
    assert client.flush(TIMEOUT_S) == 0
    (error,) = reports
    return error


# --- after a crash


@contextlib.contextmanager
def torn_log(broker: Broker, name: str, reset: str = "earliest") -> Iterator[Reader]:
    """A reader of three records, the last of which a loss of power then has torn; the next record takes its offset."""
    for value in (b"0", b"1", b"2"):
        broker.produce("orders", value)
    with reading(name, broker.bootstrap_servers, reset=reset) as reader:
        reader.read(3)
        broker.crash(torn="orders")
        assert broker.offsets("orders").log_end_offset == 2
        yield reader


@pytest.mark.parametrize("name", ["confluent-kafka", "kafka-python"])
def test_a_reader_that_validates_goes_on_where_a_torn_log_ends(broker: Broker, name: str) -> None:
    with torn_log(broker, name) as reader:
        broker.produce("orders", b"new")
        assert [(found.offset, found.value) for found in reader.read(4)[2:]] == [(2, b"2"), (2, b"new")]


@pytest.mark.parametrize(("reset", "ends"), [("earliest", [b"2", b"0", b"1"]), ("none", [b"2"])])
def test_a_reader_that_does_not_validate_finds_its_offset_gone(broker: Broker, reset: str, ends: list[bytes]) -> None:
    with torn_log(broker, "aiokafka", reset) as reader:
        reader.poll_until(lambda: reader.errors or len(reader.records) == 5)
        assert [found.value for found in reader.records[2:]] == ends
        assert reader.errors == ([] if reset == "earliest" else ["OffsetOutOfRangeError"])


def test_an_idempotent_producer_fails_for_good_where_its_last_record_is_torn(broker: Broker) -> None:
    client = producer(broker, enable_idempotence=True)
    assert [deliver(client, value) for value in (b"0", b"1")] == [None, None]
    broker.crash(torn="orders")
    with contextlib.suppress(confluent.KafkaException, SystemError):  # which one, depends on where it is noticed
        deliver(client, b"2")
    with pytest.raises(confluent.KafkaException) as failed:
        client.produce("orders", b"3")
    assert failed.value.args[0].name() == "_FATAL"
    assert [record.value for record in broker.records("orders")] == [b"0"]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_finds_offsets_and_times_where_the_indexes_were_lost(broker: Broker, name: str) -> None:
    orders = broker.topic("orders")
    for timestamp in (1_000, 2_000, 3_000):
        orders.produce(b"%d" % timestamp, timestamp_ms=timestamp)
        orders.roll()
    with reading(name, broker.bootstrap_servers, offset=1) as reader:
        broker.crash(unindexed="orders")
        assert [found.offset for found in reader.read(2)] == [1, 2]
        assert reader.end_of_time(2_500) == 2


# --- syncs


def test_a_sync_that_fails_leaves_one_record_of_an_idempotent_producer() -> None:
    with Broker(topics=["orders"], config=FLUSHES_EACH) as broker:
        rule = broker.faults.on("disk", topic="orders").times(2).fail_fsync()
        assert deliver(producer(broker, enable_idempotence=True), b"placed") is None
        rule.assert_hit(times=2)
        assert [record.value for record in broker.records("orders")] == [b"placed"]


def test_only_producers_that_wait_for_a_slow_sync_are_late() -> None:
    with Broker(topics=["orders", "other"], config=FLUSHES_EACH) as broker:
        late, punctual = producer(broker), producer(broker)
        assert [deliver(late, b"first"), deliver(punctual, b"first", "other")] == [None, None]
        rule = broker.faults.on("disk", topic="orders").once().slow_fsync("400ms")
        reports: list[Any] = []
        began = time.monotonic()
        late.produce("orders", b"late", partition=0, on_delivery=lambda error, record: reports.append(error))
        late.poll(0)
        rule.wait_hit()
        assert deliver(punctual, b"punctual", "other") is None
        late.poll(0)
        assert reports == []
        assert late.flush(TIMEOUT_S) == 0
        assert reports == [None]
        assert time.monotonic() - began >= 0.4


# --- while a reader is on its way


@contextlib.contextmanager
def between_two_fetches(broker: Broker, name: str, reset: str, change: Callable[[], Any]) -> Iterator[Reader]:
    """A reader of the first record of `orders`, that was written by then; `change` happens before its next fetch."""
    broker.produce("orders", b"first", key=b"1")
    with reading(name, broker.bootstrap_servers, reset=reset) as reader:
        reader.read(1)
        with broker.faults.on("Fetch", topic="orders").hold() as held:
            reader.poll_until(lambda: held.blocked)
            change()
            held.release()
            reader.poll()
        yield reader


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_goes_on_behind_what_was_compacted_between_its_fetches(broker: Broker, name: str) -> None:
    broker.delete_topic("orders")
    broker.create_topic("orders", 1, {"cleanup.policy": "compact"})
    orders = broker.topic("orders")

    def compact() -> None:
        for value in (b"second", b"third"):
            orders.produce(value, key=b"1")
        orders.produce(b"other", key=b"2")
        orders.compact()

    with between_two_fetches(broker, name, "none", compact) as reader:
        assert [(found.offset, found.value) for found in reader.read(3)[1:]] == [(2, b"third"), (3, b"other")]
        assert reader.errors == []


def deleted_records(broker: Broker) -> None:
    for value in (b"second", b"third", b"fourth"):
        broker.produce("orders", value)
    broker.topic("orders").delete_records(3)


GONE = {
    "confluent-kafka": "_AUTO_OFFSET_RESET",
    "kafka-python": "OffsetOutOfRangeError",
    "aiokafka": "OffsetOutOfRangeError",
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_that_may_reset_begins_behind_deleted_records(broker: Broker, name: str) -> None:
    with between_two_fetches(broker, name, "earliest", lambda: deleted_records(broker)) as reader:
        assert [found.value for found in reader.read(2)] == [b"first", b"fourth"]


@pytest.mark.parametrize("name", CLIENTS)
def test_records_deleted_between_the_question_for_an_offset_and_its_fetch_are_missed(broker: Broker, name: str) -> None:
    broker.topic("orders").produce(b"first", timestamp_ms=1_000)
    with reading(name, broker.bootstrap_servers) as asking:
        offset = asking.end_of_time(1_000)
    assert offset == 0
    deleted_records(broker)
    with reading(name, broker.bootstrap_servers, offset=offset, reset="none") as reader:
        reader.poll_until(lambda: reader.errors)
        assert (reader.errors[0], reader.records) == (GONE[name], [])


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_goes_on_with_what_retention_has_left(broker: Broker, name: str) -> None:
    def retain() -> None:
        broker.produce("orders", b"second")
        broker.clock.advance("8d")
        broker.produce("orders", b"third")

    with between_two_fetches(broker, name, "earliest", retain) as reader:
        assert [found.value for found in reader.read(2)] == [b"first", b"third"]
        assert broker.offsets("orders").log_start_offset == 2
