"""roundtrip.py HOST:PORT: measure a broker from one client, with confluent-kafka; prints one line of JSON.

ack    a single 100-byte record, from produce to its acknowledgement (acks=1, no lingering)
e2e    a single 100-byte record, from produce until a waiting consumer has it
bulk   many records of 100 bytes and of 1 KB, produced in large batches and consumed again
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

QUIET = {"broker.address.family": "v4", "log_level": 0, "topic.metadata.refresh.interval.ms": -1}


def quantile(seconds: list[float], share: float) -> int:
    """A quantile in whole microseconds."""
    return round(sorted(seconds)[int(len(seconds) * share)] * 1e6)


def timed(count: int, action: Callable[[], object]) -> list[float]:
    durations = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        durations.append(time.perf_counter() - start)
    return durations


def assigned_consumer(servers: str, topic: str, offset: int, **settings: Any) -> Consumer:
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": servers,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 2,  # by default librdkafka pauses for a second when its queue is full
            **settings,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


def must_arrive(error: Any, message: Any) -> None:
    if error is not None:
        raise RuntimeError(f"not acknowledged: {error}")


def latencies(servers: str, topic: str, count: int, **settings: str) -> dict[str, int]:
    """`settings` are further ones of the clients, such as those of TLS, here and in `bulk`."""
    producer = Producer({**QUIET, **settings, "bootstrap.servers": servers, "linger.ms": 0, "acks": 1})

    def acknowledged() -> None:
        producer.produce(topic, b"x" * 100, partition=0, on_delivery=must_arrive)
        producer.flush(10)

    timed(100, acknowledged)
    acks = timed(count, acknowledged)
    consumer = assigned_consumer(servers, topic, 100 + count, **settings)

    def end_to_end() -> None:
        producer.produce(topic, b"y" * 100, partition=0)
        producer.poll(0)
        if consumer.poll(10) is None:
            raise TimeoutError("a record did not arrive")

    timed(100, end_to_end)
    ends = timed(count, end_to_end)
    consumer.close()
    return {
        "ack_p50_us": quantile(acks, 0.5),
        "ack_p99_us": quantile(acks, 0.99),
        "e2e_p50_us": quantile(ends, 0.5),
        "e2e_p99_us": quantile(ends, 0.99),
    }


def bulk(servers: str, topic: str, size: int, count: int, **settings: str) -> dict[str, int]:
    """Thousand records a second, produced and consumed."""
    large_batches = {"linger.ms": 20, "batch.size": 262_144, "batch.num.messages": 100_000}
    queue = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 2_000_000}
    errors: list[Any] = []
    producer = Producer(
        {
            **QUIET,
            **settings,
            **large_batches,
            **queue,
            "bootstrap.servers": servers,
            "acks": 1,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, message: errors.append(error),
        }
    )
    value = b"z" * size
    start = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=0)
                break
            except BufferError:
                producer.poll(0.02)
    if producer.flush(120) or errors:
        raise RuntimeError(f"not everything was acknowledged: {errors[:1]}")
    produced = time.perf_counter() - start

    fetching = {"fetch.message.max.bytes": 4_194_304, "queued.min.messages": 1_000_000}
    consumer = assigned_consumer(servers, topic, OFFSET_BEGINNING, **fetching, **settings)
    if consumer.poll(30) is None:  # librdkafka takes half a second to find its way to any broker
        raise TimeoutError("no record arrived")
    start = time.perf_counter()
    seen = 1
    while seen < count:
        if time.perf_counter() - start > 60:
            raise TimeoutError(f"{seen} of {count} records arrived")
        seen += len(consumer.consume(10_000, 0.05))
    consumed = time.perf_counter() - start
    consumer.close()
    return {
        f"produce_{size}_krec_s": round(count / produced / 1000),
        f"consume_{size}_krec_s": round((count - 1) / consumed / 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", metavar="HOST:PORT")
    parser.add_argument("--single", type=int, default=3_000, help="records sent one by one")
    parser.add_argument("--bulk", type=int, default=500_000, help="records of 100 bytes; a fifth as many of 1 KB")
    options = parser.parse_args()
    run = time.time_ns()
    measured = latencies(options.servers, f"single-{run}", options.single)
    measured |= bulk(options.servers, f"small-{run}", 100, options.bulk)
    measured |= bulk(options.servers, f"large-{run}", 1000, options.bulk // 5)
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
