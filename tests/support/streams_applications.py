"""Instances of applications of Kafka Streams (`StreamsApplication.java`), each in a process of its own."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support import apache_kafka
from support.until import until

SOURCE = Path(__file__).with_name("StreamsApplication.java")
IN_MEMORY = "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers"
"""Stores that need no native library, and are gone with their process."""


def why_unavailable() -> str | None:
    """Return why Kafka Streams cannot run here, or None when it can."""
    if reason := apache_kafka.why_unavailable():
        return reason
    if not any(apache_kafka.jars().glob("kafka-streams-*.jar")):
        return f"Kafka Streams is not in {apache_kafka.jars()} (make kafka-jars fetches it)"
    return None


def compile_application(directory: Path) -> Path:
    """Compile the application into a folder, so that its instances start quickly; return the folder."""
    path = f"{apache_kafka.jars()}/*"
    subprocess.run(["javac", "-cp", path, "-d", str(directory), str(SOURCE)], check=True, timeout=120)
    return directory


class Shown(NamedTuple):
    """What an instance shows of itself."""

    state: str
    active: frozenset[str]
    """The tasks that it does: subtopology, underscore, partition."""
    standby: frozenset[str]


class Instance:
    """One instance; it is killed at the end of the `with` that its application is."""

    def __init__(self, classes: Path, application: str, settings: Mapping[str, object], log: Path) -> None:
        command = apache_kafka.java_command("-Xmx128m", "-XX:TieredStopAtLevel=1")
        command[-1] += f":{classes}"
        arguments = [f"{name}={value}" for name, value in settings.items()]
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*command, "StreamsApplication", application, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        self._log = log
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.append(line)

    @property
    def shown(self) -> Shown:
        """What it has shown last."""
        state, active, standby = (self._lines[-1] if self._lines else "STARTING  ").rstrip("\n").split(" ")
        return Shown(state, _tasks(active), _tasks(standby))

    def about(self) -> str:
        """What it has shown last, and the end of its log."""
        return f"{self._lines[-3:]}\n{self._log.read_text()[-4_000:]}"

    def close(self) -> None:
        """Let it leave its group and end."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        assert self._process.wait(60) == 0, self.about()
        self.kill()

    def kill(self) -> None:
        """End it without a word."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def wait_until_shared(*instances: Instance, tasks: int, stateful: str = "") -> None:
    """Wait until these instances run and share so many tasks. With `stateful` there are others than the first of them,
    and each active task whose name begins with it has a standby in another one."""

    def is_shared() -> bool:
        shown = [instance.shown for instance in instances]
        assert not any(each.state == "ERROR" for each in shown), about()
        active = [task for each in shown for task in each.active]
        standby = {task for each in shown for task in each.standby}
        wanted = {task for task in active if stateful and task.startswith(stateful)}
        are_apart = not any(each.active & each.standby for each in shown)
        is_all = len(active) == len({*active}) == tasks and standby == wanted
        return is_all and are_apart and all(each.state == "RUNNING" for each in shown)

    def about() -> str:
        return "\n".join(instance.about() for instance in instances)

    until(is_shared, about)


def _tasks(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - {""}


class Application:
    """An application, of which instances are started and ended."""

    def __init__(self, classes: Path, name: str, directory: Path, settings: Mapping[str, object]) -> None:
        self._classes = classes
        self._name = name
        self._directory = directory
        self._settings = settings
        self._numbers = itertools.count(1)
        self._instances: list[Instance] = []

    def start(self) -> Instance:
        """Start an instance, with a state directory of its own."""
        number = next(self._numbers)
        settings = {
            "state.dir": self._directory / f"state-{number}",
            "commit.interval.ms": 100,
            "statestore.cache.max.bytes": 0,
            "dsl.store.suppliers.class": IN_MEMORY,
            "enable.metrics.push": "false",
            **self._settings,
        }
        self._instances.append(
            Instance(self._classes, self._name, settings, self._directory / f"instance-{number}.log")
        )
        return self._instances[-1]

    @contextmanager
    def running(self) -> Iterator[Application]:
        try:
            yield self
        finally:
            for instance in self._instances:
                instance.kill()
