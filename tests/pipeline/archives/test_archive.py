"""Topics archived and replayed: a consumer sees the same records, also those of the writer in Java."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kmini import Broker
from kmini.client import Client, record
from kmini.protocol.records.compression import Codec
from kmini.records import TOMBSTONE
from support.archives import consume, consume_with_offsets
from support.transactional_clients import Confluent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmini.pipeline.clients import Kafka

FAR = 253_402_300_799_999  # the last millisecond of the year 9999
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
HEADERS = [("é", "ü".encode()), ("", b""), ("twice", b"1"), ("twice", None), ("n\0l", b"\0")]


@pytest.fixture(scope="module")
def broker(need_spark: None) -> Iterator[Broker]:
    """A broker that deletes nothing by itself, however short a topic's retention is and however long the tests take."""
    day_ms = str(24 * 3_600_000)
    configs = {
        "auto.create.topics.enable": "false",
        "log.retention.ms": "-1",
        "log.initial.task.delay.ms": day_ms,
        "log.retention.check.interval.ms": day_ms,
    }
    with Broker(config=configs) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Kafka:
    from kmini.pipeline.clients import Kafka

    return Kafka(broker.bootstrap_servers)


def send(broker: Broker, *batches: tuple[str, int, list[Any], Codec]) -> None:
    """Batches of records to topics and partitions, byte for byte as they are meant."""

    async def sending() -> None:
        async with Client(broker.bootstrap_servers) as client:
            for topic, partition, records, codec in batches:
                await client.produce(topic, partition, records, codec=codec)

    asyncio.run(sending())


def own_configs(kafka: Kafka, topic: str) -> dict[str, str]:
    from kmini.pipeline.archives.cluster_topics import Topics

    return Topics(kafka).get(topic).configs


