"""The timestamps of records: those of their producer, or with `timestamps="append"` those of the broker's clock."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.testing import Wire


def send_old_record(broker: Broker, topic: str) -> None:
    """As a real client does: with the time of the wall clock, or any other."""
    records = build_batch([Record(0, 1_700_000_000_000, b"a", b"1")])
    Topic = ProduceRequest.Topic
    part = Topic(name=topic, partition_data=[Topic.Partition(index=0, records=records)])
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[part]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_records_carry_the_time_of_who_sends_them() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.clock.advance("30d")
        send_old_record(broker, "orders")
        assert broker.records("orders")[0].timestamp == 1_700_000_000_000


def test_with_timestamps_append_they_carry_the_brokers_unless_a_topic_says_otherwise() -> None:
    with Broker(topics={"orders": 1}, timestamps="append") as broker:
        broker.create_topic("own", config={"message.timestamp.type": "CreateTime"})
        broker.clock.advance("30d")
        for topic in ("orders", "own"):
            send_old_record(broker, topic)
        assert broker.records("orders")[0].timestamp == pytest.approx(broker.clock.now_ms(), abs=60_000)
        assert broker.records("own")[0].timestamp == 1_700_000_000_000


def test_timestamps_are_of_two_kinds() -> None:
    with pytest.raises(ValueError, match=r'timestamps=.*: must be "create" or "append"'):
        Broker(timestamps="broker")  # type: ignore[arg-type]
