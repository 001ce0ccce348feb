"""Connections: order, limits, and what a broken peer costs."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kmini import Broker
from kmini.broker import scheduler
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.local_cluster import LocalCluster
from kmini.broker.network.connection import SLICE_BYTES, Connection, address_of, slices
from kmini.broker.purgatory import Purgatory
from kmini.broker.security.resources import ANONYMOUS
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.framing import NEED_DATA, ReceiveBuffer, frame_of
from kmini.protocol.messages.api_versions import ApiVersionsRequest
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.primitives import Buffer
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.testing import ConnectionClosed, Wire
from support.broker.fed_connection import FedConnection
from support.until import until_async

pytestmark = pytest.mark.sockets


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
def test_a_peer_that_breaks_the_protocol_is_disconnected_and_no_other(broker: Broker, wire: Wire, sent: bytes) -> None:
    with Wire(broker.bootstrap_servers) as other:
        wire.socket.sendall(sent)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()
        assert other.ask(MetadataRequest(topics=None)).brokers


def until_waiting(broker: Broker, count: int) -> None:
    """Return once so many requests wait in the purgatory."""
    purgatory = broker._operations.any_broker().purgatory
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
        assert not broker._operations.any_broker().purgatory._watchers


# --- large answers


class Socket:
    """A transport that keeps what is written, and pauses the writing behind every slice while it is `full`."""

    def __init__(self) -> None:
        self.protocol: Any = None
        self.is_full = False
        self.is_closed = False
        self.written: list[int] = []
        self.content = b""

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("127.0.0.1", 9092)

    def writelines(self, buffers: list[Buffer]) -> None:
        assert not self.is_closed
        joined = b"".join(buffers)
        self.written.append(len(joined))
        self.content += joined
        if self.is_full:
            self.protocol.pause_writing()

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def pause_reading(self) -> None: ...

    resume_reading = pause_reading


def connection_on(transport: Socket) -> Connection:
    """A connection of a server that serves no request."""
    server = SimpleNamespace(
        services=SimpleNamespace(purgatory=None, journal=None),
        handlers={},
        hints=SimpleNamespace(watch=lambda connection: None),
        max_request_bytes=1 << 20,
        receive_buffer=ReceiveBuffer(),
        is_suspended=False,
        is_closed=False,
        register=lambda connection: None,
        unregister=lambda connection: None,
        throttle_ms=lambda connection: 0,
        hold_ms=lambda connection: 0,
    )
    connection = Connection(cast(Any, server), cast(Any, SimpleNamespace(sasl=None, tls=None)))
    transport.protocol = connection
    connection.connection_made(cast(Any, transport))
    return connection


class Gate:
    """Framing that is asked for a request, and has none yet."""

    pending_bytes = 1

    def __init__(self) -> None:
        self.asked = 0

    def allow(self, max_frame_bytes: int) -> None: ...

    def next_frame(self) -> object:
        self.asked += 1
        return NEED_DATA


def large_answer(slice_count: int) -> tuple[FetchResponse, bytes]:
    """An answer that takes so many slices, and the records in it."""
    records = random.Random(1).randbytes(SLICE_BYTES * slice_count - SLICE_BYTES // 2)
    Topic = FetchResponse.Topic
    return FetchResponse(
        responses=[Topic(topic="t", partitions=[Topic.Partition(partition_index=0, records=records)])]
    ), records


def sending_three_slices() -> tuple[Socket, Connection, bytes]:
    """A connection that has begun with an answer of three slices, to a client that does not read: its transport, and
    the records of the answer. Only in a loop that runs."""
    transport = Socket()
    transport.is_full = True
    connection = connection_on(transport)
    answer, records = large_answer(slice_count=3)
    connection.send(7, 12, answer)
    return transport, connection, records


@pytest.mark.parametrize("seed", range(5))
def test_slices_have_the_bytes_of_the_buffers_in_their_order(seed: int) -> None:
    numbers = random.Random(seed)
    sizes = [numbers.choice([0, 1, 100, SLICE_BYTES - 1, SLICE_BYTES, 2 * SLICE_BYTES + 3]) for _ in range(8)]
    buffers: list[Buffer] = [numbers.randbytes(size) for size in sizes]
    expected = b"".join(buffers)
    cut = [b"".join(piece) for piece in slices(buffers)]
    assert b"".join(cut) == expected
    assert [len(piece) for piece in cut[:-1]] == [SLICE_BYTES] * (len(cut) - 1)
    assert buffers == []


def test_other_connections_have_turns_between_the_slices_of_a_large_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kmini.broker.scheduler._TURN_S", 0)

    async def scenario() -> None:
        transport = Socket()
        connection = connection_on(transport)
        answer, records = large_answer(slice_count=4)
        connection.send(7, 12, answer)
        for turn in range(1, 5):
            assert len(transport.written) == turn
            assert max(transport.written) <= SLICE_BYTES
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(transport.written) == 4
        assert struct.unpack_from(">ii", transport.content) == (len(transport.content) - 4, 7)
        assert records in transport.content

    asyncio.run(scenario())


def test_the_next_slice_is_written_once_the_client_has_read() -> None:
    async def scenario() -> None:
        transport, connection, records = sending_three_slices()
        for count in (1, 2, 3):
            await asyncio.sleep(0)
            assert len(transport.written) == count
            connection.resume_writing()
        assert records in transport.content
        assert len(transport.written) == 3

    asyncio.run(scenario())


def test_a_connection_that_closes_hands_over_the_rest_of_a_large_answer() -> None:
    async def scenario() -> None:
        transport, connection, records = sending_three_slices()
        connection.close()
        assert records in transport.content
        assert transport.is_closed
        connection.resume_writing()
        assert len(transport.written) == 3

    asyncio.run(scenario())


def test_an_aborted_connection_writes_no_further_slice() -> None:
    async def scenario() -> None:
        transport, connection, _ = sending_three_slices()
        connection.abort()
        connection.resume_writing()
        assert len(transport.written) == 1

    asyncio.run(scenario())


def test_a_request_behind_a_large_answer_is_served_after_its_last_slice(broker: Broker) -> None:
    for _ in range(10):
        broker.produce("t", bytes(900_000))
    large = fetch(max_wait_ms=0)
    large.topics[0].partitions[0].partition_max_bytes = 1 << 30
    with Wire(broker.bootstrap_servers) as wire:
        first, second = wire.send(large, 12), wire.send(MetadataRequest(topics=None), 12)
        answer = wire.receive(FetchResponse, 12, first)
        assert len(answer.responses[0].partitions[0].records) > SLICE_BYTES
        assert wire.receive(MetadataResponse, 12, second).brokers


# --- bulk beside other connections

PARTITIONS = 20


def bulk_produce() -> ProduceRequest:
    """A batch of 300 kB for each of many partitions."""
    records = build_batch([Record(0, 1_000, None, bytes(300_000))])
    data = [ProduceRequest.Partition(index=number, records=records) for number in range(PARTITIONS)]
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[ProduceRequest.Topic(name="bulk", partition_data=data)])


def bulk_fetch() -> FetchRequest:
    """What `bulk_produce` has written, all of it."""
    asked = [
        FetchRequest.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(PARTITIONS)
    ]
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchRequest.Topic(topic="bulk", partitions=asked)])


async def test_other_connections_are_answered_while_a_bulk_request_is_served(
    start_broker: Callable[..., Awaitable[BrokerServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With turns of no length, each step of a bulk request takes a pass of the loop."""
    broker = await start_broker(num_partitions=PARTITIONS)
    written: list[tuple[str, bytes]] = []
    bulk, member = FedConnection(broker, "bulk", written), FedConnection(broker, "member", written)
    bulk.send((MetadataRequest(topics=[MetadataRequest.Topic(name="bulk")], allow_auto_topic_creation=True), 12))
    await until_async(lambda: TopicPartition("bulk", PARTITIONS - 1) in broker.services.replica_manager.partitions)
    monkeypatch.setattr(scheduler, "_TURN_S", 0)
    for request, version, slice_count in ((bulk_produce(), 9, 1), (bulk_fetch(), 12, 2)):
        written.clear()
        bulk.send((request, version))
        passes = 0
        while [name for name, _ in written].count("bulk") < slice_count:
            passes += 1
            assert passes < 1_000
            member.send((ApiVersionsRequest(), 0))
            assert written[-1][0] == "member"
            await asyncio.sleep(0)
        assert passes >= PARTITIONS, request.name
        answer = b"".join(content for name, content in written if name == "bulk")
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4