@pytest.fixture(scope="module")
def varied(broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive of the topic `varied`, of four partitions: every codec with everything that a record may be; aborted
    transactions; a beginning that was deleted; nothing."""
    from kmini.pipeline.archives.archive import archive_topic

    configs = {**ANY_TIME, "compression.type": "producer", "retention.ms": "-1", "max.message.bytes": "500000"}
    broker.create_topic("varied", 4, config=configs)
    for number, codec in enumerate(Codec):
        edges = [
            record(b"value", key=b"key", timestamp_ms=1_700_000_000_000 + number),
            record(b"", key=b"", timestamp_ms=-1),
            record(None, key=None, timestamp_ms=0),
            record(None, key=b"key", headers=HEADERS, timestamp_ms=FAR),
            record(b"\xff" * 5_000, headers=[("h", None)], timestamp_ms=5),
        ]
        send(broker, ("varied", 0, edges, codec))
        bulk = [record(b"%d" % n, key=b"k", timestamp_ms=1_000 + n) for n in range(500)]
        send(broker, ("varied", 2, bulk, codec))
    producer = Confluent(broker.bootstrap_servers, "archived")
    for number in range(6):
        producer.begin()
        producer.produce("varied", b"in transaction %d" % number, partition=1)
        producer.abort() if number % 2 else producer.commit()
    producer.close()
    broker.delete_records("varied", 1_234, partition=2)
    archive = str(tmp_path_factory.mktemp("archive") / "with a space")
    archived = archive_topic(spark, "varied", archive, kafka)
    assert (archived.partitions, archived.new_records) == (4, 5 * 5 + 3 + 5 * 500 - 1_234)
    return archive


@pytest.fixture(scope="module")
def again(broker: Broker, spark: SparkSession, kafka: Kafka, varied: str) -> str:
    from kmini.pipeline.archives.replay import replay_topic

    done = replay_topic(spark, varied, "varied", kafka, to="varied-again")
    assert (done.found, done.written, done.notes) == (0, len(consume(broker.bootstrap_servers, "varied")), ())
    return "varied-again"


def test_a_consumer_sees_the_same_records_in_the_same_order(broker: Broker, again: str) -> None:
    original = consume(broker.bootstrap_servers, "varied")
    assert consume(broker.bootstrap_servers, again) == original
    seen = {(one.timestamp, one.key, one.value, one.headers) for one in original}
    assert {(0, None, None, ()), (-1, b"", b"", ()), (FAR, b"key", None, tuple(HEADERS))} <= seen


def test_of_transactions_the_committed_records_are_replayed_and_nothing_else(broker: Broker, again: str) -> None:
    everything = consume_with_offsets(broker.bootstrap_servers, again, committed=False)
    assert [(offset, one.value) for offset, one in everything if one.partition == 1] == [
        (number, b"in transaction %d" % (2 * number)) for number in range(3)
    ]


def test_the_topic_gets_its_settings_back(kafka: Kafka, again: str) -> None:
    assert own_configs(kafka, again) == own_configs(kafka, "varied")


def test_an_archive_is_read_with_the_columns_of_sparks_kafka_source(
    spark: SparkSession, kafka: Kafka, varied: str
) -> None:
    from kmini.pipeline.archives.archive import read_archive

    live = spark.read.format("kafka").options(**kafka.spark_options(), subscribe="varied", includeHeaders="true")
    live = live.option("kafka.isolation.level", "read_committed").load()
    archived = read_archive(spark, varied, "varied")
    assert [(field.name, field.dataType) for field in archived.schema] == [
        (field.name, field.dataType) for field in live.schema
    ]
    assert sorted(map(repr, archived.collect())) == sorted(map(repr, live.collect()))


def test_a_finished_replay_that_is_resumed_writes_nothing(
    broker: Broker, spark: SparkSession, kafka: Kafka, varied: str, again: str
) -> None:
    from kmini.pipeline.archives.replay import replay_topic

    before = broker.offsets(again, 2)
    done = replay_topic(spark, varied, "varied", kafka, to=again, resume=True)
    assert (done.written, done.found) == (0, 25 + 3 + 1_266)
    assert broker.offsets(again, 2) == before


# --- running it again


@pytest.fixture
def growing(broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path) -> Iterator[Path]:
    """An archive that has grown three times; the log of Spark's sink lies in both of its kinds of files."""
    from kmini.pipeline.archives.archive import archive_topic

    broker.create_topic("growing", 2)
    archive = tmp_path / "archive"
    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        for part in range(3):
            for number in range(10):
                broker.produce("growing", b"%d" % (10 * part + number), partition=number % 2)
            done = archive_topic(spark, "growing", str(archive), kafka)
            assert (done.new_records, done.records) == (10, 10 * part + 10)
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert {name.suffix for name in (archive / "topic=growing" / "_spark_metadata").glob("[0-9]*")} == {"", ".compact"}
    yield archive
    broker.delete_topic("growing")


def values_in(spark: SparkSession, archive: Path) -> list[int]:
    from kmini.pipeline.archives.archive import read_archive

    return sorted(int(row.value) for row in read_archive(spark, str(archive), "growing").select("value").collect())


def test_what_a_killed_run_has_left_behind_is_not_counted_and_not_written_twice(
    growing: Path, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic

    archive = Path(shutil.copytree(growing, tmp_path / "killed"))
    # Killed between the sink and the commit of the checkpoint:
    commits = archive / "_checkpoints" / "topic=growing" / "commits"
    last = max(int(name.name) for name in commits.iterdir() if name.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink()
    # Killed before the sink had listed a file:
    (some_file, *_) = (archive / "topic=growing" / "partition=0").glob("*.parquet")
    shutil.copy(some_file, some_file.with_name("part-00000-of-nobody.c000.zstd.parquet"))
    assert archive_topic(spark, "growing", str(archive), kafka).records == 30
    assert values_in(spark, archive) == list(range(30))


def test_an_archive_can_be_moved_and_goes_on_growing(
    growing: Path, broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.replay import replay_topic

    moved = tmp_path / "moved [to] {an} odd*place?"
    shutil.move(growing, moved)
    assert values_in(spark, moved) == list(range(30))
    broker.produce("growing", b"30")
    done = archive_topic(spark, "growing", str(moved), kafka)
    assert (done.new_records, done.records) == (1, 31)
    assert replay_topic(spark, str(moved), "growing", kafka, to="growing-again").written == 31
    assert sorted(int(one.value) for one in broker.records("growing-again") if one.value) == list(range(31))


def test_records_that_were_deleted_before_they_were_archived_are_missed(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.archive_files import ArchiveError

    broker.create_topic("lossy")
    archive = str(tmp_path)
    broker.produce("lossy", b"kept")
    archive_topic(spark, "lossy", archive, kafka)
    for _ in range(3):
        broker.produce("lossy", b"lost")
    broker.delete_records("lossy")
    broker.produce("lossy", b"last")
    with pytest.raises(ArchiveError, match="lossy: records were deleted before they were archived"):
        archive_topic(spark, "lossy", archive, kafka)
    assert archive_topic(spark, "lossy", archive, kafka, allow_loss=True).records == 2


def test_a_topic_that_was_created_anew_is_not_appended(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.archive_files import ArchiveError

    broker.create_topic("reborn")
    archive_topic(spark, "reborn", str(tmp_path), kafka)
    broker.delete_topic("reborn")
    broker.create_topic("reborn")
    with pytest.raises(ArchiveError, match="created anew"):
        archive_topic(spark, "reborn", str(tmp_path), kafka)


# --- topics of a kind


def test_compacted_topics_and_their_flagged_tombstones_come_back(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.replay import replay_topic

    configs = {"cleanup.policy": "compact", "kmini.tombstone.flag.enable": "true"}
    broker.create_topic("profiles", config=configs)
    for number in range(20):
        broker.produce("profiles", b"%d" % number, key=b"user %d" % (number % 4))
    broker.produce("profiles", b"last state", key=b"user 1", headers=[("by", b"support"), TOMBSTONE])
    broker.produce("profiles", None, key=b"user 2")
    broker.topic("profiles").compact()
    original = broker.records("profiles")
    assert [one.offset for one in original] == [16, 19, 20, 21]
    archive_topic(spark, "profiles", str(tmp_path), kafka)
    done = replay_topic(spark, str(tmp_path), "profiles", kafka, to="profiles-again")
    assert (done.written, done.notes) == (4, ())
    assert own_configs(kafka, "profiles-again") == configs
    assert [one[1:5] for one in broker.records("profiles-again")] == [one[1:5] for one in original]
    broker.topic("profiles-again").compact()
    broker.clock.advance("1d1s")
    broker.topic("profiles-again").compact()  # it is the flag that deletes: user 1 has a value
    assert {one.key for one in broker.records("profiles-again")} == {b"user 0", b"user 3"}

    done = replay_topic(
        spark, str(tmp_path), "profiles", kafka, to="profiles-null", null_tombstones=True, with_offsets=True
    )
    assert done.notes == ("1 tombstones that had a value have none now",)
    records = {one.key: one for one in broker.records("profiles-null")}
    assert records[b"user 1"].value is None
    assert records[b"user 1"].headers == (("by", b"support"), TOMBSTONE, ("kmini.offset", b"20"))
    assert [int(dict(one.headers)["kmini.offset"]) for one in broker.records("profiles-null")] == [16, 19, 20, 21]


def test_the_time_of_append_is_kept_and_the_topic_stamps_again_afterwards(
    broker: Broker, spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    from kmini.pipeline.archives.archive import archive_topic
    from kmini.pipeline.archives.archive_files import ArchiveError
    from kmini.pipeline.archives.replay import replay_topic

    appending = {"message.timestamp.type": "LogAppendTime", "retention.ms": "1000"}
    broker.create_topic("stamped", config=appending)
    broker.produce("stamped", b"x", timestamp_ms=1)
    archive_topic(spark, "stamped", str(tmp_path), kafka)
    (original,) = consume(broker.bootstrap_servers, "stamped")
    broker.clock.advance("10s")
    done = replay_topic(spark, str(tmp_path), "stamped", kafka, to="stamped-again")
    assert done.notes == ("1 records keep the time at which they were first appended, now as their CreateTime",)
    assert consume(broker.bootstrap_servers, "stamped-again") == [original._replace(timestamp_type=0)]
    assert own_configs(kafka, "stamped-again") == appending
    broker.create_topic("stamping", config=appending)
    with pytest.raises(ArchiveError, match="LogAppendTime"):
        replay_topic(spark, str(tmp_path), "stamped", kafka, to="stamping")
