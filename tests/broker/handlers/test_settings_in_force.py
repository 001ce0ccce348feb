"""Every setting of Kafka's table of topic settings does what it says, or says why it does nothing.

A claim shows a setting at work in a log that is there already, set for its topic and as the broker's default.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kmini.broker.broker import Broker
from kmini.broker.clock import MovableClock
from kmini.broker.controller import elections, topics
from kmini.broker.controller.controller import NO_LEADER
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.replication.fetcher import Fetcher
from kmini.broker.replication.partition import Partition
from kmini.broker.settings.broker_config import BROKER_KEYS, BrokerConfig, TopicDefault
from kmini.broker.settings.config_changes import Alteration, Change, alter
from kmini.protocol.errors import (
    InvalidRecord,
    InvalidReplicationFactor,
    InvalidTimestamp,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    PolicyViolation,
    TopicDeletionDisabled,
)
from kmini.protocol.messages.delete_topics import DeleteTopicsRequest
from kmini.protocol.messages.describe_configs import BROKER, TOPIC
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.messages.init_producer_id import InitProducerIdRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.config_key import MAX_LONG
from kmini.storage.deletion import without_checkpoint
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.validation import validate
from support.broker.clusters import Clusters
from support.until import until_async

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

BEYOND_ITS_TABLE = """
    auto.create.topics.enable true       default.replication.factor 1          delete.topic.enable true
    fetch.max.bytes 57671680             log.initial.task.delay.ms 30000       log.retention.check.interval.ms 300000
    num.partitions 1                     num.recovery.threads.per.data.dir 2   replica.fetch.backoff.ms 1000
    replica.fetch.max.bytes 1048576      replica.fetch.min.bytes 1             replica.fetch.response.max.bytes 10485760
    replica.fetch.wait.max.ms 500        replica.lag.time.max.ms 30000         request.timeout.ms 30000
    auto.leader.rebalance.enable true    broker.session.timeout.ms 9000
    leader.imbalance.check.interval.seconds 300
    fetch.purgatory.purge.interval.requests 1000
    producer.purgatory.purge.interval.requests 1000
    delete.records.purgatory.purge.interval.requests 1
"""

AMONG_SEVERAL = [
    "auto.leader.rebalance.enable",
    "broker.session.timeout.ms",
    "leader.imbalance.check.interval.seconds",
    "replica.fetch.backoff.ms",
    "replica.fetch.max.bytes",
    "replica.fetch.min.bytes",
    "replica.fetch.wait.max.ms",
    "replica.lag.time.max.ms",
    "replica.fetch.response.max.bytes",
    "request.timeout.ms",
]
"""Settings about brokers among each other. replica.selector.class is in broker/replication/test_follower_reads.py."""

TOPICS_ONLY = ("kmini.tombstone.flag.enable", "kmini.tombstone.null.refuse")

ROOT = Path(__file__).resolve().parents[3]

Start = Callable[..., Awaitable[Broker]]
Ask = Callable[..., Awaitable[Any]]
Claim = Callable[["Bench"], Awaitable[None]]
BrokerClaim = Callable[[Start, Ask], Awaitable[None]]
StartCluster = Callable[..., Awaitable["Three"]]
ClusterClaim = Callable[[StartCluster, Ask], Awaitable[None]]
CLAIMS: dict[str, Claim] = {}
"""By topic key."""
BROKER_CLAIMS: dict[str, BrokerClaim] = {}
"""By broker key."""
CLUSTER_CLAIMS: dict[str, ClusterClaim] = {}
"""By broker key, of what is about several."""


def claim(key: str) -> Callable[[Claim], Claim]:
    def bind(function: Claim) -> Claim:
        CLAIMS[key] = function
        return function

    return bind


def broker_claim(key: str) -> Callable[[BrokerClaim], BrokerClaim]:
    def bind(function: BrokerClaim) -> BrokerClaim:
        BROKER_CLAIMS[key] = function
        return function

    return bind


def cluster_claim(key: str) -> Callable[[ClusterClaim], ClusterClaim]:
    def bind(function: ClusterClaim) -> ClusterClaim:
        CLUSTER_CLAIMS[key] = function
        return function

    return bind


class Bench:
    """A broker with one topic, on a clock that can be moved, and a way to change a setting of the topic's."""

    def __init__(self, broker: Broker, number: int = 0, *, is_default: bool = False) -> None:
        assert isinstance(broker.clock, MovableClock)
        self.broker = broker
        self.clock = broker.clock
        self.is_default = is_default
        self.partition: Partition = broker.leader_of(TopicPartition("t", number))
        self.log: PartitionLog = self.partition.log

    async def set(self, key: str, value: object) -> None:
        if self.is_default:
            alteration = Alteration(BROKER, "", [Change(LogConfig.KEYS[key].broker_keys[0], SET, str(value))])
        else:
            alteration = Alteration(TOPIC, "t", [Change(key, SET, str(value))])
        assert await alter(self.broker, [alteration], replaces=False, validate_only=False) == [None]

    def append(
        self, *, key: bytes | None = b"key", value: bytes | None = b"value", timestamp: int | None = None
    ) -> bytes:
        """Append a record as a producer would, and return the batch as it was stored."""
        now_ms = self.clock.now_ms()
        batch = build_batch([Record(0, now_ms if timestamp is None else timestamp, key, value)])
        validated = validate(memoryview(batch), self.log.config, now_ms)
        self.partition.append(validated, now_ms)
        return bytes(validated.records)

    def refusal(self, **record: object) -> type[KafkaError]:
        with pytest.raises(KafkaError) as raised:
            self.append(**record)  # type: ignore[arg-type]
        return type(raised.value)

    @property
    def segments(self) -> int:
        return len(self.log.segments)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """A maker of brokers on a clock that can be moved, each instead of the one before; underscores stand for dots."""
    started: list[Broker] = []

    async def start(**settings: object) -> Broker:
        if started:
            await started.pop().stop()
        properties = {name.replace("_", "."): str(value) for name, value in settings.items()}
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", **properties})
        broker = await Broker.start(config, str(tmp_path), clock=MovableClock())
        started.append(broker)
        return broker

    yield start
    for broker in started:
        await broker.stop()


