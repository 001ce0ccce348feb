"""What a connection may do, and what it costs the others: order, limits, time-outs, and what is written to the log."""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kmini import Broker
from kmini.broker.network.peer_log import PeerLog
from kmini.protocol.errors import InvalidRequest, UnknownTopicOrPartition, UnsupportedVersion
from kmini.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    ProduceRequest,
)
from kmini.protocol.messages.headers import RequestHeader
from kmini.testing import ConnectionClosed, Wire
from support.fuzz.mutations import request_frame
from support.until import until

NO_CLIENT_ID = -1
TEN_MINUTES_MS = 600_000


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Broker]]:
    """A maker of brokers in this process; settings as keywords, _ for a dot."""
    brokers: list[Broker] = []
    # With a share of log lines that no other test has used up.
    monkeypatch.setattr("kmini.broker.network.connection.peer_log", PeerLog(logging.getLogger("kmini.connection")))

    def start(**config: str | int) -> Broker:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        brokers.append(Broker(config=dotted, topics={"t": 1}).start())
        return brokers[-1]

    yield start
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(start: Callable[..., Broker]) -> Broker:
    return start()


def connect(broker: Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), 20)


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker hangs up without a word; TimeoutError if it does nothing."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def frame(api_key: int, version: int, correlation_id: int = 7, body: bytes = b"") -> bytes:
    content = struct.pack(">hhih", api_key, version, correlation_id, NO_CLIENT_ID) + body
    return struct.pack(">i", len(content)) + content


def waiting_fetch(topic: str = "t", max_wait_ms: int = 0x7FFFFFFF) -> FetchRequest:
    wanted = FetchRequest.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.Topic(topic=topic, partitions=[wanted])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1 << 30, max_bytes=1 << 30, topics=topics)


def core(broker: Broker) -> Any:
    return broker._operations.core


def live_timers(broker: Broker) -> int:
    clock = core(broker).clock
    return sum(timer.callback is not None for timer in (*clock._timers, *clock._liveness_timers))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


# --- what is not served


@pytest.mark.parametrize(("api_key", "version"), [(77, 0), (-1, 0), (0x7FFF, 0x7FFF), (0, 99), (3, -1), (1, 3), (0, 2)])
def test_an_unknown_key_or_version_closes_the_connection_with_one_line(
    broker: Broker, caplog: pytest.LogCaptureFixture, api_key: int, version: int
) -> None:
    with connect(broker) as connection:
        connection.sendall(frame(api_key, version, body=b"\x1b[31m" + b"A" * 5_000))
        assert is_closed(connection)
    (line,) = warnings(caplog)
    assert line.startswith("closed the connection of 127.0.0.1:")
    assert f"api key {api_key} version {version}: " in line
    assert len(line) < 300


@pytest.mark.parametrize("version", [5, 99, 0x7FFF, -1, -0x8000])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(broker: Broker, version: int) -> None:
    """KIP-511."""
    with Wire(broker.bootstrap_servers) as wire:
        wire.socket.sendall(frame(18, version, body=b"whatever such a version may have"))
        content = wire.receive_frame()
        assert struct.unpack_from(">i", content) == (7,)
        answer = ApiVersionsResponse.decode(content[4:], 0)
        assert answer.error_code == UnsupportedVersion.code
        assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
        assert wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1")).error_code == 0


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -0x80000000),
        struct.pack(">i", 0),
        struct.pack(">i", 7) + bytes(7),
        struct.pack(">i", 104_857_601),
        struct.pack(">i", 0x7FFFFFFF),
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # a TLS client's hello
        frame(3, 1, body=b"\x7f\xff\xff\xff"),
        frame(3, 9, body=b"\0\xff\xff\xff\xff\x0f"),
        struct.pack(">ihhih", 10, 3, 1, 7, 5),  # a client id that is not all there
        struct.pack(">ihhih", 12, 3, 1, 7, 2) + b"\xff\xfe",  # or no UTF-8
    ],
)
def test_what_is_no_request_closes_the_connection_with_one_line(
    broker: Broker, caplog: pytest.LogCaptureFixture, garbage: bytes
) -> None:
    with connect(broker) as connection, Wire(broker.bootstrap_servers) as other:
        connection.sendall(garbage)
        assert is_closed(connection)
        assert other.ask(MetadataRequest(topics=[])).cluster_id
    assert len(warnings(caplog)) == 1


