"""Clients that do not finish their TLS handshake: they take neither the room nor the time of others."""

from __future__ import annotations

import resource
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer

from kmini import Broker
from kmini.broker.network import handshakes
from kmini.broker.network.peer_log import PeerLog
from support.certificates import Authority, client_hello
from support.until import until

pytestmark = pytest.mark.sockets

MOST = 20


@pytest.fixture(autouse=True)
def _own_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the lines of other tests not count among those that a log takes in a while."""
    monkeypatch.setattr(handshakes, "peer_log", PeerLog(handshakes.peer_log._logger))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Lets so few handshakes go on that a test fills them."""
    monkeypatch.setattr(handshakes, "MOST_HANDSHAKES", MOST)
    with Broker(topics=["orders"], tls="auto") as running:
        yield running


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def plain(broker: Broker, stack: ExitStack) -> socket.socket:
    """A connection that has sent nothing yet."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return stack.enter_context(socket.create_connection((host, int(port)), timeout=60))


def is_served(broker: Broker) -> bool:
    """Whether a client that does as it should gets through its handshake."""
    trusted = broker.client_config("kafka-python")["ssl_cafile"]
    host, _, port = broker.bootstrap_servers.rpartition(":")
    context = ssl.create_default_context(cafile=trusted)
    with (
        socket.create_connection((host, int(port)), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        secured.sendall(b"\x00\x00\x00\x0e\x00\x12\x00\x00\x00\x00\x00\x01\x00\x04test")  # ApiVersions v0
        return secured.recv(4096)[4:8] == b"\x00\x00\x00\x01"


HELLO = client_hello()


@pytest.mark.parametrize(
    "sent", [b"", b"\x16\x03\x01", HELLO[: len(HELLO) // 2]], ids=["nothing", "a header", "half a hello"]
)
def test_clients_amid_their_handshakes_give_way_to_later_ones(
    broker: Broker, stack: ExitStack, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stuck = [plain(broker, stack) for _ in range(3 * MOST)]
    for connection in stuck:
        connection.sendall(sent)
    assert is_served(broker)
    assert all(map(is_closed, stuck[: 2 * MOST]))
    assert goes_on(stuck[-1])
    assert f"it is the oldest of more than {MOST} TLS handshakes" in caplog.text


def test_two_thousand_clients_amid_their_handshakes_keep_no_producer_waiting(stack: ExitStack) -> None:
    """With the limits as they are: a producer of each kind sends amid them, one that came before and one that comes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 10_000:
        pytest.skip(f"this machine lets a process open {hard} files, and broker and clients need 10,000 here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
    with Broker(topics=["orders"], tls="auto") as broker:
        before = Producer(broker.client_config("confluent-kafka"))
        before.produce("orders", b"0")
        assert before.flush(60) == 0
        stuck = []
        for number in range(2_000):
            stuck.append(plain(broker, stack))
            stuck[-1].sendall(HELLO[: len(HELLO) // 2])
            if number % 500 == 499:
                before.produce("orders", b"before")
                coming = Producer(broker.client_config("confluent-kafka"))
                coming.produce("orders", b"coming")
                assert (before.flush(60), coming.flush(60)) == (0, 0)
        assert is_served(broker)
        assert all(map(is_closed, stuck[:1_000]))
        assert len(broker.records("orders")) == 9


def test_a_handshake_that_goes_on_for_too_long_ends_although_bytes_of_it_still_come(stack: ExitStack) -> None:
    with Broker(tls="auto", config={"kmini.authentication.timeout.ms": "300"}) as broker:
        slow, left = plain(broker, stack), iter(HELLO)
        slow.settimeout(0.01)

        def is_over() -> bool:
            try:
                slow.sendall(bytes([next(left)]))
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until(is_over)
        assert is_served(broker)


def test_no_client_renegotiates() -> None:
    """Each time would cost the broker ten times what it costs the client. TLS 1.3 has no renegotiation."""
    with Broker(tls="auto") as broker:
        command = ["openssl", "s_client", "-connect", broker.bootstrap_servers, "-tls1_2"]
        try:
            client = subprocess.run(command, input=b"R\n", capture_output=True, timeout=60, check=False)
        except FileNotFoundError:
            pytest.skip("this machine has no openssl, whose client renegotiates")
        assert b"no renegotiation" in client.stderr
        assert is_served(broker)


def is_closed(connection: socket.socket) -> bool:
    """Whether the broker has closed it, after an alert of TLS perhaps."""
    try:
        while connection.recv(100):
            pass
    except ConnectionResetError:
        pass
    return True


def goes_on(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    return True


def test_a_broker_stops_at_once_amid_handshakes(broker: Broker, stack: ExitStack) -> None:
    stuck = [plain(broker, stack) for _ in range(3)]
    assert is_served(broker)
    broker.stop()
    assert all(map(is_closed, stuck))
    broker.start()
    assert is_served(broker)


@pytest.mark.parametrize(
    ("shows", "alert"), [("nothing", "CERTIFICATE_REQUIRED"), ("a certificate that is not trusted", "UNKNOWN_CA")]
)
def test_a_client_is_told_by_an_alert_why_its_handshake_failed(shows: str, alert: str, tmp_path: Path) -> None:
    with Broker(tls="mutual") as broker:
        context = ssl.create_default_context(cafile=broker.client_config("kafka-python")["ssl_cafile"])
        if shows != "nothing":
            own = tmp_path / "own.pem"
            own.write_text(Authority("others").sign("alice").pem)
            context.load_cert_chain(own)
        host, _, port = broker.bootstrap_servers.rpartition(":")
        with (
            socket.create_connection((host, int(port)), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname=host) as secured,
            pytest.raises(ssl.SSLError, match=alert),
        ):
            secured.recv(1)


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"max.connections.per.ip": "3"}, "max.connections.per.ip is 3"),
        ({"max.connections": "3"}, "max.connections is 3"),
        ({"listener.name.ssl.max.connections": "3"}, "max.connections of the listener SSL is 3"),
    ],
    ids=["of an address", "of the broker", "of the listener"],
)
def test_a_connection_counts_towards_the_limits_from_the_moment_it_is_accepted(
    stack: ExitStack, caplog: pytest.LogCaptureFixture, limit: dict[str, str], said: str
) -> None:
    """As in Apache Kafka. One that has ended, before or after its handshake, leaves its place."""
    with Broker(config=limit, tls="auto") as broker:
        for _ in range(5):
            assert is_served(broker)
        stuck = [plain(broker, stack) for _ in range(3)]
        with pytest.raises(OSError):  # of TLS, or of the connection
            is_served(broker)
        assert said in caplog.text
        assert goes_on(stuck[0])
        for connection in stuck[1:]:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_closed(connection)
        assert is_served(broker)


def test_what_is_no_handshake_takes_no_room(broker: Broker, stack: ExitStack) -> None:
    stuck = plain(broker, stack)
    for _ in range(2 * MOST):
        garbage = plain(broker, stack)
        garbage.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert is_closed(garbage)
    assert goes_on(stuck)
    assert is_served(broker)