@pytest.fixture(params=["as the topic's", "as the broker's"])
async def bench(request: pytest.FixtureRequest, start: Start) -> Bench:
    broker = await start()
    topics.create(broker, "t")
    return Bench(broker, is_default=request.param == "as the broker's")


class Three:
    """Three brokers on a clock that is moved, and the topic "t" with a replica on each."""

    def __init__(self, cluster: LocalCluster) -> None:
        assert isinstance(cluster.clock, MovableClock)
        self.cluster = cluster
        self.clock = cluster.clock

    @property
    def leader(self) -> int:
        return self.cluster.state(T0).leader

    @property
    def followers(self) -> list[Broker]:
        return [broker for node_id, broker in self.cluster.brokers.items() if node_id != self.leader]

    async def append(self, value: bytes = b"value", number: int = 0) -> None:
        """Append at the leader, as acks=1 does."""
        leader = self.cluster.brokers[self.cluster.state(TopicPartition("t", number)).leader]
        Bench(leader, number).append(value=value)

    def end(self, broker: Broker) -> int:
        return broker.logs.logs[T0].log_end_offset

    def fetcher(self, broker: Broker) -> Any:
        """How a follower follows the leader."""
        return broker.fetcher_manager._fetchers[self.leader]


T0 = TopicPartition("t", 0)


@pytest.fixture
async def start_cluster(clusters: Clusters) -> StartCluster:
    """A maker of clusters, each instead of the one before; underscores stand for dots."""

    async def start_cluster(partitions: int = 1, **settings: object) -> Three:
        await clusters.stop_all()
        cluster = await clusters.start(3, clock=MovableClock(), **settings)
        topics.create(cluster.brokers[1], "t", partitions=partitions, replication_factor=3)
        return Three(cluster)

    return start_cluster


# --- the table


@pytest.mark.parametrize(("topic_key", "broker_key", "default"), ROWS)
def test_names_and_defaults_are_kafkas(topic_key: str, broker_key: str, default: str) -> None:
    line = LogConfig.KEYS[topic_key]
    assert line.text(line.default) == default
    assert line.broker_keys[0] == broker_key
    behind = BROKER_KEYS[broker_key]
    assert isinstance(behind, TopicDefault)
    assert behind.topic_key is line


def test_names_and_defaults_of_brokers_are_kafkas() -> None:
    words = BEYOND_ITS_TABLE.split()
    assert {key: BROKER_KEYS[key].text(BROKER_KEYS[key].default) for key in words[::2]} == dict(
        zip(words[::2], words[1::2], strict=True)
    )