def test_a_peer_cannot_write_into_the_log_what_it_likes(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    name = "\r\n2026-01-01 CRITICAL all is lost \x1b[2J\x00\x7f" + "ж" * 5_000
    data = [ProduceRequest.Partition(index=0, records=b"")]
    produce = ProduceRequest(acks=0, timeout_ms=0, topic_data=[ProduceRequest.Topic(name=name, partition_data=data)])
    with Wire(broker.bootstrap_servers) as wire:
        wire.send(produce, 9)
        with pytest.raises(ConnectionClosed):
            wire.receive_frame()
    (line,) = warnings(caplog)
    assert line.isascii()
    assert line.isprintable()
    assert len(line) < 300


def test_lines_about_peers_are_few_whatever_they_do(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    began = time.monotonic()
    for _ in range(300):
        with connect(broker) as connection:
            connection.sendall(frame(77, 0))
            assert is_closed(connection)
    seconds = int(time.monotonic() - began) + 2
    assert 1 <= len(warnings(caplog)) <= 21 * seconds


def test_lines_that_were_left_out_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("kmini.broker.network.peer_log.time.monotonic", lambda: now)
    peer_log = PeerLog(logging.getLogger("kmini.test"))
    for number in range(50):
        peer_log.warning("%s did it %d times", "x\n", number)
    assert len(warnings(caplog)) == 20
    now += 1
    peer_log.warning("and again")
    assert warnings(caplog)[-2:] == ["30 lines like the next one were left out", "and again"]
    assert warnings(caplog)[1] == r"x\x0a did it 1 times"


# --- answers, and their order


def test_every_api_answers_or_closes_whatever_is_null_empty_or_negative(broker: Broker) -> None:
    """Bodies of nothing but zeros, or nothing but ones, as long as they are understood."""
    served = 0
    for api_key, request in REQUESTS.items():
        for version in range(request.min_version, request.max_version + 1):
            for filling in (b"\0", b"\xff"):
                for size in (0, 1, 4, 9, 12, 20, 30, 64):
                    header = RequestHeader(api_key, version, 5, "c").encode(request.header_version(version))
                    content = header + filling * size
                    with Wire(broker.bootstrap_servers) as wire:
                        wire.socket.sendall(struct.pack(">i", len(content)) + content + frame(18, 0, 6))
                        answered = []
                        try:
                            while 6 not in answered:
                                answered += struct.unpack_from(">i", wire.receive_frame())
                        except ConnectionClosed:
                            answered.append(0)
                        served += answered in ([5, 6], [6])  # produce with acks=0 is not answered
                        assert answered in ([5, 6], [6], [0], [5, 0])
    assert served > 50


def test_pipelined_requests_are_answered_in_their_order(broker: Broker) -> None:
    """Slow and quick ones: a fetch that waits comes before what was asked after it."""
    with Wire(broker.bootstrap_servers) as wire:
        expected: list[tuple[int, type, int]] = []
        for round_number in range(200):
            expected.append((wire.send(MetadataRequest(topics=[]), 9), MetadataRequest.response, 9))
            if round_number % 50 == 0:
                expected.append((wire.send(waiting_fetch(max_wait_ms=10), 12), FetchResponse, 12))
                deletion = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)
                deletions = [DeleteRecordsRequest.Topic(name="t", partitions=[deletion])]
                delete = DeleteRecordsRequest(topics=deletions, timeout_ms=1_000)
                expected.append((wire.send(delete, 2), DeleteRecordsRequest.response, 2))
        for correlation_id, response, version in expected:
            wire.receive(response, version, correlation_id)


def test_requests_are_taken_from_half_frames_byte_by_byte(broker: Broker) -> None:
    stream = b"".join(frame(18, 0, correlation_id) for correlation_id in range(5))
    with Wire(broker.bootstrap_servers) as wire:
        for at in range(len(stream)):
            wire.socket.sendall(stream[at : at + 1])
        for correlation_id in range(5):
            assert struct.unpack_from(">i", wire.receive_frame()) == (correlation_id,)


def test_a_flood_of_small_requests_is_answered_one_by_one(broker: Broker) -> None:
    """More at once than is kept in memory; nobody else waits for the end of it."""
    flood = b"".join(frame(18, 0, correlation_id) for correlation_id in range(60_000))
    with Wire(broker.bootstrap_servers) as wire, Wire(broker.bootstrap_servers) as other:
        wire.socket.setblocking(False)
        sent = answered = most_pending = 0
        received = bytearray()
        while answered < 60_000:
            try:
                sent += wire.socket.send(flood[sent : sent + 65536]) if sent < len(flood) else 0
            except BlockingIOError:
                pass
            try:
                received += wire.socket.recv(1 << 20)
            except BlockingIOError:
                assert other.ask(MetadataRequest(topics=[])).cluster_id
            while len(received) >= 8 and len(received) >= 4 + struct.unpack_from(">i", received)[0]:
                assert struct.unpack_from(">i", received, 4) == (answered,)
                del received[: 4 + struct.unpack_from(">i", received)[0]]
                answered += 1
            (connection,) = [c for c in core(broker).server.connections if c.peer == wire.socket.getsockname()]
            most_pending = max(most_pending, connection._framing.pending_bytes)
    assert most_pending <= 320 * 1024


def test_a_produce_without_acks_that_fails_closes_the_connection(broker: Broker) -> None:
    data = [ProduceRequest.Partition(index=0, records=b"no batch")]
    for name in ("t", "unknown"):
        produce = ProduceRequest(
            acks=0, timeout_ms=0, topic_data=[ProduceRequest.Topic(name=name, partition_data=data)]
        )
        with Wire(broker.bootstrap_servers) as wire:
            wire.send(produce, 9)
            with pytest.raises(ConnectionClosed):
                wire.ask(MetadataRequest(topics=[]))


def test_an_answer_that_repeats_a_long_name_is_sent(broker: Broker) -> None:
    """Error messages are strings too: what they quote must not make them longer than a string can be."""
    name = "x" * 0x7FFF
    wish = CreateTopicsRequest.Topic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    config = CreateTopicsRequest.Topic.Config(name=name, value=name)
    named = CreateTopicsRequest.Topic(
        name="n", num_partitions=1, replication_factor=1, assignments=[], configs=[config]
    )
    with Wire(broker.bootstrap_servers) as wire:
        for topics in ([wish], [wish, wish], [named]):
            answer = wire.ask(CreateTopicsRequest(topics=topics, timeout_ms=0), 4)
            assert answer.topics[0].error_code != 0
            assert len(answer.topics[0].error_message) <= 1_000
        answer = wire.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 8)
        assert answer.topics[0].name == name


