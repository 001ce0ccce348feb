"""Checkpoints of running pipelines: locked, compared with the cluster, and read through Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Pipeline, Stage, Topic
from kmini.pipeline.stages import checkpoint_files, checkpoint_lock
from kmini.pipeline.stages.checkpoint_files import SparkFiles
from kmini.pipeline.stages.running_pipeline import PipelineError
from support.server_process import StartServer
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
from support.pipeline_cluster import WITHIN_S, Cluster, same


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
    """The offsets would be taken for those of other records, which would be skipped, and purged."""
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


def test_a_checkpoint_elsewhere_is_read_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Here `elsewhere` is this machine, by a URI."""
    files = SparkFiles(spark, f"file:{tmp_path}/checkpoint")
    assert list(files.names("commits")) == []
    with pytest.raises(FileNotFoundError):
        files.read("kmini.json")
    identity = {"cluster_id": "c", "topic_ids": {"t": "id"}}
    checkpoint_files.write_identity(files, identity)
    assert checkpoint_files.read_identity(files) == identity
    assert json.loads((tmp_path / "checkpoint" / "kmini.json").read_text())["cluster_id"] == "c"
    assert files.names("") == ["kmini.json"]
    checkpoint_files.write_identity(files, {"cluster_id": "d"})
    assert checkpoint_files.read_identity(files) == {"cluster_id": "d"}
    files.delete("kmini.json")
    assert files.names("") == []


def test_a_file_that_is_replaced_at_this_moment_is_read_again_and_a_damaged_one_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SparkFiles(spark, f"file:{tmp_path}/checkpoint")
    files.write("kmini.lease", b"first")
    checksum = tmp_path / "checkpoint" / ".kmini.lease.crc"
    right = checksum.read_bytes()
    checksum.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    monkeypatch.setattr(checkpoint_files, "SETTLE_S", 0)
    with pytest.raises(Exception, match="Checksum error"):
        files.read("kmini.lease")
    monkeypatch.setattr(checkpoint_files.time, "sleep", lambda _: checksum.write_bytes(right))
    assert files.read("kmini.lease") == b"first"


def test_two_pipelines_do_not_write_one_checkpoint_elsewhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one finds that the first one renews its lease."""
    monkeypatch.setattr(checkpoint_lock, "RENEW_EVERY_S", 0.4)
    first = checkpoint_lock.CheckpointLease(SparkFiles(spark, f"file:{tmp_path}/checkpoint"))
    with pytest.raises(checkpoint_lock.CheckpointInUseError, match="is in use: process"):
        checkpoint_lock.CheckpointLease(SparkFiles(spark, f"file:{tmp_path}/checkpoint"))
    first.release()
    checkpoint_lock.CheckpointLease(SparkFiles(spark, f"file:{tmp_path}/checkpoint")).release()
