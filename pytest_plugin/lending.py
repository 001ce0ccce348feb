"""Brokers lent to tests: one of its own, or one that tests share and that is reset after each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from kmini import Broker, Cluster
from kmini.pytest_plugin import report_section
from kmini.pytest_plugin.external_kafka import PROPERTY, UNMET, remote_broker, skip
from kmini.pytest_plugin.leftovers import Leftovers, warn
from kmini.pytest_plugin.marker import Wanted, wanted
from kmini.pytest_plugin.options import SETTINGS
from kmini.pytest_plugin.starting import Kind, Spec, topics_by_name
from kmini.testkit.argument_checks import config as checked_config
from kmini.testkit.argument_checks import topics as checked_topics

if TYPE_CHECKING:
    from kmini.broker.snapshots import Snapshot
    from kmini.remote.remote_broker import RemoteBroker

Host = Broker | Cluster
Seed = Callable[[Any], object] | None
"""Fills a broker with what every test starts from."""


CHANGE_THE_BROKER = {"kafka_clock", "kafka_faults"}
"""Fixtures by which a test changes its broker for every other test of it."""


REGISTRY_FIXTURE = "kafka_registry_url"
"""The fixture for which a broker has a schema registry, though neither the marker nor `kafka_options` says so."""


class _Shared:
    """A running broker that tests share."""

    def __init__(self, spec: Spec, host: Host, seed: Seed, seeded: Snapshot | None) -> None:
        self.spec = spec
        self.host = host
        self.seed = seed
        self.seeded = seeded
        """What every test starts from, if there is a seed."""
        self.left: dict[str, str] = {}
        """The clients that the last test left connected, by their ids, and that test's id."""


class SharedBrokers:
    """The brokers of one scope. Each is started for the first test that needs it, and closed with the scope."""

    def __init__(self) -> None:
        self._running: list[_Shared] = []
        self._seeds: list[tuple[Spec, Seed, Host, Snapshot]] = []
        """Snapshots of the seed for brokers that tests do not share, and the stopped brokers that hold them."""
        self._elsewhere: RemoteBroker | None = None
        self._managed: Any = None

    @contextmanager
    def lent(self, request: pytest.FixtureRequest, spec: Spec, topics: Mapping[str, Any], seed: Seed) -> Iterator[Host]:
        """Lend the broker of this spec for a test, with these topics besides its own. Afterwards it is reset."""
        shared = self.shared(spec, seed)
        try:
            create_topics(shared.host, topics)
            yield shared.host
        finally:
            self._make_ready(shared, request)

    def shared(self, spec: Spec, seed: Seed) -> _Shared:
        """The broker of this spec and this seed: modules may have seeds of their own."""
        for shared in self._running:
            if shared.spec == spec and shared.seed is seed:
                return shared
        host = spec.make_of_options().start()
        try:
            shared = _Shared(spec, host, seed, _planted(host, seed))
        except BaseException:
            host.close()
            raise
        self._running.append(shared)
        return shared

    def _make_ready(self, shared: _Shared, request: pytest.FixtureRequest) -> None:
        """Reset a broker for the next test. One that its test has stopped is closed: the next test gets another."""
        self._running.remove(shared)
        if shared.host._running is None:
            shared.host.close()
            return
        keep = request.config.stash[SETTINGS].keep
        try:
            seeded = shared.seeded
            report = shared.host.reset(keep=keep) if seeded is None else shared.host.restore(seeded, keep=keep)
        except BaseException:
            shared.host.close()
            raise
        self._running.append(shared)
        left = {client.client_id for client in report.closed if client.client_id}
        returned = {name: test for name, test in shared.left.items() if name in left}
        shared.left = {name: shared.left.get(name, request.node.nodeid) for name in left}
        for name, test in returned.items():
            text = f"a client {name!r} is connected at the end, as one was at the end of {test}: close it there"
            warn(request.node, text)

    def seed_of(self, spec: Spec, seed: Seed) -> Snapshot | None:
        """A snapshot of the seed, for a broker of this spec that is a test's own."""
        if seed is None:
            return None
        for known, planted_by, _, seeded in self._seeds:
            if known == spec and planted_by is seed:
                return seeded
        host = spec.make_of_options().start()
        try:
            planted = _planted(host, seed)
            assert planted is not None
            host.stop()  # the snapshot stays
        except BaseException:
            host.close()
            raise
        self._seeds.append((spec, seed, host, planted))
        return planted

    def elsewhere(self, config: pytest.Config) -> RemoteBroker:
        """The handle of the broker that the run's settings name."""
        if self._elsewhere is None:
            self._elsewhere = remote_broker(config, config.stash[SETTINGS])
        return self._elsewhere

    def managed(self, config: pytest.Config) -> Any:
        """The broker or the cluster whose control API the run's settings name."""
        if self._managed is None:
            self._managed = connected_broker(config, config.stash[SETTINGS].bootstrap_servers)
        return self._managed

    def close(self) -> None:
        for host in (*(shared.host for shared in self._running), *(host for _, _, host, _ in self._seeds)):
            host.close()
        self._running.clear()
        self._seeds.clear()
        for elsewhere in (self._elsewhere, self._managed):
            if elsewhere is not None:
                elsewhere.close()


