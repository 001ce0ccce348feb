"""`kmini-log` gives what a consumer with read_committed reads: from kmini's directories and Apache Kafka's, running and
stopped, for every codec, with transactions, compaction and deleted records."""

from __future__ import annotations

import contextlib
import datetime
import importlib
import io
import re
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kmini.pipeline.logs.log_dir import LogDir
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmini.pipeline.log_source import LogReader

PAGE = Path(__file__).resolve().parents[2] / "docs" / "log-source.md"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = {
    "log.retention.ms": "-1",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.dedupe.buffer.size": "8388608",
}
PATIENCE_S = 45.0

Row = tuple[Any, ...]


class Filled(NamedTuple):
    """A server with topics of every kind in it, and what a consumer has read of them."""

    process: ServerProcess
    data_dir: Path
    log_dir: Path
    expected: dict[str, list[Row]]


@pytest.fixture(scope="module", params=["kmini", "kafka"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    is_kafka = request.param == "kafka"
    if is_kafka:
        request.getfixturevalue("need_kafka")
    directory = tmp_path_factory.mktemp(request.param)
    command = (kafka_command if is_kafka else kmini_command)(directory / "data", QUICK)
    process = ServerProcess(command, directory / "server.log")
    log_dir = directory / "data" / ("log" if is_kafka else "broker-1")
    try:
        topics = fill(process.bootstrap_servers, log_dir, "internal.segment.bytes" if is_kafka else "segment.bytes")
        expected = {topic: consume(process.bootstrap_servers, topic) for topic in topics}
        yield Filled(process, directory / "data", log_dir, expected)
    finally:
        process.stop()


# Filling a server


def fill(servers: str, log_dir: Path, segment_bytes: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": servers})
    small, smallest = {segment_bytes: "40000"}, {segment_bytes: "20000"}
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "file.delete.delay.ms": "100"}
    configs: dict[str, dict[str, str]] = {f"codec-{codec}": {} for codec in CODECS} | {"codec-none": small}
    configs |= {
        "compacted": smallest | compact,
        "deleted": small,
        "append-time": {"message.timestamp.type": "LogAppendTime"},
    }
    made = admin.create_topics([NewTopic(name, 2, 1, config=config) for name, config in configs.items()])
    for future in made.values():
        future.result()
    for codec in CODECS:
        fill_plain(servers, f"codec-{codec}", codec)
        fill_transactions(servers, f"codec-{codec}", codec)
    fill_plain(servers, "append-time", "lz4")
    fill_plain(servers, "deleted", "none")
    deleted = admin.delete_records([TopicPartition("deleted", 0, 77), TopicPartition("deleted", 1, 5)])
    for future in deleted.values():
        future.result()
    fill_compacted(servers, log_dir)
    return list(configs)


def fill_plain(servers: str, topic: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "batch.size": 4000, "log_level": 0})
    errors: list[str] = []

    def note_error(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(str(error))

    for number in range(400):
        producer.produce(
            topic,
            key=None if number % 7 == 0 else b"key-%d" % (number % 50),
            value=None if number % 11 == 0 else b"value-%d" % number * (number % 40),
            headers=[("trace", b"%d" % number), ("trace", None), ("é", b"")] if number % 5 == 0 else None,
            partition=number % 2,
            timestamp=1_700_000_000_000 + number,
            on_delivery=note_error,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert errors == []


def fill_transactions(servers: str, topic: str, codec: str) -> None:
    """Committed and aborted ones, one beside the other, and one that stays open before the end."""
    settings = {
        "bootstrap.servers": servers,
        "compression.type": codec,
        "log_level": 0,
        "transaction.timeout.ms": 600_000,
    }
    one, other = (Producer(settings | {"transactional.id": f"{topic}-{name}"}) for name in ("one", "other"))
    for producer in (one, other):
        producer.init_transactions(PATIENCE_S)
    for number in range(6):
        one.begin_transaction()
        other.begin_transaction()
        for turn in range(10):
            for producer, name in ((one, b"one"), (other, b"other")):
                producer.produce(topic, key=name, value=b"%d-%d" % (number, turn), partition=turn % 2)
                if turn % 4 == 0:
                    producer.flush(PATIENCE_S)
        for producer, aborts in ((one, number % 2 == 0), (other, number % 3 == 0)):
            (producer.abort_transaction if aborts else producer.commit_transaction)(PATIENCE_S)
    one.begin_transaction()
    one.produce(topic, key=b"open", value=b"open", partition=0)
    assert one.flush(PATIENCE_S) == 0
    after = Producer({"bootstrap.servers": servers, "compression.type": codec, "log_level": 0})
    for partition in (0, 1):
        after.produce(topic, key=b"after", value=b"the open one", partition=partition)
    assert after.flush(PATIENCE_S) == 0


def fill_compacted(servers: str, log_dir: Path) -> None:
    """Keys again and again, some of them deleted, some in transactions; returns once a cleaner was there."""
    settings = {"bootstrap.servers": servers, "log_level": 0, "transactional.id": "compacting"}
    producer = Producer(settings)
    producer.init_transactions(PATIENCE_S)
    for number in range(40):
        producer.begin_transaction()
        for turn in range(20):
            value = None if turn == 13 else b"%d" % number * 30
            producer.produce("compacted", key=b"key-%d" % turn, value=value, partition=turn % 2)
        (producer.abort_transaction if number % 4 == 3 else producer.commit_transaction)(PATIENCE_S)

    written = 40 * 11  # of the twenty keys, key-1 and key-10 to key-19

    def there() -> int:
        return sum(path.read_bytes().count(b"key-1") for path in log_dir.glob("compacted-*/*.log"))

    until(lambda: there() <= written * 0.7, "a cleaning", timeout_s=PATIENCE_S, poll_s=0.05)


# Reading


def consume(servers: str, topic: str, isolation_level: str = "read_committed") -> list[Row]:
    """Everything that a consumer reads, in the order of partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "reading",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    rows: list[Row] = []
    ended: set[int] = set()
    deadline = time.monotonic() + PATIENCE_S
    while len(ended) < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            ended.add(message.partition())
        else:
            rows.append(row_of(message))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def row_of(message: Message) -> Row:
    kind, timestamp = message.timestamp()
    headers = tuple(message.headers() or ())
    return (message.partition(), message.offset(), kind - 1, timestamp, message.key(), message.value(), headers)


def with_spark(spark: SparkSession, path: Path, **options: str) -> dict[str, list[Row]]:
    """The same of the log source, by topic; fails where there is an error row."""
    frame = spark.read.format("kmini-log").options(includeHeaders="true", **options).load(str(path))
    return by_topic(row.asDict(recursive=True) for row in frame.collect())


def without_spark(path: Path, **options: str) -> dict[str, list[Row]]:
    """The same, planned and read in this process."""
    reader = reader_of(path, **options)
    return by_topic(row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist())


def reader_of(path: Path, **options: str) -> LogReader:
    from kmini.pipeline.log_source import KminiLogSource

    source = KminiLogSource({"path": str(path), "includeHeaders": "true", **options})
    return source.reader(source.schema())


def by_topic(rows: Iterable[dict[str, Any]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        assert row["error"] is None
        found.setdefault(row["topic"], []).append(
            (
                row["partition"],
                row["offset"],
                row["timestampType"],
                milliseconds(row["timestamp"]),
                None if row["key"] is None else bytes(row["key"]),
                None if row["value"] is None else bytes(row["value"]),
                tuple(
                    (header["key"], None if header["value"] is None else bytes(header["value"]))
                    for header in row["headers"] or ()
                ),
            )
        )
    return {topic: sorted(rows, key=lambda row: row[:2]) for topic, rows in found.items()}


def milliseconds(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)


def wait_until_told(filled: Filled) -> None:
    """Until the running server has written down how far consumers may read."""
    consumer = Consumer(
        {
            "bootstrap.servers": filled.process.bootstrap_servers,
            "group.id": "asking",
            "isolation.level": "read_uncommitted",
        }
    )

    def is_written(topic: str, partition: int, bounds: tuple[int, int]) -> bool:
        folders = [one for one in LogDir(filled.log_dir).partitions([topic]) if one.partition == partition]
        return bounds in [(one.log_start_offset, one.high_watermark) for one in folders]

    for topic in filled.expected:
        for partition in (0, 1):
            bounds = consumer.get_watermark_offsets(TopicPartition(topic, partition), PATIENCE_S)
            until(partial(is_written, topic, partition, bounds), timeout_s=PATIENCE_S, poll_s=0.05)
    consumer.close()


def test_it_gives_what_a_read_committed_consumer_reads_while_the_server_runs_and_afterwards(
    filled: Filled, spark: SparkSession
) -> None:
    from kmini.pipeline.log_source import KminiLogSource

    wait_until_told(filled)
    uncommitted = consume(filled.process.bootstrap_servers, "codec-zstd", "read_uncommitted")
    assert len(filled.expected["codec-zstd"]) < len(uncommitted)
    running = without_spark(filled.log_dir)
    everything = without_spark(filled.log_dir, subscribe="codec-zstd", **{"kafka.isolation.level": "read_uncommitted"})
    filled.process.stop()
    spark.dataSource.register(KminiLogSource)
    stopped = with_spark(spark, filled.data_dir if filled.log_dir.name == "broker-1" else filled.log_dir)
    in_splits = without_spark(filled.log_dir, maxPartitionBytes="5000")
    assert sum(task.first is not None for task in reader_of(filled.log_dir, maxPartitionBytes="5000").partitions()) > 20
    for topic, expected in filled.expected.items():
        assert running[topic] == expected, topic
        assert stopped[topic] == expected, topic
        assert in_splits[topic] == expected, topic
    assert running.keys() == stopped.keys() == filled.expected.keys()
    assert everything == {"codec-zstd": uncommitted}
    assert len(list(filled.log_dir.glob("codec-none-0/*.log"))) > 1
    assert len(filled.expected["compacted"]) < 600
    assert filled.expected["deleted"][0][1] == 77


def test_spark_gives_the_filters_of_a_query_to_the_source(spark: SparkSession, tmp_path: Path) -> None:
    if importlib.import_module("pyspark.sql.datasource").__dict__.get("EqualTo") is None:
        pytest.skip("PySpark before 4.1 gives no filters to a source in Python")
    from kmini.pipeline.log_source import KminiLogSource
    from support.log_files import Log

    batches = [build_batch([Record(n, 1000 + n, b"k", b"v")], base_offset=n) for n in range(100)]
    log = Log(tmp_path)
    log.segment(0, *batches)
    log.index(0, batches)
    spark.dataSource.register(KminiLogSource)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = spark.read.format("kmini-log").options(pushDownPredicate="true", maxPartitionBytes="700")
        frame = frame.load(str(tmp_path))
        assert frame.rdd.getNumPartitions() > 9
        for condition, expected, tasks in (
            ("offset BETWEEN 40 AND 44", [*range(40, 45)], 2),
            ("offset IN (3, 98)", [3, 98], 2),
            ("partition = 1", [], 1),
            ("timestamp >= timestamp_millis(1097)", [97, 98, 99], 99),
            ("offset = 7 OR offset = 90", [7, 90], 99),
        ):
            found = frame.where(condition)
            assert sorted(row["offset"] for row in found.collect()) == expected, condition
            assert found.rdd.getNumPartitions() <= tasks, condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_programs_of_its_page_run(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    records = [Record(n, 1000 + n, b"k", b"v") for n in range(3)]
    (folder / f"{0:020d}.log").write_bytes(build_batch(records) + b"torn")
    programs = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(programs) == 2
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for program in programs:
            exec(compile(program, str(PAGE), "exec"), {"spark": spark, "log_dir": str(tmp_path)})
    assert "|        0|    3|" in printed.getvalue()
    assert "a torn tail: 4 bytes" in printed.getvalue()
    assert "|  k|    3|" in printed.getvalue()
