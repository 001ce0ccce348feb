"""Pipelines on real Spark: how they start, fail and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Batches, Kafka, Pipeline, Stage
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages import running_pipeline as running_module
from kmini.pipeline.stages.pipeline_progress import Progress, StageProgress, lines
from kmini.pipeline.stages.running_pipeline import PipelineError, reason
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
from support.pipeline_cluster import WITHIN_S, Cluster, commits, same


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
        running_module, "_let_it_finish", lambda query, by: (stopped.append(query.name), let_it_finish(query, by))
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


def test_a_stop_ends_a_run_in_order(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create("in", "between", "out")
    stopped: list[str] = []
    monkeypatch.setattr(running_module, "_let_it_finish", lambda query, _: stopped.append(query.name))
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


def test_a_watcher_that_fails_stops_no_stage(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("in", "out")
    cluster.send("in", "a")
    shown: list[Any] = []

    def watch(progress: Any) -> None:
        shown.append(progress)
        raise ValueError("no terminal")

    piped(Stage("s", same, reads="in", writes="out")).run(available_now=True, spark=spark, watcher=watch)
    assert cluster.values("out") == ["a"]
    assert shown
    assert caplog.text.count("its stages go on") == 1


def test_a_batch_that_was_planned_and_not_committed_is_run_again_and_its_progress_is_shown(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    """As after a kill between the plan and the commit. Spark has no latest offset for such a batch."""
    cluster.create("in", "out")
    cluster.send("in", "a")
    pipeline = piped(Stage("s", same, reads="in", writes="out"))
    pipeline.run(available_now=True, spark=spark)
    folder = Path(pipeline.checkpoint_of(pipeline.stages[0])) / "commits"
    last = max(int(file.name) for file in folder.iterdir() if file.name.isdigit())
    for file in (folder / str(last), folder / f".{last}.crc"):
        file.unlink()
    batches: list[int | None] = []
    pipeline.run(available_now=True, spark=spark, watcher=lambda progress: batches.append(progress.stages[0].batch_id))
    assert batches[-1] == last
    assert "its stages go on" not in caplog.text
    assert cluster.values("out") == ["a", "a"]


@pytest.mark.parametrize("folder", ["offsets", "commits"])
def test_a_checkpoint_in_an_unknown_format_is_refused_before_a_query_runs(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], folder: str
) -> None:
    """A purge could not read it, and would wait for ever while the stages go on."""
    cluster.create("in", "out")
    cluster.send("in", "one")
    pipeline = piped(Stage("s", same, reads="in", writes="out"))
    pipeline.run(spark=spark, available_now=True)
    written = Path(pipeline.checkpoint_of(pipeline.stages[0])) / folder / "0"
    written.write_text(written.read_text().replace("v1", "v9", 1))
    written.with_name(".0.crc").unlink()
    with pytest.raises(PipelineError, match=rf"s/{folder}/0 begins with b'v9', not with v1 or v2") as refused:
        pipeline.start(spark=spark)
    assert "pipeline 'p': " in str(refused.value)
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


def test_rows_that_come_behind_the_watermark_are_told(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "out")

    def counted(frame: DataFrame) -> DataFrame:
        hours = frame.withWatermark("timestamp", "1 minute").groupBy("timestamp").count()
        return hours.selectExpr("cast(count as string) value")

    pipeline = piped(Stage("s", counted, "in", "out"))
    late: list[int] = []
    for at_ms in (3_600_000, 7_200_000, 1000, 2000):
        cluster.send("in", "a", timestamp=at_ms)
        pipeline.run(
            available_now=True, spark=spark, watcher=lambda progress: late.append(progress.stages[0].late_rows)
        )
    assert late[-1] == 1
    assert ", 1 late rows dropped" in lines(Progress("p", [StageProgress("s", "ended", 1, late_rows=1)], []))[0]


def test_stages_share_the_scheduler_of_spark_by_pools(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    """So that the tasks of a slow stage keep no other one waiting, with spark.scheduler.mode=FAIR."""
    cluster.create("in", "out")
    cluster.send("in", "a")
    pools: dict[str, str] = {}

    def noted(name: str) -> Batches:
        def note(batch: DataFrame, _: int) -> None:
            pools[name] = batch.sparkSession.sparkContext.getLocalProperty("spark.scheduler.pool") or ""

        return Batches(note)

    piped(*(Stage(name, same, "in", noted(name)) for name in ("s", "t"))).run(available_now=True, spark=spark)
    assert pools == {"s": "s", "t": "t"}
    assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None


def test_of_an_error_the_line_is_told_that_says_why() -> None:
    lost = "Some data may have been lost because they are not available in Kafka any more;\nReason: Could not read a-0"
    assert reason(lost) == "records that were not processed yet are gone. Could not read a-0"
    assert reason("[STREAM_FAILED] Query [id = x, runId = y] terminated with exception: it broke\nmore") == "it broke"
    assert reason("") == "no reason given"
