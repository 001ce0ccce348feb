"""Bytes that are no request, and requests that are not served: the connection is closed, with one line in the log."""

from __future__ import annotations

import logging
import struct
import time

import pytest

from kmini import Broker
from kmini.broker.network.peer_log import PeerLog
from kmini.protocol.errors import UnsupportedVersion
from kmini.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    ProduceRequest,
)
from kmini.testing import ConnectionClosed, Wire
from support.fuzz.connections import (
    connect,
    frame,
    is_closed,
    warnings,
)

pytestmark = pytest.mark.deep

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
