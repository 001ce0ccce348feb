"""KIP-534: a test for each sentence of the proposal that asks something of a broker.

What is kept here beyond Apache Kafka: a delete horizon that has passed is reason enough to clean a log, though no
client writes to it any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from kmini import Broker
from kmini.protocol.errors import NONE, MessageTooLarge
from kmini.protocol.messages.list_offsets import ListOffsetsRequest
from kmini.protocol.records.batch import DELETE_HORIZON, MAGIC, build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.old_formats.messages import build_messages
from kmini.protocol.records.record import Record
from kmini.testing import Wire
from support import client_adapters
from support.client_adapters import PYTHON_CLIENTS
from support.compacted_topic import CompactedTopic

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
def topic(broker: Broker) -> CompactedTopic:
    """Tombstones stay for a day."""
    return CompactedTopic(broker, delete_retention_ms=DAY_MS)


def compact(topic: CompactedTopic) -> int:
    """Roll and clean; when that was, in log time."""
    now_ms = topic.broker.clock.now_ms()
    topic.broker.topic(topic.name).compact()
    return now_ms


# What it is for


def test_a_reader_within_delete_retention_ms_does_not_miss_a_deletion(topic: CompactedTopic) -> None:
    topic.put(("a", "1"))
    assert topic.pairs() == [("a", "1")]
    topic.put(("a", None))
    topic.broker.clock.advance("6d")
    compact(topic)
    topic.broker.clock.advance("23h")
    assert topic.pairs() == [("a", None)]


def test_the_time_begins_when_the_tombstone_is_cleaned_and_not_when_it_is_written(topic: CompactedTopic) -> None:
    """Until then an application may have read the value before it."""
    topic.put(("a", "1"), ("a", None))
    topic.broker.clock.advance("6d")
    assert topic.horizons() == []
    now_ms = compact(topic)
    assert topic.horizons() == [pytest.approx(now_ms + DAY_MS, abs=60_000)]


@pytest.mark.parametrize("age_ms", [3650 * DAY_MS, -3650 * DAY_MS])
def test_how_old_the_files_are_does_not_matter(topic: CompactedTopic, age_ms: int) -> None:
    """KAFKA-4545, KAFKA-8522: the time a file was last modified is no estimate of when it was cleaned."""
    topic.put(("a", "1"), ("a", None))
    topic.broker.topic("profiles").roll()
    topic.put(("b", "1"))
    modified_s = (topic.broker.clock.now_ms() - age_ms) / 1000
    for _ in range(3):
        for path in topic.files():
            os.utime(path, (modified_s, modified_s))
        compact(topic)
        assert ("a", None) in topic.pairs()
    topic.broker.clock.advance("25h")
    assert topic.pairs() == [("b", "1")]


def test_merging_segments_does_not_move_a_horizon(topic: CompactedTopic) -> None:
    topic.put(("a", None))
    compact(topic)
    horizons = topic.horizons()
    for number in range(4):
        topic.put((f"{number}", "1"))
        topic.broker.clock.advance("1h")
        compact(topic)
        assert topic.horizons() == horizons
    assert len(topic.files()) == 2, "all but the active one have become one"


# Case 1: a normal batch


def test_1b_without_a_horizon_the_tombstone_stays_and_the_batch_gets_now_and_delete_retention_ms(
    topic: CompactedTopic,
) -> None:
    topic.put_batch(("a", "1"), ("b", None))
    now_ms = compact(topic)
    ((header, records),) = list(topic.batches())
    assert header.attributes & DELETE_HORIZON == 0x40
    assert header.base_timestamp == pytest.approx(now_ms + DAY_MS, abs=60_000)
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (b"b", None)]


def test_1a_with_a_horizon_the_tombstone_stays_while_now_is_before_it_and_then_goes(topic: CompactedTopic) -> None:
    topic.put_batch(("a", "1"), ("b", None))
    compact(topic)
    topic.broker.clock.advance("23h")
    compact(topic)
    assert topic.pairs() == [("a", "1"), ("b", None)]
    topic.broker.clock.advance("61m")
    compact(topic)
    assert topic.pairs() == [("a", "1")]


def test_a_batch_without_tombstones_gets_no_horizon(topic: CompactedTopic) -> None:
    topic.put_batch(("a", "1"), ("b", "1"))
    compact(topic)
    assert topic.horizons() == []


def test_a_horizon_is_set_once(topic: CompactedTopic) -> None:
    """A later pass, and another delete.retention.ms, change nothing about it."""
    topic.put(("a", None))
    compact(topic)
    horizons = topic.horizons()
    topic.broker.clock.advance("2h")
    compact(topic)
    assert topic.horizons() == horizons != []


def test_the_brokers_delete_retention_is_the_default_of_its_topics() -> None:
    with Broker(config={"log.cleaner.delete.retention.ms": HOUR_MS}) as broker:
        topic = CompactedTopic(broker)
        topic.put(("a", None), ("b", "1"))
        now_ms = compact(topic)
        assert topic.horizons() == [pytest.approx(now_ms + HOUR_MS, abs=60_000)]
        broker.clock.advance("61m")
        assert topic.pairs() == [("b", "1")]


# Case 2: a control batch


def test_2b_a_marker_has_no_horizon_while_records_of_its_transaction_remain(topic: CompactedTopic) -> None:
    topic.transaction("t", ("a", "1")).commit()
    topic.put(("b", "1"))
    for _ in range(3):
        compact(topic)
        topic.broker.clock.advance("2d")
    assert (topic.markers(), topic.horizons()) == (1, [])


def with_a_spent_marker(topic: CompactedTopic) -> int:
    """Two transactions, of the first of which the last pass, whose time it gives, has found nothing any more. (While
    its last batch is that of an active producer, an empty batch stays for its sequence.)"""
    topic.transaction("t", ("a", "1")).commit()
    topic.transaction("t", ("last", "1")).commit()
    topic.put(("a", "2"))
    compact(topic)
    assert (topic.markers(), topic.horizons()) == (2, [])
    return compact(topic)


def test_2b_a_marker_gets_a_horizon_when_no_records_of_its_transaction_remain(topic: CompactedTopic) -> None:
    now_ms = with_a_spent_marker(topic)
    assert topic.markers() == 2
    ((header, (record,)),) = [(header, records) for header, records in topic.batches() if header.has_delete_horizon]
    assert header.is_control
    assert header.base_timestamp == pytest.approx(now_ms + DAY_MS, abs=60_000)
    assert record.timestamp == header.max_timestamp == pytest.approx(now_ms, abs=60_000)


def test_2a_a_marker_with_a_horizon_stays_while_now_is_before_it_and_then_goes(topic: CompactedTopic) -> None:
    with_a_spent_marker(topic)
    topic.broker.clock.advance("23h")
    compact(topic)
    assert topic.markers() == 2
    topic.broker.clock.advance("61m")
    compact(topic)
    assert (topic.markers(), topic.horizons()) == (1, [])


def test_2b_the_data_of_an_aborted_transaction_goes_at_once_and_its_marker_a_pass_and_a_horizon_later(
    topic: CompactedTopic,
) -> None:
    topic.transaction("t", ("a", "undone")).abort()
    topic.transaction("t", ("last", "1")).commit()
    compact(topic)
    assert (topic.holds("undone"), topic.markers(), topic.horizons()) == (False, 2, [])
    compact(topic)
    assert (topic.markers(), len(topic.horizons())) == (2, 1)
    topic.broker.clock.advance("25h")
    assert (topic.markers(), topic.pairs()) == (1, [("last", "1")])


# The base timestamp is the horizon, and the deltas are adjusted


def mixed(now_ms: int, codec: int) -> tuple[bytearray, list[tuple[bytes, int]]]:
    """A batch with values and tombstones whose timestamps are all over the place, and its keys with them."""
    times = [now_ms - HOUR_MS, now_ms, now_ms - 1, now_ms - DAY_MS, now_ms - HOUR_MS + 1]
    records = [
        Record(0, at, b"%d-%d" % (codec, number), None if number % 2 else b"value") for number, at in enumerate(times)
    ]
    return build_batch(records, codec=codec), [(record.key or b"", record.timestamp) for record in records]


def fill_with_every_codec(topic: CompactedTopic) -> list[tuple[bytes, int]]:
    expected = []
    for codec in Codec:
        batch, pairs = mixed(topic.broker.clock.now_ms(), codec)
        expected += pairs
        assert topic.send(batch).error_code == NONE
    compact(topic)
    assert len(topic.horizons()) == len(Codec)
    return expected


def test_the_timestamp_of_a_record_is_what_it_was(topic: CompactedTopic) -> None:
    expected = fill_with_every_codec(topic)
    assert [(record.key, record.timestamp) for record in topic.broker.records("profiles")] == expected
    for header, records in topic.batches():
        assert header.max_timestamp == max(record.timestamp for record in records)
        assert all(record.timestamp < header.base_timestamp for record in records)


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning"
)
@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_clients_need_no_knowledge_of_it(topic: CompactedTopic, name: str) -> None:
    """They read the timestamps that were written, and no header or other trace of the horizon (the rejected second
    proposal would have shown it)."""
    if reason := client_adapters.why_unavailable(name):
        pytest.skip(reason)
    expected = fill_with_every_codec(topic)
    received = PYTHON_CLIENTS[name]().consume(topic.broker.bootstrap_servers, "profiles", 0, len(expected))
    assert [(record.key, record.timestamp) for record in received] == expected
    assert {record.headers for record in received} == {()}
    assert [record.value for record in received][:2] == [b"value", None]


def test_a_lookup_by_time_finds_what_it_found_before(topic: CompactedTopic) -> None:
    now_ms = topic.broker.clock.now_ms()
    for number in range(3):
        topic.put((f"{number}", None), timestamp_ms=now_ms + number * 1_000)
    compact(topic)
    Topic = ListOffsetsRequest.Topic
    with Wire(topic.broker.bootstrap_servers) as wire:
        for number in range(3):
            asked = Topic.Partition(partition_index=0, timestamp=now_ms + number * 1_000)
            response = wire.ask(ListOffsetsRequest(topics=[Topic(name="profiles", partitions=[asked])]))
            found = response.topics[0].partitions[0]
            assert (found.offset, found.timestamp) == (number, now_ms + number * 1_000)


def test_with_log_append_time_the_records_keep_the_brokers_time(broker: Broker) -> None:
    topic = CompactedTopic(broker, message_timestamp_type="LogAppendTime")
    topic.put_batch(("a", "1"), ("b", None))
    before = [record.timestamp for record in broker.records("profiles")]
    broker.clock.advance("2h")
    compact(topic)
    assert len(topic.horizons()) == 1
    assert [record.timestamp for record in broker.records("profiles")] == before


def test_a_batch_that_outgrows_max_message_bytes_is_still_written_and_read(
    broker: Broker, wire: Wire, make_batch: Callable[[int], bytearray]
) -> None:
    batch = make_batch(200)
    topic = CompactedTopic(broker, max_message_bytes=len(batch))
    assert topic.send(make_batch(201), wire=wire).error_code == MessageTooLarge.code
    assert topic.send(batch, wire=wire).error_code == NONE
    expected = [(record.key, record.timestamp) for record in broker.records("profiles")]
    compact(topic)
    ((header, _),) = list(topic.batches())
    assert header.size > len(batch)
    for _ in range(2):
        assert [(record.key, record.timestamp) for record in broker.records("profiles")] == expected
        topic.put(("next", "1"))
        compact(topic)
        broker.stop()
        for file in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):  # so that all of it is recovered
            (topic.directory.parent / file).unlink()
        broker.start()
        expected = [*expected[:200], *((record.key, record.timestamp) for record in broker.records("profiles")[200:])]


@pytest.fixture
def make_batch(broker: Broker) -> Callable[[int], bytearray]:
    """So many tombstones, whose timestamp deltas take one byte each."""
    now_ms = broker.clock.now_ms()

    def make(count: int) -> bytearray:
        return build_batch([Record(0, now_ms, b"%05d" % number, None) for number in range(count)])

    return make


# Older formats


def test_messages_of_magic_1_get_their_horizon_when_they_become_a_batch_that_can_hold_one(broker: Broker) -> None:
    """ "We can just add some documentation to note the limitation": docs/compaction.md does."""
    topic = CompactedTopic(broker)
    broker.stop()
    old = [Record(0, 1_700_000_000_000, b"a", b"1"), Record(1, 1_700_000_000_001, b"a", None)]
    topic.files()[0].write_bytes(build_messages(old, magic=1))
    (topic.directory.parent / ".kafka_cleanshutdown").unlink()
    broker.start()
    assert topic.pairs() == [("a", "1"), ("a", None)]
    now_ms = compact(topic)
    ((header, records),) = list(topic.batches())
    assert (header.magic, records) == (MAGIC, old[1:])
    assert topic.horizons() == [pytest.approx(now_ms + DAY_MS, abs=60_000)]


# Rejected: proposal 1


def test_the_checkpoint_stays_one_file_of_offsets(topic: CompactedTopic) -> None:
    topic.put(("a", None))
    compact(topic)
    assert (topic.directory.parent / "cleaner-offset-checkpoint").read_text() == "0\n1\nprofiles 0 1\n"
    assert not list(topic.directory.glob("*checkpoint*cleaner*"))


# "For approximately delete.retention.ms": and then they go


def test_a_passed_horizon_alone_makes_a_log_eligible(topic: CompactedTopic) -> None:
    """In Apache Kafka nothing wakes for it: without new dirty data a tombstone stays for ever."""
    topic.put(("a", None), ("b", "1"))
    compact(topic)
    topic.broker.clock.advance("23h")
    assert topic.pairs() == [("a", None), ("b", "1")]
    topic.broker.clock.advance("61m")
    assert topic.pairs() == [("b", "1")]
    assert not any(record.value is None for _, records in topic.batches() for record in records)


def test_horizons_one_after_the_other_are_each_kept(topic: CompactedTopic) -> None:
    """A pass for each, no two of them within the back-off."""
    started: list[int] = []
    schedule = topic.broker._operations.any_broker().cleaner.schedule
    picked = schedule._job

    def note(*job: object) -> object:
        started.append(topic.broker._operations.any_broker().clock.now_ms())
        return picked(*job)  # type: ignore[arg-type]

    for number in range(4):
        topic.put((f"{number}", None))
        compact(topic)
        topic.broker.clock.advance("1h")
    schedule._job = note  # type: ignore[method-assign, assignment]
    for left in (3, 2, 1, 0):
        topic.broker.clock.advance("20h" if left == 3 else "1h")
        topic.broker.clock.advance("1m")
        assert len(topic.pairs()) == left
    assert len(started) == 4
    assert all(later - earlier >= 15_000 for earlier, later in pairwise(started))


def test_a_horizon_is_kept_over_a_restart(topic: CompactedTopic) -> None:
    topic.put(("a", None), ("b", "1"))
    compact(topic)
    horizons = topic.horizons()
    for _ in range(2):
        topic.broker.stop()
        topic.broker.start()
        topic.broker.clock.advance("10h")
        assert (topic.horizons(), len(topic.pairs())) == (horizons, 2)
    topic.broker.stop()
    topic.broker.start()
    topic.broker.clock.advance("5h")
    assert topic.pairs() == [("b", "1")]


def test_one_that_has_passed_while_the_broker_was_down_is_found_after_its_start(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        topic = CompactedTopic(broker, delete_retention_ms=1)
        topic.put(("a", None), ("b", "1"))
        compact(topic)
        assert len(topic.horizons()) == 1
    with Broker(data_dir=tmp_path) as broker:
        topic = CompactedTopic(broker)
        broker.clock.advance("1m")
        assert topic.pairs() == [("b", "1")]
