"""Connections: order, limits, and what a broken peer costs."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from kmini import Broker
from kmini.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.testing import ConnectionClosed, Wire


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as running:
        yield running


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(broker.bootstrap_servers) as connection:
        yield connection


def fetch(max_wait_ms: int) -> FetchRequest:
    asked = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, topics=[FetchRequest.Topic(topic="t", partitions=[asked])]
    )


def test_pipelined_requests_are_answered_in_order_also_behind_one_that_waits(wire: Wire) -> None:
    waiting = wire.send(fetch(max_wait_ms=50), 12)
    others = [wire.send(MetadataRequest(topics=None), 12) for _ in range(100)]
    wire.receive(FetchResponse, 12, waiting)
    for correlation_id in others:
        wire.receive(MetadataResponse, 12, correlation_id)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(wire: Wire) -> None:
    wire.socket.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
    content = wire.receive_frame()
    assert struct.unpack(">i", content[:4]) == (7,)
    answer = ApiVersionsResponse.decode(content[4:], 0)
    assert answer.error_code == 35
    assert [(key.api_key, key.max_version) for key in answer.api_keys] == [(18, 4)]
    assert wire.ask(ApiVersionsRequest(client_software_name="x", client_software_version="1")).error_code == 0


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">ihhih", 10, 999, 0, 1, -1),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),
        struct.pack(">ihhihi", 14, 3, 1, 1, -1, 1000),
        struct.pack(">ih", 2, 3),
    ],
    ids=["negative size", "huge size", "unknown api", "unknown version", "count beyond the frame", "no header"],
)
def test_a_peer_that_breaks_the_protocol_is_hung_up_on_and_nobody_else(broker: Broker, wire: Wire, sent: bytes) -> None:
    with Wire(broker.bootstrap_servers) as other:
        wire.socket.sendall(sent)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()
        assert other.ask(MetadataRequest(topics=None)).brokers


def test_without_advertised_listeners_clients_are_told_where_they_arrived(broker: Broker) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with Wire(f"127.0.0.1:{port}") as wire:
        told = wire.ask(MetadataRequest(topics=None)).brokers[0]
    assert (told.host, told.port) == ("127.0.0.1", port)


def test_advertised_listeners_are_what_clients_are_told_if_they_are_set() -> None:
    config = {"advertised.listeners": "PLAINTEXT://example.org:1234"}
    with Broker(config=config) as broker, Wire(broker.bootstrap_servers) as wire:
        told = wire.ask(MetadataRequest(topics=None)).brokers[0]
    assert (told.host, told.port) == ("example.org", 1234)


def test_connections_beyond_the_limit_are_closed_and_leave_room_when_they_go() -> None:
    with Broker(config={"max.connections": 2}) as broker:
        first, second = Wire(broker.bootstrap_servers), Wire(broker.bootstrap_servers)
        for wire in (first, second):
            assert wire.ask(MetadataRequest(topics=None)).brokers
        with Wire(broker.bootstrap_servers) as third, pytest.raises(ConnectionClosed):
            third.ask(MetadataRequest(topics=None))
        first.close()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:  # until the broker has seen that it left
            try:
                with Wire(broker.bootstrap_servers) as third:
                    assert third.ask(MetadataRequest(topics=None)).brokers
                break
            except (ConnectionClosed, OSError):
                continue
        else:
            pytest.fail("there never was room again")
        second.close()


def test_idle_connections_are_closed_and_active_ones_are_not() -> None:
    with (
        Broker(config={"connections.max.idle.ms": 60_000}) as broker,
        Wire(broker.bootstrap_servers) as idle,
        Wire(broker.bootstrap_servers) as active,
    ):
        assert idle.ask(MetadataRequest(topics=None)).brokers
        for _ in range(3):
            assert active.ask(MetadataRequest(topics=None)).brokers
            broker.advance_clock(40_000, liveness=True)
        with pytest.raises(ConnectionClosed):
            idle.receive_frame()
        assert active.ask(MetadataRequest(topics=None)).brokers


def until_waiting(broker: Broker, count: int) -> None:
    """Return once so many requests wait in the purgatory."""
    purgatory = broker._operations.core.purgatory
    for _ in range(100_000):
        broker.topics()  # a round trip through the broker's loop
        if len(purgatory) == count:
            return
    pytest.fail(f"{len(purgatory)} requests wait, not {count}")


def test_a_client_that_leaves_takes_its_waiting_request_with_it() -> None:
    with Broker(topics={"t": 1}) as broker:
        wires = [Wire(broker.bootstrap_servers) for _ in range(20)]
        for wire in wires:
            wire.send(fetch(max_wait_ms=600_000), 12)
        until_waiting(broker, 20)
        for wire in wires:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()
        until_waiting(broker, 0)
        assert not broker._operations.core.purgatory._watchers
