"""What the control API costs: the start and the memory of a broker with it over one without, and `/metrics`.

    python bench/control.py [start] [metrics]

Each start is a process of its own. Times are medians of the rounds, with the fastest and the slowest. The part of
aiohttp is measured apart: `kmini serve --http` imports it once clients of Kafka can connect.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

ROUNDS = 10
PARTITIONS = 1_000


def show(name: str, values: list[float], unit: str) -> None:
    print(f"{name:64} {statistics.median(values):9.2f} {unit}  ({min(values):.2f} to {max(values):.2f})", flush=True)


# --- the start, in a process of its own

CHILD = """
import sys, time
begun = time.perf_counter()
sys.path.insert(0, {bench!r})
import asyncio, control
asyncio.run(control.{case}(begun))
"""


def resident_mib() -> float:
    """What the process has in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / (1 << 20)


async def plain(begun_s: float) -> None:
    """A broker alone."""
    from kmini.broker.broker import BrokerServer
    from kmini.broker.settings.broker_config import BrokerConfig

    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = await BrokerServer.start(config, directory)
        print((time.perf_counter() - begun_s) * 1000, resident_mib())
        await broker.stop()


async def steered(begun_s: float) -> None:
    """A broker that can be steered, without its server."""
    await _steered(begun_s, with_server=False)


async def controlled(begun_s: float) -> None:
    """A broker that can be steered, and its server."""
    await _steered(begun_s, with_server=True)


async def _steered(begun_s: float, *, with_server: bool) -> None:
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.control.steered import Steered

    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        served = Steered([config], directory, lambda broker: None, is_temporary=False)
        await served.start()
        if with_server:
            from kmini.control.control_server import ControlServer

            server = ControlServer(served)
            await server.start(socket.create_server(("127.0.0.1", 0)))
            print((time.perf_counter() - begun_s) * 1000, resident_mib())
            await server.stop()
        else:
            print((time.perf_counter() - begun_s) * 1000, resident_mib())
        await served.stop()


def start() -> None:
    """The start until clients are served, and the resident memory then."""
    bench = __file__.rpartition("/")[0] or "."
    for name, case in (
        ("a broker", "plain"),
        ("a broker that can be steered", "steered"),
        ("a broker and its control server", "controlled"),
    ):
        measured = [_run_child(CHILD.format(bench=bench, case=case)) for _ in range(ROUNDS)]
        show(f"start of {name}", [taken_ms for taken_ms, _ in measured], "ms")
        show(f"memory of {name}", [mib for _, mib in measured], "MiB")
    imported = [_run_child(IMPORT)[0] for _ in range(ROUNDS)]
    show("import of aiohttp.web alone", imported, "ms")


IMPORT = """
import time
begun = time.perf_counter()
import aiohttp.web
print((time.perf_counter() - begun) * 1000, 0)
"""


def _run_child(program: str) -> tuple[float, float]:
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    taken_ms, mib = finished.stdout.split()
    return float(taken_ms), float(mib)


# --- /metrics


def metrics() -> None:
    """A scrape of a broker with `PARTITIONS` partitions, and for how long at most the loop was held meanwhile."""
    asyncio.run(_metrics())


async def _metrics() -> None:
    from kmini.broker.controller import topics
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.control.control_server import ControlServer
    from kmini.control.steered import Steered

    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        served = Steered(
            [config],
            directory,
            lambda broker: topics.create(broker, "orders", partitions=PARTITIONS),
            is_temporary=False,
        )
        await served.start()
        server = ControlServer(served)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        await server.start(listening)
        await _scrapes(port)  # the first one imports
        show(f"scrape of /metrics, {PARTITIONS} partitions", await _scrapes(port), "ms")
        held_ms, idle_ms = [], []
        for _ in range(ROUNDS):
            idle_ms.append(await longest_hold_ms(lambda: asyncio.sleep(0.2)))
            held_ms.append(await longest_hold_ms(lambda: _scrapes(port)))
        show(f"the longest hold of the loop in {ROUNDS} of them", held_ms, "ms")
        show("the same of an idle loop", idle_ms, "ms")
        await server.stop()
        await served.stop()


async def longest_hold_ms(work: Callable[[], Awaitable[object]]) -> float:
    """The longest time for which other tasks did not run while `work` did."""
    longest_s, is_over = 0.0, False

    async def watch() -> None:
        nonlocal longest_s
        last_s = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0)
            now_s = time.perf_counter()
            longest_s, last_s = max(longest_s, now_s - last_s), now_s

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    await work()
    is_over = True
    await watching
    return longest_s * 1000


SCRAPES = """
import sys, time
from http.client import HTTPConnection
for _ in range(int(sys.argv[2])):
    connection = HTTPConnection("127.0.0.1", int(sys.argv[1]))
    begun = time.perf_counter()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read()
    print((time.perf_counter() - begun) * 1000)
    connection.close()
"""


async def _scrapes(port: int) -> list[float]:
    """The milliseconds of scrapes, one after the other, by another process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRAPES, str(port), str(ROUNDS), stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return [float(line) for line in printed.split()]


CASES = {"start": start, "metrics": metrics}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
