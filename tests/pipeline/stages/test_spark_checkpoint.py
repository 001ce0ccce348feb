"""The files of a checkpoint as Spark 4.0 to 4.2 write them; and refused files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kmini.pipeline.stages.spark_checkpoint import (
    CheckpointError,
    LocalFiles,
    Processed,
    kafka_offsets,
    kafka_sources,
    last_commit,
    read_planned,
    read_processed,
)
from support.server_process import StartServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795315823718,"conf":{"spark.sql.shuffle.partitions":"2"}}'

Checkpoint = LocalFiles


def write(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)


def plan(checkpoint: Checkpoint, batch_id: int, *lines: str | Mapping[str, object]) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    write(checkpoint.path / "offsets" / str(batch_id), "\n".join(["v1", METADATA, *texts]))


def commit(checkpoint: Checkpoint, batch_id: int, text: str = 'v1\n{"nextBatchWatermarkMs":0}') -> None:
    write(checkpoint.path / "commits" / str(batch_id), text)


def begin(checkpoint: Checkpoint, source: int | str, offsets: Mapping[str, object]) -> None:
    write(checkpoint.path / "sources" / str(source) / "0", b"\0v1\n" + json.dumps(offsets).encode())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a query that reads topic a, in two partitions."""
    files = LocalFiles(tmp_path / "checkpoint")
    begin(files, 0, {"a": {"0": 0, "1": 0}})
    return files


def test_a_batch_that_is_planned_and_not_committed_counts_for_nothing(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0, {"a": {"0": 51, "1": 49}})
    assert read_processed(checkpoint) is None
    commit(checkpoint, 0)
    plan(checkpoint, 1, {"a": {"0": 90, "1": 80}})
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51, ("a", 1): 49})
    assert read_planned(checkpoint) == Processed(1, {("a", 0): 90, ("a", 1): 80})


def test_batches_are_compared_as_numbers(checkpoint: Checkpoint) -> None:
    for number in (9, 10):
        plan(checkpoint, number, {"a": {"0": number}})
        commit(checkpoint, number)
    assert last_commit(checkpoint) == 10
    assert read_processed(checkpoint) == Processed(10, {("a", 0): 10})


def test_a_commit_in_the_making_is_none(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0, {"a": {"0": 51}})
    for name in (".0.d3b5.tmp", ".0.crc", "0.tmp", "x", "-1"):
        write(checkpoint.path / "commits" / name, "v1\n{}")
    assert last_commit(checkpoint) is None


def test_nothing_is_processed_where_there_is_no_checkpoint(tmp_path: Path) -> None:
    assert read_processed(LocalFiles(tmp_path / "none")) is None


def test_two_uses_of_a_topic_count_as_the_one_that_is_behind(checkpoint: Checkpoint) -> None:
    begin(checkpoint, 1, {"a": {"0": 0, "1": 0}})
    plan(checkpoint, 0, {"a": {"0": 50, "1": 10}}, {"a": {"0": 40, "1": 20}})
    commit(checkpoint, 0)
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 40, ("a", 1): 10})


def test_other_sources_are_no_topics(checkpoint: Checkpoint) -> None:
    """Files, a rate source, and a source without offsets so far."""
    plan(checkpoint, 0, {"logOffset": 3}, {"a": {"0": 51}}, "7", "-")
    commit(checkpoint, 0)
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51})


def test_a_source_that_only_looks_like_kafka_is_none(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0, {"a": {"0": 51}}, {"b": {"0": 1000}})
    write(checkpoint.path / "sources" / "1" / "0", 'v1\n{"b":{"0":0}}')
    commit(checkpoint, 0)
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51})
    assert kafka_sources(checkpoint) == [{("a", 0): 0, ("a", 1): 0}]


def test_a_topic_of_which_one_source_has_said_nothing_is_not_known(checkpoint: Checkpoint) -> None:
    begin(checkpoint, 1, {"a": {"0": 0, "1": 0}})
    plan(checkpoint, 0, {"a": {"0": 51}}, "-")
    commit(checkpoint, 0)
    assert read_processed(checkpoint) == Processed(0, {})


def test_a_commit_may_tell_of_its_state(checkpoint: Checkpoint) -> None:
    """With spark.sql.streaming.stateStore.checkpointFormatVersion=2."""
    plan(checkpoint, 0, {"a": {"0": 51}})
    commit(checkpoint, 0, 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["6d8bd791"]]}}')
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51})


def test_a_commit_may_tell_of_its_sink(checkpoint: Checkpoint) -> None:
    """Spark 4.2, with a named sink."""
    plan(checkpoint, 0, {"a": {"0": 51}})
    sinks = '{"snk":{"sinkName":"snk","commitOffset":"-","apiVersion":"DSv2","isActive":true}}'
    commit(checkpoint, 0, f'v3\n{{"nextBatchWatermarkMs":0,"sinkMetadataMap":{sinks}}}')
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51})


