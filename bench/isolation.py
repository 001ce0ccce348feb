"""What it costs to keep tests apart: a reset, a snapshot and a restore, and a clock that moves by a month.

    python bench/isolation.py [reset] [clock] …

Each line is the median of its rounds in milliseconds, with the fastest and the slowest.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kmini import Broker, Cluster

TEN_TOPICS = [f"topic-{number}" for number in range(10)]


def measure(name: str, rounds: int, prepare: Callable[[], object], work: Callable[[], object]) -> None:
    """Print what `work` takes, each time after `prepare`."""
    taken_ms = []
    for _ in range(rounds):
        prepare()
        began_s = time.perf_counter()
        work()
        taken_ms.append((time.perf_counter() - began_s) * 1000)
    print(f"{name:64} {statistics.median(taken_ms):9.2f} ms  ({min(taken_ms):.2f} to {max(taken_ms):.2f})", flush=True)


@contextmanager
def hosts() -> Iterator[tuple[Broker, Cluster]]:
    with Broker(topics=TEN_TOPICS) as broker, Cluster(brokers=3, topics=TEN_TOPICS) as cluster:
        yield broker, cluster


def reset() -> None:
    """Ten topics of the start, each with a record."""
    with hosts() as (broker, cluster):
        for name, host in (("a broker", broker), ("a cluster of three brokers", cluster)):

            def fill(host: Broker | Cluster = host) -> None:
                for topic in TEN_TOPICS:
                    host.produce(topic, b"value")

            measure(f"reset {name} with ten topics, a record in each", 50, fill, host.reset)


def clock() -> None:
    """100 partitions with a record each, of which some expire."""
    topics = {f"topic-{number}": 10 for number in range(10)}
    for name, host in (("a broker", Broker(topics=topics)), ("a cluster of three brokers", Cluster(topics=topics))):
        with host:

            def fill(host: Broker | Cluster = host) -> None:
                host.reset()
                for topic in topics:
                    for partition in range(10):
                        host.produce(topic, b"value", partition=partition)

            measure(f"advance the clock of {name} by 30d, 100 partitions", 5, fill, lambda: host.clock.advance("30d"))  # noqa: B023


def snapshot() -> None:
    """1 GiB of records of 64 KiB in ten topics, in segments of 64 MiB."""
    config = {"log.segment.bytes": 64 << 20}
    with Broker(topics=TEN_TOPICS, config=config) as broker:
        value = b"v" * (64 << 10)
        for number in range((1 << 30) // len(value)):
            broker.produce(TEN_TOPICS[number % 10], value)
        measure("snapshot of 1 GiB in ten topics", 5, lambda: broker.produce(TEN_TOPICS[0], b"v"), broker.snapshot)
        measure("restore 1 GiB in ten topics", 10, lambda: broker.produce(TEN_TOPICS[0], b"v"), restore_of(broker))


def restore_of(broker: Broker) -> Callable[[], object]:
    taken = broker.snapshot("seed")
    return lambda: broker.restore(taken)


CASES = {"reset": reset, "snapshot": snapshot, "clock": clock}


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        CASES[case]()
