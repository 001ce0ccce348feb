"""examples/sessions from end to end on real Spark, with drivers that are killed between any two steps of theirs.

Whatever happens, every event is accounted for: in the Parquet files each record of `sessions` is there exactly once,
and in `sessions` and `profiles`, which are written at least once, everything is there, and nothing that is wrong.

`make soak` kills where it matters most, and where five seeds say. KMINI_DRIVER_SEED=3,7: those two.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("confluent_kafka")

from support.server_process import ServerProcess, StartServer
from support.spark_cluster import spark_cluster
from support.until import until

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "sessions"
GAP = timedelta(minutes=30)
WITHIN_S = 150.0
"""So long a driver may take to start and to come to where it is killed, on a machine with much else to do."""

SMALL = [
    *("spark.driver.memory=512m", "spark.executor.memory=512m", "spark.ui.enabled=false"),
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    *("spark.sql.codegen.wholeStage=false", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
]
"""A session that is quick to start; the program's own are made for long runs."""


class Kill(NamedTuple):
    """When a driver dies."""

    stage: str
    at: str
    """planned: the batch is in `offsets/`. sunk: its output is there, the commit not yet. committed: not purged yet.
    purged: the broker has deleted."""
    jvm_too: bool
    """Else the JVM goes a moment later by itself."""


KILLS = [
    Kill("sessionize", "sunk", jvm_too=True),
    Kill("statistics", "sunk", jvm_too=False),
    Kill("profiles", "committed", jvm_too=True),
]
STAGES = ("sessionize", "profiles", "statistics")
POINTS = ("planned", "sunk", "committed", "purged")


def seeded(seed: int) -> list[Kill]:
    chance = random.Random(seed)
    return [Kill(chance.choice(STAGES), chance.choice(POINTS), chance.random() < 0.7) for _ in range(6)]


if "KMINI_DRIVER_SEED" in os.environ:
    SEEDS = [int(seed) for seed in os.environ["KMINI_DRIVER_SEED"].split(",")]
