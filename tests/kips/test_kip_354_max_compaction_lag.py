"""KIP-354: a test for each sentence of the proposal that asks something of a broker.

What is kept here beyond Apache Kafka: the active segment rolls, and the log is looked at, though no client writes; and
what is past the bound goes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.settings.broker_config import ConfigError
from kmini.protocol.errors import NONE, InvalidConfig
from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.describe_configs import BROKER, TOPIC, DescribeConfigsRequest
from kmini.protocol.messages.incremental_alter_configs import SET, IncrementalAlterConfigsRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.testing import Wire
from support.compacted_topic import CompactedTopic, gauge

MAX_LONG = "9223372036854775807"
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


@pytest.fixture
def bounded(broker: Broker) -> CompactedTopic:
    """Records are compacted after a day; by its dirty ratio the log never would be."""
    return CompactedTopic(broker, max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio="1.0")


def described(wire: Wire, resource_type: int, name: str, key: str) -> str | None:
    Resource = DescribeConfigsRequest.Resource
    asked = Resource(resource_type=resource_type, resource_name=name, configuration_keys=[key])
    (config,) = wire.ask(DescribeConfigsRequest(resources=[asked])).results[0].configs
    return config.value


def altered(wire: Wire, key: str, value: str) -> Any:
    """The answer to an alteration of the topic."""
    Resource = IncrementalAlterConfigsRequest.Resource
    change = Resource.Config(name=key, config_operation=SET, value=value)
    asked = Resource(resource_type=TOPIC, resource_name="profiles", configs=[change])
    (answer,) = wire.ask(IncrementalAlterConfigsRequest(resources=[asked])).responses
    return answer


# What it is for


def test_a_deleted_users_data_is_off_the_disk_within_the_bound(bounded: CompactedTopic) -> None:
    """The proposal's own example."""
    bounded.put(("1", "John Doe, 5555555"), ("2", "Jane Doe, 6666666"))
    bounded.put(("1", None), ("2", "Jane Doe"))
    bounded.broker.clock.advance("23h")
    assert bounded.holds("5555555")
    assert bounded.holds("6666666")
    bounded.broker.clock.advance("61m")
    assert not bounded.holds("5555555")
    assert not bounded.holds("6666666")
    assert bounded.pairs() == [("1", None), ("2", "Jane Doe")]


def test_a_new_value_leads_to_deletion_of_the_old_one_within_the_bound(bounded: CompactedTopic) -> None:
    for number in range(5):
        bounded.put(("1", f"value {number}"))
        bounded.broker.clock.advance("25h")
        bounded.broker.clock.advance("1m")
        assert [bounded.holds(f"value {earlier}") for earlier in range(number + 1)] == [False] * number + [True]


# The settings


def test_a_topic_has_a_bound_of_its_own(broker: Broker) -> None:
    short = CompactedTopic(broker, "short", max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio="1.0")
    long = CompactedTopic(broker, "long", max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio="1.0")
    for topic in (short, long):
        topic.put(("a", "old"), ("a", "new"))
    broker.clock.advance("2h")
    assert (short.holds("old"), long.holds("old")) == (False, True)
    broker.clock.advance("23h")
    assert not long.holds("old")


def test_there_is_no_bound_by_default(broker: Broker) -> None:
    topic = CompactedTopic(broker, min_cleanable_dirty_ratio="1.0")
    with Wire(broker.bootstrap_servers) as wire:
        assert described(wire, TOPIC, "profiles", "max.compaction.lag.ms") == MAX_LONG
        assert described(wire, BROKER, "1", "log.cleaner.max.compaction.lag.ms") == MAX_LONG
    topic.put(("a", "old"), ("a", "new"))
    topic.broker.topic("profiles").roll()
    broker.clock.advance("52w")
    assert topic.holds("old")
    assert topic.delay_secs() == 0