@pytest.mark.parametrize("mutes", [1, 2])
async def test_a_muted_connection_that_authenticates_stays_muted(mutes: int) -> None:
    clock = MovableClock()
    connection = connection_on(Socket())
    server: Any = connection.server
    server.services.clock, server.services.purgatory = clock, Purgatory(clock)
    gate, served = Gate(), Gate()
    connection._next_frame, connection._framing = gate.next_frame, cast(Any, served)
    for _ in range(mutes):
        connection.mute(1_000)
    connection.authenticated(ANONYMOUS, for_good=True)
    connection.serve()
    await until_async(lambda: connection.is_waiting)
    assert (gate.asked, served.asked) == (0, 0)
    await clock.advance(1_000, liveness=True)
    await until_async(lambda: connection.in_service is None)
    assert (gate.asked, served.asked) == (0, 1)


METADATA = (MetadataRequest(topics=[]), 9)


@pytest.fixture
async def movable(tmp_path: Path) -> AsyncIterator[BrokerServer]:
    """A broker on a clock that can be moved."""
    config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", "connections.max.idle.ms": "60000"})
    broker = await BrokerServer.start(config, str(tmp_path), clock=MovableClock())
    yield broker
    await broker.stop()


async def advance(broker: BrokerServer, duration_ms: int) -> None:
    assert isinstance(broker.clock, MovableClock)
    await broker.clock.advance(duration_ms, liveness=True)


