"""Clients by name, each skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

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