def test_the_brokers_setting_is_the_default_of_its_topics() -> None:
    with Broker(config={"log.cleaner.max.compaction.lag.ms": HOUR_MS}) as broker:
        plain = CompactedTopic(broker, "plain", min_cleanable_dirty_ratio="1.0")
        own = CompactedTopic(broker, "own", min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms=DAY_MS)
        for topic in (plain, own):
            topic.put(("a", "old"), ("a", "new"))
        broker.clock.advance("2h")
        assert (plain.holds("old"), own.holds("old")) == (False, True)


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ({"max.compaction.lag.ms": 0}, "max.compaction.lag.ms=0: must be at least 1"),
        ({"max.compaction.lag.ms": -1}, "max.compaction.lag.ms=-1: must be at least 1"),
        ({"max.compaction.lag.ms": "a day"}, "max.compaction.lag.ms=a day"),
        (
            {"max.compaction.lag.ms": 10, "min.compaction.lag.ms": 11},
            "min.compaction.lag.ms=11: must be at most max.compaction.lag.ms=10",
        ),
    ],
)
def test_a_bound_that_cannot_be_is_refused_naming_key_value_and_rule(
    broker: Broker, wire: Wire, configs: dict[str, str | int], told: str
) -> None:
    with pytest.raises(InvalidConfig) as refused:
        broker.create_topic("profiles", config={"cleanup.policy": "compact", **configs})
    assert told in str(refused.value)
    Topic = CreateTopicsRequest.Topic
    topic = Topic(
        name="profiles",
        num_partitions=1,
        replication_factor=1,
        configs=[Topic.Config(name=key, value=str(value)) for key, value in configs.items()],
    )
    (answer,) = wire.ask(CreateTopicsRequest(topics=[topic])).topics
    assert answer.error_code == InvalidConfig.code
    assert told in answer.error_message
    assert broker.topics() == []