def test_an_error_has_its_place_in_the_answer_or_the_connection_is_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistake of ours in a handler: fetches before version 7 cannot be told, as their answer has no such field."""
    monkeypatch.setattr(type(core(broker).replica_manager), "leader_of", lambda *_: 1 // 0)
    with Wire(broker.bootstrap_servers) as wire, pytest.raises(ConnectionClosed):
        wire.ask(waiting_fetch(), 4)
    with Wire(broker.bootstrap_servers) as wire:
        assert wire.ask(waiting_fetch(), 7).error_code == -1
        assert wire.ask(MetadataRequest(topics=[])).cluster_id


def test_a_partition_that_is_named_again_is_answered_once(broker: Broker) -> None:
    """Kafka's rule for Fetch; what an answer costs is bounded by the partitions there are."""
    fetch = waiting_fetch(max_wait_ms=0)
    fetch.topics = fetch.topics * 500
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(fetch, 12)
        assert [len(topic.partitions) for topic in answer.responses] == [1]


def test_limits_below_zero_are_zero(broker: Broker) -> None:
    broker.produce("t", b"v")
    fetch = waiting_fetch(max_wait_ms=0)
    fetch.topics[0].partitions[0].partition_max_bytes = -5
    fetch.max_bytes = -5
    with Wire(broker.bootstrap_servers) as wire:
        answer = wire.ask(fetch, 12).responses[0].partitions[0]
    assert answer.error_code == 0
    assert answer.records  # the first batch is sent whole, whatever the limits


# --- who leaves, who stays, who is too many


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
    """What was not read while others were served is read while the request waits: else nobody would know."""
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
    """As in Kafka: whether anybody is still there who waits for the answer cannot be known."""
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