def test_every_setting_of_brokers_is_shown_at_work_or_says_why_it_is_not() -> None:
    keys = set(BEYOND_ITS_TABLE.split()[::2])
    idle = {key for key in keys if BROKER_KEYS[key].no_effect}
    assert CLUSTER_CLAIMS.keys() == {*AMONG_SEVERAL}
    assert BROKER_CLAIMS.keys() | CLUSTER_CLAIMS.keys() | idle == keys
    assert not (BROKER_CLAIMS.keys() | CLUSTER_CLAIMS.keys()) & idle


def test_no_setting_of_brokers_is_idle_without_saying_so() -> None:
    """Whatever has an effect is read somewhere outside of the table, unless there is but one value."""
    folders = [ROOT / "broker", ROOT / "embed"]
    files = [file for folder in folders for file in folder.rglob("*.py") if file != ROOT / "broker" / "config.py"]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    excepted = {"group.coordinator.rebalance.protocols", "transaction.two.phase.commit.enable"}
    excepted |= {"controller.listener.names", "listener.security.protocol.map", "log.dirs"}  # the table reads them
    idle = {
        line.name
        for line in BrokerConfig.KEYS.values()
        if not re.search(rf"\.{line.attribute}\b", text) and line.name not in excepted
    }
    assert idle <= {line.name for line in BrokerConfig.KEYS.values() if line.no_effect}


def test_every_setting_is_shown_at_work_or_says_why_it_is_not() -> None:
    keys = {topic_key for topic_key, *_ in ROWS} | LogConfig.KEYS.keys()
    idle = {key for key in keys if LogConfig.KEYS[key].no_effect}
    refused = {"remote.storage.enable"}  # which is false, and nothing else
    assert CLAIMS.keys() | idle | refused == keys
    assert not CLAIMS.keys() & idle


def test_the_word_for_no_limit_is_the_largest_number() -> None:
    assert LogConfig().flush_messages == MAX_LONG


@pytest.mark.parametrize("key", sorted(key for key, *_ in ROWS if not LogConfig.KEYS[key].no_effect))
async def test_it_is_in_force_at_once(bench: Bench, key: str) -> None:
    await CLAIMS[key](bench)


@pytest.mark.parametrize("key", TOPICS_ONLY)
async def test_it_is_in_force_at_once_in_a_topic_that_has_it(start: Start, key: str) -> None:
    broker = await start()
    topics.create(broker, "t")
    await CLAIMS[key](Bench(broker))


@pytest.mark.parametrize("key", sorted({*BEYOND_ITS_TABLE.split()[::2]} - {*AMONG_SEVERAL}))
async def test_it_is_in_force_when_the_broker_starts(start: Start, ask: Ask, key: str) -> None:
    if not BROKER_KEYS[key].no_effect:
        await BROKER_CLAIMS[key](start, ask)


@pytest.mark.parametrize("key", AMONG_SEVERAL)
async def test_it_is_in_force_among_several_brokers(start_cluster: StartCluster, ask: Ask, key: str) -> None:
    await CLUSTER_CLAIMS[key](start_cluster, ask)


# --- the claims


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
    assert not bench.log.flush_is_due
    await bench.set("flush.messages", 2)
    assert not bench.log.flush_is_due
    bench.append()
    assert bench.log.flush_is_due


@claim("flush.ms")
async def records_so_old_are_forced_to_disk(bench: Bench) -> None:
    bench.append()
    await bench.set("flush.ms", 60_000)
    assert not bench.log.flush_is_due
    await bench.clock.advance(60_000)
    assert bench.log.flush_is_due


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
    elections.settle(controller, bench.broker.is_unclean_election_allowed)
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


# --- the claims about brokers


@broker_claim("num.partitions")
async def topics_have_so_many_partitions(start: Start, ask: Ask) -> None:
    broker = await start(num_partitions=3)
    assert len(topics.create(broker, "t").partitions) == 3


@broker_claim("default.replication.factor")
async def topics_have_so_many_replicas(start: Start, ask: Ask) -> None:
    broker = await start(default_replication_factor=2)
    with pytest.raises(InvalidReplicationFactor):
        topics.create(broker, "t")


