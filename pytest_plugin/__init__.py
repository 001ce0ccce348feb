"""Fixtures for tests of services on Kafka. Nothing starts, and no broker is imported, until a test asks for it.

Reading order: `options.py` and `marker.py` (what is wanted), `starting.py`, `lending.py` (which test uses which
broker), `leftovers.py`, `report_section.py`; a Kafka elsewhere: `external_kafka.py`.
"""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from kmini.pytest_plugin import marker, options, report_section
from kmini.testkit import patience

if TYPE_CHECKING:
    from kmini import AsyncBroker, Broker, Clock, Cluster
    from kmini.pytest_plugin.lending import SharedBrokers
    from kmini.testkit.fault_handle import Faults


_MISUSE = pytest.StashKey[str]()
"""Why a test cannot run, in the stash of its item: a worker of pytest-xdist cannot refuse what it collects."""


# --- hooks


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Import kmini as it is: pytest rewrites the assertions of every module of an installed plugin's distribution,
    which takes a second here, and breaks where two threads do it at once (CPython's issue 106905)."""
    hook: Any = early_config.pluginmanager.rewrite_hook
    hook._must_rewrite.discard("kmini")
    hook._marked_for_rewrite_cache.clear()


@pytest.hookimpl(trylast=True)  # a conftest may set or drop KAFKA_BOOTSTRAP_SERVERS first
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", marker.DESCRIPTION)
    config.pluginmanager.register(report_section, "kafka-report")
    settings = config.stash[options.SETTINGS] = options.settings(config)
    before, patience.factor = patience.factor, options.patience_of(config)
    config.add_cleanup(lambda: setattr(patience, "factor", before))
    if settings.bootstrap_servers and not hasattr(config, "workerinput"):
        from kmini.pytest_plugin.external_kafka import Tally

        config.pluginmanager.register(Tally(), "kafka-tally")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give the address of the one broker of `--kafka-shared`, and the seed, to a worker of pytest-xdist."""
    settings = node.config.stash[options.SETTINGS]
    if settings.seed is not None:
        node.workerinput[options.SEED_INPUT] = settings.seed
    if settings.is_shared:
        from kmini.pytest_plugin import shared_run

        node.workerinput[options.SHARED_INPUT] = shared_run.address(node.config, settings)


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings = config.stash[options.SETTINGS]
    lines = [f"kafka: {settings.bootstrap_servers}"] if settings.bootstrap_servers else []
    if settings.seed is not None:
        lines.append(f"kafka: fault rules draw by --kafka-seed={settings.seed}")
    return lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("kafka") is not None:
            try:
                marker.check(item)
            except pytest.UsageError as misuse:
                if not hasattr(config, "workerinput"):
                    raise
                item.stash[_MISUSE] = str(misuse)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if _MISUSE in item.stash:
        pytest.fail(item.stash[_MISUSE], pytrace=False)


# --- fixtures that a conftest may define anew


@pytest.fixture(scope="session")
def kafka_options() -> dict[str, Any]:
    """Keyword arguments of every `Broker` and `Cluster` of the run. Define it in `conftest.py` to return others."""
    return {}


@pytest.fixture(scope="session")
def kafka_seed() -> Callable[[Any], object] | None:
    """What every test starts from. Define it in `conftest.py` to return a function that takes a broker and fills it."""
    return None


# --- fixtures


@pytest.fixture
def kafka_broker(
    request: pytest.FixtureRequest, kafka_options: dict[str, Any], kafka_seed: Callable[[Any], object] | None
) -> "Iterator[Broker]":
    """A broker for one test, on a free port; afterwards it and its data are gone. With `--kafka-scope` it is shared by
    tests, and reset between them."""
    from kmini.pytest_plugin import lending

    yield from lending.lend(request, "broker", kafka_options, kafka_seed)


@pytest.fixture
def async_kafka_broker(kafka_broker: "Broker") -> "AsyncBroker":
    """The broker of `kafka_broker` with awaitable methods.

    The fixture itself is an ordinary one: it works with pytest-asyncio in either mode, and with anyio's plugin.
    """
    return kafka_broker.aio


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, kafka_options: dict[str, Any], kafka_seed: Callable[[Any], object] | None
) -> "Iterator[Cluster]":
    """A cluster for one test, of three brokers or as many as `@pytest.mark.kafka(brokers=...)` says."""
    from kmini.pytest_plugin import lending

    yield from lending.lend(request, "cluster", kafka_options, kafka_seed)


@pytest.fixture(scope="session")
def kafka_broker_session(
    request: pytest.FixtureRequest,
    kafka_options: dict[str, Any],
    kafka_seed: Callable[[Any], object] | None,
    _kafka_session_brokers: "SharedBrokers",
) -> "Broker":
    """The broker that tests share with `--kafka-scope=session`, for fixtures of the session, as that of a service that
    runs all the time; `kafka_keep` in the ini file names the clients whose connections outlive the resets."""
    from kmini.pytest_plugin import lending

    return lending.session_broker(  # type: ignore[no-any-return]
        request, _kafka_session_brokers, kafka_options, kafka_seed
    )


@pytest.fixture
def _kafka(request: pytest.FixtureRequest) -> "Broker | Cluster":
    """The broker of the test, or its cluster if it uses `kafka_cluster` or is marked with several brokers."""
    is_cluster = "kafka_cluster" in request.fixturenames or (marker.wanted(request.node).brokers or 1) > 1
    name = "kafka_cluster" if is_cluster else "kafka_broker"
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


@pytest.fixture
def kafka_bootstrap_servers(_kafka: "Broker | Cluster") -> str:
    """The address for clients, `host:port`; of every broker if the test uses `kafka_cluster`."""
    return _kafka.bootstrap_servers


@pytest.fixture
def kafka_registry_url(_kafka: "Broker | Cluster") -> str:
    """The address of the schema registry of the test's broker, which has one because the test uses this fixture. With
    `--kafka-bootstrap` it is that of the process with the control API, or else SCHEMA_REGISTRY_URL; the test is skipped
    where there is neither."""
    url: str = "" if hasattr(_kafka, "server") else _kafka.registry_url
    url = url or os.environ.get("SCHEMA_REGISTRY_URL", "")
    if not url:
        pytest.skip("the Kafka of --kafka-bootstrap has no schema registry that is known: set SCHEMA_REGISTRY_URL")
    return url


@pytest.fixture
def kafka_prefix(_kafka: "Broker | Cluster") -> str:
    """What the names of topics, groups and transactional ids begin with where other tests use the same Kafka: with
    `--kafka-bootstrap` and `--kafka-shared`. On a broker of kmini it is empty."""
    from kmini.pytest_plugin import names

    return names.test_prefix(getattr(_kafka, "prefix", ""))


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, _kafka: "Broker | Cluster", kafka_prefix: str) -> str:
    """The name of a topic with one partition that exists, is empty, and is this test's own."""
    from kmini.pytest_plugin import names

    name = names.name_of(request.node, kafka_prefix)
    _kafka.create_topic(name)
    return name


@pytest.fixture
def kafka_group_id(request: pytest.FixtureRequest, kafka_prefix: str) -> str:
    """A group id that no other test has."""
    from kmini.pytest_plugin import names

    return names.name_of(request.node, kafka_prefix)


@pytest.fixture
def kafka_clock(_kafka: "Broker | Cluster") -> "Clock":
    """The clock of the test's broker. With `--kafka-bootstrap` the test is skipped."""
    return _only_kmini(_kafka, "clock")  # type: ignore[no-any-return]


@pytest.fixture
def kafka_faults(_kafka: "Broker | Cluster") -> "Faults":
    """The faults of the test's broker: rules that make it fail. With `--kafka-bootstrap` the test is skipped."""
    return _only_kmini(_kafka, "faults")  # type: ignore[no-any-return]


def _only_kmini(broker: Any, name: str) -> Any:
    """A handle of the broker. Where that is no broker of kmini, which has no such handle, this skips the test."""
    handle = getattr(broker, name)
    if hasattr(broker, "server"):
        handle()
    return handle


@pytest.fixture(scope="session")
def _kafka_session_brokers() -> "Iterator[SharedBrokers]":
    """The brokers that all tests of a worker share."""
    from kmini.pytest_plugin.lending import SharedBrokers

    brokers = SharedBrokers()
    yield brokers
    brokers.close()


@pytest.fixture(scope="module")
def _kafka_module_brokers() -> "Iterator[SharedBrokers]":
    """The brokers that the tests of a module share."""
    from kmini.pytest_plugin.lending import SharedBrokers

    brokers = SharedBrokers()
    yield brokers
    brokers.close()
