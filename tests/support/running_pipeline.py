"""A pipeline that runs as `kmini pipeline run` in a process of its own: fed, watched, and held in a moment of a batch.

A moment is exact because the driver is stopped (SIGSTOP) before it is looked at: then no batch is planned, none is
committed and nothing is purged, until the driver is killed or goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from support.until import until

if TYPE_CHECKING:
    from confluent_kafka import Consumer

WITHIN_S = 240.0
"""So long a driver may take to start and to come to where it is killed, on a machine with much else to do."""

SMALL = [
    *("spark.driver.memory=512m", "spark.executor.memory=512m", "spark.ui.enabled=false"),
    "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    *("spark.sql.codegen.wholeStage=false", "spark.sql.codegen.factoryMode=NO_CODEGEN"),
]
"""A session that is quick to start; the program's own are made for long runs."""

FED_AT_ONCE = 8
"""Records that are sent between two batches: their times lie closer together than a watermark waits."""
LOOK_EVERY_S = 0.02

Sent = tuple[str, str, Any]
"""Topic, key and value of a record that is sent."""


class Moment(NamedTuple):
    """Where a stage is."""

    stage: str
    at: str
    """planned: the batch is in `offsets/`. sunk: its output is there, the commit not yet. committed: not purged yet.
    purged: the broker has deleted."""


POINTS = ("planned", "sunk", "committed", "purged")


