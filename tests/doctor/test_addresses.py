"""Addresses that clients are told: each fault is named, with the setting that mends it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from kmini import Broker, Cluster
from kmini.client import Sasl
from kmini.doctor.addresses import is_loopback
from kmini.protocol.messages.find_coordinator import FindCoordinatorResponse
from kmini.protocol.messages.metadata import MetadataResponse
from support.until import PATIENCE

from .conftest import Examine


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders"], journal=True) as running:
        yield running


def port_of(bootstrap_servers: str) -> int:
    return int(bootstrap_servers.rpartition(":")[2])


def test_a_broker_that_is_told_by_the_address_that_was_asked_is_fine(diagnose: Examine, broker: Broker) -> None:
    found = diagnose(broker.bootstrap_servers)
    assert found["address-works"].text.startswith(f"broker 1 at {broker.bootstrap_servers}: the address that you asked")
    assert {finding.level for finding in found.values()} == {"ok"}


def test_a_loopback_address_is_told_to_be_no_address_for_containers(diagnose: Examine, broker: Broker) -> None:
    found = diagnose(broker.bootstrap_servers)["only-this-machine"]
    assert "in a container that is told it, 127.0.0.1 is that container" in found.text
    assert f"OUTSIDE://{broker.bootstrap_servers}" in found.change


def test_a_host_name_that_only_resolves_elsewhere_is_named_with_the_setting_to_change(
    diagnose: Examine, broker: Broker, resolves: Callable[[str, str | None], None]
) -> None:
    resolves("kafka", None)
    broker.advertise("kafka", 9092)
    found = diagnose(broker.bootstrap_servers)["host-does-not-resolve"]
    assert (
        f"you asked {broker.bootstrap_servers}, and the broker tells clients to use broker 1 at kafka:9092"
        in found.text
    )
    assert "'kafka' has no address here (Name or service not known)" in found.text
    assert "advertised.listeners of broker 1 (in a container KAFKA_ADVERTISED_LISTENERS)" in found.change
    assert f"INSIDE://kafka:9092,OUTSIDE://{broker.bootstrap_servers}" in found.change


def test_what_else_is_asked_goes_to_the_given_address_if_the_advertised_one_fails(
    diagnose: Examine, broker: Broker, resolves: Callable[[str, str | None], None]
) -> None:
    resolves("kafka", None)
    broker.advertise("kafka", 9092)
    found = diagnose(broker.bootstrap_servers)
    assert "kmini as Kafka 4.3" in found["reached"].text
    assert "question-unanswered" not in found


def test_a_port_that_nothing_listens_at_is_named(diagnose: Examine, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    broker.advertise("127.0.0.1", port)
    found = diagnose(broker.bootstrap_servers)["nothing-listens"]
    assert f"broker 1 at 127.0.0.1:{port}: cannot connect to 127.0.0.1:{port}: Connection refused" in found.text
    assert found.change.startswith("start that broker if it is down; else set advertised.listeners")


def test_an_address_that_says_nothing_is_named_after_the_time_limit(diagnose: Examine, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker.advertise(*silent.getsockname())
        found = diagnose(broker.bootstrap_servers, timeout_ms=1_000 * PATIENCE)["address-does-not-answer"]
    assert "accepts connections but does not answer as a Kafka broker" in found.text


def test_an_address_of_another_protocol_is_named(diagnose: Examine, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        server = threading.Thread(target=answer)
        server.start()
        broker.advertise(*listener.getsockname())
        found = diagnose(broker.bootstrap_servers)["address-does-not-answer"]
        server.join()
    assert "answers in HTTP, so it is no Kafka broker" in found.text


def test_an_address_of_another_cluster_is_named_with_both_clusters(diagnose: Examine, broker: Broker) -> None:
    with Broker() as other:
        broker.advertise("127.0.0.1", port_of(other.bootstrap_servers))
        found = diagnose(broker.bootstrap_servers)["another-cluster"]
    assert f"{broker.bootstrap_servers} belongs to cluster" in found.text


def test_0_0_0_0_is_named_as_no_address(diagnose: Examine, broker: Broker) -> None:
    broker.advertise("0.0.0.0", 9092)
    found = diagnose(broker.bootstrap_servers)["any-address-advertised"]
    assert "broker 1 at 0.0.0.0:9092, which is no address to connect to" in found.text


def test_a_host_with_ipv6_addresses_only_is_named(
    diagnose: Examine, broker: Broker, resolves: Callable[[str, str | None], None]
) -> None:
    resolves("six", "::1")
    broker.advertise("six", port_of(broker.bootstrap_servers))
    assert "broker 1 at six:" in diagnose(broker.bootstrap_servers)["only-ipv6"].text


def test_a_loopback_address_that_is_told_to_a_client_from_elsewhere_is_named(
    diagnose: Examine, broker: Broker, resolves: Callable[[str, str | None], None]
) -> None:
    port = port_of(broker.bootstrap_servers)
    resolves("kafka.example", "127.0.0.1")
    broker.advertise("localhost", port)
    found = diagnose(f"kafka.example:{port}")["loopback-for-others"]
    assert (
        f"you asked kafka.example:{port}, and the broker tells clients to use broker 1 at localhost:{port}"
        in found.text
    )


def test_an_address_of_another_broker_and_an_address_of_two_are_named(diagnose: Examine) -> None:
    with Cluster(brokers=2) as cluster:
        first, second = cluster.bootstrap_servers.split(",")
        cluster.advertise("127.0.0.1", port_of(second), broker=1)
        found = diagnose(first)
    assert f"brokers 1 and 2 advertise the same address, {second}" in found["shared-address"].text
    assert f"the address of broker 1 at {second} leads to broker 2 of the same cluster" in found["another-broker"].text


def test_a_closed_port_is_no_kafka_and_says_how_to_get_one(diagnose: Examine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = diagnose(f"127.0.0.1:{port}")
    assert [*found] == ["nothing-answers"]
    assert "docker ps" in found["nothing-answers"].change


def test_one_of_two_given_addresses_may_fail(diagnose: Examine, broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = diagnose(f"127.0.0.1:{port},{broker.bootstrap_servers}")
    assert f"cannot connect to 127.0.0.1:{port}" in found["one-of-several-does-not-answer"].text
    assert "address-works" in found


def secured_by(name: str, password: str) -> dict[str, str]:
    """The settings of a broker with one user."""
    user = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{name}="{password}";'
    return {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": user,
    }


def test_an_address_that_refuses_the_credentials_is_named(diagnose: Examine) -> None:
    with Broker(config=secured_by("alice", "secret")) as first, Broker(config=secured_by("bob", "other")) as second:
        first.advertise("127.0.0.1", port_of(second.bootstrap_servers))
        found = diagnose(first.bootstrap_servers, sasl=Sasl("PLAIN", "alice", "secret"))["login-refused"]
    assert "SASL_AUTHENTICATION_FAILED" in found.text
    assert "sasl.mechanism" in found.change


def test_a_listener_with_authentication_asks_for_credentials_and_takes_them(diagnose: Examine) -> None:
    with Broker(config=secured_by("alice", "secret")) as secured:
        found = diagnose(secured.bootstrap_servers)
        assert "--command-config" in found["no-metadata"].change
        found = diagnose(secured.bootstrap_servers, sasl=Sasl("PLAIN", "alice", "wrong"))
        assert [*found] == ["login-refused-here"]
        assert "address-works" in diagnose(secured.bootstrap_servers, sasl=Sasl("PLAIN", "alice", "secret"))


def test_a_port_that_is_none_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.faults.on("Metadata").respond(lambda request, answer: at(answer, port=70_000))
    assert "70000 is no port" in diagnose(broker.bootstrap_servers)["impossible-port"].text


def test_a_cluster_without_brokers_is_named(diagnose: Examine, broker: Broker) -> None:
    broker.faults.on("Metadata").without_broker(1)
    assert "names no broker" in diagnose(broker.bootstrap_servers)["no-brokers"].text


def test_a_coordinator_at_another_address_than_its_broker_is_named(
    diagnose: Examine, broker: Broker, resolves: Callable[[str, str | None], None]
) -> None:
    resolves("behind-the-proxy", None)
    broker.group("billing").commit({("orders", 0): 0})
    broker.faults.on("FindCoordinator").respond(elsewhere)
    found = diagnose(broker.bootstrap_servers)
    assert "as broker 1 at behind-the-proxy:9092" in found["coordinator-elsewhere"].text
    assert "FindCoordinator" in found["coordinator-elsewhere"].change
    assert "behind-the-proxy" in found["host-does-not-resolve"].text


def test_coordinators_are_not_looked_up_where_that_would_create_the_topic_of_offsets(
    diagnose: Examine, broker: Broker
) -> None:
    diagnose(broker.bootstrap_servers)
    assert not [entry for entry in broker.requests.all() if entry.api == "FindCoordinator"]


def at(answer: MetadataResponse, **changes: int) -> MetadataResponse:
    for name, value in changes.items():
        setattr(answer.brokers[0], name, value)
    return answer


def elsewhere(request: object, answer: FindCoordinatorResponse) -> FindCoordinatorResponse:
    for coordinator in answer.coordinators:
        coordinator.host, coordinator.port = "behind-the-proxy", 9092
    return answer


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("localhost", True), ("LOCALHOST.", True), ("loopback-4", True), ("loopback-6", True), ("kafka", False)],
)
def test_loopback_hosts_are_known_by_name_and_by_number(host: str, loopback: bool) -> None:
    assert is_loopback({"loopback-4": "127.8.8.8", "loopback-6": "::1"}.get(host, host)) is loopback
