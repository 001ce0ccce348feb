"""Connections to a broker, what they hold, and what a broker in this process holds and logs of them."""

from __future__ import annotations

import logging
import socket
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kmini import Broker
from kmini.protocol.messages import FetchRequest

NO_CLIENT_ID = -1
TEN_MINUTES_MS = 600_000


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
    return broker._operations.any_broker()


def live_timers(broker: Broker) -> int:
    clock = core(broker).clock
    return sum(timer.callback is not None for timer in (*clock._timers, *clock._liveness_timers))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


class Queued(NamedTuple):
    """Bytes in the kernel's buffers of one connection over the loopback interface."""

    requests: int
    """Sent by the client, and not read by the broker."""
    answers: int
    """Sent by the broker, and not read by the client."""


def queued_bytes(client: socket.socket) -> Queued:
    """What is under way on a connection, as Linux tells it in /proc/net/tcp."""
    near, far = client.getsockname()[1], client.getpeername()[1]
    queues: dict[tuple[int, int], tuple[int, int]] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, sizes, *_ = line.split()
        unsent, unread = (int(size, 16) for size in sizes.split(":"))
        queues[int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)] = unsent, unread
    ours, theirs = queues.get((near, far), (0, 0)), queues.get((far, near), (0, 0))
    return Queued(ours[0] + theirs[1], theirs[0] + ours[1])
