"""Brokers lent to tests: one of its own, or one that tests share and that is reset after each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from kmini import Broker, Cluster
from kmini.argument_checks import topics as checked_topics
from kmini.pytest_plugin.leftovers import Leftovers
from kmini.pytest_plugin.marker import wanted
from kmini.pytest_plugin.options import SETTINGS
from kmini.pytest_plugin.starting import Kind, Spec

Host = Broker | Cluster
Seed = Callable[[Any], object] | None
"""Fills a broker with what every test starts from."""


class _Shared(NamedTuple):
    """A running broker of several tests, as its start and its seed left it."""

    spec: Spec
    host: Host


class SharedBrokers:
    """The brokers of one scope. Each is started for the first test that needs it, and closed with the scope."""

    def __init__(self) -> None:
        self._running: list[_Shared] = []

    @contextmanager
    def lent(self, spec: Spec, topics: Mapping[str, Any], seed: Seed) -> Iterator[Host]:
        """Lend the broker of this spec for a test, with these topics besides its own."""
        shared = self._of(spec, seed)
        try:
            create_topics(shared.host, topics)
            yield shared.host
        finally:
            self._make_ready(shared, seed)

    def _of(self, spec: Spec, seed: Seed) -> _Shared:
        for shared in self._running:
            if shared.spec == spec:
                return shared
        shared = _Shared(spec, spec.make_of_options().start())
        self._running.append(shared)
        if seed is not None:
            seed(shared.host)
        return shared

    def _make_ready(self, shared: _Shared, seed: Seed) -> None:
        """Reset a broker for the next test."""
        shared.host.close()
        shared.host.start()
        if seed is not None:
            seed(shared.host)

    def close(self) -> None:
        for shared in self._running:
            shared.host.close()
        self._running.clear()


def create_topics(host: Host, topics: Mapping[str, Any]) -> None:
    """Create topics that the marker of a test names, unless they are there."""
    if topics:

        async def create() -> None:
            host._operations.create_missing(checked_topics("topics", topics))

        host._thread.run(create())


def lend(request: pytest.FixtureRequest, kind: Kind, options: Mapping[str, Any], seed: Seed) -> Iterator[Host]:
    """Yield the broker or the cluster of a test, by the cheapest way that meets its marker: a shared one, unless the
    scope is `function` or the marker has settings that only another broker has."""
    settings = request.config.stash[SETTINGS]
    asks = wanted(request.node)
    scope = asks.scope or ("function" if asks.needs_own_settings else settings.scope)
    if scope == "function":
        with own(Spec.of(kind, asks, settings.config, options), seed) as host:
            yield from _watched(request.node, host)
    else:
        shared: SharedBrokers = request.getfixturevalue(f"_kafka_{scope}_brokers")
        spec = Spec.of(kind, asks._replace(topics={}), settings.config, options)
        with shared.lent(spec, asks.topics, seed) as host:
            yield from _watched(request.node, host)


@contextmanager
def own(spec: Spec, seed: Seed) -> Iterator[Host]:
    """A broker for one test."""
    with spec.make_of_options() as host:
        if seed is not None:
            seed(host)
        yield host


def _watched(item: pytest.Item, host: Host) -> Iterator[Host]:
    leftovers = Leftovers(item, host)
    try:
        yield host
    finally:
        leftovers.tell()
