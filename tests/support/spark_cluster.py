"""A standalone cluster of Spark on loopback: a master and its workers, each a process, out of PySpark's own jars."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import pyspark

from support.until import until

HOME = Path(pyspark.__file__).parent
STARTS_WITHIN_S = 60.0
LEAN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx160m")
EMPTY: Mapping[str, str] = MappingProxyType({})
SPARK = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}


class Daemon:
    """One JVM of the cluster, in a process group of its own with the executors that it starts."""

    def __init__(self, program: str, log: Path, environment: Mapping[str, str], *arguments: str) -> None:
        self.log = log
        command = ["java", *LEAN, "-cp", f"{HOME}/jars/*", f"org.apache.spark.deploy.{program}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **SPARK, **environment},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, pattern: str) -> str:
        """Wait for a line of the log; return the pattern's group in it."""
        until(
            lambda: re.search(pattern, self.text()) or self.process.poll() is not None,
            self.text,
            timeout_s=STARTS_WITHIN_S,
        )
        found = re.search(pattern, self.text())
        assert found is not None, self.text()
        return found[1]

    def kill(self) -> None:
        """End the JVM and its executors."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


class SparkCluster:
    """A master and its workers, of which some may have been killed."""

    def __init__(self, directory: Path, offer: list[str], environment: Mapping[str, str]) -> None:
        self._directory, self._offer, self._environment = directory, offer, environment
        self.workers: list[Daemon] = []
        self._master = Daemon("master.Master", directory / "master.log", environment)
        try:
            self.master = self._master.wait_for(r"Starting Spark master at (spark://\S+)")
            """The address of the master: spark://HOST:PORT."""
        except BaseException:
            self.close()
            raise

    def start_worker(self) -> None:
        """Begin to start another worker; `await_workers` waits for it."""
        number = len(self.workers)
        work = ["--work-dir", str(self._directory / f"work-{number}")]
        log = self._directory / f"worker-{number}.log"
        self.workers.append(Daemon("worker.Worker", log, self._environment, *self._offer, *work, self.master))

    def await_workers(self) -> None:
        for worker in self.workers:
            worker.wait_for(r"Successfully registered with master (\S+)")

    def executors(self) -> list[int]:
        """The number of executors that each worker has started."""
        return [worker.text().count("Asked to launch executor") for worker in self.workers]

    def close(self) -> None:
        for daemon in (*self.workers, self._master):
            daemon.kill()


@contextmanager
def spark_cluster(
    directory: Path, *, workers: int = 2, cores: int = 1, memory: str = "512m", environment: Mapping[str, str] = EMPTY
) -> Iterator[SparkCluster]:
    """A cluster, until the block ends. Every worker offers `cores` and `memory` to executors. Logs and the workers'
    folders are in `directory`."""
    with closing(SparkCluster(directory, ["--cores", str(cores), "--memory", memory], environment)) as cluster:
        for _ in range(workers):
            cluster.start_worker()
        cluster.await_workers()
        yield cluster
