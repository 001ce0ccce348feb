"""Declarations of pipelines, checked when they are made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from kmini.pipeline import Batches, DeclarationError, Files, Pipeline, Stage, Topic


def same(frame: Any) -> Any:
    return frame


LOSSY = {"FailOnDataLoss": "False"}


A = Stage("a", same, reads="in", writes="between")


B = Stage("b", same, reads="between", writes="out")


def refusal(*stages: Stage, **more: Any) -> str:
    with pytest.raises(DeclarationError) as refused:
        Pipeline("p", stages, **more)
    return str(refused.value)


def test_stages_are_put_in_the_order_of_their_data() -> None:
    assert Pipeline("p", [B, A]).in_order() == (A, B)
    assert Pipeline("p", [B, A]).topic_names() == ["in", "between", "out"]


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (Stage("s", same, writes="out"), ["'s'", "no source"]),
        (Stage("s", same, reads=[], writes="out"), ["'s'", "no source"]),
        (Stage("s", same, reads="in"), ["'s'", "in", "no sink"]),
        (Stage("s", same, reads=[""], writes="out"), ["'s'", "reads ''"]),
        (Stage("a/b", same, reads="in", writes="out"), ["'a/b'"]),
        (Stage("..", same, reads="in", writes="out"), ["'..'"]),
        (Stage("s", None, reads="in", writes="out"), ["'s'", "None"]),  # type: ignore[arg-type]
        (Stage("s", same, reads="in", writes="out", output_mode="all"), ["'s'", "all"]),
        (Stage("s", same, reads="in", writes="out", trigger_interval_ms=-1), ["-1"]),
        (Stage("s", same, reads="in", writes="in"), ["circle", "s → in → s"]),
        (
            Stage("s", same, reads="in", writes="out", source_options=LOSSY),
            ["'s'", "in", "failOnDataLoss"],
        ),
        (
            Stage("s", same, reads="in", writes="out", source_options={"assign": "{}"}),
            ["'s'", "assign"],
        ),
        (
            Stage("s", same, reads="in", writes="out", sink_options={"topic": "x"}),
            ["'s'", "topic"],
        ),
    ],
)
def test_a_stage_that_cannot_run_is_refused(stage: Stage, words: list[str]) -> None:
    message = refusal(stage)
    assert all(word in message for word in words), message
    assert "\n" not in message


def test_two_stages_of_one_name_are_refused() -> None:
    assert "two stages 'a'" in refusal(A, Stage("a", same, reads="between", writes="out"))


def test_two_stages_with_one_checkpoint_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    one = Stage("one", same, reads="in", writes="x", checkpoint=str(tmp_path / "c"))
    other = Stage("other", same, reads="in", writes="y", checkpoint=str(tmp_path / "link" / "c"))
    message = refusal(one, other)
    assert "'one'" in message
    assert "'other'" in message
    assert "one checkpoint" in message


def test_a_circle_is_told_with_its_stages_and_topics() -> None:
    other = Stage("c", same, reads="out", writes="in")
    message = refusal(A, B, other)
    assert (
        "a → between → b → out → c → in → a" in message
        or "b → out → c → in → a → between → b" in message
        or ("c → in → a → between → b → out → c" in message)
    ), message


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (Topic("betwen"), ["'betwen'", "no stage"]),
        (Topic("in", partitions=0), ["'in'", "0"]),
        (Topic("out", purge=True), ["'out'", "no stage reads"]),
        (Topic("in", consumer_groups="billing"), ["'in'", "'billing'"]),
    ],
)
def test_a_topic_that_makes_no_sense_is_refused(topic: Topic, words: list[str]) -> None:
    message = refusal(A, B, topics=[topic])
    assert all(word in message for word in words), message


def test_a_pipeline_without_stages_is_refused() -> None:
    assert "no stage" in refusal()


def test_topics_between_stages_are_purged_and_no_others() -> None:
    assert [topic.name for topic in Pipeline("p", [A, B]).purged_topics()] == ["between"]


def test_what_is_purged_can_be_said() -> None:
    topics = [Topic("in", purge=True), Topic("between", purge=False)]
    assert [topic.name for topic in Pipeline("p", [A, B], topics).purged_topics()] == ["in"]


def test_a_topic_that_is_only_compacted_is_not_purged_unless_that_is_said() -> None:
    compacted = Topic("between", configs={"cleanup.policy": "compact"})
    assert Pipeline("p", [A, B], [compacted]).purged_topics() == []
    both = Topic("between", configs={"cleanup.policy": "compact,delete"})
    assert Pipeline("p", [A, B], [both]).purged_topics() == [both]


def test_checkpoints_lie_beside_the_pipeline_unless_they_are_elsewhere(tmp_path: Path) -> None:
    pipeline = Pipeline("p", [A, Stage("b", same, reads="between", writes=Files("out"), checkpoint="hdfs://n/b")])
    there = Pipeline("p", pipeline.stages, directory=str(tmp_path), checkpoints="c")
    assert [there.checkpoint_of(stage) for stage in there.stages] == [str(tmp_path / "c" / "a"), "hdfs://n/b"]
    assert there.located("out") == str(tmp_path / "out")


def test_a_function_of_each_batch_is_a_sink() -> None:
    Pipeline("p", [Stage("s", same, reads="in", writes=Batches(lambda batch, number: None))])
