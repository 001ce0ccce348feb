"""`Broker.produce` appends as a produce request with acks=all does, by the same rules. `test_argument_checks.py`
tests which values it takes."""

from __future__ import annotations

import pytest

from kmini import Broker, Cluster
from kmini.protocol.errors import (
    InvalidRecord,
    InvalidTopic,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    RequestTimedOut,
)
from kmini.protocol.topics import TopicPartition
from kmini.storage.flush import FlushWork
from support.until import PATIENCE


def recovery_point(broker: Broker) -> int:
    return broker._operations.any_broker().replica_manager.partitions[TopicPartition("orders", 0)].log.recovery_point


def test_produce_flushes_when_flush_messages_says_so() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"flush.messages": 2})
        broker.produce("orders", b"one")
        assert recovery_point(broker) == 0
        broker.produce("orders", b"two")
        assert recovery_point(broker) == 2


def test_a_produce_that_cannot_be_flushed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: FlushWork) -> None:
        raise KafkaStorageError("the disk is full")

    with Broker() as broker:
        broker.create_topic("orders", config={"flush.messages": 1})
        with monkeypatch.context() as patch:
            patch.setattr(FlushWork, "run", refuse)
            with pytest.raises(KafkaStorageError, match="the disk is full"):
                broker.produce("orders", b"one")


def test_produce_counts_in_the_metrics() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.produce("orders", b"one")
        broker.produce("orders", b"two")
        assert 'kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 2.0' in broker.metrics_text()


def test_produce_to_an_internal_topic_is_refused() -> None:
    with Broker() as broker:
        with pytest.raises(InvalidTopic, match="__consumer_offsets is internal"):
            broker.produce("__consumer_offsets", b"one")
        assert broker.topics() == []


def test_produce_of_more_than_max_message_bytes_is_refused() -> None:
    with Broker(config={"message.max.bytes": 1000}, topics={"orders": 1}) as broker:
        with pytest.raises(MessageTooLarge):
            broker.produce("orders", bytes(1001))
        assert broker.records("orders") == []


def test_produce_without_a_key_to_a_compacted_topic_is_refused() -> None:
    compacted = {"profiles": {"config": {"cleanup.policy": "compact"}}}
    with Broker(topics=compacted) as broker, pytest.raises(InvalidRecord):
        broker.produce("profiles", b"alice")


def test_produce_to_a_missing_topic_creates_it_as_a_client_would() -> None:
    with Broker(config={"num.partitions": 3}) as broker:
        broker.produce("orders", b"one", partition=2)
        assert [(record.partition, record.value) for record in broker.records("orders")] == [(2, b"one")]


REPLICATED = {"orders": {"replication_factor": 2, "config": {"min.insync.replicas": 2}}}


def test_produce_returns_when_every_replica_in_sync_has_the_record() -> None:
    with Cluster(brokers=2, topics=REPLICATED) as cluster:
        for count in range(1, 20):
            cluster.produce("orders", b"one")
            assert {offsets.log_end_offset for offsets in cluster.offsets("orders").values()} == {count}


def test_produce_without_enough_replicas_in_sync_is_refused() -> None:
    with Cluster(brokers=2, topics=REPLICATED) as cluster:
        cluster.kill(3 - cluster.leader("orders"))
        with pytest.raises(NotEnoughReplicas):
            cluster.produce("orders", b"one")
        assert cluster.records("orders", isolation="all") == []


def test_produce_that_a_replica_does_not_follow_times_out() -> None:
    with Cluster(brokers=2, topics=REPLICATED, config={"request.timeout.ms": 1}) as cluster:
        cluster.hold(3 - cluster.leader("orders"))
        with pytest.raises(RequestTimedOut, match="the replicas did not follow in time"):
            cluster.produce("orders", b"one")


# --- delete_records, by the rules of its request


def test_delete_records_returns_when_every_live_replica_has_followed() -> None:
    with Cluster(brokers=2, topics=REPLICATED) as cluster:
        for value in (b"one", b"two"):
            cluster.produce("orders", value)
        assert cluster.delete_records("orders", 1) == 1
        assert {offsets.log_start_offset for offsets in cluster.offsets("orders").values()} == {1}
        assert [record.value for record in cluster.records("orders")] == [b"two"]


def test_delete_records_that_a_replica_does_not_follow_times_out() -> None:
    with Cluster(brokers=2, topics=REPLICATED, config={"request.timeout.ms": 1_000 * PATIENCE}) as cluster:
        cluster.produce("orders", b"one")
        cluster.hold(3 - cluster.leader("orders"))
        with pytest.raises(RequestTimedOut, match="not every live replica has deleted the records"):
            cluster.delete_records("orders")


def test_delete_records_of_an_internal_topic_is_refused() -> None:
    with Cluster(brokers=1) as cluster:
        cluster.coordinator("billing")
        with pytest.raises(InvalidTopic, match="internal"):
            cluster.delete_records("__consumer_offsets", 0)