def create_topics(host: Any, topics: Mapping[str, Any]) -> None:
    """Create the missing ones of these topics."""
    if topics:

        async def create() -> None:
            created = host._operations.create_missing(checked_topics("topics", topics))
            if created is not None:  # it was only begun: a control server has to be asked
                await created

        host._thread.run(create())


def lend(request: pytest.FixtureRequest, kind: Kind, options: Mapping[str, Any], seed: Seed) -> Iterator[Any]:
    """Yield the broker or the cluster of a test, by the cheapest way that meets its marker: a shared one, unless the
    scope is `function` or the marker has settings that only another broker has."""
    settings = request.config.stash[SETTINGS]
    asks = wanted(request.node)
    if asks.registry is None and REGISTRY_FIXTURE in request.fixturenames and not options.get("registry"):
        asks = asks._replace(registry=True)
    if is_control_url(settings.bootstrap_servers):
        yield from _lend_managed(request, kind, asks, options, seed)
        return
    if settings.bootstrap_servers and not (settings.is_shared and needs_own(request, kind, asks)):
        yield from _lend_elsewhere(request, kind, asks, options, seed)
        return
    scope = asks.scope or ("function" if asks.needs_own_settings or settings.is_shared else settings.scope)
    if scope == "function":
        brokers: SharedBrokers = request.getfixturevalue("_kafka_session_brokers")
        unmarked = Spec.of(kind, Wanted(brokers=asks.brokers), settings.config, options)
        seeded = brokers.seed_of(unmarked, seed)
        with Spec.of(kind, asks, settings.config, options).make_of_options() as host:
            if seeded is not None:
                host.restore(seeded.path)
            yield from _watched(request.node, host)
    else:
        shared: SharedBrokers = request.getfixturevalue(f"_kafka_{scope}_brokers")
        spec = Spec.of(kind, asks._replace(topics={}), settings.config, options)
        with shared.lent(request, spec, asks.topics, seed) as host:
            yield from _watched(request.node, host)


def session_broker(
    request: pytest.FixtureRequest, brokers: SharedBrokers, options: Mapping[str, Any], seed: Seed
) -> Any:
    """The broker that the tests of a session share."""
    settings = request.config.stash[SETTINGS]
    if is_control_url(settings.bootstrap_servers):
        return brokers.managed(request.config)
    if settings.bootstrap_servers:
        return brokers.elsewhere(request.config)
    return brokers.shared(Spec.of("broker", Wanted(), settings.config, options), seed).host


def needs_own(request: pytest.FixtureRequest, kind: Kind, asks: Wanted) -> bool:
    """Whether a test needs another broker than the one of all workers, because it would change that for others."""
    is_marked = asks.needs_own_settings or asks.scope is not None
    return kind == "cluster" or is_marked or not CHANGE_THE_BROKER.isdisjoint(request.fixturenames)


def _planted(host: Host, seed: Seed) -> Snapshot | None:
    """Run the seed on a broker that has just started; return a snapshot of the result."""
    if seed is None:
        return None
    seed(host)
    return host.snapshot("seed")


def _watched(item: pytest.Item, host: Host) -> Iterator[Host]:
    report_section.remember(item, host)
    _draw_by(host, item.config.stash[SETTINGS].seed)
    leftovers = Leftovers(item, host)
    try:
        yield host
    finally:
        leftovers.tell()


def _differences(broker: RemoteBroker, config: Mapping[str, Any]) -> list[str]:
    """The settings that a broker elsewhere does not have as these are."""
    found: list[str] = broker._thread.run(broker._remote.differences(checked_config("config", config)))
    return found


def _draw_by(host: Host, seed: int | None) -> None:
    """Have the fault rules of a test draw by the seed of the run, if it has one."""
    if seed is not None:
        host._fault_seed = seed
        if host._faults is not None:
            host._faults.seed = seed