@broker_claim("auto.create.topics.enable")
async def asking_for_a_topic_makes_it(start: Start, ask: Ask) -> None:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True)
    for value in ("false", "true"):
        broker = await start(auto_create_topics_enable=value)
        await ask(broker, request, 9)
        assert (broker.controller.topic("t") is not None) == (value == "true")


@broker_claim("delete.topic.enable")
async def topics_can_be_deleted(start: Start, ask: Ask) -> None:
    broker = await start(delete_topic_enable="false")
    topics.create(broker, "t")
    (told,) = (await ask(broker, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)).responses
    assert told.error_code == TopicDeletionDisabled.code


@broker_claim("fetch.max.bytes")
async def a_fetch_brings_so_much(start: Start, ask: Ask) -> None:
    Topic = FetchRequest.Topic
    broker = await start(fetch_max_bytes=1_024)
    topics.create(broker, "t", partitions=2)
    for number in range(2):
        bench = Bench(broker, number)
        bench.append(value=b"x" * 2_000)
    wanted = [Topic.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(2)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[Topic(topic="t", partitions=wanted)])
    (topic,) = (await ask(broker, request, 11)).responses
    assert sorted(bool(partition.records) for partition in topic.partitions) == [False, True]


@broker_claim("log.retention.check.interval.ms")
@broker_claim("log.initial.task.delay.ms")
async def retention_is_looked_at_so_often(start: Start, ask: Ask) -> None:
    broker = await start(log_initial_task_delay_ms=1_000, log_retention_check_interval_ms=60_000, log_retention_ms=0)
    topics.create(broker, "t")
    bench = Bench(broker)
    bench.append()
    await bench.clock.advance(1_100)
    assert bench.log.log_start_offset == 1
    bench.append()
    await bench.clock.advance(30_000)
    assert bench.log.log_start_offset == 1
    await bench.clock.advance(30_000)
    assert bench.log.log_start_offset == 2


@broker_claim("num.recovery.threads.per.data.dir")
async def so_many_threads_recover_logs(start: Start, ask: Ask) -> None:
    opened = []
    load = LogManager._load
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogManager, "_load", lambda self, threads: (opened.append(threads), load(self, threads)))
        await start(num_recovery_threads_per_data_dir=5)
    assert opened == [5]


@pytest.mark.parametrize(("key", "option"), [("send", socket.SO_SNDBUF), ("receive", socket.SO_RCVBUF)])
async def test_connections_inherit_buffers_as_large_as_asked_for(start: Start, key: str, option: int) -> None:
    sizes = []
    for size in (20_000, 40_000):
        broker = await start(**{f"socket_{key}_buffer_bytes": size})
        (listening,) = broker.server._servers[0].sockets  # type: ignore[attr-defined]
        sizes.append(listening.getsockopt(socket.SOL_SOCKET, option))
    assert 20_000 <= sizes[0] < sizes[1]  # Linux tells the double


# --- the claims about several brokers


@cluster_claim("replica.lag.time.max.ms")
async def followers_that_lag_for_so_long_leave_the_isr(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_lag_time_max_ms=60_000)
    late = three.followers[0]
    await three.append()
    await until_async(lambda: three.end(late) == 1)
    await late.fetcher_manager.hold()
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert late.config.node_id in three.cluster.state(T0).isr
    await three.clock.advance(100_000, liveness=True)
    await until_async(lambda: late.config.node_id not in three.cluster.state(T0).isr)


@cluster_claim("broker.session.timeout.ms")
async def brokers_that_are_not_heard_of_for_so_long_are_dead(start: StartCluster, ask: Ask) -> None:
    three = await start(broker_session_timeout_ms=60_000)
    lost = three.leader
    await three.cluster.cut_off(lost)
    await three.clock.advance(30_000, liveness=True)
    assert three.leader == lost
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: three.leader != lost)


@cluster_claim("auto.leader.rebalance.enable")
@cluster_claim("leader.imbalance.check.interval.seconds")
async def leadership_returns_to_the_first_replica_so_often(start: StartCluster, ask: Ask) -> None:
    for is_enabled in ("true", "false"):
        settings = {"auto_leader_rebalance_enable": is_enabled, "leader_imbalance_check_interval_seconds": 600}
        three = await start(**settings)
        first, second, _ = three.cluster.state(T0).replicas
        three.cluster.move_leader(T0, second)
        await three.clock.advance(300_000, liveness=True)
        assert three.leader == second
        await three.clock.advance(400_000, liveness=True)
        assert three.leader == (first if is_enabled == "true" else second)


