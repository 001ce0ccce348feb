"""The audit and the cleaner must mean the same: how dirty a log is, how late, and what a pass would drop."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kmini import Broker
from kmini.pipeline.audit import segment_facts
from kmini.pipeline.audit.report import Kind
from kmini.protocol.topics import TopicPartition
from kmini.storage.cleaner.dirtiness import Dirtiness, assess

from .directories import HOUR_MS, PROFILES, WITHOUT_CLEANER, audited, of_kind, only, policy

pytestmark = pytest.mark.sockets

ONLY_PROFILES = [("profiles", None)]


def cleaners_view(broker: Broker, topic: str = "profiles") -> Dirtiness:
    core = broker._operations.any_broker()
    partition = TopicPartition(topic, 0)
    checkpoint = core.cleaner.schedule.checkpoint.get(partition)
    return assess(core.replica_manager.leader_of(partition).log, checkpoint, core.clock.now_ms())


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_the_cleaner(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_facts, "PART_ROWS", 7)
    dice = random.Random(seed)
    lag = {"min.compaction.lag.ms": 2 * HOUR_MS} if seed % 2 else {}
    configs = PROFILES | {"segment.bytes": 700, "delete.retention.ms": 5 * HOUR_MS} | lag
    dropped = 0
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=configs)
        for _ in range(8):
            for _ in range(dice.randrange(30)):
                value = None if dice.random() < 0.2 else b"v" * dice.randrange(60)
                broker.produce("profiles", value, key=b"key-%d" % dice.randrange(12))
            broker.clock.advance(f"{dice.randrange(1, 5)}h")
            if dice.random() < 0.6:
                broker.topic("profiles").roll()
            expected = cleaners_view(broker)
            now_ms = broker.clock.now_ms()
            log = only(
                audited(broker, now_ms=now_ms, default=policy(configs), bucket_rows=5, spill_bytes=100), "profiles"
            )
            assert log.first_dirty_offset == expected.first_dirty_offset
            assert log.end_offset == expected.end_offset
            assert (log.clean_bytes, log.cleanable_bytes) == (expected.clean_bytes, expected.cleanable_bytes)
            assert log.dirty_ratio == pytest.approx(expected.ratio)
            assert log.compaction_delay_ms == pytest.approx(expected.delay_ms, abs=10_000)
            if dice.random() < 0.5 and not lag:
                broker.topic("profiles").roll()
                log = only(audited(broker, default=policy(configs), bucket_rows=5), "profiles")
                reports = broker.topic("profiles").compact()
                assert log.freeable_records == sum(report.records_dropped for report in reports)
                dropped += log.freeable_records
    assert lag or dropped


def test_aborted_data_is_dead_and_open_transactions_are_undecided(leaky_clients: None) -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(20)
        for value, ends in ((b"committed", "commit"), (b"aborted", "abort"), (b"open", "")):
            producer.begin_transaction()
            producer.produce("profiles", value, key=b"john")
            producer.produce("profiles", value, key=value)
            producer.flush(20)
            if ends:
                getattr(producer, f"{ends}_transaction")(20)
        log = only(audited(broker, topics=ONLY_PROFILES), "profiles")
        assert log.end_offset == cleaners_view(broker).end_offset
        assert log.dead_records == 3  # john=1, and what was aborted
        broker.clock.advance("25h")
        report = audited(broker, topics=ONLY_PROFILES)
        assert [finding.offset for finding in of_kind(report, Kind.SUPERSEDED)] == [0]
        (aborted,) = of_kind(report, Kind.ABORTED)
        assert (aborted.records, aborted.offset) == (2, 4)

        producer.abort_transaction(20)
        broker.topic("profiles").roll()
        dropped = only(audited(broker, topics=ONLY_PROFILES), "profiles").freeable_records
        (first,) = broker.topic("profiles").compact()
        assert dropped == first.records_dropped == 5
        # The marker of what was aborted first gets a horizon; of the other one the last batch's header is still there.
        broker.topic("profiles").compact()
        broker.clock.advance("25h")
        late = audited(broker, topics=ONLY_PROFILES)
        (marker,) = of_kind(late, Kind.MARKER)
        assert (marker.offset, marker.records) == (6, 1)
        assert marker.overdue_ms == pytest.approx(HOUR_MS, abs=10_000)
        assert only(late, "profiles").earliest_horizon_ms == pytest.approx(late.now_ms - HOUR_MS, abs=10_000)


def test_a_segment_that_ends_in_an_open_transaction_cannot_be_cleaned(leaky_clients: None) -> None:
    with Broker(config=WITHOUT_CLEANER) as broker:
        broker.create_topic("profiles", config=PROFILES)
        broker.produce("profiles", b"1", key=b"john")
        broker.topic("profiles").roll()
        broker.produce("profiles", b"2", key=b"john")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions(20)
        producer.begin_transaction()
        producer.produce("profiles", b"open", key=b"john")
        producer.flush(20)
        broker.topic("profiles").roll()
        log = only(audited(broker, topics=ONLY_PROFILES), "profiles")
        assert log.end_offset == cleaners_view(broker).end_offset == 1
        producer.abort_transaction(20)
        log = only(audited(broker, topics=ONLY_PROFILES), "profiles")
        assert log.end_offset == cleaners_view(broker).end_offset == 3


@pytest.mark.parametrize(("noted", "first_dirty"), [(-1, 2), (0, 2), (2, 2), (3, 3), (5, 5), (6, 2)])
def test_a_checkpoint_that_cannot_be_right_does_not_count(tmp_path: Path, noted: int, first_dirty: int) -> None:
    with Broker(config=WITHOUT_CLEANER, data_dir=tmp_path) as broker:
        broker.create_topic("profiles", config=PROFILES | {"cleanup.policy": "compact,delete"})
        for _ in range(5):
            broker.produce("profiles", b"1", key=b"john")
        broker.delete_records("profiles", 2)
        now_ms = broker.clock.now_ms()
    if noted >= 0:
        (tmp_path / "broker-1" / "cleaner-offset-checkpoint").write_text(f"0\n1\nprofiles 0 {noted}\n")
    assert only(audited(tmp_path, now_ms=now_ms), "profiles").first_dirty_offset == first_dirty
