"""Measure a fetch over many idle partitions, with a session and without; prints one line of JSON.

Each figure is the median time of a round trip that returns no records and does not wait.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import time

from kmini import Broker
from kmini.protocol.framing import frame_of
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse
from kmini.protocol.messages.headers import RequestHeader
from kmini.protocol.schema import Request

VERSION = 12
TOPIC = "idle"


class Client:
    """One connection, one request at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frame: bytes) -> bytes:
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
        return self._socket.recv(size, socket.MSG_WAITALL)


def framed(request: Request, version: int) -> bytes:
    header = RequestHeader(request.api_key, version, 1, "bench").encode(request.header_version(version))
    return b"".join(frame_of(header, request.encode(version)))


def fetch(partitions: int, session: int, epoch: int) -> bytes:
    asked = [
        FetchRequest.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(partitions)
    ]
    topics = [FetchRequest.Topic(topic=TOPIC, partitions=asked)] if asked else []
    request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics, session_id=session, session_epoch=epoch)
    return framed(request, VERSION)


def median_us(client: Client, frames: list[bytes]) -> float:
    durations = []
    for frame in frames:
        start = time.perf_counter()
        client.ask(frame)
        durations.append(time.perf_counter() - start)
    return statistics.median(durations) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=500)
    parser.add_argument("--requests", type=int, default=1_000)
    options = parser.parse_args()
    with Broker(topics={TOPIC: options.partitions}) as broker:
        client = Client(broker.bootstrap_servers)
        answer = FetchResponse.decode(client.ask(fetch(options.partitions, 0, 0))[5:], VERSION)
        epochs = range(1, options.requests + 1)
        in_session = median_us(client, [fetch(0, answer.session_id, epoch) for epoch in epochs])
        in_full = median_us(client, [fetch(options.partitions, 0, -1)] * (options.requests // 10))
    figures = {
        "session_us": round(in_session, 1),
        "full_us": round(in_full, 1),
        "ratio": round(in_session / in_full, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
