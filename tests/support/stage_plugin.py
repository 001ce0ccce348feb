"""Runs one stage of the suite (`--stage`), holds the certain one to its rules, and writes what became of each test.

Loaded by tests/conftest.py; `tests/run.py` starts the processes and reads what `--results` wrote.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any

import hypothesis
import pytest

from support import server_process
from support.certain import Guard
from support.stages import STAGES, stage_of, stages_in

guard = Guard()

BROKER_ERROR = re.compile(r"^(?:ERROR|CRITICAL)\s+kmini\.", re.MULTILINE)
"""In the log that pytest captured."""
SERVER_ERROR = re.compile(r"^\S+ \S+ (?:ERROR|CRITICAL) kmini|^Traceback \(most recent", re.MULTILINE)
"""In what a `kmini serve` of the test has written."""

hypothesis.settings.register_profile("certain", derandomize=True, database=None, deadline=None, print_blob=True)
hypothesis.settings.register_profile("random", deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stage", choices=STAGES, help="run the tests of this stage alone")
    parser.addoption("--results", type=Path, help="write there a line of JSON for each test, for tests/run.py")


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.load_profile("random" if config.getoption("--stage") == "soak" else "certain")
    if path := config.getoption("--results"):
        config.pluginmanager.register(Results(path.open("w", encoding="utf-8")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    stage = config.getoption("--stage")
    if stage and collection_path.name.startswith("test_") and stage not in stages_in(collection_path):
        return True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--stage")
    kept, others = [], []
    for item in items:
        marks = [mark.name for mark in item.iter_markers()]
        stage = stage_of(item.nodeid, marks, getattr(item, "fixturenames", ()))
        if item.path.name.startswith("test_") and stage not in stages_in(item.path):
            raise pytest.UsageError(
                f"{item.nodeid} is in the stage {stage} by a fixture of its conftest.py: mark it so"
            )
        item.stash[STAGE] = stage
        is_wanted = wanted in (None, stage) or (wanted == "soak" and "deep" in marks)
        (kept if is_wanted else others).append(item)
    items[:] = kept
    if others:
        config.hook.pytest_deselected(items=others)


STAGE = pytest.StashKey[str]()


def pytest_collection_finish() -> None:
    """What collecting made stays for the whole run: no later collection of garbage looks at it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    guard.is_on, guard.found = item.stash[STAGE] == "certain", []
    try:
        return (yield)
    finally:
        guard.is_on = False


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """In a run of several stages, servers that tests of another one share end with the last test, whichever that is."""
    guard.is_on = guard.is_on and item.config.getoption("--stage") == "certain"
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    report = yield
    if call.when == "teardown" and report.passed and guard.found:
        report.outcome = "failed"
        report.longrepr = f"a test of the certain stage {guard.found[0]}, and something caught the error"
    if report.failed:
        report.unforgiven = _why_unforgiven(item, report)
    return report


def _why_unforgiven(item: pytest.Item, report: pytest.TestReport) -> str | None:
    """Why a failure may not be luck, so that a second run would prove nothing."""
    if item.stash[STAGE] == "certain":
        return "it is certain"
    if item.get_closest_marker("promise"):
        return "it is a promise"
    if "from pytest-timeout" in report.longreprtext:
        return "it hangs"
    if BROKER_ERROR.search(report.caplog):
        return "the broker logged an error"
    if any(SERVER_ERROR.search(text) for text in server_process.logs_since_test_began()):
        return "a server's log has an error"
    return None


class Results:
    """A line when a test begins, one when it has ended, and one when all have."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._reports: list[pytest.TestReport] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        server_process.test_begins()
        self._reports = []
        self._write(began=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        failed = [report for report in self._reports if report.failed]
        skipped = any(report.skipped for report in self._reports)
        self._write(
            test=nodeid,
            outcome="failed" if failed else "skipped" if skipped else "passed",
            duration_s=round(sum(report.duration for report in self._reports), 3),
            error=_first_line_of_error(failed[0]) if failed else None,
            unforgiven=next((why for report in failed if (why := report.unforgiven)), None),
        )

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._write(ended=int(exitstatus))

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _first_line_of_error(report: pytest.TestReport) -> str:
    lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return (lines or report.longreprtext.splitlines() or [""])[0][:200]
