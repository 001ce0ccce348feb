"""What a connection may do, and what it costs the others: limits, time-outs, and what is left of it afterwards."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest

from kmini import Broker
from kmini.protocol.errors import InvalidRequest, UnknownTopicOrPartition
from kmini.protocol.messages import (
    ApiVersionsRequest,
    DeleteRecordsRequest,
    FetchResponse,
    MetadataRequest,
    ProduceRequest,
)
from kmini.testing import ConnectionClosed, Wire
from support.fuzz.connections import (
    TEN_MINUTES_MS,
    connect,
    core,
    frame,
    is_closed,
    live_timers,
    waiting_fetch,
)
from support.fuzz.mutations import request_frame
from support.until import until

pytestmark = pytest.mark.deep

# --- connections that leave, stay, or are too many


def test_dropped_connections_leave_nothing_behind(broker: Broker) -> None:
    timers = live_timers(broker)
    wires = [Wire(broker.bootstrap_servers) for _ in range(50)]
    for wire in wires:
        wire.send(waiting_fetch(), 12)
    until(lambda: len(core(broker).purgatory) == 50)
    for number, wire in enumerate(wires):
        if number % 2:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.close()
    until(lambda: len(core(broker).server.connections) == 0)
    until(lambda: len(core(broker).purgatory) == 0)
    until(lambda: core(broker).purgatory._watchers == {})
    until(lambda: live_timers(broker) <= timers)


def test_a_connection_is_missed_although_others_had_to_have_their_turn(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not read while others were served is read while the request waits: else its end would be missed."""
    monkeypatch.setattr("kmini.broker.scheduler._TURN_S", 0)
    for _ in range(5):
        with connect(broker) as connection:
            connection.sendall(frame(18, 0) + request_frame(waiting_fetch(), 12, 8))
            until(lambda: len(core(broker).purgatory) == 1)
        until(lambda: len(core(broker).purgatory) == 0)


def test_a_connection_is_missed_although_it_did_not_read_for_a_while(broker: Broker) -> None:
    for _ in range(20):
        broker.produce("t", bytes(900_000))
    full = waiting_fetch(max_wait_ms=0)
    full.topics[0].partitions[0].partition_max_bytes = 1 << 30
    waiting = waiting_fetch()
    waiting.topics[0].partitions[0].fetch_offset = 20
    with Wire(broker.bootstrap_servers) as wire:
        correlation_id = wire.send(full, 12)
        wire.send(waiting, 12)
        until(lambda: all(c._write_paused for c in core(broker).server.connections))
        wire.receive(FetchResponse, 12, correlation_id)
        until(lambda: len(core(broker).purgatory) == 1)
    until(lambda: len(core(broker).purgatory) == 0)


def test_a_connection_that_is_gone_before_its_request_waits_does_not_wait(broker: Broker) -> None:
    """A deletion is on its way to the disk when its client leaves; nothing stays to wait for replicas."""
    partition = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=-1)
    topics = [DeleteRecordsRequest.Topic(name="t", partitions=[partition])]
    for number in range(30):
        broker.produce("t", b"v")
        with Wire(broker.bootstrap_servers) as wire:
            wire.send(DeleteRecordsRequest(topics=topics, timeout_ms=0x7FFFFFFF), 2)
            wire.send(waiting_fetch(), 12)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if number % 3 == 0:
                wire.receive_frame()
    until(lambda: len(core(broker).server.connections) == 0)
    until(lambda: len(core(broker).purgatory) == 0)


def test_connections_beyond_the_limit_are_refused(start: Callable[..., Broker]) -> None:
    broker = start(max_connections=3)
    kept = [connect(broker) for _ in range(3)]
    until(lambda: len(core(broker).server.connections) == 3)
    for _ in range(5):
        with connect(broker) as refused:
            assert is_closed(refused)
    until(lambda: len(core(broker).server.connections) == 3)
    kept.pop().close()
    until(lambda: len(core(broker).server.connections) == 2)
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(MetadataRequest(topics=[])).cluster_id
    for connection in kept:
        connection.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"max_connections_per_ip": 2},
        {"max_connections_per_ip_overrides": "10.0.0.1:7,127.0.0.1:2"},
        {"max_connections_per_ip": 1, "max_connections_per_ip_overrides": "127.0.0.1:2"},
    ],
)
def test_connections_of_one_address_beyond_its_limit_are_refused(
    start: Callable[..., Broker], settings: dict[str, object]
) -> None:
    broker = start(**settings)
    with connect(broker), connect(broker):
        until(lambda: len(core(broker).server.connections) == 2)
        with connect(broker) as refused:
            assert is_closed(refused)
    until(lambda: not core(broker).server.connections)
    until(lambda: not core(broker).server._per_host)
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(MetadataRequest(topics=[])).cluster_id


