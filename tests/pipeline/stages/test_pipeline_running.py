"""Pipelines on real Spark: what is carried, purged, refused, and in which order things stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini import Broker
from kmini.pipeline import Batches, Files, Kafka, Pipeline, Stage, Topic
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages import checkpoint_files, checkpoint_lock
from kmini.pipeline.stages import running_pipeline as running_module
from kmini.pipeline.stages.checkpoint_files import SparkFiles
from kmini.pipeline.stages.pipeline_progress import lines
from kmini.pipeline.stages.running_pipeline import PipelineError, Running, reason
from kmini.pipeline.stages.spark_checkpoint import LocalFiles, last_commit
from support.server_process import StartServer
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITHIN_S = 90.0


def same(frame: DataFrame) -> DataFrame:
    return frame


class Cluster:
    """A broker, and what tests do with it."""

    def __init__(self, servers: str, **settings: str) -> None:
        from confluent_kafka.admin import AdminClient

        self.servers = servers
        self.kafka = Kafka(servers, {key.replace("_", "."): value for key, value in settings.items()})
        self.client = {**self.kafka.admin_config(), "log_level": "2"}
        self.admin = AdminClient(self.client)

    def create(self, *names: str, partitions: int = 1, **configs: str) -> None:
        admin = Admin(self.kafka)
        for name in names:
            admin.create(name, partitions, {key.replace("_", "."): value for key, value in configs.items()})

    def send(self, topic: str, *values: str, **more: Any) -> None:
        from confluent_kafka import Producer

        producer = Producer(self.client)
        for value in values:
            producer.produce(topic, value.encode(), **more)
        assert producer.flush(30) == 0

    def records(self, topic: str, partition: int = 0) -> list[Any]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client, "group.id": "looks", "enable.auto.commit": False})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            consumer.assign([TopicPartition(topic, partition, start)])
            found: list[Any] = []
            deadline = time.monotonic() + WITHIN_S
            while len(found) < end - start and time.monotonic() < deadline:
                found += [record for record in consumer.consume(end - start, 1.0) if record.error() is None]
            return found
        finally:
            consumer.close()

    def values(self, topic: str) -> list[str]:
        return [record.value().decode() for record in self.records(topic)]

    def bounds(self, topic: str, partition: int = 0) -> tuple[int, int]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client, "group.id": "looks"})
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            return int(start), int(end)
        finally:
            consumer.close()


@pytest.fixture
def cluster(start_server: StartServer, need_spark: None) -> Cluster:
    return Cluster(start_server().bootstrap_servers)


@pytest.fixture
def piped(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Pipeline]]:
    """A maker of pipelines on the test's broker; batches follow one another."""

    def declare(*stages: Stage, **more: Any) -> Pipeline:
        return Pipeline(
            "p", stages, **{"kafka": cluster.kafka, "directory": str(tmp_path), "trigger_interval_ms": 0, **more}
        )

    yield declare
    for query in spark.streams.active:
        query.stop()


def commits(pipeline: Pipeline, stage: str) -> int | None:
    (found,) = [one for one in pipeline.stages if one.name == stage]
    return last_commit(LocalFiles(pipeline.checkpoint_of(found)))


def test_records_keep_key_headers_time_and_partition_from_topic_to_topic(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], tmp_path: Path
) -> None:
    cluster.create("in", partitions=3)
    made = {"key": b"k", "headers": [("h", b"\x00\xff"), ("kmini", None)], "timestamp": 1769846400123, "partition": 2}
    cluster.send("in", "v", **made)
    cluster.send("in", "", partition=1)
    stages = [
        Stage("first", same, reads="in", writes="between"),
        Stage("second", same, reads="between", writes="out"),
        Stage("third", same, reads="out", writes=Files("files")),
    ]
    topics = [Topic(name, 3, purge=False) for name in ("between", "out")]
    piped(*stages, topics=topics).run(available_now=True, spark=spark)
    (record,) = cluster.records("out", 2)
    assert (record.key(), record.value()) == (b"k", b"v")
    assert [*record.headers()] == [*made["headers"], ("kmini.timestamp", b"1769846400123")]  # type: ignore[misc]
    row = spark.read.parquet(str(tmp_path / "files")).where("partition = 2").collect()[0]
    assert row.timestamp.replace(tzinfo=timezone.utc) == datetime(2026, 1, 31, 8, 0, 0, 123_000, tzinfo=timezone.utc)
    assert [(header.key, header.value) for header in row.headers] == made["headers"]
    (plain,) = cluster.records("out", 1)
    assert plain.value() == b""
    assert plain.key() is None


