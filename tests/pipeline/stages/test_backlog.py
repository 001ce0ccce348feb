"""A backlog goes through a topic between two stages piece by piece."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Batches, Pipeline, Stage, Topic
from support.pipeline_cluster import WITHIN_S, Cluster, commits, same
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT = 50


@pytest.mark.parametrize("available_now", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_a_topic_holds_no_more_than_the_limit_and_a_batch_of_a_backlog_that_goes_through_it(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], available_now: bool
) -> None:
    """The reader takes its time: each batch of its waits for the writer to have no room, or to be through."""
    cluster.create("in", "between", "out")
    values = [str(number) for number in range(10 * LIMIT)]
    cluster.send("in", *values)
    held: list[int] = []
    seen: list[str] = []

    def read(batch: DataFrame, _: int) -> None:
        seen.extend(row.value.decode() for row in batch.collect())
        until(
            lambda: cluster.bounds("between")[1] >= min(len(seen) + LIMIT, len(values)),
            "what there is room for",
            timeout_s=WITHIN_S,
        )
        start, end = cluster.bounds("between")
        held.append(end - start)

    pipeline = piped(
        Stage("writes", same, reads="in", writes="between"),
        Stage("reads", same, reads="between", writes=Batches(read)),
        max_offsets_per_trigger=LIMIT,
    )
    stop = threading.Event()

    def watch(_: object) -> None:
        if not available_now and len(seen) == len(values):
            stop.set()

    pipeline.run(available_now=available_now, spark=spark, stop=stop, watcher=watch)
    assert seen == values
    assert LIMIT <= max(held) <= 2 * LIMIT
    assert cluster.bounds("between") == (len(values), len(values))


def test_a_batch_that_waits_for_room_when_the_pipeline_stops_is_written_once(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "between", "out")
    values = [str(number) for number in range(4 * LIMIT)]
    cluster.send("in", *values)
    goes_on = threading.Event()

    def waits(batch: DataFrame, _: int) -> None:
        batch.count()
        assert goes_on.wait(WITHIN_S)

    writes, reads = Stage("writes", same, reads="in", writes="between"), "reads"
    pipeline = piped(writes, Stage(reads, same, "between", Batches(waits)), max_offsets_per_trigger=LIMIT)
    with pipeline.start(spark=spark) as running:
        until(lambda: cluster.bounds("between")[1] == 2 * LIMIT, "a topic without room", timeout_s=WITHIN_S)
        threading.Timer(0, goes_on.set).start()
        running.stop()
        assert [stage.state for stage in running.progress().stages] == ["ended", "ended"]
    assert commits(pipeline, "writes") is not None
    passed: list[str] = []
    kept = Stage(reads, same, "between", Batches(lambda batch, _: passed.extend(map(text, batch.collect()))))
    piped(writes, kept, max_offsets_per_trigger=LIMIT).run(available_now=True, spark=spark)
    assert cluster.bounds("between") == (len(values), len(values))
    assert len(passed) == len(set(passed))


def text(row: object) -> str:
    return row.value.decode()  # type: ignore[attr-defined]


def test_a_stage_of_its_own_mind_about_its_batches_is_left_alone(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "out")
    cluster.send("in", *"abcdef")
    batches: list[int] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(batch.count())

    def run(**more: object) -> list[int]:
        batches.clear()
        name = f"s{len(more)}{more.get('max_offsets_per_trigger')}"
        options = {"maxoffsetspertrigger": "3"} if name == "s12" else {}
        stage = Stage(name, same, "in", Batches(keep), source_options=options)
        piped(stage, **more).run(available_now=True, spark=spark)
        return [size for size in batches if size]

    assert run() == [6]
    assert run(max_offsets_per_trigger=4) == [4, 2]
    assert run(max_offsets_per_trigger=None) == [6]
    assert run(max_offsets_per_trigger=2) == [3, 3]


def test_a_topic_that_cannot_be_written_is_told_with_its_stage(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    from kmini.pipeline.stages.running_pipeline import PipelineError

    cluster.create("in", "out")
    cluster.create("between", max_message_bytes="100")
    cluster.send("in", "a" * 1000)
    pipeline = piped(
        Stage("s", same, "in", "between", sink_options={"kafka.retries": "0"}),
        Stage("t", same, "between", "out"),
        topics=[Topic("between", 1)],
    )
    with pytest.raises(PipelineError) as failed:
        pipeline.run(available_now=True, spark=spark)
    assert str(failed.value).startswith("stage 's' (reads in, writes between) failed: ")
    assert "max.message.bytes is 100" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert "at org.apache.spark" in caplog.text, "the log has the whole failure"
