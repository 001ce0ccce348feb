"""Topics whose values have a schema, on real Spark: read and written as structs, and what becomes of malformed ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini import Broker
from kmini.pipeline import Avro, Batches, DeadLetters, DeclarationError, Pipeline, Stage, Topic
from kmini.pipeline.stages.running_pipeline import PipelineError, reason
from kmini.pipeline.stages.topic_schemas import decoded
from support.pipeline_cluster import WITHIN_S, Cluster, commits, same
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user string, n int, at timestamp"
WELL_FORMED = [
    '{"user":"a","n":1,"at":"2024-01-01T00:00:00.123456Z"}',
    '{"user":"b"}',
    "{}",
    '{"user":null,"more":[1]}',
]
MALFORMED = ["", "null", "[]", "7", "{", '{"n":"x"}', '{"n":1.5}', '{"at":"no"}', "{'user':'a'}", '{"n":99999999999}']

WITH_DEAD_LETTERS = [
    Topic("in", schema="user string", malformed=DeadLetters("dead"), purge=True),
    Topic("out", schema="user string"),
]


def test_a_value_is_malformed_unless_it_is_an_object_of_the_schema(spark: SparkSession) -> None:
    values = [value.encode() for value in (*WELL_FORMED, *MALFORMED)] + [b'{"user":"\xff"}', None]
    rows = [(value, 0, number) for number, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "value binary, partition int, offset bigint")
    kept = decoded(frame, Topic("in", schema=SCHEMA, malformed=DeadLetters("dead"))).orderBy("offset").collect()
    assert [row.offset for row in kept] == [0, 1, 2, 3, len(values) - 1]
    assert [row.value and row.value.user for row in kept] == ["a", "b", None, None, None]
    assert kept[-1].value is None  # a tombstone
    with pytest.raises(Exception, match=r"topic in, partition 0, offset 4: the value is no JSON object of user string"):
        decoded(frame.where("offset < 5"), Topic("in", schema=SCHEMA)).select("offset").collect()


def test_a_struct_is_read_as_it_was_written(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Tombstones and microseconds too; the stages see no bytes."""
    cluster.create("in", "between", "out")
    cluster.send("in", WELL_FORMED[0], key=b"k")
    from confluent_kafka import Producer

    producer = Producer(cluster.client)
    producer.produce("in", None, key=b"gone")
    assert producer.flush(30) == 0

    def doubled(frame: DataFrame) -> DataFrame:
        assert frame.schema["value"].dataType.simpleString() == "struct<user:string,n:int,at:timestamp>"
        return frame.selectExpr("key", "if(value is null, null, struct(value.n * 2 n, value.user, value.at)) value")

    pipeline = piped(
        Stage("s", doubled, "in", "between"),
        Stage("t", same, "between", "out"),
        topics=[Topic(name, schema=SCHEMA) for name in ("in", "between", "out")],
    )
    pipeline.run(available_now=True, spark=spark)
    first, second = cluster.records("out")
    assert (first.key(), json.loads(first.value())) == (
        b"k",
        {"n": 2, "user": "a", "at": "2024-01-01T00:00:00.123456Z"},
    )
    assert (second.key(), second.value()) == (b"gone", None)


