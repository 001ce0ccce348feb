"""The socket server: limits of connections, and idle connections."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from kmini import Broker
from kmini.broker.broker import BrokerServer
from kmini.broker.network.memory_transport import MemoryTransport
from kmini.broker.settings.broker_config import BrokerConfig, ConfigError
from kmini.client.address import Address
from kmini.client.connection import Connection, ConnectionSettings
from kmini.client.errors import Disconnected
from kmini.protocol.errors import NONE
from kmini.protocol.messages.describe_configs import BROKER
from kmini.protocol.messages.incremental_alter_configs import SET
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import ConnectionClosed, Wire
from support.broker.clusters import Clusters
from support.broker.config_requests import Ask, alter, change
from support.broker.consumer_lab import StillClock
from support.broker.fed_connection import FedConnection

pytestmark = pytest.mark.sockets


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


@pytest.mark.parametrize(
    "settings",
    [
        {"max_connections_per_ip": 2},
        {"max_connections_per_ip": 1, "max_connections_per_ip_overrides": "127.0.0.1:2"},
        {"max_connections_per_ip": 9, "max_connections_per_ip_overrides": "192.0.2.1:1,127.0.0.1:2"},
    ],
    ids=str,
)
async def test_a_host_may_have_as_many_connections_as_its_limit_says(
    start_broker: Callable[..., Awaitable[BrokerServer]], settings: dict[str, object]
) -> None:
    broker, refused = await start_broker(**settings), []
    first, second, third = (FedConnection(broker, name, refused) for name in ("first", "second", "third"))
    assert refused == [("third", b"")]
    for gone in (third, first):
        gone.leave()
    FedConnection(broker, "fourth", refused)
    FedConnection(broker, "fifth", refused)
    assert refused == [("third", b""), ("fifth", b"")]
    second.leave()


PREFIX = "listener.name.outside.max.connection"
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter_broker_listener_name": "PLAINTEXT",
}


def outside(broker: BrokerServer, count: int) -> list[FedConnection]:
    """Connections to one of the two listeners."""
    return [FedConnection(broker, str(number), [], listener="OUTSIDE") for number in range(count)]


async def test_a_listener_has_a_limit_of_connections_of_its_own_which_may_change(
    start_broker: Callable[..., Awaitable[BrokerServer]], ask: Ask
) -> None:
    broker = await start_broker(**TWO_LISTENERS, **{f"{PREFIX}s": "3"})
    connections = outside(broker, 4)
    assert [one.connection.is_closing for one in connections] == [False] * 3 + [True]
    connections[-1].leave()
    assert not FedConnection(broker, "inside", []).connection.is_closing
    assert await alter(ask, broker, change(BROKER, "1", (f"{PREFIX}s", SET, "4"))) == [NONE]
    assert [one.connection.is_closing for one in outside(broker, 2)] == [False, True]


async def test_a_listener_has_a_rate_of_connections_of_its_own_beside_that_of_all(
    start_broker: Callable[..., Awaitable[BrokerServer]],
) -> None:
    broker = await start_broker(
        **TWO_LISTENERS, clock=StillClock(), max_connection_creation_rate=3, **{f"{PREFIX}.creation.rate": "1"}
    )

    def is_held(one: FedConnection) -> bool:
        return one.connection._muted_until_ms > broker.clock.liveness_ms()

    assert [is_held(one) for one in outside(broker, 11)] == [False] * 10 + [True]
    inside = [FedConnection(broker, str(number), []) for number in range(20)]
    assert [is_held(one) for one in inside] == [False] * 19 + [True]  # 30 in ten seconds, eleven of them outside


@pytest.mark.parametrize("name", ["s", ".creation.rate"])
def test_a_limit_of_a_listener_that_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must be a whole number that is not negative"):
        BrokerConfig.parse({PREFIX + name: "many", **{key.replace("_", "."): to for key, to in TWO_LISTENERS.items()}})


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


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_a_broker_of_the_same_process_connects_without_a_socket_and_from_the_address_of_a_socket(
    clusters: Clusters, host: str
) -> None:
    (broker,) = (await clusters.start(1, listeners=f"PLAINTEXT://{host}:0")).brokers.values()
    settings = ConnectionSettings(connector=broker.connect)
    connection = await Connection.open(Address("in-memory", 0), settings)
    assert isinstance(connection._transport, MemoryTransport)
    (accepted,) = broker.server.connections
    assert accepted.peer == ("127.0.0.1", 0)
    assert accepted.arrived_at == ("127.0.0.1", broker.server.listeners[0].port)
    answer = await connection.send(MetadataRequest(topics=None))
    assert [(told.host, told.port) for told in answer.brokers] == [accepted.arrived_at]
    await connection.close()
    await asyncio.sleep(0)
    assert not broker.server.connections


async def test_connections_without_a_socket_count_like_the_others(clusters: Clusters) -> None:
    (broker,) = (await clusters.start(1, max_connections=1)).brokers.values()
    settings = ConnectionSettings(connector=broker.connect)
    first = await Connection.open(Address("in-memory", 0), settings)
    with pytest.raises(Disconnected):
        await Connection.open(Address("in-memory", 0), settings)
    await first.close()
    await asyncio.sleep(0)
    await (await Connection.open(Address("in-memory", 0), settings)).close()


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_broker_that_ends_hangs_up_without_a_socket_too_and_refuses_what_comes_later(
    clusters: Clusters, end: str
) -> None:
    cluster = await clusters.start(2)
    broker = cluster.brokers[1]
    settings = ConnectionSettings(connector=broker.connect)
    connection = await Connection.open(Address("in-memory", 0), settings)
    await (cluster.kill(1) if end == "kill" else cluster.stop_broker(1))
    assert not connection.is_open
    with pytest.raises(Disconnected, match="Connection refused"):
        await Connection.open(Address("in-memory", 0), settings)


async def test_a_broker_that_stands_still_answers_without_a_socket_when_it_goes_on(clusters: Clusters) -> None:
    (broker,) = (await clusters.start(1)).brokers.values()
    connection = await Connection.open(Address("in-memory", 0), ConnectionSettings(connector=broker.connect))
    broker.server.is_suspended = True
    asked = asyncio.ensure_future(connection.send(MetadataRequest(topics=None)))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not asked.done()
    broker.server.resume()
    assert (await asked).brokers
    await connection.close()
