"""What consumers of real client libraries make of logs that hold less than they ask for: compacted, cut off, hidden."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kmini import Broker, Cluster, Fault
from support.readers import READERS, Reader, reading
from support.transactional_clients import Confluent

confluent = pytest.importorskip("confluent_kafka")

TIMEOUT_S = 30.0
CLIENTS = [*READERS]
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}


def produce_batch(broker: Broker, *values: bytes) -> None:
    """Write these records to `orders` as one batch, with a real producer."""
    client = confluent.Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 60_000, "log_level": 0})
    for value in values:
        client.produce("orders", value, partition=0)
    assert client.flush(TIMEOUT_S) == 0


def fetched(broker: Broker) -> list[Any]:
    """The answers to fetches from now on, as their client gets them."""
    answers: list[Any] = []

    def note(request: Any, answer: Any) -> Any:
        answers.append(answer)
        return answer

    broker.faults.on("Fetch", name="note answers").respond(note)
    return answers


def partitions_in(answers: list[Any]) -> list[Any]:
    return [partition for answer in answers for topic in answer.responses for partition in topic.partitions]


# --- what is left of a log


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_goes_over_the_gaps_that_compaction_has_left(broker: Broker, name: str) -> None:
    broker.create_topic("users", 1, COMPACTED)
    users = broker.topic("users")
    for key in (b"1", b"2", b"1", b"3", b"1"):
        users.produce(b"name", key=key)
    users.compact()
    users.produce(b"name", key=b"4")
    with reading(name, broker.bootstrap_servers, "users") as reader:
        assert [found.offset for found in reader.read(4)] == [1, 3, 4, 5]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_gets_a_tombstone_until_it_is_compacted_away(broker: Broker, name: str) -> None:
    broker.create_topic("users", 1, COMPACTED)
    users = broker.topic("users")
    users.produce(b"Alice", key=b"1")
    users.produce(None, key=b"1")
    users.compact()
    users.produce(b"Bob", key=b"2")
    with reading(name, broker.bootstrap_servers, "users") as reader:
        assert [(found.offset, found.value) for found in reader.read(2)] == [(1, None), (2, b"Bob")]
    broker.clock.advance("2d")
    users.compact()
    with reading(name, broker.bootstrap_servers, "users") as reader:
        assert [(found.offset, found.value) for found in reader.read(1)] == [(2, b"Bob")]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_that_begins_inside_a_batch_leaves_out_what_comes_before(broker: Broker, name: str) -> None:
    produce_batch(broker, b"first", b"second", b"third")
    answers = fetched(broker)
    with reading(name, broker.bootstrap_servers, offset=1) as reader:
        assert [found.value for found in reader.read(2)] == [b"second", b"third"]
    records = next(bytes(one.records) for one in partitions_in(answers) if one.records)
    assert b"first" in records


# --- transactions


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_goes_over_control_batches(broker: Broker, name: str) -> None:
    producer = Confluent(broker.bootstrap_servers, "billing")
    for value, end in ((b"one", producer.commit), (b"two", producer.abort), (b"three", producer.commit)):
        producer.begin()
        producer.produce("orders", value)
        end()
    producer.close()
    for isolation, expected in (("read_uncommitted", [0, 2, 4]), ("read_committed", [0, 4])):
        with reading(name, broker.bootstrap_servers, isolation=isolation) as reader:
            assert [found.offset for found in reader.read(len(expected))] == expected
    with reading(name, broker.bootstrap_servers, offset=5) as reader:
        broker.produce("orders", b"behind the last marker")
        assert [found.offset for found in reader.read(1)] == [6]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_leaves_out_aborted_records_whatever_the_order_of_the_list_is(broker: Broker, name: str) -> None:
    producers = [Confluent(broker.bootstrap_servers, f"billing-{number}") for number in range(2)]
    for number, producer in enumerate(producers):
        producer.begin()
        producer.produce("orders", b"aborted %d" % number)
    for producer in producers[::-1]:  # the last to begin is the first to end: the list follows the ends
        producer.abort()
        producer.begin()
        producer.produce("orders", b"committed")
        producer.commit()
        producer.close()
    answers = fetched(broker)
    with reading(name, broker.bootstrap_servers) as reader:
        assert [found.value for found in reader.read(2)] == [b"committed", b"committed"]
    listed = [[one.first_offset for one in part.aborted_transactions or ()] for part in partitions_in(answers)]
    assert [1, 0] in listed


# --- what the broker says beside the records


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_reads_on_where_the_broker_keeps_no_fetch_sessions(name: str) -> None:
    config = {"max.incremental.fetch.session.cache.slots": 0}
    with Broker(topics=["orders"], config=config) as broker:
        answers = fetched(broker)
        with reading(name, broker.bootstrap_servers) as reader:
            for count in range(1, 4):
                broker.produce("orders", b"placed")
                assert len(reader.read(count)) == count
        assert {answer.session_id for answer in answers} == {0}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_question_for_a_time_without_records_has_no_offset(broker: Broker, name: str) -> None:
    for timestamp in (1_000, 2_000):
        broker.topic("orders").produce(b"placed", timestamp_ms=timestamp)
    with reading(name, broker.bootstrap_servers) as reader:
        assert [reader.end_of_time(timestamp) for timestamp in (0, 1_500, 2_001)] == [0, 1, None]


def produce_unreplicated(cluster: Cluster, *values: bytes) -> None:
    """Write records that the leader acknowledges and its held followers do not have."""
    client = confluent.Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": 1, "log_level": 0})
    for value in values:
        client.produce("orders", value, partition=0)
    assert client.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("name", CLIENTS)
def test_a_reader_waits_for_a_high_watermark_that_lags(name: str) -> None:
    with Cluster(brokers=2, topics={"orders": {"replication_factor": 2}}) as cluster:
        leader, follower = cluster.replicas("orders")
        cluster.wait_until_in_sync("orders")
        with reading(name, cluster.bootstrap_servers) as reader:
            cluster.hold(follower)
            produce_unreplicated(cluster, b"placed")
            fetches = cluster.faults.on("Fetch", topic="orders", client_id="*").delay(0)
            reader.poll_until(lambda: fetches.hits > 2)
            assert reader.records == []
            assert cluster.offsets("orders")[leader].log_end_offset == 1
            cluster.release(follower)
            assert [found.value for found in reader.read(1)] == [b"placed"]


# --- a log that was cut off (KIP-320)

VALIDATING = ["confluent-kafka", "kafka-python"]
"""The libraries that ask a new leader where the epoch of their position ends."""


@contextlib.contextmanager
def lost_leader(name: str, reset: str) -> Iterator[tuple[Reader, Fault]]:
    """A reader that has read records 0 to 2 of a leader, which then dies. The new leader has record 0 of it, and writes
    its own 1 to 3 before it answers the reader. The rule has seen the reader's questions for the end of an epoch."""
    topic = {"replication_factor": 2, "config": {"unclean.leader.election.enable": True}}
    with Cluster(brokers=2, topics={"orders": topic}) as cluster:
        leader, follower = cluster.replicas("orders")
        cluster.produce("orders", b"0")
        cluster.wait_until_in_sync("orders")
        with reading(name, cluster.bootstrap_servers, reset=reset) as reader:
            cluster.hold(follower)
            produce_unreplicated(cluster, b"1", b"2")
            cluster.advance_clock("1m", liveness=True)  # the follower is out of sync: readers get what it does not have
            reader.read(3)
            held = cluster.faults.on(["Fetch", "OffsetForLeaderEpoch"], broker=follower, client_id="*").hold()
            asked = cluster.faults.on("OffsetForLeaderEpoch", client_id="*").delay(0)
            cluster.kill(leader)
            for value in (b"new 1", b"new 2", b"new 3"):
                cluster.produce("orders", value)
            held.remove()
            yield reader, asked


