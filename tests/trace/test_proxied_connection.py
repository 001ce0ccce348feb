"""Clients of kmini and a proxy between: they are served as without it, and what passes is shown.

The ends of a connection, `trace/connection_end.py`, are tested here, too.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kmini import Broker, Cluster
from kmini.trace.lines import text_line
from support.client_adapters import PYTHON_CLIENTS, why_unavailable
from support.traced import Traced, traced
from support.traced_clients import commit_in_transactions, read_in_a_group, write_and_read
from support.transactional_clients import CLIENTS
from support.until import until

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 7, -1)
ANSWERED_V0 = struct.pack(">ih", 7, 0)


@pytest.fixture(autouse=True)
def _leaky_clients(leaky_clients: None) -> None:
    """Every test here drives client libraries."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config={"group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Traced]:
    with traced(cluster.bootstrap_servers.split(",")[0]) as running:
        yield running


def connect(proxy: Traced) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), 30)


def address_of(server: socket.socket) -> str:
    host, port = server.getsockname()
    return f"{host}:{port}"


def exactly(connection: socket.socket, count: int) -> bytes:
    """The next `count` bytes."""
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, data
        data += more
    return data


def received(connection: socket.socket) -> bytes:
    """Everything that comes until the end, or b"RST"."""
    data = b""
    try:
        while more := connection.recv(1 << 16):
            data += more
    except ConnectionResetError:
        return b"RST"
    return data


def sent_until_held_back(connection: socket.socket, frame: bytes) -> int:
    """Bytes that a connection takes of endless frames before it takes no more within its time-out."""
    sent = 0
    try:
        while sent < 500 << 20:
            sent += connection.send(frame)
    except TimeoutError:
        return sent
    return sent


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_a_client_writes_and_reads_through_the_proxy_and_stays_on_it(proxy: Traced, name: str) -> None:
    if reason := why_unavailable(name):
        pytest.skip(reason)
    topic = f"records-{name}"
    write_and_read(PYTHON_CLIENTS[name](), proxy.bootstrap_servers, topic)
    written = [one.entry for one in proxy.of("Produce")]
    assert {one.broker for one in written} == {1, 2, 3}
    assert sum(place.records or 0 for one in written for place in one.partitions) == 600
    assert {one.topics for one in written} == {(topic,)}
    assert not [one for one in proxy.exchanges if one.note], proxy.exchanges


