"""Connections: order, limits, and what a broken peer costs."""

from __future__ import annotations

import socket
import struct

import pytest

from kmini import Broker
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kmini.testing import ConnectionClosed, Wire


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
