"""How long until a broker answers, and what it weighs idle; prints one line of JSON.

serve   from launching `kmini serve` to its first ApiVersions answer, over several cold processes
broker  `with Broker()` in a process that has started one before
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import ServerProcess, apache_kafka, kmini_command
from server_process import PORT, answers


def serve_ms(repetitions: int) -> list[float]:
    durations = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as directory:
            port = apache_kafka.free_port()
            command = [part.replace(PORT, str(port)) for part in kmini_command(Path(directory) / "data", {})]
            start = time.perf_counter()
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                while not answers("127.0.0.1", port):
                    if time.perf_counter() - start > 30:
                        sys.exit("kmini does not answer")
                    time.sleep(0.001)
                durations.append((time.perf_counter() - start) * 1000)
                process.kill()
    return durations


def broker_ms(repetitions: int) -> list[float]:
    from kmini import Broker

    with Broker():
        pass
    durations = []
    for _ in range(repetitions):
        start = time.perf_counter()
        broker = Broker().__enter__()
        durations.append((time.perf_counter() - start) * 1000)
        broker.__exit__(None, None, None)
    return durations


def idle_mib() -> float:
    with tempfile.TemporaryDirectory() as directory:
        server = ServerProcess(kmini_command(Path(directory) / "data", {}), Path(directory) / "log")
        time.sleep(1)
        resident = server.resident_bytes() / 2**20
        server.kill()
    return resident


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    serve, broker = serve_ms(options.repetitions), broker_ms(options.repetitions)
    measured = {
        "serve_median_ms": statistics.median(serve),
        "serve_max_ms": max(serve),
        "broker_median_ms": statistics.median(broker),
        "broker_max_ms": max(broker),
        "idle_mib": idle_mib(),
    }
    print(json.dumps({name: round(value, 1) for name, value in measured.items()}))


if __name__ == "__main__":
    main()
