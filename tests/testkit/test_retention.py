"""Retention in a broker whose clock a test moves: when it looks, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kmini import Broker
from kmini.protocol.messages.describe_configs import TOPIC
from kmini.protocol.messages.incremental_alter_configs import SET, IncrementalAlterConfigsRequest
from kmini.storage import retention
from kmini.storage.log import PartitionLog
from kmini.testing import Wire


def segments(broker: Broker, topic: str) -> int:
    return len(list(Path(broker.data_dir or "").glob(f"broker-1/{topic}-0/*.log")))


def test_a_rolled_segment_is_left_to_retention() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"retention.bytes": 0, "file.delete.delay.ms": 0})
        for _ in range(2):
            broker.produce("orders", b"x")
            broker.topic("orders").roll()
        broker.topic("orders").roll()
        assert segments(broker, "orders") == 3, "an empty one is not rolled"
        broker.create_topic("others", config={"retention.bytes": 0})
        broker.produce("others", b"x")
        broker.topic("orders").apply_retention()
        assert broker.offsets("orders") == (2, 2, 2, 2)
        assert broker.offsets("others") == (0, 1, 1, 1)


def test_retention_that_had_nothing_to_do_for_a_month_begins_again_with_the_next_record() -> None:
    with Broker(topics={"orders": 1}, config={"log.retention.hours": 1}) as broker:
        for end in (1, 2):
            broker.produce("orders", b"x")
            broker.clock.advance("50m")
            assert broker.offsets("orders").log_start_offset == end - 1
            broker.clock.advance("20m")
            assert broker.offsets("orders").log_start_offset == end
            broker.clock.advance("30d")


def test_retention_that_never_had_anything_to_do_begins_when_a_setting_changes() -> None:
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.create_topic("orders", config={"retention.ms": -1})
        broker.produce("orders", b"x")
        broker.clock.advance("30d")
        Resource = IncrementalAlterConfigsRequest.Resource
        change = Resource.Config(name="retention.ms", config_operation=SET, value="1000")
        asked = Resource(resource_type=TOPIC, resource_name="orders", configs=[change])
        assert wire.ask(IncrementalAlterConfigsRequest(resources=[asked])).responses[0].error_code == 0
        broker.clock.advance("10m")
        assert broker.offsets("orders").log_start_offset == 1


def test_a_month_is_moved_through_without_looking_every_few_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(topics={"orders": 3}) as broker:
        broker.produce("orders", b"x")
        looks: list[int] = []
        original = retention.apply_retention

        def counted(log: PartitionLog, now_ms: int) -> int:
            looks.append(now_ms)
            return original(log, now_ms)

        monkeypatch.setattr(retention, "apply_retention", counted)
        broker.clock.advance("6d")
        assert len(looks) == 3, "each partition once"
        broker.clock.advance("24d")
        assert broker.offsets("orders").log_start_offset == 1
        assert len(looks) < 20