@cluster_claim("replica.fetch.min.bytes")
async def followers_wait_for_so_much(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_min_bytes=5_000, replica_fetch_wait_max_ms=600_000)
    leader = three.cluster.brokers[three.leader]
    await until_async(lambda: len(leader.purgatory) == 2)
    await three.append()
    assert len(leader.purgatory) == 2
    assert leader.purgatory.released == 0
    await three.append(b"x" * 5_000)
    await until_async(lambda: [three.end(follower) for follower in three.followers] == [2, 2])


@cluster_claim("replica.fetch.wait.max.ms")
async def followers_wait_for_so_long(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_min_bytes=5_000, replica_fetch_wait_max_ms=60_000)
    leader = three.cluster.brokers[three.leader]
    await until_async(lambda: len(leader.purgatory) == 2)
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert [three.end(follower) for follower in three.followers] == [0, 0]
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: [three.end(follower) for follower in three.followers] == [1, 1])


async def batches_a_fetch(three: Three, partitions: int, appends: int) -> list[int]:
    """How many records each answer brought a follower that had stood still."""
    brought: list[int] = []
    follow, take = PartitionLog.append_as_follower, Fetcher._take

    def counting(self: PartitionLog, *arguments: Any, **options: Any) -> Any:
        before = self.log_end_offset
        result = follow(self, *arguments, **options)
        brought[-1] += self.log_end_offset - before
        return result

    async def beginning(self: Fetcher, *arguments: Any) -> None:
        brought.append(0)
        await take(self, *arguments)

    (late, other) = three.followers
    await other.fetcher_manager.hold()
    await late.fetcher_manager.hold()
    for number in range(partitions):
        for _ in range(appends):
            await three.append(number=number)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PartitionLog, "append_as_follower", counting)
        patch.setattr(Fetcher, "_take", beginning)
        late.fetcher_manager.release()
        logs = [late.logs.logs[TopicPartition("t", number)] for number in range(partitions)]
        await until_async(lambda: [log.log_end_offset for log in logs] == [appends] * partitions)
    return [count for count in brought if count]


@cluster_claim("replica.fetch.max.bytes")
async def followers_fetch_so_much_of_a_partition(start: StartCluster, ask: Ask) -> None:
    assert await batches_a_fetch(await start(), 1, 3) == [3]
    assert await batches_a_fetch(await start(replica_fetch_max_bytes=1), 1, 3) == [1, 1, 1]


@cluster_claim("replica.fetch.response.max.bytes")
async def followers_fetch_so_much_at_once(start: StartCluster, ask: Ask) -> None:
    assert await batches_a_fetch(await start(), 1, 3) == [3]
    assert await batches_a_fetch(await start(replica_fetch_response_max_bytes=1), 1, 3) == [1, 1, 1]


@cluster_claim("replica.fetch.backoff.ms")
async def followers_pause_so_long_after_an_error(start: StartCluster, ask: Ask) -> None:
    three = await start(replica_fetch_backoff_ms=60_000, broker_session_timeout_ms=10_000_000)
    follower, leader = three.followers[0], three.leader
    await three.cluster.cut_off(leader)
    await until_async(lambda: three.fetcher(follower)._is_pausing)
    three.cluster.reconnect(leader)
    await three.append()
    await three.clock.advance(30_000, liveness=True)
    assert three.fetcher(follower)._is_pausing
    await three.clock.advance(40_000, liveness=True)
    await until_async(lambda: three.end(follower) == 1)


@cluster_claim("request.timeout.ms")
async def coordinators_wait_so_long_for_replicas(start: StartCluster, ask: Ask) -> None:
    three = await start(request_timeout_ms=60_000, replica_lag_time_max_ms=10_000_000)
    found = await ask(three.cluster.brokers[1], FindCoordinatorRequest(key="mine", key_type=1), 3)
    coordinator = three.cluster.brokers[found.node_id]
    for broker in three.cluster.brokers.values():
        await broker.fetcher_manager.hold()
    request = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=60_000)
    waiting = asyncio.ensure_future(ask(coordinator, request, 4))
    await until_async(lambda: len(coordinator.purgatory) > 0)
    await three.clock.advance(30_000, liveness=True)
    assert not waiting.done()
    await three.clock.advance(40_000, liveness=True)
    assert (await waiting).error_code != 0
