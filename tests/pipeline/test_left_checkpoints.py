"""examples/sessions, taken up again from each point at which a kill can leave the files of its checkpoints and output.

A run writes its files one after the other, each as a whole. A kill leaves the first ones, and a piece of the next one
under a temporary name. So the files of a finished run are sorted by time, and the pipeline is taken up from each prefix
of them. Nothing is purged meanwhile: a purge follows a commit, so that no such point would be possible after it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from kmini.pipeline import Pipeline
from kmini.pipeline.admin import Admin, DeletedRecords
from kmini.pipeline.stages.pipeline_file import load_pipeline
from support.server_process import ServerProcess, StartServer
from support.session_pipeline import EXAMPLE, Sessions, check_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(params=["kmini", "kafka"])
def server(request: pytest.FixtureRequest, start_server: StartServer) -> ServerProcess:
    if request.param == "kmini":
        return start_server()
    kafka: ServerProcess = request.getfixturevalue("apache_kafka_server")
    return kafka


@pytest.fixture
def world(server: ServerProcess, tmp_path: Path) -> Iterator[Sessions]:
    (tmp_path / "run").mkdir()
    world = Sessions(server.bootstrap_servers, tmp_path / "run")
    yield world
    world.close()


def written(directory: Path) -> list[Path]:
    """The files that Spark wrote below a directory, in that order."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    ours = {"kmini.json"}
    spark = [path for path in files if path.suffix not in (".crc", ".lock") and path.name not in ours]
    return sorted(spark, key=lambda path: path.stat().st_mtime_ns)


def cut(directory: Path, left: int, files: list[Path]) -> None:
    """Remove all but the first `left` files and their checksums, and leave a piece of the next one."""
    for path in files[left:]:
        content = path.read_bytes()
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        if path == files[left]:
            path.with_name(f".{path.name}.killed.tmp").write_bytes(content[: len(content) // 2])
    for folder, _, _ in os.walk(directory, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)


def test_the_example_goes_on_from_each_file_that_a_kill_can_leave_last(
    spark: SparkSession, world: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = replace(
        load_pipeline(EXAMPLE / "pipeline.py"), directory=str(world.directory), checkpoints="checkpoints"
    )
    pipeline = pipeline.with_kafka(world.servers)

    def run(pipeline: Pipeline) -> None:
        pipeline.run(available_now=True, apply=True, spark=spark, watcher=lambda _: None)

    with monkeypatch.context() as patched:
        patched.setattr(Admin, "delete_before", lambda _, offsets: dict.fromkeys(offsets, DeletedRecords(0)))
        for _ in range(2):
            world.send(len(world.left) // 2)
            run(pipeline)
        world.send(len(world.left))
        run(pipeline)
        check_output(world)
        kept = tmp_path / "kept"
        shutil.copytree(world.directory, kept)
        resumed = replace(pipeline, trigger_interval_ms=100)
        names = [path.relative_to(world.directory) for path in written(world.directory)]
        assert len(names) > 30
        for left in reversed(range(len(names))):
            shutil.rmtree(world.directory)
            shutil.copytree(kept, world.directory)
            cut(world.directory, left, [world.directory / name for name in names])
            try:
                run(resumed)
                check_output(world)
            except Exception as error:
                raise AssertionError(f"after {left} of {len(names)} files, before {names[left]}") from error
    run(pipeline)
    world.check()