def _lend_elsewhere(
    request: pytest.FixtureRequest, kind: Kind, asks: Wanted, options: Mapping[str, Any], seed: Seed
) -> Iterator[RemoteBroker]:
    """Yield a handle of the broker that runs elsewhere, with the topics and the seed that the test begins with.
    Afterwards the topics and groups of the test are deleted."""
    settings = request.config.stash[SETTINGS]
    brokers: SharedBrokers = request.getfixturevalue("_kafka_session_brokers")
    broker = brokers.elsewhere(request.config)
    request.node.user_properties.append((PROPERTY, broker.server))
    report_section.remember(request.node, broker)
    refuse = broker._remote.refuse
    if kind == "cluster":
        refuse("cluster of the test's own")
    if different := _differences(broker, asks.config):
        refuse(f"config of the marker: {', '.join(different)}")
    if asks.as_version not in (None, broker.server.rpartition(" ")[2]):
        refuse(f"as_version of the marker: {asks.as_version}")
    if asks.security:
        refuse(f"security of the marker: {asks.security}")
    of_every_broker = {**settings.config, **(options.get("config") or {})}
    if unmet := _differences(broker, {key: of_every_broker[key] for key in of_every_broker if key not in asks.config}):
        request.node.user_properties.append((UNMET, ", ".join(unmet)))
    try:
        topics = checked_topics("topics", {**topics_by_name(options.get("topics")), **asks.topics})
        broker._thread.run(broker._remote.create_all(topics))
        if seed is not None:
            seed(broker)
        yield broker
    finally:
        broker.reset()


def _lend_managed(
    request: pytest.FixtureRequest, kind: Kind, asks: Wanted, options: Mapping[str, Any], seed: Seed
) -> Iterator[Any]:
    """Yield the handles of a broker that its control API steers, with the topics and the seed that the test begins
    with. Afterwards it is reset."""
    settings = request.config.stash[SETTINGS]
    brokers: SharedBrokers = request.getfixturevalue("_kafka_session_brokers")
    broker = brokers.managed(request.config)
    request.node.user_properties.append((PROPERTY, f"kmini at {broker.url}"))
    check_meets(broker, kind, asks, {**settings.config, **(options.get("config") or {})})
    broker.reset(keep=settings.keep)  # a run that was ended may have left something
    create_topics(broker, {**topics_by_name(options.get("topics")), **asks.topics})
    if seed is not None:
        seed(broker)
    try:
        yield from _watched(request.node, broker)
    finally:
        if broker.describe().addresses:  # the next test starts what this one has stopped
            broker.reset(keep=settings.keep)


# --- a broker of a control server


TOKEN_VARIABLE = "KMINI_HTTP_TOKEN"
"""The variable that has the token of the control API, as for `kmini serve`."""


def is_control_url(bootstrap_servers: str) -> bool:
    """Whether the setting of the run names a control API, and no addresses of brokers."""
    return bootstrap_servers.startswith(("http://", "https://"))


def connected_broker(config: pytest.Config, url: str) -> Any:
    """Connect to a control API. Raises pytest.UsageError where none answers, and for several workers, which would
    reset each other's broker."""
    if int(getattr(config, "workerinput", {}).get("workercount", 1)) > 1:
        raise pytest.UsageError(f"{url} is one broker, and each worker of pytest-xdist resets it: run without -n")
    try:
        from kmini.control.connected import connect

        return connect(url, token=os.environ.get(TOKEN_VARIABLE))
    except (ImportError, RuntimeError) as error:
        raise pytest.UsageError(f"--kafka-bootstrap={url}: {error}") from None


def check_meets(broker: Any, kind: Kind, asks: Wanted, config: Mapping[str, Any]) -> None:
    """Skip a test that needs another broker: a cluster, other settings, another release. A broker that the test before
    has stopped is started."""
    found = broker.describe()
    if not found.addresses:
        broker.start()
        found = broker.describe()
    runs = f"{broker.url} is a {found.kind} of {len(found.node_ids)}"
    if found.kind != kind:
        skip(f"{kind} of the test's own", runs)
    if asks.brokers not in (None, len(found.node_ids)):
        skip(f"brokers={asks.brokers} of the marker", runs)
    if asks.as_version is not None:
        skip(f"as_version={asks.as_version} of the marker", f"{broker.url} was started without it")
    if asks.security:
        skip(f"{asks.security} of the marker", f"{broker.url} was started otherwise")
    if asks.registry and not broker.registry_url:
        skip("registry=True of the marker", f"{broker.url} has no schema registry")
    wanted = checked_config("config", {**config, **asks.config})
    if different := broker.different_settings(wanted):
        skip(f"{', '.join(different)}", f"{broker.url} was started otherwise")
