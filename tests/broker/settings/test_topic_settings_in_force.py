"""Every topic setting of Kafka's does what it says, or says why it does nothing.

A claim shows a setting at work in a log that is there already, set for its topic and as the broker's default.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from kmini.broker.controller import elections, topics
from kmini.broker.controller.topology import NO_LEADER
from kmini.broker.settings.broker_config import BROKER_KEYS, TopicDefault
from kmini.protocol.errors import (
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    NotEnoughReplicas,
    PolicyViolation,
)
from kmini.protocol.records.batch import read_header
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import TOMBSTONE_HEADER
from kmini.storage.config_key import MAX_LONG
from kmini.storage.deletion import without_checkpoint
from kmini.storage.log_config import LogConfig
from support.broker.settings_at_work import Bench, Start
from support.for_each import for_each

TABLE = """
    cleanup.policy                    log.cleanup.policy                       delete
    segment.bytes                     log.segment.bytes                        1073741824
    segment.ms                        log.roll.ms                              604800000
    segment.jitter.ms                 log.roll.jitter.ms                       0
    segment.index.bytes               log.index.size.max.bytes                 10485760
    index.interval.bytes              log.index.interval.bytes                 4096
    retention.ms                      log.retention.ms                         604800000
    retention.bytes                   log.retention.bytes                      -1
    file.delete.delay.ms              log.segment.delete.delay.ms              60000
    flush.messages                    log.flush.interval.messages              9223372036854775807
    flush.ms                          log.flush.interval.ms                    9223372036854775807
    max.message.bytes                 message.max.bytes                        1048588
    min.insync.replicas               min.insync.replicas                      1
    unclean.leader.election.enable    unclean.leader.election.enable           false
    preallocate                       log.preallocate                          false
    compression.type                  compression.type                         producer
    compression.gzip.level            compression.gzip.level                   -1
    compression.lz4.level             compression.lz4.level                    9
    compression.zstd.level            compression.zstd.level                   3
    delete.retention.ms               log.cleaner.delete.retention.ms          86400000
    min.compaction.lag.ms             log.cleaner.min.compaction.lag.ms        0
    max.compaction.lag.ms             log.cleaner.max.compaction.lag.ms        9223372036854775807
    min.cleanable.dirty.ratio         log.cleaner.min.cleanable.ratio          0.5
    message.timestamp.type            log.message.timestamp.type               CreateTime
    message.timestamp.before.max.ms   log.message.timestamp.before.max.ms      9223372036854775807
    message.timestamp.after.max.ms    log.message.timestamp.after.max.ms       3600000
