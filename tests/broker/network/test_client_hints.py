"""Hints about clients that do not get on with the broker: once each, and only where they are true."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from kmini import Broker
from kmini.broker.network import client_hints
from kmini.broker.network.client_hints import REDIRECT_TIMEOUT_MS
from kmini.broker.network.peer_log import MAX_CLIENTS
from kmini.protocol import messages as m
from kmini.protocol.messages.headers import RequestHeader
from kmini.testing import ConnectionClosed, Wire

pytestmark = pytest.mark.sockets

ELSEWHERE = "kafka.example.org:9092"

Hints = Callable[[], list[str]]


@pytest.fixture
def hints(caplog: pytest.LogCaptureFixture) -> Hints:
    caplog.set_level(logging.INFO)
    return lambda: [one.getMessage() for one in caplog.records if one.name == "kmini.client"]


# --- what is not served


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as running:
        yield running


def ask_in_vain(broker: Broker, api_key: int, version: int, client: bytes = b"billing") -> None:
    with Wire(broker.bootstrap_servers) as wire:
        header = struct.pack(">hhih", api_key, version, 5, len(client)) + client + b"\0"  # no tagged fields
        wire.socket.sendall(struct.pack(">i", len(header)) + header)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()


def test_a_request_that_is_not_served_is_told_once_per_client_and_api(broker: Broker, hints: Hints) -> None:
    for version in (1, 2):
        ask_in_vain(broker, 81, version)
    ask_in_vain(broker, 80, 1)
    ask_in_vain(broker, 81, 1, b"shipping")
    then = "its connection is closed, as by Apache Kafka; the answer to ApiVersions has what is served"
    assert hints() == [
        f"client {client} at 127.0.0.1 asks for {api} v1, which is not served: {then}"
        for client, api in (
            ("billing", "RemoveRaftVoter"),
            ("billing", "AddRaftVoter"),
            ("shipping", "RemoveRaftVoter"),
        )
    ]


def test_a_version_that_is_not_served_is_told_with_those_that_are(broker: Broker, hints: Hints) -> None:
    ask_in_vain(broker, 3, 99, b"new\n\x1b[31m")
    (hint,) = hints()
    assert hint.startswith(
        "client new\\x0a\\x1b[31m at 127.0.0.1 asks for Metadata v99, which is only served in versions 0 to 13: "
    )


def test_a_version_of_api_versions_that_is_not_served_is_answered_and_told(broker: Broker, hints: Hints) -> None:
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        wire.receive_frame()
    assert hints() == [
        "client without a name at 127.0.0.1 asks for ApiVersions v99, which is only served in versions 0 to 4: "
        "it is answered in version 0, with the versions that are, and the client asks again"
    ]


@pytest.fixture
def without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many hints as there are clients: the log of peers has only so many lines a minute."""
    monkeypatch.setattr(client_hints, "peer_log", logging.getLogger("kmini.client"))


@pytest.mark.usefixtures("without_limit")
def test_of_very_many_clients_the_newest_are_remembered(broker: Broker, hints: Hints) -> None:
    server = broker._operations.any_broker().server
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(m.MetadataRequest(topics=[]))
        (connection,) = server.connections

        def told_of(*clients: str) -> list[str]:
            before = len(hints())
            for client in clients:
                server.hints.not_served(connection, RequestHeader(78, 1, 1, client), None)
            return [hint.split()[1] for hint in hints()[before:]]

        clients = [f"{number}" for number in range(MAX_CLIENTS + 1)]
        assert told_of(*clients) == clients
        assert told_of(clients[-1], clients[1], clients[0]) == [clients[0]]
        assert len(told_of("x" * 200, "x" * 1_000)) == 1, "a name is remembered by its beginning"


# --- where a client was told to go


@pytest.fixture
def advertising() -> Iterator[Broker]:
    config = {"advertised.listeners": f"PLAINTEXT://{ELSEWHERE}"}
    with Broker(topics={"orders": 1}, config=config) as running:
        yield running


