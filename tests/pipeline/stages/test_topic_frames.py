"""Records that travel from topic to topic through stages on real Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Files, Pipeline, Stage, Topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from support.pipeline_cluster import Cluster, same


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
