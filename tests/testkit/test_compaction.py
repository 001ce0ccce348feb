"""Compaction that a test can await, and the handles of a topic and of the clock."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from kmini import Broker
from kmini.protocol.errors import InvalidRecord, PolicyViolation, UnknownTopicOrPartition
from kmini.protocol.messages.describe_configs import TOPIC
from kmini.protocol.messages.incremental_alter_configs import SET, IncrementalAlterConfigsRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.storage import retention
from kmini.storage.log import PartitionLog
from kmini.testing import ConnectionClosed, Wire

DAY_MS = 86_400_000
COMPACT = {"cleanup.policy": "compact"}


def segments(broker: Broker, topic: str) -> int:
    return len(list(Path(broker.data_dir or "").glob(f"broker-1/{topic}-0/*.log")))


def test_a_topic_is_compacted_when_the_call_returns() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=COMPACT)
        for value in (b"1", b"2", b"3"):
            broker.produce("profiles", value, key=b"a")
        broker.produce("profiles", b"1", key=b"b")
        (report,) = broker.topic("profiles").compact()
        assert (report.records_read, report.superseded) == (4, 2)
        assert [(record.offset, record.key) for record in broker.records("profiles")] == [(2, b"a"), (3, b"b")]


async def test_also_awaited() -> None:
    async with Broker() as broker:
        await broker.create_topic("profiles", 3, config=COMPACT)
        topic = broker.topic("profiles")
        await broker.produce("profiles", b"1", key=b"a", partition=1)
        assert len(await topic.compact()) == 3
        await topic.roll()
        await topic.apply_retention()
        (report,) = await topic.compact(1)
        assert report.records_read == 1
        assert await broker.clock.now_ms() > 0


def test_the_call_without_the_handle_does_the_same() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", 2, config=COMPACT)
        assert [len(broker.compact("profiles")), len(broker.compact("profiles", 1))] == [2, 1]


def test_the_report_says_what_was_read_and_kept_and_why_not_and_what_waits_and_until_when() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config={**COMPACT, "delete.retention.ms": DAY_MS})
        for key, value in ((b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", None), (b"c", None)):
            broker.produce("profiles", value, key=key)
        now_ms = broker.clock.now_ms()
        (report,) = broker.topic("profiles").compact()
        assert (report.records_read, report.records_kept, report.records_dropped) == (5, 3, 2)
        dropped = (report.superseded, report.expired_tombstones, report.aborted_records, report.keyless_records)
        assert (dropped, report.removed_markers) == ((2, 0, 0, 0), 0)
        assert report.tombstones_waiting == 2
        assert report.earliest_horizon_ms == pytest.approx(now_ms + DAY_MS, abs=60_000)
        assert report.horizons_ms == [report.earliest_horizon_ms]
        assert report.bytes_read > report.bytes_written > 0
        assert (report.segments_before, report.segments_after) == (1, 1)
        assert (report.first_dirty_offset, report.end_offset, report.keys) == (0, 5, 3)
        assert report.seconds > 0
        broker.clock.advance("2h")
        broker.produce("profiles", None, key=b"d")
        (later,) = broker.topic("profiles").compact()
        assert later.horizons_ms[0] == later.earliest_horizon_ms == report.earliest_horizon_ms
        assert later.horizons_ms[1:] == [pytest.approx(now_ms + 26 * 3_600_000, abs=60_000)]
        broker.clock.advance("25h")
        assert [record.key for record in broker.records("profiles")] == [b"a"]


def test_a_week_makes_tombstones_go() -> None:
    with Broker() as broker:
        broker.create_topic("profiles", config=COMPACT)
        broker.produce("profiles", b"1", key=b"a")
        broker.produce("profiles", None, key=b"a")
        (report,) = broker.topic("profiles").compact()
        assert report.tombstones_waiting == 1
        broker.clock.advance("7d")
        assert broker.records("profiles") == []


def test_a_topic_that_is_not_compacted_is_an_error() -> None:
    with Broker() as broker:
        broker.create_topic("plain")
        with pytest.raises(PolicyViolation):
            broker.topic("plain").compact()


def test_a_topic_that_is_not_there_is_an_error_when_it_is_asked() -> None:
    with Broker() as broker:
        topic = broker.topic("nowhere")
        for ask in (topic.compact, topic.roll, topic.apply_retention):
            with pytest.raises(UnknownTopicOrPartition):
                ask()


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


# --- bad input


def test_a_record_without_a_key_is_refused_with_its_index() -> None:
    keys = [b"a", None, b"b", None]
    records = build_batch([Record(0, 1_700_000_000_000, key, b"v") for key in keys])
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.create_topic("profiles", config=COMPACT)
        Topic = ProduceRequest.Topic
        part = Topic(name="profiles", partition_data=[Topic.Partition(index=0, records=records)])
        answer = wire.ask(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[part]), 9)
        refused = answer.responses[0].partition_responses[0]
        assert refused.error_code == InvalidRecord.code
        assert [error.batch_index for error in refused.record_errors] == [1, 3]
        assert all("without a key" in error.batch_index_error_message for error in refused.record_errors)
        assert broker.offsets("profiles") == (0, 0, 0, 0)
        with pytest.raises(InvalidRecord, match=r"record 0: .* without a key"):
            broker.produce("profiles", b"v")


# --- time


@pytest.mark.parametrize("duration", ["7d", "168h", timedelta(days=7), 7 * DAY_MS])
def test_the_clock_is_moved_by_what_people_say(duration: str | int | timedelta) -> None:
    with Broker() as broker:
        before = broker.clock.now_ms()
        broker.clock.advance(duration)
        assert 0 <= broker.clock.now_ms() - before - 7 * DAY_MS < 60_000


@pytest.mark.parametrize("duration", ["soon", "-7d", -1])
def test_it_is_not_moved_by_what_is_no_duration(duration: str | int) -> None:
    with Broker() as broker:
        before = broker.clock.now_ms()
        with pytest.raises(ValueError):
            broker.clock.advance(duration)
        assert broker.clock.now_ms() - before < DAY_MS


def test_liveness_moves_only_if_it_is_asked_for() -> None:
    """An idle connection is closed after ten minutes of it."""
    with Broker() as broker, Wire(broker.bootstrap_servers) as wire:
        broker.clock.advance("7d")
        assert wire.ask(MetadataRequest(topics=None)).brokers
        broker.clock.advance("20m", liveness=True)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()


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