else:
    SEEDS = [*range(5)]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("sessions_generator", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Driver:
    """`kmini pipeline run` in a process group of its own."""

    def __init__(self, servers: str, directory: Path, *options: str, master: str = "local[2]") -> None:
        self.directory = directory
        self.log = directory / "driver.log"
        command = [sys.executable, "-m", "kmini", "pipeline", "run", str(EXAMPLE / "pipeline.py"), "--apply", *options]
        command += ["--bootstrap-server", servers, "--directory", str(directory), "--master", master]
        command += [part for setting in SMALL for part in ("-c", setting)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> int:
        return self.process.wait(WITHIN_S)

    def kill(self, *, jvm_too: bool = True) -> None:
        with suppress(ProcessLookupError):
            (os.killpg if jvm_too else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def said(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.startswith("\tat "))[-3000:]


class World:
    """A broker, the records that are sent to it, and one pipeline."""

    def __init__(self, servers: str, directory: Path, generator: ModuleType, seed: int) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self.servers, self.directory = servers, directory
        self.records = generator.generate(seed, users=30, hours=6.0)
        self.left = [*self.records, generator.closing()]
        quiet = {"bootstrap.servers": servers, "log_level": "2"}
        self._producer = Producer(quiet)
        self._admin = AdminClient(quiet)
        for future in self._admin.create_topics([NewTopic("events", 2, 1), NewTopic("erasures", 1, 1)]).values():
            future.result(30)
        self.drivers: list[Driver] = []
        self.master = "local[2]"

    def start(self, *options: str) -> Driver:
        self.drivers.append(Driver(self.servers, self.directory, *options, master=self.master))
        return self.drivers[-1]

    def send(self, count: int) -> None:
        for topic, key, value in self.left[:count]:
            self._producer.produce(topic, key=key.encode(), value=json.dumps(value).encode())
        del self.left[:count]
        assert self._producer.flush(30) == 0

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        """The first offset of each partition and the one after the last."""
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "looks", "log_level": "2"})
        try:
            return [consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30) for number in range(2)]
        except KafkaException:  # it is not there yet
            return [(0, 0), (0, 0)]
        finally:
            consumer.close()

    def names(self, stage: str, folder: str) -> set[str]:
        with suppress(FileNotFoundError):
            return {entry.name for entry in os.scandir(self.directory / "checkpoints" / stage / folder)}
        return set()

    def watches(self, kill: Kill) -> Callable[[], bool]:
        """Whether it is time."""
        planned, commits = self.names(kill.stage, "offsets"), self.names(kill.stage, "commits")
        if kill.at == "planned":
            return lambda: any(name.isdigit() for name in self.names(kill.stage, "offsets") - planned)
        if kill.at == "sunk":  # a commit begins as a file of another name
            return lambda: bool(self.names(kill.stage, "commits") - commits)
        if kill.at == "committed":
            return lambda: any(name.isdigit() for name in self.names(kill.stage, "commits") - commits)
        start = [start for start, _ in self.bounds("sessions")]
        return lambda: [start for start, _ in self.bounds("sessions")] != start

    def run_and_kill(self, kill: Kill) -> str:
        """Feed a driver until there are sessions and it is where it dies; return what its checkpoint says of that.

        The first stage gets more records whenever it has committed a batch, so that records are left for the moment of
        the kill, however long the driver takes to start.
        """
        is_time: Callable[[], bool] | None = None
        fed_at: set[str] | None = None
        before = {stage: self.names(stage, "commits") for stage in STAGES}
        self.send(len(self.left) // 5)
        driver = self.start("--quiet")
        deadline = time.monotonic() + WITHIN_S
        while is_time is None or not is_time():
            if is_time is None and any(end for _, end in self.bounds("sessions")):
                is_time = self.watches(kill)
            assert driver.process.poll() is None, driver.said()
            assert time.monotonic() < deadline, f"{kill} was not reached:\n{driver.said()}"
            committed = self.names(STAGES[0], "commits")
            if committed != fed_at and len(self.left) > 50:
                self.send(8)
                fed_at = committed
            time.sleep(0.05 if kill.at == "purged" or is_time is None else 0.001)
        driver.kill(jvm_too=kill.jvm_too)
        offsets, commits = self.names(kill.stage, "offsets"), self.names(kill.stage, "commits")
        last = max((int(name) for name in offsets if name.isdigit()), default=-1)
        new = {stage: len(self.names(stage, "commits") - names) for stage, names in before.items()}
        return f"{kill}: batch {last} is {'committed' if str(last) in commits else 'planned'}; new commits {new}"

    def finish(self) -> None:
        """Send the rest, and have it all pass the stages."""
        self.send(len(self.left))
        driver = self.start("--available-now", "--quiet")
        assert driver.wait() == 0, driver.said()

    def finish_and_stop(self) -> None:
        """The same with a driver that goes on until it gets a signal."""
        self.send(len(self.left))
        driver = self.start("--quiet")

        def is_finished() -> bool:
            with suppress(AssertionError, OSError, ValueError):
                check(self)
                return True
            assert driver.process.poll() is None, driver.said()
            return False

        until(is_finished, lambda: check(self), timeout_s=WITHIN_S, poll_s=0.5)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait() == 0, driver.said()


@pytest.fixture
def world(
    need_spark: None, start_server: StartServer, tmp_path: Path, generator: ModuleType
) -> Iterator[Callable[[int], World]]:
    made: list[World] = []

    def make(seed: int, server: ServerProcess | None = None) -> World:
        directory = tmp_path / "run"
        directory.mkdir()
        made.append(World((server or start_server()).bootstrap_servers, directory, generator, seed))
        return made[-1]

    yield make
    for one in made:
        for driver in one.drivers:
            driver.kill()


# --- what must be so at the end


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def expected_sessions(records: list[Any]) -> dict[str, tuple[str, datetime, datetime, int]]:
    """By the session's name: user, begin, end and number of events, found in another way than Spark does."""
    times: dict[str, list[datetime]] = {}
    for topic, user, value in records:
        if topic == "events":
            times.setdefault(user, []).append(time_of(value["at"]))
    found = {}
    for user, events in times.items():
        events.sort()
        groups = [[events[0]]]
        for at in events[1:]:
            if at < groups[-1][-1] + GAP:
                groups[-1].append(at)
            else:
                groups.append([at])
        for group in groups:
            name = sha256(f"{user} {round(group[0].timestamp() * 1000)}".encode()).hexdigest()
            found[name] = (user, group[0], group[-1] + GAP, len(group))
    return found


def expected_profiles(records: list[Any]) -> dict[str, dict[str, Any] | None]:
    facts: dict[str, tuple[datetime, dict[str, Any] | None]] = {}
    for user, began, ended, events in expected_sessions(records).values():
        fact = (ended, {"last_session": began, "events": events})
        facts[user] = max(facts.get(user, fact), fact, key=lambda one: one[0])
    for topic, user, value in records:
        if topic == "erasures" and time_of(value["at"]) >= facts.get(user, (time_of(value["at"]),))[0]:
            facts[user] = (time_of(value["at"]), None)
    return {user: profile for user, (_, profile) in facts.items()}


def utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=timezone.utc)


