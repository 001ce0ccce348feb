"""Fixtures that every part of the test suite shares. `support/stage_plugin.py` says which tests run where."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from support import apache_kafka
from support.client_users import open_sockets, uses_clients
from support.java_peer import JavaPeer
from support.server_process import ServerProcess, StartServer, kafka_command, kmini_command
from support.until import until

pytest_plugins = ["pytester", "support.stage_plugin"]

OURS_UNMAPPED = {init.parent.name for init in Path(__file__).resolve().parents[1].glob("*/__init__.py")}
"""Folder names of the repository; as modules they would be second copies beside `kmini.protocol` and the rest."""

NOT_OUR_LEAKS = (
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::ResourceWarning",
    "ignore::DeprecationWarning",
)
"""The suite treats leaks as errors; the clients it drives leave sockets to the garbage collector."""


def pytest_configure() -> None:
    """Drop settings for brokers from the environment: they are for other brokers than those of the tests."""
    for name in [name for name in os.environ if name.startswith(("KAFKA_", "KMINI_BENCH_"))]:
        del os.environ[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--against",
        choices=["kmini", "kafka"],
        default="kmini",
        help="which server the tests of clients and tools run against: Apache Kafka proves the tests themselves",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "apache_kafka_server" in fixtures or "java" in fixtures:
            item.add_marker(pytest.mark.oracle)
        if "leaky_clients" in fixtures or uses_clients(item.path):
            item.add_marker(pytest.mark.filterwarnings(*NOT_OUR_LEAKS))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No test may have imported a folder by its bare name, past the mapping in pyproject.toml."""
    if imported := OURS_UNMAPPED & sys.modules.keys():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print(f"\nimported without the package kmini: {', '.join(sorted(imported))}", file=sys.stderr)


@pytest.fixture(scope="session")
def against_kafka(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--against") == "kafka")


@pytest.fixture
def leaky_clients() -> None:
    """Mark a test that drives client libraries, which leave sockets behind."""


SOCKETS_BEFORE = pytest.StashKey[frozenset[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[SOCKETS_BEFORE] = open_sockets()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Collect what clients left behind before the next test, where it would be an error; the log that pytest captures
    holds on to some of it until here. A collection takes a tenth of a second."""
    yield
    is_leaky = "leaky_clients" in getattr(item, "fixturenames", ())
    if is_leaky or not open_sockets() <= item.stash.get(SOCKETS_BEFORE, frozenset()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()


@pytest.fixture(scope="session")
def need_kafka() -> None:
    """Skip where Apache Kafka or Java is not installed."""
    if reason := apache_kafka.why_unavailable():
        pytest.skip(reason)


SESSIONS = {
    f"group.{kind}.{name}.ms": ms
    for kind in ("consumer", "share", "streams")
    for name, ms in {
        "min.heartbeat.interval": "300",
        "min.session.timeout": "1000",
        "max.session.timeout": "600000",
    }.items()
}


@pytest.fixture(scope="session")
def server(against_kafka: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server under test, shared by the tests of one process: use fresh topic names. It has default settings, but
    that sessions of groups may be short and long."""
    if against_kafka and (reason := apache_kafka.why_unavailable()):
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("server")
    command = kafka_command if against_kafka else kmini_command
    process = ServerProcess(command(directory / "data", SESSIONS), directory / "server.log")
    yield process
    process.stop()


@pytest.fixture
def start_server(against_kafka: bool, tmp_path: Path) -> Iterator[StartServer]:
    """A maker of servers of the kind under test; configuration keys are written with underscores for dots."""
    if against_kafka and (reason := apache_kafka.why_unavailable()):
        pytest.skip(reason)
    started: list[ServerProcess] = []

    def start(**config: str) -> ServerProcess:
        command = kafka_command if against_kafka else kmini_command
        directory = tmp_path / f"server-{len(started)}"
        directory.mkdir()
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        started.append(ServerProcess(command(directory / "data", dotted), directory / "server.log"))
        return started[-1]

    yield start
    for process in started:
        process.kill()


@pytest.fixture
def broker_process(start_server: StartServer) -> ServerProcess:
    """A server of this test's own, to be killed and started again."""
    return start_server()


@pytest.fixture(scope="session")
def apache_kafka_server(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Apache Kafka itself, started once for each process of tests that needs it (`support/stages.py`)."""
    directory = tmp_path_factory.mktemp("apache-kafka")
    process = ServerProcess(kafka_command(directory / "data", SESSIONS), directory / "server.log")
    yield process
    process.stop()


@pytest.fixture(scope="session")
def java(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaPeer]:
    """One JVM with Kafka's tools and a Java producer and consumer, for each process that needs it."""
    peer = JavaPeer(tmp_path_factory.mktemp("java") / "java.log")
    yield peer
    peer.close()


@pytest.fixture
def log_directory(against_kafka: bool) -> Callable[[ServerProcess], Path]:
    """Where a server keeps its logs, in Kafka's layout."""

    def find(process: ServerProcess) -> Path:
        data = Path(process.command[process.command.index("--data-dir") + 1])
        if against_kafka:
            return data / "log"
        (directory,) = data.glob("broker-*")
        return directory

    return find


@pytest.fixture(scope="session")
def topic_names(worker_id: str) -> Callable[[str], str]:
    """A maker of topic names that no other test of this run uses."""
    numbers = itertools.count()
    return lambda prefix: f"{prefix}-{worker_id}-{next(numbers)}"


# --- what a test leaves behind


def _descriptors() -> set[tuple[str, str]]:
    """Those that are open; without pipes where librdkafka is loaded."""
    from support.every_name import descriptors  # few tests ask, and it imports all of kmini

    found = descriptors()
    if "confluent_kafka" not in sys.modules:
        return found
    return {(name, target) for name, target in found if not target.startswith("pipe:")}


def _left(threads: set[threading.Thread], opened: set[tuple[str, str]]) -> set[object]:
    new = {thread for thread in threading.enumerate() if thread not in threads}
    return {thread for thread in new if not thread.name.startswith("Trio thread")} | (_descriptors() - opened)


@pytest.fixture
def leaves_nothing() -> Iterator[None]:
    """Fails a test after which there are threads or descriptors that there were not before.

    Clients that earlier tests left behind may open a socket at any time, to look for their broker: those go again.
    One of librdkafka that finds a cluster there keeps a pipe for each broker that is new to it, for its whole life.
    """
    import uvloop

    uvloop.new_event_loop().close()  # libuv keeps one pipe a process, from its first loop on
    threads, opened = set(threading.enumerate()), _descriptors()
    yield

    def is_clean() -> bool:
        if not _left(threads, opened):
            return True
        gc.collect()
        return False

    until(is_clean, lambda: _left(threads, opened), timeout_s=30, poll_s=0.01)
