"""Checkpoints and output in an object store: a driver is killed, and another one goes on. The store is moto's S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

import pyarrow.parquet as parquet
from pyarrow import fs

from support.pipeline_cluster import Cluster
from support.server_process import StartServer
from support.until import until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

FETCHED = Path(__file__).resolve().parents[2] / ".peers" / "object-store"
WITHIN_S = 240.0
PROGRAM = """
import sys
from kmini.pipeline import Files, Kafka, Pipeline, Stage, Topic

def text(frame):
    return frame.selectExpr("cast(value as string) value", "partition", "offset")

if __name__ == "__main__":
    servers, store, jars, *available_now = sys.argv[1:]
    Pipeline(
        "p",
        [
            Stage("s", lambda frame: frame.select("value"), reads="in", writes="between"),
            Stage("t", text, reads="between", writes=Files("s3a://bucket/out")),
        ],
        topics=[Topic("between", 1)],
        kafka=Kafka(servers),
        checkpoints="s3a://bucket/checkpoints",
        spark_settings={
            "spark.jars": jars,
            "spark.master": "local[2]",
            "spark.driver.memory": "512m",
            "spark.hadoop.fs.s3a.endpoint": store,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "key",
            "spark.hadoop.fs.s3a.secret.key": "secret",
        },
    ).run(available_now=bool(available_now))
"""


class Store:
    """A server of S3 with an empty bucket; its log has a line for each request."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "store.log"
        program = FETCHED / "venv" / "bin" / "moto_server"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [str(program), "-H", "127.0.0.1", "-p", "0"],
                stdout=log,
                stderr=log,
                env={**os.environ, "NO_COLOR": "1"},
            )
        until(lambda: "Running on " in self.log.read_text(), self.log.read_text, timeout_s=60.0)
        self.address = self.log.read_text().split("Running on ")[1].split()[0]
        self.files = fs.S3FileSystem(
            endpoint_override=self.address.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            access_key="key",
            secret_key="secret",
            allow_bucket_creation=True,
        )
        self.files.create_dir("bucket")

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder of the bucket."""
        selector = fs.FileSelector(f"bucket/{folder}", allow_not_found=True)
        return [found.base_name for found in self.files.get_file_info(selector)]


@pytest.fixture
def store(need_spark: None, tmp_path: Path) -> Iterator[Store]:
    if not (FETCHED / ".complete").exists():
        pytest.skip("there is no .peers/object-store (`make object-store` fetches it)")
    store = Store(tmp_path)
    yield store
    store.process.kill()
    store.process.wait(30)


def jars() -> str:
    """What Spark needs for S3, as `spark.jars` has it."""
    return ",".join(map(str, sorted(FETCHED.glob("*.jar"))))


class Driver:
    """A program that runs the pipeline, in a process group of its own with its JVM."""

    def __init__(self, cluster: Cluster, store: Store, directory: Path, *more: str) -> None:
        file = directory / "program.py"
        file.write_text(PROGRAM)
        self.log = directory / f"driver-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(file), cluster.servers, store.address, jars(), *more],
                stdout=log,
                stderr=log,
                cwd=directory,
                start_new_session=True,
            )

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def text(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@pytest.fixture
def cluster(start_server: StartServer) -> Cluster:
    return Cluster(start_server().bootstrap_servers)


@pytest.fixture
def start(store: Store, cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    started: list[Driver] = []

    def start_driver(*more: str) -> Driver:
        started.append(Driver(cluster, store, tmp_path, *more))
        return started[-1]

    yield start_driver
    for driver in started:
        driver.kill()


READER = """
import sys
from pyspark.sql import SparkSession
from kmini.pipeline.stages.checkpoint_files import SparkFiles

store, jars = sys.argv[1:]
settings = {"endpoint": store, "endpoint.region": "us-east-1", "path.style.access": "true"}
settings |= {"access.key": "key", "secret.key": "secret"}
builder = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
for name, value in settings.items():
    builder = builder.config(f"spark.hadoop.fs.s3a.{name}", value)
files = SparkFiles(builder.getOrCreate(), "s3a://bucket/checkpoint")


class ReplacesWhatIsOpened:
    def __init__(self, file_system):
        self.file_system, self.left = file_system, 0

    def open(self, path):
        stream = self.file_system.open(path)
        if self.left:
            self.left -= 1
            files.write("kmini.lease", b"holder after %d" % self.left)
        return stream

    def __getattr__(self, name):
        return getattr(self.file_system, name)


files.write("kmini.lease", b"holder")
files._file_system = replacing = ReplacesWhatIsOpened(files._file_system)
for times in (0, 1, 4):
    replacing.left = times
    assert files.read("kmini.lease").startswith(b"holder")
    assert not replacing.left
"""


def test_a_lease_in_an_object_store_is_read_while_its_holder_writes_it_again(store: Store) -> None:
    """S3A opens a file by one request, and reads it by another one that fails when the file has changed, up to four
    times here."""
    command = [sys.executable, "-c", READER, store.address, jars()]
    subprocess.run(command, check=True, timeout=WITHIN_S, capture_output=True)


def test_a_killed_driver_is_taken_up_by_another_one_out_of_an_object_store(
    store: Store, cluster: Cluster, start: Callable[..., Driver]
) -> None:
    """The second one waits until the lease of the first one has expired."""
    cluster.create("in")
    values = [str(number) for number in range(500)]
    cluster.send("in", *values)
    first = start()
    until(lambda: "0" in store.names("checkpoints/t/commits"), first.text, timeout_s=WITHIN_S)
    until(lambda: cluster.bounds("between")[0] > 0, first.text, timeout_s=WITHIN_S)
    refused = start()
    assert refused.process.wait(WITHIN_S) == 1, refused.text()
    assert "s3a://bucket/checkpoints/s is in use: process" in refused.text()
    cluster.send("in", "last")
    first.kill()
    second = start("--available-now")
    assert second.process.wait(WITHIN_S) == 0, second.text()
    start, end = cluster.bounds("between")
    assert start == end >= len(values) + 1
    assert "kmini.lease" not in store.names("checkpoints/s")
    assert sorted(written(store)) == sorted({*values, "last"})


def written(store: Store) -> set[str]:
    """The values in the files that Spark's log of the output names."""
    found: set[str] = set()
    for name in store.names("out/_spark_metadata"):
        lines = store.files.open_input_file(f"bucket/out/_spark_metadata/{name}").read().splitlines()
        for line in lines[1:]:
            path = json.loads(line)["path"].removeprefix("s3a://")
            found |= {row["value"] for row in parquet.read_table(path, filesystem=store.files).to_pylist()}
    return found
