"""`Broker.produce` appends as a produce request with acks=all does, by the same rules."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.protocol.errors import InvalidTopic, KafkaStorageError, MessageTooLarge
from kmini.protocol.topics import TopicPartition
from kmini.storage.flush import FlushWork


def recovery_point(broker: Broker) -> int:
    return broker._operations.core.partitions[TopicPartition("orders", 0)].log.recovery_point


def test_produce_flushes_when_flush_messages_says_so() -> None:
    with Broker() as broker:
        broker.create_topic("orders", configs={"flush.messages": 2})
        broker.produce("orders", b"one")
        assert recovery_point(broker) == 0
        broker.produce("orders", b"two")
        assert recovery_point(broker) == 2


def test_a_produce_that_cannot_be_flushed_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: FlushWork) -> None:
        raise KafkaStorageError("the disk is full")

    with Broker() as broker:
        broker.create_topic("orders", configs={"flush.messages": 1})
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
