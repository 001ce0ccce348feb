"""Functions of a pipeline on a standalone cluster whose workers have neither kmini nor the pipeline's file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline.connector import connector_jars
from support.pipeline_cluster import Cluster
from support.server_process import StartServer
from support.spark_cluster import HOME, SparkCluster, spark_cluster

pytestmark = pytest.mark.soak

FILES = {
    "words.py": "def loud(text):\n    return text.upper()\n",
    "pipeline.py": """
from pyspark.sql import functions as F
from kmini.pipeline import Pipeline, Stage
import words

def shout(text):
    return words.loud(text)

def shouted(frame):
    return frame.select(F.udf(shout)(F.col("value").cast("string")).alias("value"))

pipeline = Pipeline("p", [Stage("s", shouted, reads="in", writes="out")])
if __name__ == "__main__":
    pipeline.run(available_now=True)
""",
}
WITHIN_S = 240.0
SETTINGS = ("spark.driver.memory=512m", "spark.executor.memory=512m")


@pytest.fixture
def bare_cluster(tmp_path: Path, need_spark: None) -> Iterator[SparkCluster]:
    """A cluster whose executors find no package of ours."""
    (tmp_path / "cluster").mkdir()
    with spark_cluster(tmp_path / "cluster", environment={"PYTHONPATH": ""}) as cluster:
        yield cluster


def run_command(servers: str, file: Path, master: str) -> list[str]:
    command = [sys.executable, "-m", "kmini", "pipeline", "run", str(file), "-b", servers, "--available-now"]
    return [*command, "--master", master, *(part for one in SETTINGS for part in ("-c", one))]


def submit_command(servers: str, file: Path, master: str) -> list[str]:
    command = [str(HOME / "bin" / "spark-submit"), "--master", master, "--jars", ",".join(map(str, connector_jars()))]
    settings = [part for one in (*SETTINGS, "spark.driver.host=127.0.0.1") for part in ("--conf", one)]
    return [*command, *settings, "--py-files", str(file.with_name("words.py")), str(file)]


@pytest.mark.parametrize("command_of", [run_command, submit_command], ids=["run", "spark-submit"])
def test_executors_get_functions_modules_and_jars_from_the_driver(
    bare_cluster: SparkCluster,
    start_server: StartServer,
    tmp_path: Path,
    command_of: Callable[[str, Path, str], list[str]],
) -> None:
    broker = Cluster(start_server().bootstrap_servers)
    broker.create("in", "out")
    broker.send("in", "one", "two")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    command = command_of(broker.servers, tmp_path / "pipeline.py", bare_cluster.master)
    variables = {"SPARK_HOME": str(HOME), "PYSPARK_PYTHON": sys.executable, "KAFKA_BOOTSTRAP_SERVERS": broker.servers}
    finished = subprocess.run(
        command, env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    assert broker.values("out") == ["ONE", "TWO"]
    assert sum(bare_cluster.executors()) > 0
