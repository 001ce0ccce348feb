"""SIGINT and SIGTERM while a pipeline starts and while it runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kmini import Broker
from kmini.pipeline import Stage
from kmini.pipeline.session import connector_jars
from kmini.pipeline.stages.running_pipeline import END_STAGES_S, FINISH_BATCHES_S, LAST_PURGE_S
from kmini.pipeline.stages.signals import Signals
from support.pipeline_cluster import WITHIN_S, Cluster, same
from support.until import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kmini.pipeline import Pipeline

PROGRAM = """
import sys
from kmini.pipeline import Kafka, Pipeline, Stage

if __name__ == "__main__":
    print("begins", flush=True)
    Pipeline(
        "p",
        [Stage("s", lambda frame: frame.select("value"), reads="in", writes="out")],
        kafka=Kafka(sys.argv[1]),
        directory=sys.argv[2],
    ).run()
    print("ends", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_sets_the_event_and_afterwards_is_handled_as_before(number: signal.Signals) -> None:
    before, stop = signal.getsignal(number), threading.Event()
    with Signals(stop):
        os.kill(os.getpid(), number)
        assert stop.is_set()
    assert signal.getsignal(number) is before


def test_a_run_that_is_to_stop_ends_whatever_its_start_waits_for(
    spark: SparkSession, cluster: Cluster, piped: Callable[..., Pipeline], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create("in", "out")
    stop, goes_on, has_ended = threading.Event(), threading.Event(), threading.Event()

    def waits(frame: DataFrame) -> DataFrame:
        stop.set()
        goes_on.wait(WITHIN_S)
        has_ended.set()
        return frame

    caplog.set_level("INFO", "kmini.pipeline")
    piped(Stage("s", waits, reads="in", writes="out")).run(spark=spark, stop=stop)
    assert not has_ended.is_set()
    assert "was stopped while it started" in caplog.text
    goes_on.set()
    # The start that was left behind sees that it is to stop, and leaves nothing behind itself.
    until(lambda: "kmini-start" not in [thread.name for thread in threading.enumerate()], "its end", timeout_s=WITHIN_S)
    assert not spark.streams.active
    piped(Stage("s", same, reads="in", writes="out")).run(available_now=True, spark=spark)


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def launch(need_spark: None, tmp_path: Path) -> Iterator[Start]:
    """Start a program that calls `Pipeline.run` with these brokers, by Python or by spark-submit."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = []

    def start(servers: str, launcher: str = "python") -> subprocess.Popen[str]:
        words = [sys.executable]
        if launcher == "spark-submit":
            jars = ",".join(map(str, connector_jars()))
            words = [str(Path(sys.executable).with_name(launcher)), "--master", "local[2]", "--jars", jars]
        words += [str(file), servers, str(tmp_path)]
        process = subprocess.Popen(words, text=True, env=environment, cwd=tmp_path, **pipes)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def program(launch: Start, cluster: Cluster) -> Start:
    """Start the program with two topics of the cluster."""
    cluster.create("in", "out")
    return partial(launch, cluster.kafka.bootstrap_servers)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("launcher", "number"),
    [("python", signal.SIGINT), ("spark-submit", signal.SIGTERM)],
)
def test_a_program_that_runs_a_pipeline_ends_in_order_by_a_signal(
    program: Start, cluster: Cluster, launcher: str, number: signal.Signals, tmp_path: Path
) -> None:
    """The last purge is done, and the progress is told: by spark-submit, whose process is the JVM, on the standard
    output."""
    with program(launcher) as process:
        cluster.send("in", "a", "b")
        until(lambda: cluster.values("out") == ["a", "b"], "both records", timeout_s=WITHIN_S)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=WITHIN_S)
    told = stdout + stderr
    assert process.returncode == 0, told
    assert stdout.startswith("begins\n"), told
    assert stdout.endswith("ends\n"), told
    assert "INFO kmini.pipeline: s: ended, batch 0" in told
    assert not re.search("Traceback|Exception", told), told
    assert not (tmp_path / "artifacts").exists(), "Spark makes this folder where it runs"


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_whose_pipeline_starts_ends_by_a_signal_without_a_word_of_failure(
    program: Start, number: signal.Signals
) -> None:
    with program() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        until(lambda: has_child(process.pid), "a JVM", timeout_s=WITHIN_S)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, stdout) == (0, "ends\n"), stderr
    assert "was stopped while it started" in stderr
    assert "Traceback" not in stderr


@pytest.mark.soak
def test_a_program_whose_brokers_are_gone_ends_by_a_signal(launch: Start) -> None:
    """Spark's clients wait for brokers for a minute each, and the stages are stopped one after the other."""
    with Broker(topics=["in", "out"]) as broker:
        broker.topic("in").produce(b"a")
        process = launch(broker.bootstrap_servers)
        until(lambda: broker.topic("out").records(), "the record", timeout_s=WITHIN_S)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=FINISH_BATCHES_S + END_STAGES_S + LAST_PURGE_S + 15)
    assert (process.returncode, stdout) == (0, "begins\nends\n"), stderr
    assert "Traceback" not in stderr


def has_child(pid: int) -> bool:
    """Whether a thread of this process has started another process."""
    return any(path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children"))
