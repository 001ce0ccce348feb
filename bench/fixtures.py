"""What a test costs with the pytest fixtures beside an empty test: one with a shared broker that is reset after it, and
one with a broker of its own; and what 1,000 of each leave behind.

    python bench/fixtures.py [--tests 1000]

Each kind runs in a pytest of its own, in turn. A test with a broker produces one record to its topic. The figure is the
median time of a whole test, setup and teardown included. What is left is counted from a tenth of the tests to the last,
and pytest itself keeps the report of every test: the memory of the empty ones is that.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

KINDS = {
    "empty": ("def test_it(number): pass", []),
    "shared": (
        "def test_it(kafka_broker, kafka_topic, number): kafka_broker.produce(kafka_topic, b'one')",
        ["--kafka-scope=session"],
    ),
    "own": (
        "def test_it(kafka_broker, kafka_topic, number): kafka_broker.produce(kafka_topic, b'one')",
        ["--kafka-scope=function"],
    ),
}

LIMITS_MS = {"shared": 3.0, "own": 25.0}
"""Milliseconds that a test may cost beyond an empty one."""

CONFTEST = """
import asyncio, gc, json, os, threading, time
import pytest

times, counts, processor = [], [], []

def count():
    gc.collect()
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tasks = sum(isinstance(each, asyncio.Task) and not each.done() for each in gc.get_objects())
    descriptors = len(os.listdir("/proc/self/fd"))
    return dict(threads=threading.active_count(), tasks=tasks, descriptors=descriptors, bytes=resident)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    begin, spent = time.perf_counter(), time.process_time()
    result = yield
    times.append((time.perf_counter() - begin) * 1000)
    processor.append((time.process_time() - spent) * 1000)
    if len(times) in (AFTER, TESTS):
        counts.append(count())
    return result

def pytest_sessionfinish():
    middle = len(times) // 2
    times.sort()
    processor.sort()
    print("MEASURED", json.dumps(dict(median_ms=times[middle], processor_ms=processor[middle], counts=counts)))
"""


def measure(kind: str, tests: int) -> dict[str, object]:
    text, options = KINDS[kind]
    with tempfile.TemporaryDirectory(prefix="bench-fixtures-") as directory:
        folder = Path(directory)
        (folder / "conftest.py").write_text(f"AFTER, TESTS = {tests // 10}, {tests}\n{CONFTEST}")
        parametrized = f"import pytest\n\n@pytest.mark.parametrize('number', range({tests}))\n{text}\n"
        (folder / "test_it.py").write_text(parametrized)
        finished = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-s",
                "-p",
                "kmini.pytest_plugin",
                "-p",
                "no:cacheprovider",
                *options,
            ],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = [line for line in finished.stdout.splitlines() if "MEASURED" in line]
    if finished.returncode or not lines:
        sys.exit(finished.stdout + finished.stderr)
    return dict(json.loads(lines[0].partition("MEASURED")[2]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=1000, help="tests of each kind, 100 or more")
    tests = parser.parse_args().tests
    found = {kind: measure(kind, tests) for kind in KINDS}
    base = found["empty"]["median_ms"]
    for kind, result in found.items():
        first, last = result["counts"]
        left = {what: last[what] - first[what] for what in first}
        median, processor = result["median_ms"], result["processor_ms"]
        limit = f" (limit {LIMITS_MS[kind]:.0f})" if kind in LIMITS_MS else ""
        print(
            f"{kind:7} {median:6.2f} ms a test (processor {processor:.2f}), "
            f"{median - base:.2f} beyond an empty one{limit}; "
            f"since test {tests // 10}: threads {left['threads']:+d}, tasks {left['tasks']:+d}, "
            f"descriptors {left['descriptors']:+d}, memory {left['bytes'] / 2**20:+.2f} MiB"
        )


if __name__ == "__main__":
    main()