def test_a_malformed_record_stops_the_stage_with_its_place(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Also one that looks at no value; records before it in the same batch come again."""
    cluster.create("in", "out")
    cluster.send("in", '{"user":"a"}', "{")

    def counted(frame: DataFrame) -> DataFrame:
        return frame.groupBy("topic").count().selectExpr("cast(count as string) value")

    pipeline = piped(
        Stage("s", counted, "in", "out", output_mode="update"), topics=[Topic("in", schema="user string", purge=True)]
    )
    with pytest.raises(PipelineError) as failed:
        pipeline.run(available_now=True, spark=spark)
    assert str(failed.value) == (
        "stage 's' (reads in, writes out) failed: "
        "topic in, partition 0, offset 1: the value is no JSON object of user string"
    )
    assert commits(pipeline, "s") is None
    assert cluster.bounds("in") == (0, 2)


def test_malformed_records_go_to_the_dead_letters_as_they_were_and_the_stage_goes_on(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "out", partitions=3)
    cluster.create("dead")
    about = {"partition": 2, "key": b"k", "timestamp": 5000, "headers": [("h", b"1")]}
    cluster.send("in", '{"user":"a"}', "{", '{"user":"b"}', **about)
    pipeline = piped(Stage("s", same, "in", "out"), topics=WITH_DEAD_LETTERS)
    pipeline.run(available_now=True, spark=spark)
    assert [json.loads(one.value()) for one in cluster.records("out", 2)] == [{"user": "a"}, {"user": "b"}]
    (dead,) = cluster.records("dead")
    assert (dead.key(), dead.value()) == (b"k", b"{")
    assert dead.headers() == [
        ("h", b"1"),
        ("kmini.malformed.topic", b"in"),
        ("kmini.malformed.partition", b"2"),
        ("kmini.malformed.offset", b"1"),
        ("kmini.malformed.reason", b"the value is no JSON object of user string"),
        ("kmini.timestamp", b"5000"),
    ]
    assert cluster.bounds("in", 2) == (3, 3)


def test_a_malformed_record_is_purged_after_its_dead_letter_is_committed_and_not_before(
    spark: SparkSession, piped: Callable[..., Pipeline]
) -> None:
    """The stage itself has left it out and committed."""
    with Broker() as broker:
        cluster = Cluster(broker.bootstrap_servers)
        cluster.create("in", "dead")
        cluster.send("in", "{", '{"user":"a"}')
        users: list[str] = []
        taken = Batches(lambda batch, _: users.extend(row.value.user for row in batch.collect()))
        pipeline = piped(Stage("s", same, "in", taken), topics=WITH_DEAD_LETTERS[:1], kafka=cluster.kafka)
        refusal = broker.faults.on("Produce", topic="dead").error("NOT_ENOUGH_REPLICAS")  # Spark tries again
        with pipeline.start(spark=spark) as running:
            until(lambda: commits(pipeline, "s") is not None, "a commit of the stage", timeout_s=WITHIN_S)
            running.purge_now()
            assert (users, commits(pipeline, "in-dead-letters")) == (["a"], None)
            assert cluster.bounds("in") == (0, 2)
            refusal.remove()
            until(lambda: cluster.bounds("in") == (2, 2), "a purge", timeout_s=WITHIN_S)
            assert commits(pipeline, "in-dead-letters") is not None
        assert len(cluster.records("dead")) == 1


def test_a_schema_changes_only_where_all_stages_of_a_topic_are_at_the_same_record(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """Else a record that the former schema refuses would be left out by the stage, and be no dead letter by the new
    one. Here the stage of dead letters is killed before its last batch."""
    cluster.create("in", "dead")
    taken = Batches(lambda batch, _: None)

    def declared(schema: str) -> Pipeline:
        return piped(Stage("s", same, "in", taken), topics=[Topic("in", schema=schema, malformed=DeadLetters("dead"))])

    for value in ('{"n":1}', '{"n":"x"}'):
        cluster.send("in", value)
        declared("n int").run(available_now=True, spark=spark)
    folder = Path(declared("n int").checkpoint_of(declared("n int").stages[1]))
    for name in ("offsets/1", "commits/1", "offsets/.1.crc", "commits/.1.crc"):
        (folder / name).unlink()
    with pytest.raises(
        PipelineError, match=r"'in' has schema 'n string', and its stages \(s, in-dead-letters\) are at"
    ):
        declared("n string").start(spark=spark)
    declared("n int").run(available_now=True, spark=spark)
    assert set(cluster.values("dead")) == {'{"n":"x"}'}
    declared("n string").run(available_now=True, spark=spark)


@pytest.mark.parametrize(
    ("function", "schema", "words"),
    [
        (same, "user strong", "the schema of topic 'in', 'user strong', is no DDL of Spark"),
        (same, "string", "is not 'name type, name type'"),
        (
            lambda frame: frame.selectExpr("struct(value.user, 1 n) value"),
            "user string",
            "it writes topic 'out', whose value is a struct of user string, and has value struct<user:string,n:int>",
        ),
        (lambda frame: frame.selectExpr("cast(key as string) value"), "user string", "and has value string"),
        (lambda frame: frame.select("key"), "user string", "and has no column 'value'"),
    ],
)
def test_a_schema_that_does_not_fit_is_told_before_anything_runs(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], function: Any, schema: str, words: str
) -> None:
    cluster.create("in", "out")
    topics = [Topic("in", schema=schema), Topic("out", schema=schema)]
    with pytest.raises(PipelineError) as failed:
        piped(Stage("s", function, "in", "out"), topics=topics).start(spark=spark)
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.certain
def test_the_stage_of_dead_letters_is_declared_once_however_often_a_pipeline_is_changed() -> None:
    topics = [Topic("in", schema="user string", malformed=DeadLetters("dead"))]
    options = {"startingOffsets": "latest", "kafka.isolation.level": "read_committed"}
    pipeline = Pipeline("p", [Stage("s", same, "in", "out", source_options=options)], topics)
    changed = pipeline.with_kafka("elsewhere:9092")
    assert [stage.name for stage in changed.stages] == ["s", "in-dead-letters"]
    (dead,) = changed.stages[1:]
    assert (dead.topics_read, dead.topic_written) == (("in",), "dead")
    assert dead.source_options == {"kafka.isolation.level": "read_committed"}


@pytest.mark.certain
@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ([Topic("in", schema=" ")], "'in' has an empty schema"),
        ([Topic("in", schema={"type": "record"})], "is neither fields as text nor Avro"),  # type: ignore[arg-type]
        ([Topic("in", schema=Avro("{"))], "its Avro schema is no record in JSON"),
        ([Topic("in", schema=Avro('"string"'))], "its Avro schema is no record in JSON"),
        ([Topic("in", schema=Avro(registers=True))], "registers an Avro schema, and declares none"),
        ([Topic("in", malformed=DeadLetters("dead"))], "has dead letters and no schema"),
        ([Topic("in", schema="a int", malformed="skip")], "malformed='skip' is neither"),
        ([Topic("in", schema="a int", malformed=DeadLetters("in"))], "need a topic without a schema, not 'in'"),
    ],
)
def test_a_declaration_of_schemas_that_cannot_work_is_refused(topics: list[Topic], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        Pipeline("p", [Stage("s", same, "in", "out")], topics)


@pytest.mark.certain
def test_readers_with_different_options_share_no_dead_letters() -> None:
    committed = {"kafka.isolation.level": "read_committed"}
    stages = [Stage("s", same, "in", "out", source_options=committed), Stage("t", same, "in", Batches(print))]
    with pytest.raises(DeclarationError, match="'s' and 't' read topic 'in' with different source_options"):
        Pipeline("p", stages, [Topic("in", schema="a int", malformed=DeadLetters("dead"))])


@pytest.mark.certain
def test_the_reason_of_a_raised_error_is_its_message() -> None:
    text = "[STREAM_FAILED] Job aborted: [USER_RAISED_EXCEPTION] topic in, offset 1: bad SQLSTATE: P0001\n at x"
    assert reason(text) == "topic in, offset 1: bad"
