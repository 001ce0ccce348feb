"""Measure the time until a broker answers, and its memory when idle; prints one line of JSON.

python   `python -c "import asyncio"` from its launch to its end: the time of a bare Python on this machine
serve    from launching `kmini serve` to its first ApiVersions answer
http     the same for `kmini serve --http 0`
ready    from launching `kmini serve --http 0` to the link of its control API
broker   `with Broker()` in a process that has started one before
kafka    from launching Apache Kafka to its first answer, in a directory that was formatted before, where it is

The launches take turns, so that all see the same minute. Each figure is the median of `--repetitions`, in
milliseconds; a `_ratio` is that to the bare Python. The first launch of each is not counted: it compiles bytecode.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from peers import ServerProcess, apache_kafka, kmini_command

from support.server_process import PORT, answers, kafka_command

START_TIMEOUT_S = 60
HTTP = ("--http", "0")


def bare_python() -> None:
    subprocess.run([sys.executable, "-c", "import asyncio"], check=True)


def launch(command: list[str]) -> float:
    """Milliseconds from launching a broker to its first answer. It is ended in order afterwards: after a kill Apache
    Kafka's next start would wait until the session of the broker that was killed has expired."""
    port = apache_kafka.free_port()
    parts = [part.replace(PORT, str(port)) for part in command]
    start = time.perf_counter()
    with subprocess.Popen(parts, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not answers("127.0.0.1", port):
            if time.perf_counter() - start > START_TIMEOUT_S or process.poll() is not None:
                process.kill()
                sys.exit(f"does not answer: {' '.join(parts)}")
            time.sleep(0.001)
        taken = time.perf_counter() - start
        process.terminate()
    return taken * 1000


def launch_kmini(*options: str) -> float:
    with tempfile.TemporaryDirectory() as directory:
        return launch([*kmini_command(Path(directory) / "data", {}), *options])


def until_link() -> float:
    """Milliseconds from launching a broker with a control API until that is served."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*kmini_command(Path(directory) / "data", {}), *HTTP]
        start = time.perf_counter()
        parts = [part.replace(PORT, "0") for part in command]
        with subprocess.Popen(parts, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            while not process.stdout.readline().startswith(b"http://"):
                if process.poll() is not None:
                    sys.exit(f"ended: {' '.join(parts)}")
            taken = time.perf_counter() - start
            process.terminate()
        return taken * 1000


def embedded() -> float:
    """Milliseconds until a broker in this process answers."""
    from kmini import Broker

    start = time.perf_counter()
    with Broker():
        return (time.perf_counter() - start) * 1000


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def idle_mib(command: list[str], directory: Path) -> float:
    server = ServerProcess(command, directory / "log")
    time.sleep(1)
    resident = server.resident_bytes() / 2**20
    server.kill()
    return resident


def measure(repetitions: int, directory: Path) -> dict[str, float]:
    launches: dict[str, Callable[[], float]] = {
        "python": lambda: milliseconds(bare_python),
        "serve": launch_kmini,
        "http": lambda: launch_kmini(*HTTP),
        "ready": until_link,
        "broker": embedded,
    }
    commands = {
        "idle": kmini_command(directory / "idle", {}),
        "http_idle": [*kmini_command(directory / "http", {}), *HTTP],
    }
    if reason := apache_kafka.why_unavailable():
        print(f"without Apache Kafka: {reason}", file=sys.stderr)
    else:
        commands["kafka_idle"] = kafka = kafka_command(directory / "kafka", {}, "--fast")
        launches["kafka"] = lambda: launch(kafka)
    taken: dict[str, list[float]] = {name: [] for name in launches}
    for number in range(repetitions + 1):
        for name, work in launches.items():
            duration_ms = work()
            if number:
                taken[name].append(duration_ms)
    measured = {f"{name}_ms": statistics.median(durations) for name, durations in taken.items()}
    bare = measured["python_ms"]
    measured |= {f"{name}_ratio": measured[f"{name}_ms"] / bare for name in launches if name != "python"}
    return measured | {f"{name}_mib": idle_mib(command, directory) for name, command in commands.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as directory:
        measured = measure(options.repetitions, Path(directory))
    print(json.dumps({name: round(value, 2) for name, value in measured.items()}))


if __name__ == "__main__":
    main()
