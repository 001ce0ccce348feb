"""The servers that a benchmark compares, each found or left out with a line that says why."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support import apache_kafka
from support.server_process import PORT, ServerProcess, kafka_command, kmini_command

BENCH = Path(__file__).resolve().parent
KFAKE = BENCH.parent / ".peers" / "kfake"
"""The program that `make kfake` builds, where Go is."""

__all__ = ["ServerProcess", "apache_kafka", "available", "kmini_command", "running"]

DATA_DIR = "{data_dir}"
Launch = Callable[[Path], ServerProcess]


def launch_kmini(directory: Path) -> ServerProcess:
    return ServerProcess(kmini_command(directory / "data", {}), directory / "log")


def launch_kafka(directory: Path) -> ServerProcess:
    return ServerProcess(kafka_command(directory / "data", {}, "--fast"), directory / "log", start_timeout=60)


def launcher(command: str) -> Launch:
    """Make a launcher from a command line with {port} and, where the peer wants it, {data_dir} in it."""
    if PORT not in command:
        sys.exit(f"the command of a peer needs {PORT} in it: {command}")

    def launch(directory: Path) -> ServerProcess:
        parts = [part.replace(DATA_DIR, str(directory / "data")) for part in shlex.split(command)]
        return ServerProcess(parts, directory / "log", port=apache_kafka.free_port())

    return launch


def available(wanted: list[str]) -> dict[str, Launch]:
    """The peers to compare: kmini, Apache Kafka, kfake, the floor, and whatever KMINI_BENCH_<NAME> launches."""
    peers: dict[str, Launch] = {"kmini": launch_kmini}
    if reason := apache_kafka.why_unavailable():
        print(f"without Apache Kafka: {reason}", file=sys.stderr)
    else:
        peers["kafka"] = launch_kafka
    if KFAKE.exists():
        peers["kfake"] = launcher(f"{KFAKE} -port {PORT}")
    else:
        print("without kfake: `make kfake` builds it where Go is", file=sys.stderr)
    peers["floor"] = launcher(f"{sys.executable} {BENCH / 'floor.py'} {PORT} {DATA_DIR}")
    prefix = "KMINI_BENCH_"
    for variable, command in sorted(os.environ.items()):
        if variable.startswith(prefix):
            peers[variable.removeprefix(prefix).lower()] = launcher(command)
    return {name: launch for name, launch in peers.items() if not wanted or name in wanted}


@contextmanager
def running(launches: dict[str, Launch]) -> Iterator[dict[str, ServerProcess]]:
    """All peers at once, so that each round measures them within the same minute."""
    with ExitStack() as stack:
        servers = {}
        for name, launch in launches.items():
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-{name}-")))
            servers[name] = launch(directory)
            stack.callback(servers[name].kill)
        yield servers
