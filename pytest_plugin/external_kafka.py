"""Tests against a Kafka that runs elsewhere, or against the one broker of all workers: what they are lent, what they
skip, and the line that closes the run."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NoReturn

import pytest

from kmini.pytest_plugin.names import run_prefix
from kmini.pytest_plugin.options import BOOTSTRAP_VARIABLE, Settings, check_addresses
from kmini.testkit.phrases import counted

NEEDS = "needs kmini: "
"""The begin of the reason why a test is skipped."""

PROPERTY = "kafka"
"""The user property of a test's report that names the server."""

UNMET = "kafka settings"
"""The user property of a test's report that says which settings of `kafka_options` and of the ini file the server has
otherwise."""


def remote_broker(config: pytest.Config, settings: Settings) -> Any:
    """Connect to the broker that the settings name. Raises pytest.UsageError for an address that is none, and
    NoBrokerAnswers."""
    from kmini.remote.remote_broker import RemoteBroker

    if settings.is_shared:

        def refuse(what: str) -> NoReturn:
            pytest.fail(
                f"the broker that all workers share (--kafka-shared) refuses {what}: "
                'mark the test with @pytest.mark.kafka(scope="function") for a broker of its own',
                pytrace=False,
            )

    else:

        def refuse(what: str) -> NoReturn:
            skip(what, f"{settings.bootstrap_servers} is {broker.server}")

    check_addresses(BOOTSTRAP_VARIABLE, settings.bootstrap_servers)
    broker = RemoteBroker(settings.bootstrap_servers, prefix=run_prefix(config), refuse=refuse)
    return broker.start()


def skip(what: str, why: str) -> NoReturn:
    """Skip a test that needs kmini."""
    raise pytest.skip.Exception(f"{NEEDS}{what} ({why})", _use_item_location=True)


class Tally:
    """Counts, in the process that reports, the tests that ran elsewhere and those that were skipped."""

    def __init__(self) -> None:
        self._servers: dict[str, str] = {}
        """The server of each test, by its id."""
        self._unmet: dict[str, set[str]] = {}
        """By server, what its settings are and should not be."""
        self._skipped: dict[str, str] = {}
        """What a skipped test needs, by its id: a handle, or a method of a topic or a group."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if PROPERTY in properties:
            server = self._servers[report.nodeid] = str(properties[PROPERTY])
            if UNMET in properties:
                self._unmet.setdefault(server, set()).add(str(properties[UNMET]))
        if report.skipped and isinstance(report.longrepr, tuple):
            found = re.match(rf"(?:Skipped: )?{NEEDS}(?:topic\.|group\.)?(\w+)", report.longrepr[2])
            if found:
                self._skipped[report.nodeid] = found[1]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for server, tests in sorted(Counter(self._servers.values()).items()):
            missing = [what for test, what in self._skipped.items() if self._servers.get(test) == server]
            line = f"kafka: {counted(tests, 'test')} on {server}"
            if missing:
                listed = ", ".join(f"{what} {count}" for what, count in sorted(Counter(missing).items()))
                line += f", {len(missing)} skipped ({listed})"
            terminalreporter.write_line(line)
            for unmet in sorted(self._unmet.get(server, ())):
                terminalreporter.write_line(f"kafka: settings of every broker are not in force on {server}: {unmet}")
