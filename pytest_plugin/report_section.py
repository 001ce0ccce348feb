"""The failure report of each broker that a failed test has by a fixture, as a section of pytest's own report.

It is made before fixtures end, so that the broker still runs and clients are still connected. As a section it also
reaches the controller of pytest-xdist, JUnit files and editors.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kmini import Broker, Cluster
    from kmini.remote.remote_broker import RemoteBroker

_LENT = pytest.StashKey[list[Any]]()
"""The brokers that fixtures of kmini have lent to a test, in the stash of its item. Those that a fixture of the test's
own has as a value are found without it."""


_HAS_FAILED = pytest.StashKey[bool]()


def has_failed(item: pytest.Item) -> bool:
    """Whether a test has failed, in its setup or itself, so that its report has the fault rules."""
    return item.stash.get(_HAS_FAILED, False)


def remember(item: pytest.Item, host: Broker | Cluster | RemoteBroker) -> None:
    """Count a broker among those of a test, whose fixtures may still fail."""
    item.stash.setdefault(_LENT, []).append(host)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Add a section for each running broker to the report of a test that failed, in its setup or itself.

    After its teardown the test forgets the brokers that were lent to it: pytest keeps each test until the run ends.
    """
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.failed and call.when != "teardown":
        item.stash[_HAS_FAILED] = True
        for host in hosts_of(item):
            report.sections.append((f"kmini: {_address(host)}", text_of(host)))
    if call.when == "teardown" and _LENT in item.stash:
        del item.stash[_LENT]


def hosts_of(item: pytest.Item) -> Iterator[Any]:
    """The running brokers and clusters, here and elsewhere, that were lent to a test or are values of its fixtures.
    Each comes once."""
    if "kmini.testkit.host" not in sys.modules:  # no broker was made
        return
    seen: list[object] = []
    for value in (*item.stash.get(_LENT, ()), *getattr(item, "funcargs", {}).values()):
        host = _host_of(value)
        if host is not None and host._thread.is_running and host not in seen:
            seen.append(host)
            yield host


def _host_of(value: Any) -> Any:
    """The broker or cluster that a value is, or whose awaitable form it is; here or elsewhere. None if it is none."""
    from kmini.testkit.host import AsyncHost, Host

    if isinstance(value, AsyncHost):
        return value._host
    if isinstance(value, Host):
        return value
    if "kmini.control.connected" in sys.modules:
        from kmini.control.connected import AsyncConnectedHost, ConnectedHost

        if isinstance(value, AsyncConnectedHost):
            return value._host
        if isinstance(value, ConnectedHost):
            return value
    if "kmini.remote.remote_broker" not in sys.modules:
        return None
    from kmini.remote.remote_broker import AsyncRemoteBroker, RemoteBroker

    if isinstance(value, AsyncRemoteBroker):
        return value._host
    return value if isinstance(value, RemoteBroker) else None


def text_of(host: Broker | Cluster | RemoteBroker) -> str:
    """The report; or why there is none, for the failure of the test is not to be hidden by another one."""
    try:
        return host.report()
    except Exception as error:
        return f"the failure report failed, too: {error!r}"


def _address(host: Any) -> str:
    """What runs, and where: "broker 127.0.0.1:9092", "Apache Kafka 4.3 kafka:9092"."""
    addresses = host._addresses if "_addresses" in dir(host) else host.bootstrap_servers
    return f"{getattr(host, 'server', host._thread.what)} {addresses}"
