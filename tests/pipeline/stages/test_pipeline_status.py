"""The status of a pipeline (pipeline_status.py) and `kmini pipeline status`, with checkpoints written by hand and a
broker; and of one that runs on real Spark."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("pyspark")

from kmini import Broker
from kmini.cli import kmini
from kmini.pipeline import Pipeline, Stage, Topic
from kmini.pipeline.admin import Admin
from kmini.pipeline.stages.pipeline_status import PipelineStatus, StageStatus, TopicStatus, pipeline_status
from kmini.pipeline.stages.topic_owner import OWNERS_GROUP, Owner
from support.pipeline_cluster import WITHIN_S, Cluster, same
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.sockets

HOLDS_A_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""
COMMITTED_AT_MS = 1_700_000_000_250


@pytest.fixture
def served() -> Iterator[Cluster]:
    """A broker whose topic `in` has ten records, and `between` five."""
    with Broker() as broker:
        cluster = Cluster(broker.bootstrap_servers)
        cluster.create("in", "between", "out")
        cluster.send("in", *"abcdefghij")
        cluster.send("between", *"abcde")
        yield cluster


@pytest.fixture
def declared(served: Cluster, tmp_path: Path) -> Pipeline:
    return Pipeline(
        "p",
        [Stage("a", same, "in", "between"), Stage("b", same, "between", "out")],
        topics=[Topic("between", consumer_groups=["g"])],
        kafka=served.kafka,
        directory=str(tmp_path),
    )


def write_checkpoint(pipeline: Pipeline, stage: str, topic: str, *ends: int, commits: int) -> Path:
    """The checkpoint of a stage that has planned a batch up to each of the ends, and has committed some of them."""
    folder = Path(pipeline.directory) / "checkpoints" / stage
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "sources" / "0" / "0").write_bytes(b'\0v1\n{"%s":{"0":0}}' % topic.encode())
    for batch, end in enumerate(ends):
        (folder / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"{topic}":{{"0":{end}}}}}')
    for batch in range(commits):
        (folder / "commits" / str(batch)).write_text("v1\n{}")
        os.utime(folder / "commits" / str(batch), ns=(0, COMMITTED_AT_MS * 1_000_000))
    return folder


def commit(served: Cluster, group: str, topic: str, offset: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**served.client, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def stage(status: PipelineStatus, name: str) -> StageStatus:
    return next(one for one in status.stages if one.stage == name)


def between(status: PipelineStatus) -> TopicStatus:
    (found,) = status.topics
    return found


def test_a_stage_has_the_lag_of_what_it_committed_and_not_of_what_it_planned(
    served: Cluster, declared: Pipeline
) -> None:
    write_checkpoint(declared, "a", "in", 4, 7, commits=1)
    write_checkpoint(declared, "b", "between", 5, commits=1)
    status = pipeline_status(declared, Admin(served.kafka))
    assert stage(status, "a") == StageStatus("a", "stopped", 0, COMMITTED_AT_MS, planned=1, lag=6)
    assert stage(status, "b") == StageStatus("b", "stopped", 0, COMMITTED_AT_MS, planned=None, lag=0)


def test_a_stage_that_never_ran_has_all_records_before_it(served: Cluster, declared: Pipeline) -> None:
    Admin(served.kafka).delete_before({("in", 0): 3})
    status = pipeline_status(declared, Admin(served.kafka))
    path = declared.checkpoint_of(declared.stages[0])
    assert stage(status, "a") == StageStatus("a", "stopped", lag=7, problem=f"there is no checkpoint {path}")
    from_the_end = Stage("c", same, "in", "out", source_options={"startingoffsets": "latest"})
    (other,) = pipeline_status(Pipeline("q", [from_the_end], kafka=served.kafka), Admin(served.kafka)).stages
    assert other.lag is None


def test_a_purged_topic_waits_for_the_consumer_that_is_furthest_behind(served: Cluster, declared: Pipeline) -> None:
    admin = Admin(served.kafka)
    write_checkpoint(declared, "b", "between", 2, commits=1)
    assert between(pipeline_status(declared, admin)) == TopicStatus("between", 5, [0], 0, ["group g"])
    commit(served, "g", "between", 4)
    assert between(pipeline_status(declared, admin)) == TopicStatus("between", 5, [0], 2, ["stage b"])
    admin.delete_before({("between", 0): 2})
    assert between(pipeline_status(declared, admin)) == TopicStatus("between", 3, [2], 0, ["stage b"])
    write_checkpoint(declared, "b", "between", 2, 5, commits=2)
    commit(served, "g", "between", 5)
    assert between(pipeline_status(declared, admin)) == TopicStatus("between", 3, [2], 3, [])


def test_the_owner_of_a_purged_topic_is_named_and_another_pipeline_is_a_problem(
    served: Cluster, declared: Pipeline
) -> None:
    admin = Admin(served.kafka)
    checkpoints = declared.located(declared.checkpoints)
    for owner, problem in (
        (Owner.of("p", checkpoints, ["1"]), None),
        (Owner("2", "other", "/there", "h"), "another pipeline purges it"),
    ):
        admin.commit_metadata(OWNERS_GROUP, {"between": json.dumps(asdict(owner))})
        found = between(pipeline_status(declared, admin))
        assert (found.owner, found.problem) == (str(owner), problem)


def test_a_stage_runs_while_another_process_holds_the_lock_of_its_checkpoint(
    served: Cluster, declared: Pipeline
) -> None:
    lock = write_checkpoint(declared, "a", "in", 4, commits=1).parent / "a.lock"
    command = [sys.executable, "-c", HOLDS_A_LOCK, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n"
        assert stage(pipeline_status(declared, Admin(served.kafka)), "a").state == "runs"
        holder.communicate(b"\n")
    assert stage(pipeline_status(declared, Admin(served.kafka)), "a").state == "stopped"
    with open(lock, "r+b") as file:  # to look has left no lock behind
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_checkpoint_elsewhere_is_told_in_its_row_and_the_others_are_shown(
    served: Cluster, declared: Pipeline, tmp_path: Path
) -> None:
    elsewhere = Pipeline(
        "p",
        [declared.stages[0], Stage("b", same, "between", "out", checkpoint="s3a://bucket/b")],
        kafka=served.kafka,
        directory=str(tmp_path),
    )
    write_checkpoint(elsewhere, "a", "in", 4, commits=1)
    status = pipeline_status(elsewhere, Admin(served.kafka))
    told = "checkpoint s3a://bucket/b is not on this machine: only Spark can read it"
    assert stage(status, "b") == StageStatus("b", "unknown", problem=told)
    assert between(status) == TopicStatus("between", 5, [0], problem=told)
    assert stage(status, "a").lag == 6


def test_what_cannot_be_understood_is_told_in_its_row(served: Cluster, declared: Pipeline) -> None:
    folder = write_checkpoint(declared, "b", "between", 2, commits=1)
    (folder / "commits" / "0").write_text("v9\n{}")
    write_checkpoint(declared, "a", "in", 4, commits=1)
    identity = Path(declared.checkpoint_of(declared.stages[0])) / "kmini.json"
    identity.write_text(json.dumps({"cluster_id": "another"}))
    status = pipeline_status(declared, Admin(served.kafka))
    assert "commits/0 begins with b'v9'" in str(stage(status, "b").problem)
    assert "commits/0 begins with b'v9'" in str(between(status).problem)
    assert "is about topics of cluster another" in str(stage(status, "a").problem)
    assert stage(status, "a").lag is None
    identity.unlink()
    assert stage(pipeline_status(declared, Admin(served.kafka)), "a").lag == 6


def test_a_topic_that_is_not_there_is_told_in_its_row(served: Cluster, tmp_path: Path) -> None:
    pipeline = Pipeline("p", [Stage("a", same, "in", "no"), Stage("b", same, "no", "out")], kafka=served.kafka)
    status = pipeline_status(pipeline, Admin(served.kafka))
    told = f"topic 'no' is not on {served.servers}"
    assert between(status) == TopicStatus("no", problem=told)
    assert str(stage(status, "b").problem).startswith(told)


FILE = """
from kmini.pipeline import Pipeline, Stage
pipeline = Pipeline("p", [Stage("a", len, "in", "between"), Stage("b", len, "between", "out")])
"""


def test_the_command_needs_no_java(served: Cluster, declared: Pipeline, tmp_path: Path) -> None:
    write_checkpoint(declared, "a", "in", 4, 7, commits=1)
    write_checkpoint(declared, "b", "between", 5, commits=1)
    (tmp_path / "file.py").write_text(FILE)
    command = [
        sys.executable,
        "-c",
        "from kmini.cli import main; main()",
        "pipeline",
        "status",
        str(tmp_path / "file.py"),
    ]
    command += ["-b", served.servers]
    without = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PATH")}
    outputs = [
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=60, check=True, env=without).stdout
        for more in ((), ("--format", "json"))
    ]
    stages, topics = outputs[0].split("\n\n")
    assert stages.splitlines()[1] == "a\tstopped\t0\t2023-11-14T22:13:20.250Z\t1\t6\t-"
    assert topics.splitlines()[1] == "between\t5\t0\t5\t\t-\t-"
    content = json.loads(outputs[1])
    assert content["pipeline"] == "p"
    assert content["stages"][1]["lag"] == 0
    assert content["topics"][0]["purged_up_to"] == [0]


def test_a_status_without_a_broker_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file.py").write_text(FILE)
    arguments = ["pipeline", "status", str(tmp_path / "file.py"), "-b", "127.0.0.1:1", "--timeout-ms", "300"]
    with pytest.raises(SystemExit) as ended:
        kmini.main(arguments, prog_name="kmini")
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "no broker answers at 127.0.0.1:1" in said
    assert said.count("\n") == 1


@pytest.mark.programs
def test_a_pipeline_that_runs_is_seen_from_outside(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline]
) -> None:
    cluster.create("in", "between", "out")
    cluster.send("in", *"abc")
    pipeline = piped(Stage("a", same, "in", "between"), Stage("b", same, "between", "out"))
    admin = Admin(cluster.kafka)

    def is_through() -> bool:
        status = pipeline_status(pipeline, admin)
        return {one.lag for one in status.stages} == {0} and between(status).purged_up_to == [3]

    with pipeline.start(spark=spark):
        until(is_through, "all is committed and purged", timeout_s=WITHIN_S)
        status = pipeline_status(pipeline, admin)
        assert [one.state for one in status.stages] == ["runs", "runs"]
        assert "pipeline 'p' (checkpoints " in str(between(status).owner)
        assert (between(status).held, between(status).waits_for, between(status).problem) == (0, [], None)
    assert [one.state for one in pipeline_status(pipeline, admin).stages] == ["stopped", "stopped"]
