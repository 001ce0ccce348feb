"""Clients by name, each skipped where it is not installed, and the broker whose faults they meet."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from kmini import Broker
from support import apache_kafka, client_adapters, group_protocols
from support.client_adapters import PYTHON_CLIENTS, Client, Java, Kcat
from support.group_protocols import ProtocolGroup, Served
from support.java_clients import JavaAdmin, JavaClients
from support.java_peer import JavaPeer
from support.server_process import ServerProcess, kafka_command


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


@pytest.fixture(scope="session")
def served(against_kafka: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker whose groups of the new protocol hear of changes soon, shared by the tests of one worker; the one at
    KMINI_GROUPS_AT, if that names an address."""
    if address := os.environ.get("KMINI_GROUPS_AT"):
        yield Served(address, str, None)
        return
    if not against_kafka:
        with Broker(config=group_protocols.SETTINGS, journal=True) as broker:
            yield Served(broker.bootstrap_servers, str, broker)
        return
    if reason := apache_kafka.why_unavailable():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("groups")
    process = ServerProcess(kafka_command(directory / "data", group_protocols.SETTINGS), directory / "server.log")
    yield Served(process.bootstrap_servers, process.log_tail, None)
    process.stop()


@pytest.fixture
def new_group(
    served: Served, request: pytest.FixtureRequest, topic_names: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[int], ProtocolGroup]]:
    """A maker of groups whose topic has the same name and so many partitions; their members are killed at the end."""
    groups: list[ProtocolGroup] = []
    alone: list[JavaPeer] = []

    def java(*, is_alone: bool) -> JavaPeer:
        if not is_alone:
            peer: JavaPeer = request.getfixturevalue("java")
            return peer
        alone.append(JavaPeer(tmp_path / f"alone-{len(alone)}.log"))
        return alone[-1]

    def make(partitions: int) -> ProtocolGroup:
        name = topic_names(f"group-{secrets.token_hex(3)}")  # the broker may be one of an earlier run
        groups.append(ProtocolGroup(served, name, tmp_path, java))
        if partitions:
            groups[-1].create_topic(groups[-1].name, partitions)
        return groups[-1]

    yield make
    for group in groups:
        group.close()
    for peer in alone:
        peer.close()


@pytest.fixture
def java_admin(served: Served, java_clients: JavaClients) -> Iterator[JavaAdmin]:
    with java_clients.admin(served.bootstrap_servers) as admin:
        yield admin