"""


ROWS = [tuple(line.split()) for line in TABLE.strip().splitlines()]


TOPICS_ONLY = ("kmini.tombstone.flag.enable", "kmini.tombstone.null.refuse")


Claim = Callable[["Bench"], Awaitable[None]]


CLAIMS: dict[str, Claim] = {}
"""By topic key."""


def claim(key: str) -> Callable[[Claim], Claim]:
    def bind(function: Claim) -> Claim:
        CLAIMS[key] = function
        return function

    return bind


@for_each(("topic_key", "broker_key", "default"), ROWS)
def test_names_and_defaults_are_kafkas(topic_key: str, broker_key: str, default: str) -> None:
    line = LogConfig.KEYS[topic_key]
    assert line.text(line.default) == default
    assert line.broker_keys[0] == broker_key
    behind = BROKER_KEYS[broker_key]
    assert isinstance(behind, TopicDefault)
    assert behind.topic_key is line


def test_every_setting_is_shown_at_work_or_says_why_it_is_not() -> None:
    keys = {topic_key for topic_key, *_ in ROWS} | LogConfig.KEYS.keys()
    idle = {key for key in keys if LogConfig.KEYS[key].no_effect}
    refused = {"remote.storage.enable"}  # which is false, and nothing else
    assert CLAIMS.keys() | idle | refused == keys
    assert not CLAIMS.keys() & idle


def test_the_word_for_no_limit_is_the_largest_number() -> None:
    assert LogConfig().flush_messages == MAX_LONG


@pytest.mark.sockets
@pytest.mark.parametrize("key", sorted(key for key, *_ in ROWS if not LogConfig.KEYS[key].no_effect))
async def test_it_is_in_force_at_once(bench: Bench, key: str) -> None:
    await CLAIMS[key](bench)


@pytest.mark.parametrize("key", TOPICS_ONLY)
async def test_it_is_in_force_at_once_in_a_topic_that_has_it(start: Start, key: str) -> None:
    broker = await start()
    topics.create(broker, "t")
    await CLAIMS[key](Bench(broker))


@claim("cleanup.policy")
async def compacted_topics_want_keys_and_have_no_records_deleted_by_offset(bench: Bench) -> None:
    bench.append(key=None)
    await bench.set("cleanup.policy", "compact")
    assert bench.refusal(key=None) is InvalidRecord
    with pytest.raises(PolicyViolation):
        bench.partition.delete_records(1, without_checkpoint)


@claim("segment.bytes")
async def a_full_segment_rolls(bench: Bench) -> None:
    size = len(bench.append())
    bench.append()
    assert bench.segments == 1
    await bench.set("segment.bytes", size)
    bench.append()
    bench.append()
    assert bench.segments == 3


@claim("segment.ms")
async def an_old_segment_rolls(bench: Bench) -> None:
    now_ms = bench.clock.now_ms()
    bench.append(timestamp=now_ms)
    await bench.set("segment.ms", 1_000)
    bench.append(timestamp=now_ms + 1_000)
    assert bench.segments == 1
    bench.append(timestamp=now_ms + 1_001)
    assert bench.segments == 2


@claim("segment.jitter.ms")
async def segments_roll_at_different_ages(bench: Bench) -> None:
    await bench.set("segment.jitter.ms", 1_000_000)
    jitters = set()
    for _ in range(8):
        bench.append()
        bench.log.roll(bench.clock.now_ms())
        jitters.add(bench.log.segments.active.roll_jitter_ms)
    assert len(jitters) > 1
    assert max(jitters) < 1_000_000


@claim("segment.index.bytes")
async def a_full_index_rolls(bench: Bench) -> None:
    await bench.set("segment.index.bytes", 12)
    await bench.set("index.interval.bytes", 0)
    bench.append()
    bench.log.roll(bench.clock.now_ms())  # the settings of indexes are those that a segment begins with, as in Kafka
    for _ in range(6):
        bench.append()
    assert bench.segments > 2


@claim("index.interval.bytes")
async def index_entries_lie_so_far_apart(bench: Bench) -> None:
    bench.append()
    await bench.set("index.interval.bytes", 0)
    bench.log.roll(bench.clock.now_ms())
    for _ in range(5):
        bench.append()
    assert len(bench.log.segments.active.offset_index) == 4


@claim("retention.ms")
async def old_segments_go(bench: Bench) -> None:
    bench.append()
    await bench.broker.housekeeping.apply_retention()
    assert bench.log.log_start_offset == 0
    await bench.set("retention.ms", 1_000)
    await bench.clock.advance(2_000)
    await bench.broker.housekeeping.apply_retention()
    assert bench.log.log_start_offset == 1


@claim("retention.bytes")
async def superfluous_segments_go(bench: Bench) -> None:
    size = len(bench.append())
    bench.log.roll(bench.clock.now_ms())
    bench.append()
    await bench.set("retention.bytes", size)
    await bench.broker.housekeeping.apply_retention()
    assert bench.log.log_start_offset == 1


@claim("file.delete.delay.ms")
async def deleted_files_stay_so_long(bench: Bench) -> None:
    bench.append()
    await bench.set("retention.ms", 0)
    await bench.set("file.delete.delay.ms", 7_000)
    await bench.clock.advance(10)
    await bench.broker.housekeeping.apply_retention()
    due_ms = bench.broker.logs.next_deletion_ms
    assert due_ms is not None
    assert 0 < due_ms - bench.clock.now_ms() <= 7_000
    await bench.clock.advance(7_001)
    assert not [name for name in os.listdir(bench.log.directory) if name.endswith(".deleted")]


@claim("flush.messages")
async def so_many_records_are_forced_to_disk(bench: Bench) -> None:
    bench.append()
    assert not bench.log.flush_is_due()
    await bench.set("flush.messages", 2)
    assert not bench.log.flush_is_due()
    bench.append()
    assert bench.log.flush_is_due()


@claim("flush.ms")
async def records_so_old_are_forced_to_disk(bench: Bench) -> None:
    bench.append()
    await bench.set("flush.ms", 60_000)
    assert not bench.log.flush_is_due()
    await bench.clock.advance(60_000)
    assert bench.log.flush_is_due()


@claim("max.message.bytes")
async def a_larger_batch_is_refused(bench: Bench) -> None:
    size = len(bench.append())
    await bench.set("max.message.bytes", size)
    bench.append()
    assert bench.refusal(value=b"longer than value") is MessageTooLarge


@claim("min.insync.replicas")
async def so_many_replicas_have_to_be_in_sync(bench: Bench) -> None:
    bench.partition.update(bench.partition.state._replace(replicas=(1, 2, 3)))
    bench.partition.check_min_isr()
    await bench.set("min.insync.replicas", 2)
    with pytest.raises(NotEnoughReplicas):
        bench.partition.check_min_isr()


@claim("unclean.leader.election.enable")
async def a_replica_that_lacks_records_leads_when_no_other_can(bench: Bench) -> None:
    controller = bench.broker.controller
    alone = controller.topics["t"].partitions[0]._replace(replicas=(1, 2), isr=(2,), leader=NO_LEADER)
    controller.change_partitions({(controller.topics["t"].id, 0): alone})
    elections.settle(controller, partial(topics.is_unclean_election_allowed, bench.broker.config))
    assert controller.topics["t"].partitions[0].leader == NO_LEADER
    await bench.set("unclean.leader.election.enable", "true")
    assert (controller.topics["t"].partitions[0].leader, controller.topics["t"].partitions[0].isr) == (1, (1,))


@claim("kmini.tombstone.flag.enable")
async def null_values_are_flagged(bench: Bench) -> None:
    name = TOMBSTONE_HEADER.encode() if isinstance(TOMBSTONE_HEADER, str) else bytes(TOMBSTONE_HEADER)
    assert name not in bench.append(value=None)
    await bench.set("kmini.tombstone.flag.enable", "true")
    assert name in bench.append(value=None)


@claim("kmini.tombstone.null.refuse")
async def null_values_that_are_not_flagged_are_refused(bench: Bench) -> None:
    await bench.set("kmini.tombstone.flag.enable", "true")
    bench.append(value=None)
    await bench.set("kmini.tombstone.null.refuse", "true")
    assert issubclass(bench.refusal(value=None), InvalidRecord)


@claim("compression.type")
async def batches_are_stored_so(bench: Bench) -> None:
    assert read_header(bench.append()).codec == Codec.NONE
    for name in ("gzip", "snappy", "lz4", "zstd"):
        await bench.set("compression.type", name)
        assert read_header(bench.append()).codec == Codec[name.upper()]


async def sizes_at(bench: Bench, codec: str, *levels: int) -> list[int]:
    text = " ".join(str(number**3 % 1_009) for number in range(5_000)).encode()
    await bench.set("compression.type", codec)
    sizes = []
    for level in levels:
        await bench.set(f"compression.{codec}.level", level)
        sizes.append(len(bench.append(value=text)))
    return sizes


@claim("compression.gzip.level")
async def gzip_works_harder(bench: Bench) -> None:
    low, high = await sizes_at(bench, "gzip", 1, 9)
    assert high < low


@claim("compression.lz4.level")
async def lz4_works_harder(bench: Bench) -> None:
    low, high = await sizes_at(bench, "lz4", 1, 17)
    assert high < low


@claim("compression.zstd.level")
async def zstd_works_harder(bench: Bench) -> None:
    low, high = await sizes_at(bench, "zstd", 1, 22)
    assert high < low


@claim("max.compaction.lag.ms")
async def a_segment_of_a_compacted_topic_rolls_in_time_to_be_compacted(bench: Bench) -> None:
    now_ms = bench.clock.now_ms()
    bench.append(timestamp=now_ms)
    await bench.set("max.compaction.lag.ms", 1_000)
    bench.append(timestamp=now_ms + 2_000)
    assert bench.segments == 1
    await bench.set("cleanup.policy", "compact")
    bench.append(timestamp=now_ms + 2_000)
    assert bench.segments == 2


@claim("delete.retention.ms")
async def a_tombstone_waits_for_readers(bench: Bench) -> None:
    await bench.set("cleanup.policy", "compact")
    await bench.set("delete.retention.ms", 7_000)
    bench.append(value=None)
    (report,) = await bench.broker.cleaner.compact(bench.partition.topic_partition)
    assert report.earliest_horizon_ms - report.started_ms == 7_000


@claim("min.compaction.lag.ms")
async def young_records_are_not_compacted(bench: Bench) -> None:
    await bench.set("cleanup.policy", "compact")
    await bench.set("min.compaction.lag.ms", 3_600_000)
    bench.append()
    (report,) = await bench.broker.cleaner.compact(bench.partition.topic_partition)
    assert report.end_offset == 0
    await bench.clock.advance(3_600_001)
    (report,) = await bench.broker.cleaner.compact(bench.partition.topic_partition)
    assert report.end_offset == 1


@claim("min.cleanable.dirty.ratio")
async def a_log_that_is_not_dirty_enough_is_not_compacted(bench: Bench) -> None:
    await bench.set("cleanup.policy", "compact")
    await bench.set("min.cleanable.dirty.ratio", 1)
    bench.append()
    bench.log.roll(bench.clock.now_ms())
    cleaner = bench.broker.cleaner
    await cleaner.look()
    assert cleaner.schedule.checkpoint.get(bench.partition.topic_partition) is None
    await bench.set("min.cleanable.dirty.ratio", 0.5)
    await cleaner.look()
    assert cleaner.schedule.checkpoint.get(bench.partition.topic_partition) == 1


@claim("message.timestamp.type")
async def records_carry_the_brokers_time(bench: Bench) -> None:
    assert not read_header(bench.append()).is_log_append_time
    await bench.set("message.timestamp.type", "LogAppendTime")
    assert read_header(bench.append(timestamp=5)).is_log_append_time


@claim("message.timestamp.before.max.ms")
async def a_record_of_long_ago_is_refused(bench: Bench) -> None:
    bench.append(timestamp=5)
    await bench.set("message.timestamp.before.max.ms", 60_000)
    assert bench.refusal(timestamp=5) is InvalidTimestamp


@claim("message.timestamp.after.max.ms")
async def a_record_of_the_future_is_refused(bench: Bench) -> None:
    assert bench.refusal(timestamp=bench.clock.now_ms() + 7_200_000) is InvalidTimestamp
    await bench.set("message.timestamp.after.max.ms", 10_000_000)
    bench.append(timestamp=bench.clock.now_ms() + 7_200_000)
