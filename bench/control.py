"""What the control API costs: the start and the memory of a broker with it over one without, `/metrics`, and what the
page asks first.

    python bench/control.py [start] [metrics] [view]

Each start is a process of its own. Times are medians of the rounds, with the fastest and the slowest. The part of
the imports is measured apart: `kmini serve --http` does them once clients of Kafka can connect.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmini.broker.broker import BrokerServer
    from kmini.control.managed_brokers import ManagedBrokers

ROUNDS = 10
PARTITIONS = 1_000
TOPICS = 1_000
"""Topics of the page's first view, of `PARTITIONS_OF_TOPIC` partitions each; each second one has a record in each."""
PARTITIONS_OF_TOPIC = 10


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


async def managed(begun_s: float) -> None:
    """A broker that can be managed, without its server."""
    await _managed(begun_s, with_server=False)


async def controlled(begun_s: float) -> None:
    """A broker that can be managed, and its server."""
    await _managed(begun_s, with_server=True)


async def _managed(begun_s: float, *, with_server: bool) -> None:
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.control.managed_brokers import ManagedBrokers

    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        served = ManagedBrokers([config], directory, lambda broker: None, is_temporary=False)
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
        ("a broker that can be managed", "managed"),
        ("a broker and its control server", "controlled"),
    ):
        measured = [_run_child(CHILD.format(bench=bench, case=case)) for _ in range(ROUNDS)]
        show(f"start of {name}", [taken_ms for taken_ms, _ in measured], "ms")
        show(f"memory of {name}", [mib for _, mib in measured], "MiB")
    imported = [_run_child(IMPORT)[0] for _ in range(ROUNDS)]
    show("import of the control server alone", imported, "ms")


IMPORT = """
import time
begun = time.perf_counter()
import kmini.control.control_server
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

    def create(broker: BrokerServer) -> None:
        topics.create(broker, "orders", partitions=PARTITIONS)

    async with _served(create) as (_, port):
        await _scrapes(port)  # the first one imports
        show(f"scrape of /metrics, {PARTITIONS} partitions", await _scrapes(port), "ms")
        await _show_holds(f"of the loop in {ROUNDS} of them", lambda: _scrapes(port))
        await _show_holds("of an idle loop", lambda: asyncio.sleep(0.2))


@asynccontextmanager
async def _served(create_topics: Callable[[BrokerServer], None]) -> AsyncIterator[tuple[ManagedBrokers, int]]:
    """A broker with topics, and the port of its control server."""
    from kmini.broker.settings.broker_config import BrokerConfig
    from kmini.control.control_server import ControlServer
    from kmini.control.managed_brokers import ManagedBrokers

    with tempfile.TemporaryDirectory() as directory:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})
        served = ManagedBrokers([config], directory, create_topics, is_temporary=True)
        await served.start()
        server = ControlServer(served)
        listening = socket.create_server(("127.0.0.1", 0))
        await server.start(listening)
        gc.freeze()  # as `kmini serve` does
        yield served, listening.getsockname()[1]
        await server.stop()
        await served.stop()


async def _show_holds(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """The longest holds of the loop, by the wall clock and, which other processes do not move, by processor time."""
    for told, clock in (("wall", time.perf_counter), ("processor", time.thread_time)):
        holds_ms = [await longest_hold_ms(work, clock) for _ in range(ROUNDS)]
        show(f"the longest hold {name}, {told} time", holds_ms, "ms")


async def longest_hold_ms(work: Callable[[], Awaitable[object]], clock: Callable[[], float]) -> float:
    """The longest time, by a clock in seconds, for which other tasks did not run while `work` did."""
    longest_s, is_over = 0.0, False

    async def watch() -> None:
        nonlocal longest_s
        last_s = clock()
        while not is_over:
            await asyncio.sleep(0)
            now_s = clock()
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


# --- the first view of the page


def view() -> None:
    """What the page asks first, and the broker's processor time for it."""
    asyncio.run(_view())


async def _view() -> None:
    from kmini.broker.controller import topics
    from kmini.control.control_server import page_files

    names = [f"orders-{number:04}" for number in range(TOPICS)]

    def create(broker: BrokerServer) -> None:
        for name in names:
            topics.create(broker, name, partitions=PARTITIONS_OF_TOPIC)

    async with _served(create) as (served, port):
        for name in names[::2]:
            for partition in range(PARTITIONS_OF_TOPIC):
                await served.operations.produce(name, b"placed", partition=partition)
        print(f"{TOPICS} topics, {TOPICS * PARTITIONS_OF_TOPIC} partitions: processor time of the broker")
        for name, paths in (
            ("its files", [*page_files()]),
            ("overview", ["/api/v1/overview"]),
            ("50 topics", ["/api/v1/overview/topics?count=50"]),
            ("50 topics, sorted by size", ["/api/v1/overview/topics?count=50&sort=-size_bytes"]),
            ("findings, the first time", ["/api/v1/overview/findings"]),
            ("findings", ["/api/v1/overview/findings"]),
        ):
            rounds = 1 if "first" in name else ROUNDS
            idle_ms = statistics.median([await _processor_ms(port) for _ in range(ROUNDS)])
            show(name, [await _processor_ms(port, *paths) - idle_ms for _ in range(rounds)], "ms")
        await asyncio.to_thread(_browse, port)


def _browse(port: int) -> None:
    """What a browser does for a view until it is shown: from nothing, and when it is changed to from another one. The
    page's own work is that of its scripts, styles and layout; the main thread begins a process and paints as well."""
    import peers  # noqa: F401 (puts tests/ on the path)
    from playwright.sync_api import sync_playwright

    from support.page_views import CHROMIUM

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for address in ("/", "/topics", "/groups"):
            first, changed = [], []
            for _ in range(ROUNDS):
                context = browser.new_context()
                page = context.new_page()
                devtools = context.new_cdp_session(page)
                devtools.send("Performance.enable")
                page.goto(f"http://127.0.0.1:{port}/#{address}")
                page.wait_for_selector(f'html[data-ready="{address}"]')
                first.append(_busy_ms(devtools))
                page.evaluate("location.hash = '/requests'")
                page.wait_for_selector('html[data-ready="/requests"]')
                before = _busy_ms(devtools)
                page.evaluate(f"location.hash = '{address}'")
                page.wait_for_selector(f'html[data-ready="{address}"]')
                changed.append([now - then for now, then in zip(_busy_ms(devtools), before, strict=True)])
                context.close()
            for what, rounds in (("from nothing", first), ("changed to", changed)):
                for whose, busy_ms in zip(
                    ("the page's own work", "Chromium's main thread"), zip(*rounds, strict=True), strict=True
                ):
                    show(f"{address} {what}: {whose}", busy_ms, "ms")
        browser.close()


def _busy_ms(devtools: Any) -> list[float]:
    """Milliseconds of the page's own work until now, and of the main thread."""
    found = {one["name"]: one["value"] * 1000 for one in devtools.send("Performance.getMetrics")["metrics"]}
    return [sum(found[f"{what}Duration"] for what in ("Script", "RecalcStyle", "Layout")), found["TaskDuration"]]


ASKED = """
import sys
from http.client import HTTPConnection
connection = HTTPConnection("127.0.0.1", int(sys.argv[1]))
for path in sys.argv[2:]:
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read()
"""


async def _processor_ms(port: int, *paths: str) -> float:
    """The processor time of this process while another one asks for these paths, on one connection."""
    began_s = time.process_time()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ASKED, str(port), *paths)
    assert await process.wait() == 0
    return (time.process_time() - began_s) * 1000


CASES = {"start": start, "metrics": metrics, "view": view}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
