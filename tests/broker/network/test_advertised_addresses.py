"""The host and port that clients are told: where they arrived, advertised, published by a container, or set later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from kmini import Broker
from kmini.broker.broker import BrokerServer
from kmini.broker.network import advertised_addresses
from kmini.broker.network.listeners import Listener
from kmini.broker.network.port_mapping import PortMapping
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire

Told = Callable[..., Awaitable[list[tuple[str, int]]]]


@pytest.mark.sockets
def test_without_advertised_listeners_clients_are_told_where_they_arrived(broker: Broker) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with Wire(f"127.0.0.1:{port}") as wire:
        told = wire.ask(MetadataRequest(topics=None)).brokers[0]
    assert (told.host, told.port) == ("127.0.0.1", port)


@pytest.mark.sockets
def test_advertised_listeners_are_told_to_clients() -> None:
    config = {"advertised.listeners": "PLAINTEXT://example.org:1234"}
    with Broker(config=config) as broker, Wire(broker.bootstrap_servers) as wire:
        told = wire.ask(MetadataRequest(topics=None)).brokers[0]
    assert (told.host, told.port) == ("example.org", 1234)


async def test_an_address_that_is_set_for_one_listener_leaves_the_others_theirs(
    start_broker: Callable[..., Awaitable[BrokerServer]],
) -> None:
    advertised = (await start_broker()).server.advertised
    inside, outside = (Listener(name, "127.0.0.1", 9092, (name, 1)) for name in ("inside", "outside"))
    advertised.overrides["inside"] = ("moved", 2)
    assert [advertised.advertised_at(one) for one in (inside, outside)] == [("moved", 2), ("outside", 1)]


# --- in a container


LISTENERS = {
    "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
    "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
}
OWN, BESIDE_US, FROM_THE_HOST = "172.18.0.2", "172.18.0.3", "172.18.0.1"


class OneNetwork(PortMapping):
    """The network of a container whose gateway is FROM_THE_HOST."""

    def was_passed_by(self, peer: str, own: str) -> bool:
        return peer == FROM_THE_HOST


@pytest.fixture
def told(start_broker: Callable[..., Awaitable[BrokerServer]], monkeypatch: pytest.MonkeyPatch) -> Told:
    """What clients from `peer` are told that reached these listeners in the container above, on these ports."""
    monkeypatch.setattr(advertised_addresses, "read_routes", lambda: OneNetwork(""))

    async def told(peer: str, **settings: str) -> list[tuple[str, int]]:
        broker = await start_broker(**LISTENERS, **settings)
        connections = [
            SimpleNamespace(listener=listener, peer=(peer, 50_000), arrived_at=(OWN, port))
            for listener, port in zip(broker.server.listeners, (9092, 19092), strict=True)
        ]
        return [broker.server.advertised.addresses_for(connection)[1] for connection in connections]

    return told


async def test_the_host_is_told_its_published_ports(told: Told) -> None:
    mapped = "A://localhost:29092,B://localhost:19092"
    assert await told(FROM_THE_HOST, kmini_mapped_listeners=mapped) == [("localhost", 29092), ("localhost", 19092)]


async def test_containers_are_told_the_address_of_the_container(told: Told) -> None:
    assert await told(BESIDE_US, kmini_mapped_listeners="A://localhost:29092") == [(OWN, 9092), (OWN, 19092)]


async def test_a_listener_without_a_published_port_tells_where_the_client_arrived(told: Told) -> None:
    mapped = "A://localhost:9092"
    assert await told(FROM_THE_HOST, kmini_mapped_listeners=mapped) == [("localhost", 9092), (OWN, 19092)]


@pytest.mark.parametrize("peer", [FROM_THE_HOST, BESIDE_US])
async def test_advertised_listeners_are_stronger_than_both(told: Told, peer: str) -> None:
    settings = {"advertised_listeners": "A://kafka:9092", "kmini_mapped_listeners": "A://localhost:9092"}
    assert await told(peer, **settings) == [("kafka", 9092), (OWN, 19092)]
