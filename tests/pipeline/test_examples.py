"""examples/sessions from end to end on real Spark, with drivers that are killed between any two steps of theirs.

Whatever happens, every event is accounted for: in the Parquet files each record of `sessions` is there exactly once,
and in `sessions` and `profiles`, which are written at least once, everything is there, and nothing that is wrong.

`make soak` kills where it matters most, and where five seeds say. KMINI_DRIVER_SEED=3,7: those two.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from support.running_pipeline import POINTS, Moment
from support.server_process import ServerProcess, StartServer
from support.session_pipeline import Sessions
from support.spark_cluster import spark_cluster


class Kill(NamedTuple):
    """When a driver dies."""

    moment: Moment
    jvm_too: bool
    """Else the JVM goes a moment later by itself."""


KILLS = [
    Kill(Moment("sessionize", "sunk"), jvm_too=True),
    Kill(Moment("statistics", "sunk"), jvm_too=False),
    Kill(Moment("profiles", "committed"), jvm_too=True),
]


def seeded(seed: int) -> list[Kill]:
    chance = random.Random(seed)
    return [
        Kill(Moment(chance.choice(Sessions.stages), chance.choice(POINTS)), chance.random() < 0.7) for _ in range(6)
    ]


if "KMINI_DRIVER_SEED" in os.environ:
    SEEDS = [int(seed) for seed in os.environ["KMINI_DRIVER_SEED"].split(",")]
else:
    SEEDS = [*range(5)]


@pytest.fixture
def world(need_spark: None, start_server: StartServer, tmp_path: Path) -> Iterator[Callable[..., Sessions]]:
    made: list[Sessions] = []

    def make(seed: int, server: ServerProcess | None = None) -> Sessions:
        directory = tmp_path / "run"
        directory.mkdir()
        made.append(Sessions((server or start_server()).bootstrap_servers, directory, seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def run(world: Sessions, kills: list[Kill]) -> None:
    told = []
    for kill in kills:
        world.send(len(world.left) // 5)
        driver = world.start("--quiet")
        with world.at(kill.moment):
            driver.kill(jvm_too=kill.jvm_too)
        told.append(f"{kill}: {world.said()}")
    try:
        world.finish_and_stop()
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *told, world.drivers[-1].said()])) from error


@pytest.mark.soak
@pytest.mark.promise
def test_no_event_is_lost_when_drivers_are_killed_between_sink_commit_and_purge(world: Callable[..., Sessions]) -> None:
    run(world(1), KILLS)


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.parametrize("seed", SEEDS)
def test_no_event_is_lost_wherever_drivers_are_killed(world: Callable[..., Sessions], seed: int) -> None:
    run(world(seed), seeded(seed))


def test_the_same_file_runs_on_apache_kafka(world: Callable[..., Sessions], apache_kafka_server: ServerProcess) -> None:
    one = world(2, apache_kafka_server)
    one.finish()
    one.check()


@pytest.mark.programs
def test_the_same_file_runs_on_a_cluster(world: Callable[..., Sessions], tmp_path: Path) -> None:
    """Each of the two workers runs an executor, which gets the connector from the driver."""
    one = world(3)
    with spark_cluster(tmp_path) as cluster:
        one.master = cluster.master
        one.finish()
        assert cluster.executors() == [1, 1]
    one.check()