def read_statistics(directory: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's log names, which are all that count."""
    import pyarrow.parquet as parquet

    files: dict[str, None] = {}
    log = directory / "statistics" / "_spark_metadata"
    for path in log.iterdir():
        if path.name.split(".")[0].isdigit() and not path.name.startswith("."):
            for line in path.read_text().splitlines()[1:]:
                files[json.loads(line)["path"].removeprefix("file://")] = None
    return [row for path in files for row in parquet.ParquetFile(path).read().to_pylist()]


def read_profiles(servers: str) -> dict[str, dict[str, Any] | None]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "looks", "enable.auto.commit": False, "log_level": "2"}
    )
    found: dict[str, dict[str, Any] | None] = {}
    try:
        for number in range(2):
            place = TopicPartition("profiles", number, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            deadline = time.monotonic() + 60
            while consumer.position([place])[0].offset < end and end:
                assert time.monotonic() < deadline
                for record in consumer.consume(500, 0.5):
                    assert record.error() is None
                    value = record.value()
                    found[record.key().decode()] = None if value is None else json.loads(value)
    finally:
        consumer.close()
    for profile in found.values():
        if profile is not None:
            profile["last_session"] = time_of(profile["last_session"])
    return found


def check(world: World) -> None:
    """Every event is accounted for, and everything consumed is gone."""
    sessions = expected_sessions(world.records)
    rows = read_statistics(world.directory)
    bounds = world.bounds("sessions")
    assert all(start == end > 0 for start, end in bounds), f"not purged to the end: {bounds}"
    places = [(row["partition"], row["offset"]) for row in rows]
    assert sorted(places) == [(number, offset) for number, (_, end) in enumerate(bounds) for offset in range(end)]
    found: dict[str, tuple[datetime, datetime, int]] = {}
    for row in rows:
        told = (utc(row["began"]), utc(row["ended"]), row["events"])
        assert found.setdefault(row["session"], told) == told, "a session came twice, and differently"
    assert found == {name: (began, ended, events) for name, (_, began, ended, events) in sessions.items()}
    assert sum(events for _, _, events in found.values()) == sum(topic == "events" for topic, _, _ in world.records)
    assert read_profiles(world.servers) == expected_profiles(world.records)


def run(world: World, kills: list[Kill]) -> None:
    told = []
    for kill in kills:
        told.append(world.run_and_kill(kill))
        print(told[-1])
    try:
        world.finish_and_stop()
        check(world)
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *told, world.drivers[-1].said()])) from error


@pytest.mark.soak
@pytest.mark.promise
def test_no_event_is_lost_when_drivers_are_killed_between_sink_commit_and_purge(world: Callable[..., World]) -> None:
    run(world(1), KILLS)


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.parametrize("seed", SEEDS)
def test_no_event_is_lost_wherever_drivers_are_killed(world: Callable[..., World], seed: int) -> None:
    run(world(seed), seeded(seed))


def test_the_same_file_runs_on_apache_kafka(world: Callable[..., World], apache_kafka_server: ServerProcess) -> None:
    one = world(2, apache_kafka_server)
    one.finish()
    check(one)


@pytest.mark.programs
def test_the_same_file_runs_on_a_cluster(world: Callable[..., World], tmp_path: Path) -> None:
    """Each of the two workers runs an executor, which gets the connector from the driver."""
    one = world(3)
    with spark_cluster(tmp_path) as cluster:
        one.master = cluster.master
        one.finish()
        assert cluster.executors() == [1, 1]
    check(one)
