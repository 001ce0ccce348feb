"""A pipeline that cannot run is refused when it is declared, in words that name stage and topic, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("confluent_kafka")

from kmini.cli import kmini
from kmini.pipeline import Batches, DeclarationError, Files, Kafka, Pipeline, Stage, Topic
from kmini.pipeline.clients import SettingsError
from kmini.pipeline.stages.pipeline_file import load_pipeline
from kmini.pipeline.stages.pipeline_progress import Progress, StageProgress, TopicProgress, lines, table


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


# --- clients


def test_where_brokers_are_is_said_by_the_file_or_else_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    assert Kafka().servers == "127.0.0.1:9092"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "b:1")
    assert Kafka().servers == "b:1"
    assert Kafka("c:2").servers == "c:2"
    assert Pipeline("p", [A], kafka=Kafka("c:2")).with_kafka("d:3").kafka.servers == "d:3"
    assert Pipeline("p", [A], kafka=Kafka("c:2")).with_kafka().kafka.servers == "c:2"


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="p\\"w;=";'


def test_who_to_be_is_said_once_for_both_kinds_of_clients() -> None:
    settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": JAAS}
    settings |= {"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}
    kafka = Kafka("b:1", settings)
    assert kafka.spark_options() == {f"kafka.{key}": value for key, value in settings.items()} | {
        "kafka.bootstrap.servers": "b:1"
    }
    assert kafka.admin_config() == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": 'p"w;=',
        "ssl.ca.location": "ca.pem",
    }


def test_what_the_admin_client_cannot_be_told_is_refused_without_the_secret() -> None:
    with pytest.raises(SettingsError, match="truststore is JKS"):
        Kafka(settings={"ssl.truststore.location": "trust.jks"}).admin_config()
    with pytest.raises(SettingsError) as refused:
        Kafka(settings={"sasl.jaas.config": 'x.OAuthBearerLoginModule required secret="hidden";'}).admin_config()
    assert "hidden" not in str(refused.value)
    given = {"sasl.username": "a", "sasl.password": "b"}
    assert Kafka("b:1", {"sasl.jaas.config": "x"}, given).admin_config() == given | {"bootstrap.servers": "b:1"}


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(Pipeline("p", [A], kafka=Kafka("b", {"sasl.jaas.config": "hidden"}, {"x": "hidden"})))


# --- files

DECLARED = """
from kmini.pipeline import Pipeline, Stage
import helper_of_this_test
{name} = Pipeline("p", [Stage("s", helper_of_this_test.same, reads="in", writes="out")], checkpoints="c")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "helper_of_this_test.py").write_text("def same(frame): return frame\n")
    return tmp_path / "file.py"


@pytest.mark.parametrize("name", ["pipeline", "anything"])
def test_a_file_declares_a_pipeline_whose_checkpoints_lie_beside_it(file: Path, name: str) -> None:
    file.write_text(DECLARED.format(name=name))
    loaded = load_pipeline(file)
    assert loaded.checkpoint_of(loaded.stages[0]) == str(file.parent / "c" / "s")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "declares no pipelines"),
        (DECLARED.format(name="one") + DECLARED.format(name="two"), "declares 2 pipelines"),
        ("pipeline = 7", "pipeline is int"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("pipeline = (", "SyntaxError"),
        ("from kmini.pipeline import *\npipeline = Pipeline('p', [Stage('s', len, writes='x')])", "no source"),
    ],
)
def test_a_file_that_declares_none_is_refused_in_one_line(
    file: Path, text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file)], prog_name="kmini")
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert words in said
    assert str(file) in said
    assert said.count("\n") == 1


LOGGING = """
import logging, sys
from kmini.cli import main
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages.pipeline import Pipeline
from kmini.pipeline.stages.running_pipeline import PipelineError

def fail(self, **options):
    logging.getLogger("kmini.pipeline.x").info("begins")
    raise PipelineError("stage s failed")

Pipeline.start = fail
Admin.cluster_id = lambda self: "a cluster"
main()
"""


def test_log_lines_of_a_run_are_json_on_request(file: Path) -> None:
    pytest.importorskip("pyspark")
    file.write_text(DECLARED.format(name="one"))
    command = [sys.executable, "-c", LOGGING, "pipeline", "run", str(file), "--log-format", "json"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    line, sentence = finished.stderr.splitlines()
    assert {**json.loads(line), "time": ""} == {
        "time": "",
        "level": "INFO",
        "logger": "kmini.pipeline.x",
        "message": "begins",
    }
    assert sentence == "kmini: stage s failed"


def test_a_file_is_shown_with_what_is_purged(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspark")
    example = Path(__file__).resolve().parents[3] / "examples" / "sessions" / "pipeline.py"
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "show", str(example)], prog_name="kmini")
    assert ended.value.code == 0
    assert "sessions\tstage profiles,stage statistics" in capsys.readouterr().out


def test_a_function_of_each_batch_is_a_sink() -> None:
    Pipeline("p", [Stage("s", same, reads="in", writes=Batches(lambda batch, number: None))])


def test_a_run_without_a_broker_ends_before_spark_is_started(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyspark")
    file.write_text(DECLARED.format(name="one"))
    monkeypatch.setattr("kmini.pipeline.stages.pipeline.Pipeline.start", lambda *_, **__: pytest.fail("it starts"))
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file), "-b", "127.0.0.1:1", "--timeout-ms", "300"], prog_name="kmini")
    assert ended.value.code == 1
    assert "no broker answers at 127.0.0.1:1" in capsys.readouterr().err


def test_without_the_extra_the_command_says_what_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("")
    monkeypatch.setattr("kmini.cli.extras.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as ended:
        kmini.main(["pipeline", "run", str(file)], prog_name="kmini")
    assert ended.value.code == 2
    assert "pip install '.[spark]'" in capsys.readouterr().err


# --- how it is doing


def test_progress_reads_in_a_log_and_on_a_terminal() -> None:
    stages = [StageProgress("first", "runs", 7, 100, 1234.5, 42), StageProgress("second", "waits")]
    progress = Progress("p", stages, [TopicProgress("between", 1000, "0 waits for group billing")])
    assert lines(progress) == [
        "first: runs, batch 7, 1234 rows/s, lag 42",
        "second: waits",
        "between: 1000 purged (0 waits for group billing)",
    ]
    terminal = Console(width=100, record=True, file=StringIO())
    terminal.print(table(progress))
    drawn = terminal.export_text()
    assert all(word in drawn for word in ("first", "1,23", "42", "between", "1,000", "0 waits for group billing"))
