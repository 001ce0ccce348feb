"""Measure a fetch over many idle partitions, with a session and without; prints one line of JSON.

Each figure is the median time of a round trip that returns no records and does not wait.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

from raw_client import Client, framed

from kmini import Broker
from kmini.client import parse_addresses
from kmini.protocol.messages.fetch import FetchRequest, FetchResponse

VERSION = 12
TOPIC = "idle"


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
        client = Client(parse_addresses(broker.bootstrap_servers)[0])
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
