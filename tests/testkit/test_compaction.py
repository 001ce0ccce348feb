"""Compaction that a test can await, by the handle of a topic."""

from __future__ import annotations

import pytest

from kmini import Broker
from kmini.protocol.errors import InvalidRecord, PolicyViolation, UnknownTopicOrPartition
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.testing import Wire

DAY_MS = 86_400_000
COMPACT = {"cleanup.policy": "compact"}


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