def test_offsets_may_name_their_sources(checkpoint: Checkpoint) -> None:
    """Spark 4.2, with spark.sql.streaming.offsetLog.formatVersion=2: a number, or the name that a reader was given."""
    begin(checkpoint, "b_src", {"b": {"0": 0}})
    write(checkpoint.path / "offsets" / "0", f'v2\n{METADATA}\n0:{{"a":{{"0":51}}}}\nb_src:{{"b":{{"0":7}}}}\nfiles:-')
    commit(checkpoint, 0)
    assert kafka_sources(checkpoint) == [{("a", 0): 0, ("a", 1): 0}, {("b", 0): 0}]
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 51, ("b", 0): 7})


def test_a_source_of_kafka_in_another_format_is_refused(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0, {"a": {"0": 51}})
    commit(checkpoint, 0)
    write(checkpoint.path / "sources" / "0" / "0", b'\0v2\n{"a":{"0":0}}')
    with pytest.raises(CheckpointError, match="sources/0/0 begins with b'v2', not with v1"):
        read_processed(checkpoint)


@pytest.mark.parametrize("text", ["", "v1", "v1\n", "v4\n{}", "v1\n{", "v1\n[]", "{}"])
def test_a_commit_that_is_not_understood_is_refused(checkpoint: Checkpoint, text: str) -> None:
    """The batch before is no substitute: another version of Spark may have written this one."""
    for number in (0, 1):
        plan(checkpoint, number, {"a": {"0": 51 + number}})
        commit(checkpoint, number)
    commit(checkpoint, 1, text)
    with pytest.raises(CheckpointError, match="commits/1"):
        read_processed(checkpoint)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v3\n{}\n-",
        'v2\n{}\n{"a":{"0":1}}',
        "v1",
        f"v1\n{METADATA}\nnonsense",
        f'v1\n{METADATA}\n{{"a":{{"0":-1}}}}',
    ],
)
def test_offsets_that_are_not_understood_are_refused(checkpoint: Checkpoint, text: str) -> None:
    commit(checkpoint, 0)
    write(checkpoint.path / "offsets" / "0", text)
    with pytest.raises(CheckpointError, match="offsets/0"):
        read_processed(checkpoint)


def test_a_commit_without_its_offsets_is_refused(checkpoint: Checkpoint) -> None:
    plan(checkpoint, 0, {"a": {"0": 51}})
    commit(checkpoint, 1)
    with pytest.raises(CheckpointError, match="offsets/1 is missing"):
        read_processed(checkpoint)


@pytest.mark.parametrize(
    "line", ["-", "7", "{}", "null", "[]", '{"logOffset":1}', '{"a":{"x":1}}', '{"a":{"0":"1"}}', '{"a":{"0":true}}']
)
def test_what_is_no_offset_of_kafka(line: str) -> None:
    assert kafka_offsets(line.encode(), "offsets/0") is None


def test_lines_belong_to_topics_by_what_they_say_and_not_by_their_number(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    """The number of a line is not that of a source: a DataFrame that is used twice has two lines and one source."""
    kafka = {"kafka.bootstrap.servers": start_server().bootstrap_servers}
    for topic, count in (("a", 7), ("b", 11)):
        spark.range(count).selectExpr("cast(id as string) value").write.format("kafka").options(
            **kafka, topic=topic
        ).save()
    reader = spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "one.json").write_text('{"value": "1"}')
    files = spark.readStream.schema("value string").json(str(tmp_path / "files"))
    a, b = (reader.option("subscribe", topic).load().selectExpr("cast(value as string) value") for topic in "ab")
    query = (
        files.union(b)
        .union(b)
        .union(a)
        .writeStream.trigger(availableNow=True)
        .format("parquet")
        .start(str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
    )
    query.awaitTermination()
    checkpoint = LocalFiles(tmp_path / "checkpoint")
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 7, ("b", 0): 11})
    lines = checkpoint.read("offsets/0").splitlines()[2:]
    assert len(lines) == len(kafka_sources(checkpoint)) + 2  # files, and b once more


def test_a_query_with_named_sources_and_sink_is_read(
    spark: SparkSession, start_server: StartServer, tmp_path: Path
) -> None:
    if not hasattr(spark.readStream, "name"):
        pytest.skip(f"Spark {spark.version} has no names of sources")
    evolution = "spark.sql.streaming.queryEvolution"
    settings = {
        f"{evolution}.enableSourceEvolution": "true",
        f"{evolution}.enableSinkEvolution": "true",
        "spark.sql.streaming.offsetLog.formatVersion": "2",
    }
    server = start_server().bootstrap_servers
    rows = spark.range(7).selectExpr("cast(id as string) value").write.format("kafka")
    rows.option("kafka.bootstrap.servers", server).save(topic="a")
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        reader = spark.readStream.name("first").format("kafka").option("kafka.bootstrap.servers", server)
        frame = reader.options(subscribe="a", startingOffsets="earliest").load()
        writer = frame.writeStream.trigger(availableNow=True).format("noop")
        writer._jwrite = writer._jwrite.name("last")
        writer.start(checkpointLocation=str(tmp_path)).awaitTermination()
    finally:
        for key in settings:
            spark.conf.unset(key)
    checkpoint = LocalFiles(tmp_path)
    assert (checkpoint.read("offsets/0")[:2], checkpoint.read("commits/0")[:2]) == (b"v2", b"v3")
    assert read_processed(checkpoint) == Processed(0, {("a", 0): 7})
