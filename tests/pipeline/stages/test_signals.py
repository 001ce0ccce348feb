"""SIGINT and SIGTERM while a pipeline starts and while it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.pipeline.stages.signals import Signals
from support.pipeline_cluster import WITHIN_S, Cluster
from support.until import until

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
    with Signals(stop) as signals:
        signal.signal(number, signal.default_int_handler)  # as Spark's session does
        signals.take_back()
        os.kill(os.getpid(), number)
        assert stop.is_set()
    assert signal.getsignal(number) is before


@pytest.fixture
def program(need_spark: None, cluster: Cluster, tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Start a program that calls `Pipeline.run`."""
    cluster.create("in", "out")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, str(file), cluster.kafka.bootstrap_servers, str(tmp_path)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_runs_a_pipeline_ends_in_order_by_a_signal(
    program: Callable[[], subprocess.Popen[str]], cluster: Cluster, number: signal.Signals
) -> None:
    """The last purge is done, and the progress is on the standard error."""
    with program() as process:
        cluster.send("in", "a", "b")
        until(lambda: cluster.values("out") == ["a", "b"], "both records", timeout_s=WITHIN_S)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=WITHIN_S)
    assert (process.returncode, stdout) == (0, "begins\nends\n"), stderr
    assert "INFO kmini.pipeline: s: ended, batch 0" in stderr
    assert "Traceback" not in stderr


@pytest.mark.programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_whose_pipeline_starts_ends_by_a_signal_without_a_word_of_failure(
    program: Callable[[], subprocess.Popen[str]], number: signal.Signals
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


def has_child(pid: int) -> bool:
    return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