@pytest.mark.parametrize("name", VALIDATING)
def test_a_reader_that_validates_its_position_goes_on_where_the_log_was_cut_off(name: str) -> None:
    with lost_leader(name, "earliest") as (reader, asked):
        records = reader.read(6)
        assert [(found.offset, found.value) for found in records[3:]] == [(1, b"new 1"), (2, b"new 2"), (3, b"new 3")]
        assert reader.errors == []
        asked.assert_hit()


@pytest.mark.parametrize(
    ("name", "error"), [("confluent-kafka", "_AUTO_OFFSET_RESET"), ("kafka-python", "LogTruncationError")]
)
def test_a_reader_that_may_not_reset_is_told_that_the_log_was_cut_off(name: str, error: str) -> None:
    with lost_leader(name, "none") as (reader, asked):
        reader.poll_until(lambda: reader.errors)
        assert reader.errors[0] == error
        asked.assert_hit()


def test_a_reader_that_does_not_validate_misses_what_was_written_over() -> None:
    with lost_leader("aiokafka", "earliest") as (reader, asked):
        assert [found.value for found in reader.read(4)] == [b"0", b"1", b"2", b"new 3"]
        assert asked.hits == 0


def test_kafka_python_asks_for_the_end_of_its_epoch_when_a_fetch_says_that_it_diverges() -> None:
    def diverge(request: Any, answer: Any) -> Any:
        for partition in partitions_in([answer]):
            partition.records = b""
            partition.diverging_epoch = type(partition).EpochEndOffset(epoch=0, end_offset=0)
        return answer

    def is_second(asked: Any) -> bool:
        return bool(asked.request.topics and asked.request.topics[0].partitions[0].fetch_offset == 1)

    # Without sessions each answer names the partition. The rule is there before the reader: an answer without records
    # and without a divergence would have the client forget the epoch of what it has read. A fetch that waits when the
    # rule comes would take a new record, so that there is none until the rule has acted.
    config = {"max.incremental.fetch.session.cache.slots": 0}
    with Broker(topics=["orders"], config=config, journal=True) as broker:
        broker.produce("orders", b"placed")
        asked = broker.faults.on("OffsetForLeaderEpoch").delay(0)
        with reading("kafka-python", broker.bootstrap_servers) as reader:
            with broker.faults.on("Fetch", version=">=12", where=is_second).respond(diverge) as told:
                reader.read(1)
                reader.poll_until(lambda: asked.hits, shown=lambda: broker.requests.all()[-20:])
            broker.produce("orders", b"paid")
            assert [found.value for found in reader.read(2)] == [b"placed", b"paid"]
            told.assert_hit()
