"""Pipelines on a standalone cluster of Spark, of which a part dies in each moment of a batch: a worker, an executor,
the driver, a broker. What comes out is what plain Python makes of the input, and no purge runs ahead of a commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from support.order_pipeline import Orders
from support.running_pipeline import Moment, PurgeWatch, RunningPipeline, processes
from support.server_process import ServerProcess, kafka_command, kmini_command
from support.session_pipeline import Sessions
from support.spark_cluster import SparkCluster, spark_cluster
from support.three_brokers import ThreeBrokers, three_brokers
from support.until import until

pytestmark = [pytest.mark.soak, pytest.mark.promise, pytest.mark.timeout(900)]

SESSIONS = [
    Moment("sessionize", "planned"),
    Moment("statistics", "sunk"),
    Moment("profiles", "committed"),
    Moment("statistics", "purged"),
]
ORDERS = [Moment("join", "sunk"), Moment("totals", "planned"), Moment("ledger", "sunk"), Moment("totals", "committed")]


@pytest.fixture(params=["kmini", "kafka"])
def is_kafka(request: pytest.FixtureRequest) -> bool:
    """Whether the brokers are Apache Kafka's."""
    if request.param == "kafka":
        request.getfixturevalue("need_kafka")
    return bool(request.param == "kafka")


@pytest.fixture
def broker(is_kafka: bool, tmp_path: Path) -> Iterator[ServerProcess]:
    """A broker of this test's own."""
    command = kafka_command if is_kafka else kmini_command
    process = ServerProcess(command(tmp_path / "broker", {}), tmp_path / "broker.log")
    yield process
    process.kill()


@pytest.fixture
def cluster(need_spark: None, tmp_path: Path) -> Iterator[SparkCluster]:
    (tmp_path / "cluster").mkdir()
    with spark_cluster(tmp_path / "cluster") as started:
        yield started


Begin = Callable[[Callable[[str, Path], RunningPipeline], str], RunningPipeline]


@pytest.fixture
def begin(cluster: SparkCluster, tmp_path: Path) -> Iterator[Begin]:
    """Make a pipeline on the cluster, whose purges are watched until the test ends."""
    with ExitStack() as stack:
        watches: list[PurgeWatch] = []

        def make(kind: Callable[[str, Path], RunningPipeline], servers: str) -> RunningPipeline:
            (tmp_path / "run").mkdir()
            pipeline = kind(servers, tmp_path / "run")
            stack.callback(pipeline.close)
            pipeline.master = cluster.master
            watches.append(stack.enter_context(PurgeWatch(pipeline)))
            return pipeline

        yield make
    for watch in watches:
        assert not watch.ahead
        assert watch.purges > 0, f"{watch.looks} looks"


def lose_workers(pipeline: RunningPipeline, cluster: SparkCluster, moments: list[Moment]) -> None:
    """Kill a worker with its executor in each of these moments; the driver goes on, and another worker comes."""
    pipeline.send(len(pipeline.left) // 5)
    pipeline.start("--quiet")
    for moment in moments:
        with pipeline.at(moment) as is_still_there:
            cluster.workers[-2].kill()
            assert is_still_there(), pipeline.said()
        pipeline.goes_on(moment.stage)  # on one worker
        cluster.start_worker()
        until(lambda: cluster.executors()[-1], pipeline.said)
    pipeline.stop()


def lose_drivers(pipeline: RunningPipeline, moments: list[Moment]) -> None:
    """Kill the driver with its JVM in each of these moments; another one takes the checkpoints up."""
    for moment in moments:
        pipeline.send(len(pipeline.left) // 5)
        driver = pipeline.start("--quiet")
        with pipeline.at(moment) as is_still_there:
            driver.kill()
            assert is_still_there(), pipeline.said()


def lose_executor(pipeline: RunningPipeline, cluster: SparkCluster, number: int, moment: Moment) -> None:
    """Kill a worker's executor alone; the worker starts another one."""
    worker, before = cluster.workers[number], cluster.executors()[number]
    with pipeline.at(moment) as is_still_there:
        (executor,) = [process.pid for process in processes() if process.parent == worker.process.pid]
        os.kill(executor, signal.SIGKILL)
        assert is_still_there(), pipeline.said()
    until(lambda: cluster.executors()[number] > before, pipeline.said)
    pipeline.goes_on(moment.stage)


def lose_leader(pipeline: RunningPipeline, brokers: ThreeBrokers, moment: Moment) -> None:
    """Kill the broker that leads a partition of the topic between the stages, and restart it."""
    with pipeline.at(moment) as is_still_there:
        leader = pipeline.leader("sessions")
        brokers.kill(leader)
        until(lambda: pipeline.leader("sessions") not in (leader, -1), pipeline.said)
        until(is_still_there, pipeline.said)  # once the new leader knows what the old one had committed
    pipeline.goes_on(moment.stage)  # on two brokers
    brokers.restart(leader)
    until(lambda: pipeline.in_sync("sessions") == 3, pipeline.said)


def test_a_worker_may_die_in_any_moment_of_a_batch(broker: ServerProcess, cluster: SparkCluster, begin: Begin) -> None:
    pipeline = begin(Sessions, broker.bootstrap_servers)
    lose_workers(pipeline, cluster, SESSIONS)
    pipeline.finish_and_stop()


def test_an_executor_may_die_in_any_moment_of_a_batch(
    broker: ServerProcess, cluster: SparkCluster, begin: Begin
) -> None:
    pipeline = begin(Sessions, broker.bootstrap_servers)
    pipeline.send(len(pipeline.left) // 5)
    pipeline.start("--quiet")
    for number, moment in enumerate(SESSIONS[:2]):
        lose_executor(pipeline, cluster, number, moment)
    pipeline.stop()
    pipeline.finish_and_stop()


def test_a_driver_may_die_in_any_moment_of_a_batch(broker: ServerProcess, begin: Begin) -> None:
    pipeline = begin(Sessions, broker.bootstrap_servers)
    lose_drivers(pipeline, SESSIONS)
    pipeline.finish_and_stop()


def test_a_join_and_its_state_survive_workers_and_drivers(
    broker: ServerProcess, cluster: SparkCluster, begin: Begin
) -> None:
    pipeline = begin(Orders, broker.bootstrap_servers)
    lose_workers(pipeline, cluster, ORDERS[:2])
    lose_drivers(pipeline, ORDERS[2:])
    pipeline.finish_and_stop()


def test_a_broker_of_three_may_die_in_any_moment_of_a_batch(is_kafka: bool, begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    with three_brokers(tmp_path / "brokers", is_kafka=is_kafka) as brokers:
        pipeline = begin(Sessions, brokers.servers)
        pipeline.send(len(pipeline.left) // 5)
        pipeline.start("--quiet")
        lose_leader(pipeline, brokers, Moment("sessionize", "sunk"))
        lose_leader(pipeline, brokers, Moment("profiles", "committed"))
        pipeline.stop()
        pipeline.finish_and_stop()