def test_a_frame_beyond_the_configured_size_closes_the_connection(start: Callable[..., Broker]) -> None:
    broker = start(socket_request_max_bytes=2_000)
    with connect(broker) as connection:
        connection.sendall(struct.pack(">i", 2_001))
        assert is_closed(connection)
    largest = frame(18, 3, body=b"")
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(struct.pack(">i", 2_000) + largest[4:] + bytes(2_000 - len(largest) + 4))
        with pytest.raises(ConnectionClosed):  # it is read, and found to be no ApiVersions request
            wire.receive_frame()
        assert wire.socket.fileno() > 0


def test_idle_connections_are_closed_and_others_are_not(start: Callable[..., Broker]) -> None:
    broker = start(connections_max_idle_ms=TEN_MINUTES_MS)
    with connect(broker) as idle, connect(broker) as slow, Wire(broker.bootstrap_servers) as busy:
        unhurried = frame(18, 0)
        for number in range(4):
            broker.advance_clock(TEN_MINUTES_MS // 3, liveness=True)
            slow.sendall(unhurried[number : number + 1])
            busy.ask(MetadataRequest(topics=[]))
        assert is_closed(idle)
        assert busy.ask(MetadataRequest(topics=[])).cluster_id
        until(lambda: len(core(broker).server.connections) == 2)


def test_a_connection_that_waits_longer_than_it_may_be_idle_is_closed(start: Callable[..., Broker]) -> None:
    """As in Kafka: the broker cannot know whether a client still waits for the answer."""
    broker = start(connections_max_idle_ms=TEN_MINUTES_MS)
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(waiting_fetch(), 12)
        until(lambda: len(core(broker).purgatory) == 1)
        broker.advance_clock(2 * TEN_MINUTES_MS, liveness=True)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()
    until(lambda: len(core(broker).purgatory) == 0)


def test_a_connection_that_does_not_read_is_closed_when_it_was_idle_for_too_long(
    start: Callable[..., Broker],
) -> None:
    """Also after it said that it will send no more: what it was sent would stay in memory for ever."""
    broker = start(connections_max_idle_ms=TEN_MINUTES_MS)
    for _ in range(20):
        broker.produce("t", bytes(900_000))
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as half_closed:
        fetch = waiting_fetch(max_wait_ms=0)
        fetch.topics[0].partitions[0].partition_max_bytes = 1 << 30
        for each in (wire, half_closed):
            each.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(3):
                each.send(fetch, 12)
        half_closed.socket.shutdown(socket.SHUT_WR)
        until(lambda: all(c._write_paused for c in core(broker).server.connections))
        broker.advance_clock(2 * TEN_MINUTES_MS, liveness=True)
        until(lambda: not core(broker).server.connections)


def test_stopping_ends_every_wait_and_every_timer(start: Callable[..., Broker]) -> None:
    broker = start()
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(waiting_fetch(), 12)
        until(lambda: len(core(broker).purgatory) == 1)
        stopped = core(broker)
        broker.stop()
        assert len(stopped.purgatory) == 0
        clock = stopped.clock
        assert not [timer for timer in (*clock._timers, *clock._liveness_timers) if timer.callback is not None]


def test_one_bad_request_of_many_leaves_the_others_alone(broker: Broker) -> None:
    """Partition by partition, each has its own outcome."""
    good = broker.produce("t", b"v")
    bad = ProduceRequest.Partition(index=7, records=b"")
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(
            ProduceRequest(acks=1, timeout_ms=0, topic_data=[ProduceRequest.Topic(name="t", partition_data=[bad])]),
            9,
        )
        assert answer.responses[0].partition_responses[0].error_code == UnknownTopicOrPartition.code
        bad_name = wire.ask(ApiVersionsRequest(client_software_name="\0", client_software_version="1"), 3)
        assert bad_name.error_code == InvalidRequest.code
        assert wire.ask(MetadataRequest(topics=[])).cluster_id
    assert broker.offsets("t").high_watermark == good + 1
