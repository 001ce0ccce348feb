"""What `kmini trace` costs: trace.py [--rounds 20] [--requests 500] [--mib 512]

One kmini, asked directly and through the proxy, in turn. `round trip`: ApiVersions v0, and a Produce of one record of
100 bytes; the median of a round, what the proxy adds to it, and the proxy's processor time for one (a part of it is
spent after the answer went on). `bulk`: fetches of 4 MiB, in MB/s, and how many MB a
second of the proxy's own processor time passes: broker, proxy and client share the cores.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from journal import processor_ns
from peers import launch_kmini
from raw_client import Client, framed

from kmini.protocol.messages import ApiVersionsRequest, FetchRequest, ProduceRequest
from support.batches import Item, batch
from support.client_adapters import create_topic

FETCH_BYTES = 4 << 20
RECORD_BYTES = 100_000


class Address(NamedTuple):
    """Where a server is."""

    host: str
    port: int


def produce(size: int, count: int) -> bytes:
    data = [ProduceRequest.Partition(index=0, records=batch([Item(value=b"x" * size) for _ in range(count)]))]
    topics = [ProduceRequest.Topic(name="bench", partition_data=data)]
    return framed(ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics), 9)


def fetch(offset: int) -> bytes:
    asked = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
    topics = [FetchRequest.Topic(topic="bench", partitions=[asked])]
    return framed(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), 11)


@contextmanager
def proxy(port: int) -> Iterator[tuple[int, Address]]:
    """A proxy in front of a port: the id of its process, and its address."""
    command = [sys.executable, "-m", "kmini", "trace", f"127.0.0.1:{port}", "--listen", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"clients connect to 127\.0\.0\.1:(\d+)", process.stderr.readline())
        assert found is not None
        try:
            yield process.pid, Address("127.0.0.1", int(found[1]))
        finally:
            process.terminate()


def median_us(client: Client, frame: bytes, count: int) -> float:
    taken = []
    for _ in range(count):
        began = time.perf_counter()
        client.ask(frame)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e6


def bulk_mb_s(client: Client, mib: int) -> tuple[float, int]:
    """MB a second of fetches, and their bytes."""
    frame, got = fetch(0), 0
    began = time.perf_counter()
    while got < mib << 20:
        client.send(frame)
        got += client.discard()
    return got / (time.perf_counter() - began) / 1e6, got


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=500, help="of a round")
    parser.add_argument("--mib", type=int, default=512, help="of a bulk fetch")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kmini-bench-") as directory:
        server = launch_kmini(Path(directory))
        try:
            create_topic(server.bootstrap_servers, "bench")
            with proxy(server.port) as (pid, address):
                print(json.dumps(measure(server, pid, address, options)))
        finally:
            server.stop()


def measure(server: Address, pid: int, address: Address, options: argparse.Namespace) -> dict[str, float]:
    direct, through = Client(server), Client(address)
    figures: dict[str, float] = {}
    for name, frame in (("api_versions", framed(ApiVersionsRequest(), 0)), ("produce", produce(100, 1))):
        for client in (direct, through):
            median_us(client, frame, 200)
        before, _ = processor_ns(pid)
        found = [
            (median_us(direct, frame, options.requests), median_us(through, frame, options.requests))
            for _ in range(options.rounds)
        ]
        after, _ = processor_ns(pid)
        figures[f"{name}_proxy_us"] = round((after - before) / options.rounds / options.requests / 1e3, 1)
        figures[f"{name}_direct_us"] = round(statistics.median(one for one, _ in found), 1)
        figures[f"{name}_added_us"] = round(statistics.median(other - one for one, other in found), 1)
    for _ in range(FETCH_BYTES // RECORD_BYTES + 1):
        direct.ask(produce(RECORD_BYTES, 1))
    bulk_mb_s(through, 64)
    figures["bulk_direct_mb_s"] = round(bulk_mb_s(direct, options.mib)[0])
    before, _ = processor_ns(pid)
    figures["bulk_through_mb_s"], got = bulk_mb_s(through, options.mib)
    after, _ = processor_ns(pid)
    figures["bulk_through_mb_s"] = round(figures["bulk_through_mb_s"])
    figures["bulk_mb_per_proxy_s"] = round(got / (after - before) * 1e3)
    return figures


if __name__ == "__main__":
    main()
