"""The socket server: limits of connections, idle connections, and the addresses that clients are told."""

from __future__ import annotations

import time

import pytest

from kmini import Broker
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import ConnectionClosed, Wire


def test_without_advertised_listeners_clients_are_told_where_they_arrived(broker: Broker) -> None:
    port = int(broker.bootstrap_servers.rpartition(":")[2])
    with Wire(f"127.0.0.1:{port}") as wire:
        told = wire.ask(MetadataRequest(topics=None)).brokers[0]
    assert (told.host, told.port) == ("127.0.0.1", port)


def test_advertised_listeners_are_told_to_clients() -> None:
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