async def test_of_two_mutes_the_longer_one_counts(movable: BrokerServer) -> None:
    written: list[tuple[str, bytes]] = []
    fed = FedConnection(movable, "muted", written)
    fed.connection.mute(50_000)
    fed.connection.mute(10)
    fed.send(METADATA)
    await advance(movable, 49_000)
    assert written == []
    await advance(movable, 2_000)
    await until_async(lambda: len(written) == 1)


async def test_a_reset_ends_a_mute_of_a_connection_that_stays(tmp_path: Path) -> None:
    written: list[tuple[str, bytes]] = []
    cluster = LocalCluster([BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0"})], str(tmp_path))
    await cluster.start()
    fed = FedConnection(cluster.brokers[1], "muted", written)
    fed.send(METADATA)
    fed.connection.mute(3_600_000)
    await cluster.reset(keep=("fed",))
    fed.send(METADATA)
    assert len(written) == 2
    await cluster.stop()


async def test_a_client_that_reads_a_large_answer_slowly_is_not_idle(movable: BrokerServer) -> None:
    written: list[tuple[str, bytes]] = []
    slow = FedConnection(movable, "slow", written)
    for _ in range(4):
        slow.connection.pause_writing()
        await advance(movable, 40_000)
        slow.connection.resume_writing()
    assert written == []
    await advance(movable, 100_000)
    assert written[0] == ("slow", b""), "it has read nothing for longer than connections.max.idle.ms"


class InPieces:
    """A socket that sends a little at a time."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected
        self.recv = connected.recv
        self.close = connected.close

    def sendall(self, data: bytes) -> None:
        for start in range(0, len(data), 1_000):
            self._connected.sendall(data[start : start + 1_000])


def many_names(count: int) -> MetadataRequest:
    """Asks for so many topics that do not exist, by names of 200 bytes."""
    topics = [MetadataRequest.Topic(name=f"{number:0200}") for number in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.mark.parametrize("tls", [None, "auto"], ids=["plain", "TLS"])
def test_what_comes_in_pieces_is_served_once_it_is_whole(tls: Any) -> None:
    with Broker(tls=tls) as broker, Wire(broker.bootstrap_servers) as wire:
        if tls:
            trusted = broker.client_config("kafka-python")["ssl_cafile"]
            context = ssl.create_default_context(cafile=trusted)
            wire.socket = context.wrap_socket(wire.socket, server_hostname="127.0.0.1")
        wire.socket = cast(Any, InPieces(wire.socket))
        for count in (1, 1_000, 1, 1_500, 1_500, 2):
            assert len(wire.ask(many_names(count), 9).topics) == count


async def test_a_client_that_sends_a_large_request_slowly_is_not_idle(movable: BrokerServer) -> None:
    header = RequestHeader(MetadataRequest.api_key, 9, correlation_id=7, client_id="slow")
    frame = b"".join(map(bytes, frame_of(header.encode(2), many_names(1_000).encode(9))))
    with socket.create_connection(("127.0.0.1", movable.server.listeners[0].port), 60) as slow:
        slow.sendall(frame[:100_000])
        for start in range(100_000, 110_000, 1_000):
            slow.sendall(frame[start : start + 1_000])
            await advance(movable, 20_000)
            for _ in range(3):
                await asyncio.sleep(0)  # each time, the loop reads what has arrived
        slow.sendall(frame[110_000:])
        answer = await asyncio.to_thread(slow.recv, 8)
    assert answer[4:] == struct.pack(">i", 7)


def test_connections_from_one_host_share_its_name() -> None:
    hosts = [address_of((f"{prefix}192.0.2.{7}", port))[0] for prefix, port in (("", 1), ("::ffff:", 2))]
    assert hosts[0] == "192.0.2.7"
    assert hosts[0] is hosts[1]
