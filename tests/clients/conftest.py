"""Clients by name, each skipped where it is not installed, and the broker whose faults they meet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from kmini import Broker
from support import client_adapters
from support.client_adapters import PYTHON_CLIENTS, Client, Java, Kcat
from support.java_clients import JavaClients
from support.java_peer import JavaPeer


@pytest.fixture(autouse=True)
def _leaky_clients(leaky_clients: None) -> None:
    """Every test here drives client libraries."""


@pytest.fixture(scope="session")
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Client]:
    """Give the adapter of a client; `java` needs Java and Kafka's jars."""

    def get(name: str) -> Client:
        if name == Java.name:
            java: JavaPeer = request.getfixturevalue("java")
            return Java(java, tmp_path_factory.mktemp("java-records"))
        if reason := client_adapters.why_unavailable(name):
            pytest.skip(reason)
        return Kcat() if name == Kcat.name else PYTHON_CLIENTS[name]()

    return get


@pytest.fixture
def java_clients(java: JavaPeer) -> JavaClients:
    """A maker of Kafka's own producers and consumers."""
    return JavaClients(java)


_transactional_ids = map("payments-{}".format, count(1))


@pytest.fixture
def transactional_id() -> str:
    """Another one in each test."""
    return next(_transactional_ids)


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    """A broker in which groups do not wait for members, and sessions may be short. A reset makes its topic `orders`
    anew before clients can connect: one that a test has left behind would create it by asking for it."""
    config = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
    with Broker(config=config, topics={"orders": 1}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Iterator[Broker]:
    """A broker with the topic `orders`, empty, and no rule, group or transaction."""
    yield running
    running.reset()