def test_a_topic_is_purged_to_its_end_when_all_its_consumers_have_it(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """A group that has not committed keeps a partition; one that goes on, and nothing else, frees it."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    cluster.create("in")
    cluster.send("in", *"abcdef")
    kept: list[str] = []

    def keep(batch: DataFrame, _: int) -> None:
        kept.extend(row.value.decode() for row in batch.collect())

    pipeline = piped(
        Stage("s", same, reads="in", writes="between"),
        Stage("one", same, reads="between", writes=Files("one")),
        Stage("two", same, reads="between", writes=Batches(keep)),
        topics=[Topic("between", 1, consumer_groups=["billing"])],
    )
    with pipeline.start(spark=spark) as running:
        until(
            lambda: commits(pipeline, "one") is not None and commits(pipeline, "two") is not None,
            "batches",
            timeout_s=WITHIN_S,
        )
        # An earlier round of purging may have waited for a stage, too.
        until(
            lambda: running.progress().topics[0].waits_for == "0 waits for group billing",
            "a purge that waits",
            timeout_s=WITHIN_S,
        )
        until(
            lambda: len(kept) == 6, "all six records", timeout_s=WITHIN_S
        )  # their stages may have begun before all were written
        assert cluster.bounds("between") == (0, 6)
        committed = ConsumerGroupTopicPartitions("billing", [TopicPartition("between", 0, 4)])
        cluster.admin.alter_consumer_group_offsets([committed])["billing"].result(30)
        until(lambda: cluster.bounds("between") == (4, 6), "a purge up to what the group committed", timeout_s=WITHIN_S)
        cluster.send("in", "g")
        until(lambda: "g" in kept, "another record", timeout_s=WITHIN_S)
        assert cluster.bounds("between")[0] == 4
        committed = ConsumerGroupTopicPartitions("billing", [TopicPartition("between", 0, 7)])
        cluster.admin.alter_consumer_group_offsets([committed])["billing"].result(30)
        until(lambda: cluster.bounds("between") == (7, 7), "a purge to the end", timeout_s=WITHIN_S)
        # The broker knows of it before the thread that asked has its answer.
        until(
            lambda: any(line == "between: 7 purged" for line in lines(running.progress())),
            "the purge to be told",
            timeout_s=WITHIN_S,
        )
    assert kept == [*"abcdefg"]


def test_a_purge_is_caught_up_with_at_the_start(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a driver that was killed between a commit and its purge."""
    cluster.create("in", "between")
    cluster.send("in", *"abc")
    stages = [Stage("s", same, reads="in", writes="between"), Stage("t", same, reads="between", writes=Files("out"))]
    with monkeypatch.context() as patched:
        patched.setattr(running_module, "_purges", lambda *_: [])
        piped(*stages).run(available_now=True, spark=spark)
    assert cluster.bounds("between") == (0, 3)
    begun: list[tuple[int, int]] = []
    monkeypatch.setattr(Running, "_start_ready", lambda self: begun.append(cluster.bounds("between")))
    piped(*stages).start(spark=spark).stop()
    assert begun == [(3, 3)]


def test_a_stage_that_raises_stops_the_others_upstream_first(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("in", "between", "after")
    bad: list[int] = []

    def falls_over(batch: DataFrame, number: int) -> None:
        if "bad" in [row.value.decode() for row in batch.collect()]:
            bad.append(number)
            raise ValueError("this one\nis bad")

    pipeline = piped(
        Stage("fails", same, reads="after", writes=Batches(falls_over)),
        Stage("middle", same, reads="between", writes="after"),
        Stage("first", same, reads="in", writes="between"),
    )
    stopped: list[str] = []
    let_it_finish = running_module._let_it_finish
    monkeypatch.setattr(
        running_module, "_let_it_finish", lambda query: (stopped.append(query.name), let_it_finish(query))
    )
    cluster.send("in", "good")
    running = pipeline.start(spark=spark)
    until(lambda: commits(pipeline, "fails") is not None, "a batch", timeout_s=WITHIN_S)
    cluster.send("in", "bad")
    with pytest.raises(PipelineError) as failed:
        running.wait()
    assert str(failed.value) == ("stage 'fails' (reads after, writes batches) failed: ValueError: this one")
    assert stopped == ["first", "middle"]
    # What was committed is purged, the batch that failed is there, and the checkpoint goes on with it.
    assert cluster.bounds("after") == (1, 2)
    assert cluster.bounds("between") == (2, 2)
    assert len(bad) == 1
    with pytest.raises(PipelineError):
        pipeline.run(spark=spark)
    assert len(set(bad)) == 1
    assert cluster.values("after") == ["bad"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda frame: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda frame: None, "returned NoneType"),
        (lambda frame: frame.select("no_such_column"), "no_such_column"),
        (lambda frame: frame.select("key"), "no column 'value'"),
        (lambda frame: frame.sparkSession.range(3).selectExpr("cast(id as string) value"), "does not stream"),
    ],
)
def test_a_stage_whose_function_fails_is_told_before_anything_runs(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], function: Any, words: str, tmp_path: Path
) -> None:
    cluster.create("in", "between", "out")
    cluster.send("in", "a")
    good, bad = Stage("good", same, reads="in", writes="between"), Stage("bad", function, reads="between", writes="out")
    pipeline = piped(good, bad)
    with pytest.raises(PipelineError) as failed:
        pipeline.start(spark=spark)
    assert words in str(failed.value)
    assert "stage 'bad' (reads between, writes out)" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert cluster.bounds("between") == (0, 0)
    assert not (tmp_path / "checkpoints").exists()