def test_an_alteration_is_held_to_the_same_rule(broker: Broker, wire: Wire) -> None:
    CompactedTopic(broker, min_compaction_lag_ms=1_000)
    answer = altered(wire, "max.compaction.lag.ms", "999")
    assert answer.error_code == InvalidConfig.code
    assert "min.compaction.lag.ms=1000: must be at most max.compaction.lag.ms=999" in answer.error_message
    assert described(wire, TOPIC, "profiles", "max.compaction.lag.ms") == MAX_LONG


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"log.cleaner.max.compaction.lag.ms": 0}, "log.cleaner.max.compaction.lag.ms=0: must be at least 1"),
        (
            {"log.cleaner.max.compaction.lag.ms": 10, "log.cleaner.min.compaction.lag.ms": 11},
            "log.cleaner.min.compaction.lag.ms=11: must be at most log.cleaner.max.compaction.lag.ms=10",
        ),
    ],
)
def test_a_broker_does_not_start_with_a_bound_that_cannot_be(settings: dict[str, str | int], told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Broker(config=settings).start()
    assert told in str(refused.value)


def test_it_can_be_changed_while_the_broker_runs(broker: Broker, wire: Wire) -> None:
    topic = CompactedTopic(broker, min_cleanable_dirty_ratio="1.0")
    topic.put(("a", "old"), ("a", "new"))
    broker.clock.advance("2h")
    assert topic.holds("old")
    assert altered(wire, "max.compaction.lag.ms", str(HOUR_MS)).error_code == NONE
    broker.clock.advance("1m")
    assert not topic.holds("old")


# 1. Rolling


def test_the_active_segment_rolls_when_its_first_record_is_older_than_the_bound(bounded: CompactedTopic) -> None:
    """As in Apache Kafka, at an append; a segment with one record too old is not appended to."""
    now_ms = bounded.broker.clock.now_ms()
    bounded.put(("a", "1"), timestamp_ms=now_ms - DAY_MS - 60_000)
    bounded.put(("b", "1"), timestamp_ms=now_ms)
    assert [path.stem for path in bounded.files()] == [f"{0:020}", f"{1:020}"]


def test_the_active_segment_of_an_idle_topic_rolls_too(bounded: CompactedTopic) -> None:
    """In Apache Kafka it rolls with the next append only: what an idle topic holds stays for ever."""
    bounded.put(("a", "1"))
    bounded.broker.clock.advance("23h")
    assert len(bounded.files()) == 1
    bounded.broker.clock.advance("61m")
    assert [path.stem for path in bounded.files()] == [f"{0:020}", f"{1:020}"]


def test_an_empty_active_segment_does_not_roll(bounded: CompactedTopic) -> None:
    bounded.broker.clock.advance("30d")
    assert [path.stem for path in bounded.files()] == [f"{0:020}"]


def test_without_timestamps_the_age_of_the_active_segment_counts(bounded: CompactedTopic) -> None:
    bounded.put_batch(("a", "1"), timestamp_ms=-1)
    bounded.broker.clock.advance("23h")
    assert len(bounded.files()) == 1
    bounded.broker.clock.advance("61m")
    assert len(bounded.files()) == 2


@pytest.mark.parametrize(("lag_ms", "segment_ms"), [(DAY_MS, HOUR_MS), (HOUR_MS, DAY_MS)])
def test_the_time_to_roll_is_the_smaller_of_segment_ms_and_the_bound(
    broker: Broker, lag_ms: int, segment_ms: int
) -> None:
    topic = CompactedTopic(broker, max_compaction_lag_ms=lag_ms, segment_ms=segment_ms)
    topic.put(("a", "1"))
    broker.clock.advance("59m")
    assert len(topic.files()) == 1
    broker.clock.advance("2m")
    assert len(topic.files()) == 2


def test_it_applies_only_to_topics_that_are_compacted(broker: Broker) -> None:
    topic = CompactedTopic(broker, cleanup_policy="delete", retention_ms=-1, max_compaction_lag_ms=HOUR_MS)
    topic.put(("a", "1"), ("a", "2"))
    broker.clock.advance("2h")
    topic.put(("a", "3"))
    broker.clock.advance("2h")
    assert (len(topic.files()), topic.holds("1")) == (1, True)
    assert topic.delay_secs() == 0


# 2. The earliest timestamp of what is not compacted


def test_it_is_that_of_the_first_record_of_a_segment(bounded: CompactedTopic) -> None:
    """Not the largest of the segment before, which the proposal first wanted to take."""
    now_ms = bounded.broker.clock.now_ms()
    bounded.put(("a", "old"), ("a", "1"), timestamp_ms=now_ms)
    bounded.broker.topic("profiles").roll()
    bounded.put(("b", "1"), timestamp_ms=now_ms - DAY_MS - HOUR_MS)
    assert bounded.delay_secs() == pytest.approx(3600, abs=120)
    bounded.broker.clock.advance("1m")
    assert bounded.delay_secs() == 0
    assert not bounded.holds("old"), "the segment before goes along, though its own time has not come"


def test_of_a_batch_it_is_that_of_the_first_record_and_not_the_largest(bounded: CompactedTopic) -> None:
    now_ms = bounded.broker.clock.now_ms()
    records = [Record(0, now_ms - DAY_MS - HOUR_MS, b"a", b"1"), Record(0, now_ms, b"b", b"1")]
    bounded.send(build_batch(records))
    assert bounded.delay_secs() == pytest.approx(3600, abs=120)
    bounded.broker.clock.advance("1m")
    assert (len(bounded.files()), bounded.delay_secs()) == (2, 0)


def test_only_segments_that_are_not_compacted_count(bounded: CompactedTopic) -> None:
    bounded.put(("a", "1"))
    bounded.broker.topic("profiles").compact()
    bounded.broker.clock.advance("30d")
    assert bounded.delay_secs() == 0
    assert [path.stem for path in bounded.files()] == [f"{0:020}", f"{1:020}"]


def test_without_timestamps_a_segment_is_compacted_by_its_dirty_ratio_alone(bounded: CompactedTopic) -> None:
    """ "We decide to make this feature depend on the availability of the first message's timestamp." """
    bounded.put_batch(("a", "old"), ("a", "new"), timestamp_ms=-1)
    bounded.broker.clock.advance("30d")
    assert (len(bounded.files()), bounded.holds("old"), bounded.delay_secs()) == (2, True, 0)


def test_in_a_batch_with_a_delete_horizon_the_first_timestamp_is_base_and_first_delta(broker: Broker) -> None:
    """Its base timestamp is the horizon, in the future (KIP-534)."""
    now_ms = broker.clock.now_ms()
    topic = CompactedTopic(broker, max_compaction_lag_ms=DAY_MS, delete_retention_ms=30 * DAY_MS)
    topic.put(("a", None), timestamp_ms=now_ms - DAY_MS - HOUR_MS)
    broker.topic("profiles").compact()
    assert topic.horizons()[0] > now_ms
    broker.stop()
    (topic.directory.parent / "cleaner-offset-checkpoint").unlink()
    broker.start()
    assert topic.delay_secs() == pytest.approx(3600, abs=120)


def test_records_out_of_order_are_compacted_within_the_bound_and_twice_the_shift(bounded: CompactedTopic) -> None:
    """The proposal's footnote: the first record is D ahead of the clock, the second D behind it: D + M + D."""
    now_ms = bounded.broker.clock.now_ms()
    shift_ms = HOUR_MS // 2  # within message.timestamp.after.max.ms, which is an hour
    bounded.put(("a", "old"), timestamp_ms=now_ms + shift_ms)
    bounded.put(("a", "new"), timestamp_ms=now_ms - shift_ms)
    bounded.broker.clock.advance(DAY_MS + shift_ms - 60_000)
    assert bounded.holds("old")
    bounded.broker.clock.advance("2m")
    assert not bounded.holds("old")


# 3. Which log is compacted, and when


def test_past_the_bound_the_dirty_ratio_does_not_matter(bounded: CompactedTopic) -> None:
    for number in range(20):
        bounded.put((f"{number}", "clean"))
    bounded.broker.topic("profiles").compact()
    bounded.put(("0", "old"), ("0", "new"))
    bounded.broker.clock.advance("25h")
    assert not bounded.holds("old")


def test_before_the_bound_the_dirty_ratio_decides_as_ever(broker: Broker) -> None:
    eager = CompactedTopic(broker, "eager", max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio="0.5")
    lazy = CompactedTopic(broker, "lazy", max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio="1.0")
    for topic in (eager, lazy):
        topic.put(("a", "old"), ("a", "new"))
        broker.topic(topic.name).roll()
    broker.clock.advance("1m")
    assert (eager.holds("old"), lazy.holds("old")) == (False, True)


def test_before_the_bound_the_minimum_lag_decides_as_ever(broker: Broker) -> None:
    """It wins where records of a segment past the bound are younger than it."""
    topic = CompactedTopic(
        broker, max_compaction_lag_ms=DAY_MS, min_compaction_lag_ms=12 * HOUR_MS, min_cleanable_dirty_ratio="0.0"
    )
    topic.put(("a", "old"), ("a", "new"))
    broker.topic("profiles").roll()
    broker.clock.advance("11h")
    assert topic.holds("old")
    broker.clock.advance("2h")
    assert not topic.holds("old")


def test_logs_past_the_bound_go_first_by_must_clean_ratio_then_by_dirty_ratio(tmp_path: Path) -> None:
    """Apache Kafka cleans them, but the dirtiest log first."""
    order: list[str] = []
    with Broker(data_dir=tmp_path, config={"log.cleaner.backoff.ms": HOUR_MS}) as broker:
        now_ms = broker.clock.now_ms()
        late_ms = now_ms - DAY_MS - 60_000
        for name, clean, late, fresh in (("all", 0, 4, 0), ("half", 4, 4, 0), ("some", 4, 2, 6), ("dirtiest", 0, 0, 9)):
            topic = CompactedTopic(broker, name, max_compaction_lag_ms=DAY_MS, min_cleanable_dirty_ratio="0.1")
            for count, timestamp_ms in ((clean, now_ms), (late, late_ms), (fresh, now_ms)):
                topic.put(*(("k", f"{number}") for number in range(count)), timestamp_ms=timestamp_ms)
                broker.topic(name).roll()
                if timestamp_ms == now_ms and count and count == clean:
                    broker._thread.run(_mark_clean(broker, name))
        schedule = broker._operations.any_broker().cleaner.schedule
        picked = schedule._job
        schedule._job = lambda *job: order.append(job[0].topic) or picked(*job)  # type: ignore[method-assign]
        broker.clock.advance("2h")
    assert order[:4] == ["all", "half", "some", "dirtiest"]


async def _mark_clean(broker: Broker, name: str) -> None:
    core = broker._operations.any_broker()
    ((partition, log),) = ((at, log) for at, log in core.logs.logs.items() if at.topic == name)
    core.cleaner.schedule.checkpoint.set(partition, log.log_end_offset)


# 4. The metric


@pytest.fixture
def waiting(bounded: CompactedTopic) -> Iterator[CompactedTopic]:
    """A topic whose cleaner is switched off, in effect: an open transaction keeps it from being cleaned."""
    transaction = bounded.transaction("open", ("a", "old"))
    bounded.put(("a", "new"))
    yield bounded
    transaction.abort()


def test_the_gauge_is_now_less_the_earliest_timestamp_less_the_bound_in_seconds(waiting: CompactedTopic) -> None:
    assert waiting.delay_secs() == 0
    waiting.broker.clock.advance("23h")
    assert waiting.delay_secs() == 0
    waiting.broker.clock.advance("3h")
    assert waiting.delay_secs() == pytest.approx(2 * 3600, abs=120)


def test_it_is_of_type_gauge(broker: Broker) -> None:
    assert "# TYPE kafka_log_logcleaner_max_compaction_delay_secs gauge" in broker.metrics_text()


def test_it_is_the_largest_over_all_compacted_partitions(waiting: CompactedTopic) -> None:
    other = CompactedTopic(waiting.broker, "other", max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio="1.0")
    waiting.broker.clock.advance("25h")
    assert waiting.delay_secs() == pytest.approx(3600, abs=120)
    transaction = other.transaction("too", ("a", "1"))
    waiting.broker.clock.advance("24h")
    assert waiting.delay_secs() == pytest.approx(25 * 3600, abs=120)
    transaction.abort()


def test_what_an_open_transaction_holds_up_shows_and_is_gone_soon_after_its_end(broker: Broker) -> None:
    topic = CompactedTopic(broker, max_compaction_lag_ms=HOUR_MS, min_cleanable_dirty_ratio="1.0")
    topic.put(("a", "old"))
    transaction = topic.transaction("open", ("a", "new"))
    broker.clock.advance("3h")
    assert topic.holds("old")
    assert topic.delay_secs() == pytest.approx(2 * 3600, abs=120)
    transaction.commit()
    broker.clock.advance("2m")
    assert not topic.holds("old")
    broker.clock.advance("2h")
    assert topic.delay_secs() == 0


def test_what_an_uncleanable_log_holds_up_shows(bounded: CompactedTopic) -> None:
    bounded.put(("a", "old"), ("a", "new"))
    data = bytearray(bounded.files()[0].read_bytes())
    data[65] ^= 0xFF
    bounded.files()[0].write_bytes(data)
    bounded.broker.clock.advance("26h")
    assert bounded.delay_secs() == pytest.approx(2 * 3600, abs=120)
    assert gauge(bounded.broker, "kafka_log_logcleanermanager_uncleanable_partitions_count") == 1


# Over restarts


def test_the_bound_goes_on_over_a_restart(bounded: CompactedTopic) -> None:
    bounded.put(("a", "old"), ("a", "new"))
    bounded.broker.clock.advance("20h")
    bounded.broker.stop()
    bounded.broker.start()
    bounded.broker.clock.advance("3h")
    assert bounded.holds("old")
    bounded.broker.clock.advance("2h")
    assert not bounded.holds("old")


def test_a_bound_that_has_passed_while_the_broker_was_down_is_kept_soon_after_its_start(
    bounded: CompactedTopic,
) -> None:
    late_ms = bounded.broker.clock.now_ms() - 2 * DAY_MS
    bounded.put(("a", "old"), ("a", "new"), timestamp_ms=late_ms)
    bounded.broker.stop()
    bounded.broker.start()
    bounded.broker.clock.advance("1m")
    assert not bounded.holds("old")