class Driver:
    """`kmini pipeline run` in a process group of its own."""

    def __init__(self, file: Path, servers: str, directory: Path, *options: str, master: str) -> None:
        self.log = directory / "driver.log"
        command = [sys.executable, "-m", "kmini", "pipeline", "run", str(file), "--apply", *options]
        command += ["--bootstrap-server", servers, "--directory", str(directory), "--master", master]
        command += [part for setting in SMALL for part in ("-c", setting)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def wait(self) -> int:
        return self.process.wait(WITHIN_S)

    def kill(self, *, jvm_too: bool = True) -> None:
        """End the driver as `kill -9` does. Without `jvm_too` the JVM goes a moment later by itself."""
        with suppress(ProcessLookupError):
            (os.killpg if jvm_too else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Driver and JVM stand still until the block ends."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        try:
            # Hadoop starts programs: a thread is in D until the program has begun, and that stands still.
            until(lambda: {*thread_states(self.process.pid)} <= {"T", "D"}, poll_s=0.001)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGCONT)

    def said(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line for line in lines if not line.startswith("\tat "))[-3000:]


class Process(NamedTuple):
    pid: int
    parent: int
    group: int


def processes() -> Iterator[Process]:
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                _, parent, group, *_ = Path(f"/proc/{name}/stat").read_text().rpartition(") ")[2].split()
                yield Process(int(name), int(parent), int(group))


def thread_states(group: int) -> list[str]:
    """The state of each thread in a process group, as /proc has it; without those that have ended."""
    states = []
    for process in processes():
        if process.group == group:
            for path in Path(f"/proc/{process.pid}/task").iterdir():
                with suppress(OSError):
                    states.append((path / "stat").read_text().rpartition(") ")[2][0])
    return [state for state in states if state not in "ZX"]


def log_bounds(client: Consumer, topic: str) -> list[tuple[int, int]]:
    """The first offset of each of two partitions and the one after the last; zeros for a topic that is not there yet,
    and nothing where a partition has no leader."""
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    with suppress(KafkaException):
        return [client.get_watermark_offsets(TopicPartition(topic, number), timeout=10) for number in range(2)]
    with suppress(KafkaException):  # without this question the client goes on asking a leader that is gone
        error = client.list_topics(topic, timeout=10).topics[topic].error
        if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return [(0, 0), (0, 0)]
    return []


class RunningPipeline:
    """A pipeline, the records that are sent to it, and its drivers, one after the other."""

    file: ClassVar[Path]
    inputs: ClassVar[Mapping[str, int]]
    """The topics that records are sent to, and their partitions."""
    stages: ClassVar[tuple[str, ...]]
    """The first one reads what is sent."""
    writes: ClassVar[Mapping[str, str]]
    """Topic or folder that a stage writes."""
    purged: ClassVar[Mapping[str, tuple[str, ...]]]
    """The stages that read a purged topic. All topics between stages have two partitions."""

    def __init__(self, servers: str, directory: Path, records: list[Sent], closing: list[Sent]) -> None:
        """`closing` are the last records, which move watermarks past all others."""
        from confluent_kafka import Consumer, Producer
        from confluent_kafka.admin import AdminClient, NewTopic

        self.servers, self.directory = servers, directory
        self.records = records
        self.left = [*records, *closing]
        self._keeps = len(closing) + 40
        quiet: dict[str, Any] = {"bootstrap.servers": servers, "log_level": "2"}
        self._producer = Producer(quiet)
        self.admin = AdminClient(quiet)
        self._looks = Consumer({**quiet, "group.id": "looks"})
        new = [NewTopic(name, partitions, -1) for name, partitions in self.inputs.items()]
        for future in self.admin.create_topics(new).values():
            future.result(30)
        self.drivers: list[Driver] = []
        self.master = "local[2]"
        self._fed_at: set[str] | None = None
        self._ends: dict[str, tuple[int, list[int]]] = {}
        """The batch of a stage that was planned last, and the ends of its topic when it was first seen."""

    def check(self) -> None:
        """Raise AssertionError unless everything that was sent is in the output, and everything consumed is gone."""
        raise NotImplementedError

    def close(self) -> None:
        for driver in self.drivers:
            driver.kill()
        self._looks.close()

    def start(self, *options: str) -> Driver:
        self.drivers.append(Driver(self.file, self.servers, self.directory, *options, master=self.master))
        return self.drivers[-1]

    # --- sending

    def send(self, count: int) -> None:
        for topic, key, value in self.left[:count]:
            self._producer.produce(topic, key=key.encode(), value=json.dumps(value).encode())
        del self.left[:count]
        assert self._producer.flush(60) == 0

    def feed(self) -> None:
        """Send some more whenever the first stage has committed a batch, so that records are left for the moment that
        a test waits for, however long the driver takes to start."""
        committed = self.names(self.stages[0], "commits")
        if committed != self._fed_at and len(self.left) > self._keeps:
            self.send(FED_AT_ONCE)
            self._fed_at = committed

    # --- looking

    def bounds(self, topic: str) -> list[tuple[int, int]]:
        """The first offset of each partition and the one after the last; waits while a partition has no leader."""
        return until(lambda: log_bounds(self._looks, topic), lambda: f"the bounds of {topic}")

    def starts(self, topic: str) -> list[int]:
        return [start for start, _ in self.bounds(topic)]

    def leader(self, topic: str) -> int:
        """The broker that leads partition 0; -1 if none does."""
        return int(self.admin.list_topics(topic, timeout=30).topics[topic].partitions[0].leader)

    def in_sync(self, topic: str) -> int:
        """The least number of replicas in sync of a partition."""
        partitions = self.admin.list_topics(topic, timeout=30).topics[topic].partitions.values()
        return min(len(partition.isrs) for partition in partitions)

    def names(self, stage: str, folder: str) -> set[str]:
        with suppress(FileNotFoundError):
            return {entry.name for entry in os.scandir(self.directory / "checkpoints" / stage / folder)}
        return set()

    def last(self, stage: str, folder: str) -> int:
        return max((int(name) for name in self.names(stage, folder) if name.isdigit()), default=-1)

    def committed(self, stage: str, topic: str) -> list[int]:
        """Up to where a stage has processed a topic for good; read in another way than kmini does."""
        batch = self.last(stage, "commits")
        if batch < 0:
            return [0, 0]
        lines = (self.directory / "checkpoints" / stage / "offsets" / str(batch)).read_text().splitlines()[2:]
        ends = [found[topic] for line in lines if line != "-" and topic in (found := json.loads(line))]
        return [min(end.get(str(number), 0) for end in ends) for number in range(2)]

    def processed(self, topic: str) -> list[int]:
        """Up to where all stages that read a topic have processed it for good."""
        every = [self.committed(stage, topic) for stage in self.purged[topic]]
        return [min(offsets) for offsets in zip(*every, strict=True)]

    def said(self) -> str:
        """Where each stage is, in words."""
        stages = {
            stage: f"planned {self.last(stage, 'offsets')}, committed {self.last(stage, 'commits')}"
            for stage in self.stages
        }
        topics = {topic: (self.bounds(topic), self.processed(topic)) for topic in self.purged}
        return f"{stages} {topics} {len(self.left)} left\n{self.drivers[-1].said()}"

    def has_output(self, stage: str, batch: int) -> bool:
        """Whether something of a batch was written since it was first seen."""
        written = self.writes[stage]
        if (self.directory / written).is_dir():
            return (self.directory / written / "_spark_metadata" / str(batch)).exists()
        ends = [end for _, end in self.bounds(written)]
        seen, before = self._ends.get(stage, (-1, ends))
        if seen != batch:
            self._ends[stage] = (batch, ends)
            return False
        return ends > before

    def purged_topic(self, stage: str) -> str:
        """The purged topic that a stage reads; of a stage that reads none, the first one."""
        return next((topic for topic, readers in self.purged.items() if stage in readers), next(iter(self.purged)))

    def is_at(self, moment: Moment, starts: list[int]) -> bool:
        """Whether a stage is there. `starts` are the log start offsets of its topic at the beginning."""
        stage, at = moment
        if at in ("planned", "sunk"):
            batch = self.last(stage, "offsets")
            if batch <= self.last(stage, "commits"):
                return False
            return at == "planned" or self.has_output(stage, batch)
        topic = self.purged_topic(stage)
        if at == "committed" and stage not in self.purged[topic]:
            return self.last(stage, "offsets") == self.last(stage, "commits")
        now, processed = self.starts(topic), self.processed(topic)
        if at == "committed":
            return now < processed and all(start <= end for start, end in zip(now, processed, strict=True))
        return starts < now == processed

    @contextmanager
    def at(self, moment: Moment) -> Iterator[Callable[[], bool]]:
        """Feed the driver until a stage is in a moment, and hold it there. The block gets a function that says whether
        the stage still is."""
        driver, starts = self.drivers[-1], self.starts(self.purged_topic(moment.stage))
        first = self.last(moment.stage, "commits")
        with ExitStack() as stack:

            def is_there() -> bool:
                self.feed()
                assert driver.process.poll() is None, self.said()
                if self.last(moment.stage, "commits") == first or not self.is_at(moment, starts):
                    return False
                stack.enter_context(driver.held())
                if all(self.is_at(moment, starts) for _ in range(3)):  # what was asked of a broker is done by now
                    return True
                stack.close()
                return False

            until(is_there, lambda: f"{moment} was not reached: {self.said()}", timeout_s=WITHIN_S, poll_s=0.001)
            yield lambda: self.is_at(moment, starts)

    def goes_on(self, stage: str) -> None:
        """Feed the driver until a stage has committed what it had planned, and another batch."""
        driver, batch = self.drivers[-1], self.last(stage, "offsets")

        def is_past() -> bool:
            self.feed()
            assert driver.process.poll() is None, self.said()
            return self.last(stage, "commits") > batch

        until(is_past, lambda: f"{stage} does not go on: {self.said()}", timeout_s=WITHIN_S, poll_s=0.02)

    # --- ending

    def finish(self) -> None:
        """Send the rest, and have it all pass the stages."""
        self.send(len(self.left))
        driver = self.start("--available-now", "--quiet")
        assert driver.wait() == 0, driver.said()

    def stop(self) -> None:
        self.drivers[-1].process.send_signal(signal.SIGTERM)
        assert self.drivers[-1].wait() == 0, self.drivers[-1].said()

    def finish_and_stop(self) -> None:
        """The same with a driver that goes on until it gets a signal."""
        self.send(len(self.left))
        driver = self.start("--quiet")

        def is_finished() -> bool:
            with suppress(AssertionError, OSError, ValueError):
                self.check()
                return True
            assert driver.process.poll() is None, driver.said()
            return False

        until(is_finished, self.check, timeout_s=WITHIN_S, poll_s=0.5)
        self.stop()


class PurgeWatch:
    """Compares log start offsets with checkpoints all the time. A start is read before the commits are, which only
    grow: so it is never above them, unless a purge ran ahead."""

    def __init__(self, pipeline: RunningPipeline) -> None:
        self._pipeline = pipeline
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="purge-watch", daemon=True)
        self.looks, self.purges = 0, 0
        self.ahead: list[str] = []

    def _run(self) -> None:
        from confluent_kafka import Consumer

        client = Consumer({"bootstrap.servers": self._pipeline.servers, "group.id": "watches", "log_level": "2"})
        before: dict[str, list[int]] = {}
        try:
            while not self._stop.wait(LOOK_EVERY_S):
                for topic in self._pipeline.purged:
                    starts = [start for start, _ in log_bounds(client, topic)]
                    ends = self._pipeline.processed(topic)
                    if starts:
                        if any(start > end for start, end in zip(starts, ends, strict=True)):
                            self.ahead.append(f"{topic} begins at {starts}, processed are {ends}")
                        self.looks += 1
                        self.purges += starts != before.get(topic, starts)
                        before[topic] = starts
        except Exception as error:
            self.ahead.append(f"the watch failed: {error!r}")
        finally:
            client.close()

    def __enter__(self) -> PurgeWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def read_files(folder: Path) -> list[dict[str, Any]]:
    """The rows of the Parquet files that the log of Spark's file sink names, which are all that count."""
    import pyarrow.parquet as parquet

    files: dict[str, None] = {}
    for path in (folder / "_spark_metadata").iterdir():
        if path.name.split(".")[0].isdigit() and not path.name.startswith("."):
            for line in path.read_text().splitlines()[1:]:
                files[json.loads(line)["path"].removeprefix("file://")] = None
    return [row for path in files for row in parquet.ParquetFile(path).read().to_pylist()]