def test_a_topic_that_is_not_there_is_told_with_its_stage(cluster: Cluster, piped: Callable[..., Pipeline]) -> None:
    with pytest.raises(PipelineError) as failed:
        piped(Stage("s", same, reads="nowhere", writes="out")).start()
    assert "stage 's' reads topic 'nowhere'" in str(failed.value)
    cluster.create("nowhere")
    with pytest.raises(PipelineError) as failed:
        piped(Stage("s", same, reads="nowhere", writes="out")).start()
    assert "stage 's' writes topic 'out'" in str(failed.value)


def test_a_broker_that_is_not_there_is_told(piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_module, "Admin", lambda kafka: Admin(kafka, timeout_s=1.0))
    pipeline = piped(Stage("s", same, reads="in", writes="out"), kafka=Kafka("127.0.0.1:1"))
    with pytest.raises(PipelineError, match=r"127\.0\.0\.1:1"):
        pipeline.start()


def test_a_checkpoint_that_somebody_writes_is_refused(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("in", "out")
    monkeypatch.setattr(checkpoint_lock.CheckpointLock.__init__, "__kwdefaults__", {"wait_s": 0.2})
    pipeline = piped(Stage("s", same, reads="in", writes="out"))
    with pipeline.start(spark=spark) as running:
        with pytest.raises(PipelineError, match="another query writes this checkpoint"):
            pipeline.start(spark=spark)
        cluster.send("in", "a")
        until(lambda: cluster.values("out") == ["a"], "the first one goes on", timeout_s=WITHIN_S)
        running.check()
    pipeline.start(spark=spark).stop()


def test_a_checkpoint_of_a_topic_that_was_made_anew_is_refused(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Its offsets would be taken for those of other records, which would be skipped, and purged."""
    cluster.create("in", "out")
    cluster.send("in", *"abc")
    pipeline = piped(Stage("s", same, reads="in", writes="out"), topics=[Topic("in", purge=True)])
    pipeline.run(available_now=True, spark=spark)
    assert cluster.bounds("in") == (3, 3)
    cluster.admin.delete_topics(["in"])["in"].result(30)
    cluster.create("in")
    cluster.send("in", *"defg")
    with pytest.raises(PipelineError, match="'in' was deleted and made anew"):
        pipeline.start(spark=spark)
    assert cluster.bounds("in") == (0, 4)


def test_a_checkpoint_of_another_cluster_or_query_is_refused(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], start_server: StartServer
) -> None:
    cluster.create("in", "out", "other")
    cluster.send("in", "a")
    pipeline = piped(Stage("s", same, reads="in", writes="out"))
    pipeline.run(available_now=True, spark=spark)
    with pytest.raises(PipelineError, match="a query that reads in"):
        piped(Stage("s", same, reads="other", writes="out")).start(spark=spark)
    elsewhere = Cluster(start_server().bootstrap_servers)
    elsewhere.create("in", "out")
    with pytest.raises(PipelineError, match="topics of cluster"):
        pipeline.with_kafka(elsewhere.servers).start(spark=spark)


def test_a_purge_that_is_refused_stops_nothing(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """A topic that is only compacted refuses DeleteRecords (POLICY_VIOLATION)."""
    cluster.create("in", "out")
    cluster.create("between", cleanup_policy="compact")
    cluster.send("in", *"abc", key=b"k")
    stages = [Stage("s", same, reads="in", writes="between"), Stage("t", same, reads="between", writes="out")]
    pipeline = piped(*stages, topics=[Topic("between", purge=True)])
    with pipeline.start(spark=spark) as running:
        until(lambda: "POLICY_VIOLATION" in running.progress().topics[0].waits_for, "a refusal", timeout_s=WITHIN_S)
        cluster.send("in", "d", key=b"k")
        until(lambda: cluster.bounds("out")[1] == 4, "the stream goes on", timeout_s=WITHIN_S)
        assert cluster.admin.incremental_alter_configs([_delete_too("between")])
        until(lambda: cluster.bounds("between") == (4, 4), "another attempt", timeout_s=WITHIN_S)
        until(lambda: running.progress().topics[0].waits_for == "", "no trouble", timeout_s=WITHIN_S)


def _delete_too(topic: str) -> Any:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])


JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURED = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{JAAS} user_admin="a" user_alice="b";',
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}


def test_who_to_be_is_said_once_and_a_missing_right_to_delete_stops_nothing(
    spark: SparkSession, piped: Callable[..., Pipeline]
) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    with Broker(config=SECURED) as broker:

        def signed_in(user: str, password: str) -> Cluster:
            login = f'{JAAS} username="{user}" password="{password}";'
            return Cluster(
                broker.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism="PLAIN",
                sasl_jaas_config=login,
            )

        def let_alice(*operations: AclOperation) -> None:
            where = (ResourceType.TOPIC, "alice", ResourcePatternType.PREFIXED, "User:alice", "*")
            rules = [AclBinding(*where, operation, AclPermissionType.ALLOW) for operation in operations]
            for future in admin.admin.create_acls(rules).values():
                future.result(30)

        admin, alice = signed_in("admin", "a"), signed_in("alice", "b")
        admin.create("alice-in", "alice-between", "alice-out")
        admin.send("alice-in", *"abc")
        let_alice(AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        pipeline = piped(
            Stage("s", same, reads="alice-in", writes="alice-between"),
            Stage("t", same, reads="alice-between", writes="alice-out"),
            kafka=alice.kafka,
        )
        with pipeline.start(spark=spark) as running:
            until(
                lambda: "TOPIC_AUTHORIZATION_FAILED" in running.progress().topics[0].waits_for,
                "a refusal",
                timeout_s=WITHIN_S,
            )
            admin.send("alice-in", "d")
            until(lambda: admin.bounds("alice-out")[1] == 4, "the stream goes on", timeout_s=WITHIN_S)
            let_alice(AclOperation.DELETE)
            until(lambda: admin.bounds("alice-between") == (4, 4), "another attempt", timeout_s=WITHIN_S)
        with pytest.raises(PipelineError, match="AUTHENTICATION"):
            pipeline.with_kafka(settings=signed_in("admin", "wrong").kafka.settings).start(spark=spark)


def test_only_what_is_committed_of_a_transaction_is_read_and_all_of_it_purged(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Offsets of a read_committed stage end at the last stable offset, control records count."""
    from confluent_kafka import Producer

    cluster.create("in", "out")
    producer = Producer({"bootstrap.servers": cluster.servers, "transactional.id": "t", "log_level": "2"})
    producer.init_transactions(30)
    for value, is_kept in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        producer.produce("in", value.encode())
        producer.flush(30)  # an abort throws away what was not sent
        (producer.commit_transaction if is_kept else producer.abort_transaction)(30)
    producer.begin_transaction()
    producer.produce("in", b"open")
    producer.flush(30)
    pipeline = piped(
        Stage("s", same, reads="in", writes="out", source_options={"kafka.isolation.level": "read_committed"}),
        topics=[Topic("in", purge=True)],
    )
    pipeline.run(available_now=True, spark=spark)
    assert cluster.values("out") == ["a", "c"]
    assert cluster.bounds("in")[0] == 6  # the open transaction begins there
    producer.commit_transaction(30)
    pipeline.run(available_now=True, spark=spark)
    assert cluster.values("out") == ["a", "c", "open"]
    assert cluster.bounds("in") == (8, 8)


def test_a_stop_ends_a_run_in_order(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("in", "between", "out")
    stopped: list[str] = []
    monkeypatch.setattr(running_module, "_let_it_finish", lambda query: stopped.append(query.name))
    pipeline = piped(Stage("t", same, reads="between", writes="out"), Stage("s", same, reads="in", writes="between"))
    stop = threading.Event()
    told: list[Any] = []

    def watch(progress: Any) -> None:
        told.append(progress)
        stop.set()

    pipeline.run(spark=spark, stop=stop, watcher=watch)
    assert stopped == ["s", "t"]
    assert [stage.state for stage in told[-1].stages] == ["ended", "ended"]
    assert not spark.streams.active


def test_a_table_and_a_topic_are_two_sources_of_a_stage(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "out")
    cluster.send("in", "a", "x")

    def named(frame: DataFrame, names: DataFrame) -> DataFrame:
        return frame.selectExpr("cast(value as string) letter").join(names, "letter").selectExpr("name value")

    def names(session: SparkSession) -> DataFrame:
        return session.createDataFrame([("a", "alpha")], "letter string, name string")

    piped(Stage("s", named, reads=["in", names], writes="out")).run(available_now=True, spark=spark)
    assert cluster.values("out") == ["alpha"]


def test_a_checkpoint_elsewhere_is_read_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Here `elsewhere` is this machine, by a URI."""
    files = SparkFiles(spark, f"file:{tmp_path}/checkpoint")
    assert list(files.names("commits")) == []
    with pytest.raises(FileNotFoundError):
        files.read("kmini.json")
    checkpoint_files.write_identity(files, "c", {"t": "id"})
    assert checkpoint_files.read_identity(files) == {"cluster_id": "c", "topic_ids": {"t": "id"}}
    assert json.loads((tmp_path / "checkpoint" / "kmini.json").read_text())["cluster_id"] == "c"
    assert files.names("") == ["kmini.json"]


def test_of_an_error_the_line_is_told_that_says_why() -> None:
    lost = "Some data may have been lost because they are not available in Kafka any more;\nReason: Could not read a-0"
    assert reason(lost) == "records that were not processed yet are gone. Could not read a-0"
    assert reason("[STREAM_FAILED] Query [id = x, runId = y] terminated with exception: it broke\nmore") == "it broke"
    assert reason("") == "no reason given"