def bootstrap(broker: Broker, client: str = "billing") -> None:
    """What a client does at an address of `bootstrap.servers`."""
    with Wire(broker._operations.any_broker().address, client_id=client) as wire:
        wire.ask(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"))
        assert wire.ask(m.MetadataRequest(topics=None)).brokers[0].host == ELSEWHERE.partition(":")[0]


def work(broker: Broker, client: str = "billing") -> None:
    """What a client does only where it was told to."""
    with Wire(broker._operations.any_broker().address, client_id=client) as wire:
        Topic = m.ListOffsetsRequest.Topic
        asked = Topic(name="orders", partitions=[Topic.Partition(partition_index=0, timestamp=-1)])
        wire.ask(m.ListOffsetsRequest(replica_id=-1, topics=[asked]))


def wait(broker: Broker) -> None:
    broker.clock.advance(f"{REDIRECT_TIMEOUT_MS}ms", liveness=True)


def test_a_client_that_does_not_come_where_it_was_told_is_told_once_with_both_addresses_and_the_setting(
    advertising: Broker, hints: Hints
) -> None:
    bootstrap(advertising)
    advertising.clock.advance(f"{REDIRECT_TIMEOUT_MS - 1_000}ms", liveness=True)
    assert hints() == []
    wait(advertising)
    (hint,) = hints()
    came_to = advertising._operations.any_broker().address
    assert hint.startswith(
        f"client billing at 127.0.0.1 came to {came_to}, was told to connect to {ELSEWHERE}, "
        "and has not done so in 10 s. "
    )
    assert "change advertised.listeners (in a container KAFKA_ADVERTISED_LISTENERS) for listener PLAINTEXT" in hint
    bootstrap(advertising)
    wait(advertising)
    assert len(hints()) == 1
    bootstrap(advertising, "shipping")
    wait(advertising)
    assert [hint.split()[1] for hint in hints()] == ["billing", "shipping"]


def test_a_client_that_came_through_a_published_port_is_told_of_with_the_setting_for_those(
    hints: Hints, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(config={"kmini.mapped.listeners": f"PLAINTEXT://{ELSEWHERE}"}) as broker:
        server = broker._operations.any_broker().server
        monkeypatch.setattr(server.advertised, "_port_mapping", SimpleNamespace(was_passed_by=lambda *addresses: True))
        bootstrap(broker)
        wait(broker)
    (hint,) = hints()
    assert f"was told to connect to {ELSEWHERE}, " in hint
    assert "change kmini.mapped.listeners (in a container KMINI_MAPPED_LISTENERS) for listener PLAINTEXT" in hint


def test_a_client_that_comes_is_not_told_of(advertising: Broker, hints: Hints) -> None:
    bootstrap(advertising)
    work(advertising)
    wait(advertising)
    assert hints() == []


def test_a_client_that_comes_and_has_nothing_to_ask_is_not_told_of(advertising: Broker, hints: Hints) -> None:
    bootstrap(advertising)
    bootstrap(advertising)
    wait(advertising)
    assert hints() == []


def test_a_client_that_bootstraps_again_and_again_is_told_of(advertising: Broker, hints: Hints) -> None:
    for _ in range(4):
        bootstrap(advertising)
    wait(advertising)
    assert len(hints()) == 1


def test_a_client_that_works_on_its_first_connection_is_not_told_of(advertising: Broker, hints: Hints) -> None:
    """librdkafka keeps the connection, if the address it is told is literally that of `bootstrap.servers`."""
    with Wire(advertising._operations.any_broker().address, client_id="rdkafka") as wire:
        wire.ask(m.MetadataRequest(topics=None))
        wire.ask(m.DescribeGroupsRequest(groups=[]))
        wait(advertising)
    assert hints() == []


def test_a_client_that_did_not_ask_for_an_address_is_not_told_of(advertising: Broker, hints: Hints) -> None:
    with Wire(advertising._operations.any_broker().address) as wire:
        wire.ask(m.ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    wait(advertising)
    assert hints() == []


def test_where_clients_are_told_the_address_they_came_to_no_connection_is_watched(broker: Broker) -> None:
    server = broker._operations.any_broker().server
    with Wire(broker.bootstrap_servers) as wire:
        wire.ask(m.MetadataRequest(topics=None))
        (connection,) = server.connections
        assert connection.redirect_watch is None
        port = connection.arrived_at[1]
        for host, is_watched in (("127.0.0.1", False), ("localhost", False), ("kafka", True)):
            connection.listener = connection.listener._replace(advertised=(host, port))
            assert (server.hints.watch(connection) is not None) == is_watched


@pytest.mark.usefixtures("without_limit")
def test_no_more_clients_are_waited_for_than_are_remembered(advertising: Broker, hints: Hints) -> None:
    with Wire(advertising._operations.any_broker().address) as wire:
        for number in range(MAX_CLIENTS + 50):
            wire._client_id = f"client-{number}"
            wire.ask(m.MetadataRequest(topics=[]), 9)
        wait(advertising)
    assert [hint.split()[1] for hint in hints()] == [f"client-{number}" for number in range(50, MAX_CLIENTS + 50)]