@pytest.mark.parametrize("name", CLIENTS)
def test_transactions_go_through_the_proxy(proxy: Traced, name: str) -> None:
    pytest.importorskip({"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}.get(name, name))
    commit_in_transactions(CLIENTS[name], proxy.bootstrap_servers, f"transactions-{name}")
    ended = [one.entry.transactional_ids for one in proxy.of("EndTxn")]
    assert ended
    assert {*ended} == {(f"transactions-{name}-t",)}


@pytest.mark.parametrize("name", PYTHON_CLIENTS)
def test_a_group_reads_through_the_proxy(cluster: Cluster, proxy: Traced, name: str) -> None:
    if reason := why_unavailable(name):
        pytest.skip(reason)
    topic = f"group-{name}"
    cluster.create_topic(topic, 2)
    values = [b"%d" % number for number in range(10)]
    for value in values:
        cluster.produce(topic, value)
    assert sorted(read_in_a_group(name, proxy.bootstrap_servers, topic)) == values
    joined = proxy.of("JoinGroup")
    assert joined
    assert {one.entry.groups for one in joined} == {(f"{topic}-group",)}


def test_a_line_says_when_by_whom_what_and_how_long(cluster: Cluster, proxy: Traced) -> None:
    with connect(proxy) as client:
        client.sendall(API_VERSIONS_V0)
        assert exactly(client, 10)[4:] == ANSWERED_V0
    (exchange,) = proxy.shown("ApiVersions")
    line = text_line(exchange)
    assert line.startswith(f"+{exchange.since_s:.3f} #1 ApiVersions v0 - -> ok ")
    assert " ms, 0 B in, " in line


def test_requests_sent_ahead_are_answered_in_their_order(proxy: Traced) -> None:
    with connect(proxy) as client:
        client.sendall(b"".join(struct.pack(">ihhih", 10, 18, 0, number, -1) for number in range(3_000)))
        for number in range(3_000):
            size, correlation_id = struct.unpack(">ii", exactly(client, 8))
            assert correlation_id == number
            exactly(client, size - 4)
    assert len(proxy.shown("ApiVersions", 3_000)) == 3_000


def test_requests_without_an_answer_do_not_hold_up_those_behind_them(proxy: Traced) -> None:
    body = struct.pack(">hhii", -1, 0, 1_000, 0)  # no transactional id, acks 0, and no topic
    with connect(proxy) as client:
        frames = [struct.pack(">ihhih", 10 + len(body), 0, 7, number, -1) + body for number in range(3_000)]
        client.sendall(b"".join(frames) + API_VERSIONS_V0)
        assert exactly(client, 10)[4:] == ANSWERED_V0
    assert {one.entry.closed for one in proxy.shown("Produce", 3_000)} == {"no answer is due"}


def test_an_unknown_api_passes_as_bytes_and_is_named() -> None:
    echo = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with echo.accept()[0] as connection:
            frame = connection.recv(1 << 16)
            connection.sendall(struct.pack(">i", 9) + frame[8:12] + b"\0\1\2\3\4")
            connection.recv(1)

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        with traced(address_of(echo)) as proxy, connect(proxy) as client:
            client.sendall(struct.pack(">ihhih", 14, 71, 0, 77, -1) + b"body")
            assert exactly(client, 13) == struct.pack(">ii", 9, 77) + b"\0\1\2\3\4"
            (exchange,) = proxy.shown("GetTelemetrySubscriptions")
            assert exchange.note == "not decoded: kmini does not know this API"
    finally:
        echo.close()
        answering.join()


def test_what_is_no_kafka_passes_as_bytes() -> None:
    echo = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        with echo.accept()[0] as connection:
            while data := connection.recv(1 << 16):
                connection.sendall(data)

    answering = threading.Thread(target=answer)
    answering.start()
    try:
        with traced(address_of(echo)) as proxy, connect(proxy) as client:
            client.sendall(b"\x16\x03\x01\x02\x00hello")
            assert exactly(client, 10) == b"\x16\x03\x01\x02\x00hello"
            client.sendall(b"more")
            assert exactly(client, 4) == b"more"
            client.shutdown(socket.SHUT_WR)
            assert received(client) == b""
            assert [note for note in proxy.notes if "speaks TLS" in note]
    finally:
        echo.close()
        answering.join()


@pytest.mark.parametrize(
    "garbage", [b"\xff\xff\xff\xff", b"\0\0\0\1a", b"\0\0\0\x0aabc"], ids=["negative", "short", "cut"]
)
def test_garbage_ends_its_own_connection_only(proxy: Traced, garbage: bytes) -> None:
    with connect(proxy) as bad, connect(proxy) as good:
        bad.sendall(garbage)
        bad.shutdown(socket.SHUT_WR)
        assert received(bad) in (b"", b"RST")
        good.sendall(API_VERSIONS_V0)
        assert exactly(good, 10)[4:] == ANSWERED_V0


def test_a_client_that_resets_has_its_broker_connection_reset_too() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    try:
        with traced(address_of(server)) as proxy:
            client = connect(proxy)
            client.sendall(API_VERSIONS_V0)
            with server.accept()[0] as upstream:
                upstream.settimeout(30)
                exactly(upstream, 14)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                assert received(upstream) == b"RST"
    finally:
        server.close()


def test_a_broker_that_cannot_be_reached_resets_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with traced(f"127.0.0.1:{port}") as proxy:
        try:
            with connect(proxy) as client:
                outcome = received(client)
        except ConnectionResetError:  # it came while the client connected
            outcome = b"RST"
        assert outcome == b"RST"
        assert [note for note in proxy.notes if f"cannot reach 127.0.0.1:{port}" in note]


def test_a_slow_client_holds_the_broker_back_and_not_the_memory() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    frame = struct.pack(">i", 1 << 20) + bytes(1 << 20)
    try:
        with traced(address_of(server)) as proxy, connect(proxy) as client:
            with server.accept()[0] as upstream:
                upstream.settimeout(1)
                assert sent_until_held_back(upstream, frame) < 40 << 20
            assert exactly(client, 4) == frame[:4]
    finally:
        server.close()


def test_a_client_that_dies_leaves_an_exchange_without_an_answer(cluster: Cluster, proxy: Traced) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    try:
        with traced(address_of(server)) as silent:
            client = connect(silent)
            client.sendall(API_VERSIONS_V0)
            with server.accept()[0] as upstream:
                exactly(upstream, 14)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                (exchange,) = silent.shown("ApiVersions")
            assert exchange.entry.closed == "the connection ended before the answer"
            until(lambda: not silent.proxy._connections)
    finally:
        server.close()


def test_a_login_passes_unread_and_its_password_is_nowhere() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="admin" password="admin-secret" user_alice="wonderland-8812";'
        ),
    }
    confluent = pytest.importorskip("confluent_kafka.admin")
    with Broker(config=config) as broker, traced(broker.bootstrap_servers) as proxy:
        admin = confluent.AdminClient(
            {
                "bootstrap.servers": proxy.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "wonderland-8812",
            }
        )
        assert len(admin.list_topics(timeout=30).brokers) == 1
        assert proxy.shown("SaslAuthenticate")
        assert proxy.shown("Metadata")
        shown = "\n".join([*map(repr, proxy.exchanges), *map(text_line, proxy.exchanges), *proxy.notes])
        assert "wonderland" not in shown


def test_bare_tokens_of_a_login_pass_unread_and_requests_after_it_are_shown() -> None:
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="admin" password="admin-secret" user_alice="wonderland-8812";'
        ),
    }
    token = b"\0alice\0wonderland-8812"
    with Broker(config=config) as broker, traced(broker.bootstrap_servers) as proxy, connect(proxy) as client:
        client.sendall(struct.pack(">ihhihh", 17, 17, 0, 1, -1, 5) + b"PLAIN")
        size, correlation_id = struct.unpack(">ii", exactly(client, 8))
        assert correlation_id == 1
        exactly(client, size - 4)
        client.sendall(struct.pack(">i", len(token)) + token)
        assert exactly(client, 4) == bytes(4)
        client.sendall(API_VERSIONS_V0)
        assert exactly(client, 10)[4:] == ANSWERED_V0
        proxy.shown("ApiVersions")
        assert [one.entry.api for one in proxy.exchanges] == ["SaslHandshake", "ApiVersions"]
        assert "wonderland" not in "\n".join(map(repr, proxy.exchanges))
