"""Measure a stage of a pipeline: on kmini beside Apache Kafka, and with purges beside without.

All in one Spark session, in turn, several rounds, of which the first is not counted (the JVM
compiles in it); a cell is the median of the others.

- `drain`: `--records` records of `--size` bytes pass one stage that reads a topic and writes another, in one
  availableNow run over what is there: rows a second from the query's start to its end. Then the same out of a topic
  into nothing (the `noop` sink), which is Spark's fetching alone.
- `batch`: micro-batches while records keep coming (kmini), with purges for five seconds, without for
  five, and so on, so that both see the same machine: the median duration of a batch with rows, by Spark's own count;
  and the processor time of the thread that purges, for each batch.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import peers

sys.path.remove(str(Path(__file__).resolve().parent))  # its profile.py would hide that of the standard library

from kmini.pipeline import Kafka, Pipeline, Stage, Topic
from kmini.pipeline.admin import Admin
from kmini.pipeline.session import spark_session

DRIVER = {
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}
PARTITIONS = 2


def same(frame: Any) -> Any:
    return frame.select("key", "value")


def fill(servers: str, topic: str, records: int, size: int) -> None:
    """Records with librdkafka, in batches as a busy producer makes them."""
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "batch.size": 1 << 18, "queue.buffering.max.messages": 500_000}
    )
    value = b"v" * size
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, key=b"%d" % number, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


def drain(spark: Any, servers: str, number: int, options: argparse.Namespace) -> dict[str, float]:
    """Rows a second through a stage, and into nothing."""
    kafka, source, sink = Kafka(servers), f"in-{number}", f"out-{number}"
    for name in (source, sink):
        Admin(kafka).create(name, PARTITIONS)
    fill(servers, source, options.records, options.size)
    measured = {}
    with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
        stage = Stage("s", same, reads=source, writes=sink)
        pipeline = Pipeline("bench", [stage], kafka=kafka, directory=directory)
        with pipeline.start(available_now=True, spark=spark) as running:
            query = running._queries["s"]
            began = time.perf_counter()
            query.awaitTermination()
            measured["stage_krows_s"] = options.records / (time.perf_counter() - began) / 1000
        frame = spark.readStream.format("kafka").options(**kafka.spark_options())
        frame = frame.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
        writer = frame.writeStream.format("noop").trigger(availableNow=True)
        began = time.perf_counter()
        writer.option("checkpointLocation", f"{directory}/fetch").start().awaitTermination()
        measured["fetch_krows_s"] = options.records / (time.perf_counter() - began) / 1000
    return measured


@contextmanager
def stream_of(servers: str, topic: str, per_second: int, size: int) -> Iterator[None]:
    """Produce records without pause."""
    from confluent_kafka import Producer

    stop = threading.Event()

    def produce() -> None:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
        value = b"v" * size
        while not stop.wait(0.05):
            for number in range(per_second // 20):
                producer.produce(topic, value, partition=number % PARTITIONS)
            producer.poll(0)
        producer.flush(30)

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class Batches:
    """Durations of the micro-batches of one query, while purges come and go every few seconds."""

    PHASE_S = 5.0

    def __init__(self, spark: Any, servers: str, options: argparse.Namespace) -> None:
        self._spark, self._options = spark, options
        self._kafka = Kafka(servers)
        self._purge_s = 0.0
        """Processor time of the thread that purges."""

    def measure(self) -> dict[str, float]:
        for name in ("batch", "batched"):
            Admin(self._kafka).create(name, PARTITIONS)
        found: dict[int, tuple[float, float]] = {}
        phases: list[tuple[float, bool]] = []
        """When each began, and whether it has purges."""
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
            pipeline = Pipeline(
                "bench",
                [Stage("s", same, reads="batch", writes="batched")],
                [Topic("batch", purge=True)],
                kafka=self._kafka,
                directory=directory,
                trigger_interval_ms=self._options.trigger_interval_ms,
            )
            with (
                pipeline.start(spark=self._spark) as running,
                stream_of(self._kafka.servers, "batch", self._options.rate, self._options.size),
            ):
                purger, query = running._purger, running._queries["s"]
                assert purger is not None
                topics = purger.topics
                self._count(purger)
                time.sleep(15)  # the JVM compiles
                ends = time.monotonic() + self._options.seconds
                while time.monotonic() < ends:
                    purger.topics = topics if len(phases) % 2 else []
                    phases.append((time.time(), bool(purger.topics)))
                    time.sleep(self.PHASE_S)
                    for told in query.recentProgress:
                        if told["numInputRows"]:
                            began = datetime.fromisoformat(told["timestamp"].replace("Z", "+00:00")).timestamp()
                            found[told["batchId"]] = (began, told["durationMs"]["triggerExecution"])
                purger.topics = topics
        durations: dict[bool, list[float]] = {True: [], False: []}
        for (began, is_purged), (following, _) in itertools.pairwise(phases):
            durations[is_purged] += [ms for at, ms in found.values() if began <= at and at + ms / 1000 <= following]
        without, purged = (statistics.median(durations[is_purged]) for is_purged in (False, True))
        return {
            "batch_ms": round(without, 1),
            "with_purge_ms": round(purged, 1),
            "ratio": round(purged / without, 3),
            "batches": len(durations[True]) + len(durations[False]),
            "purge_processor_ms_a_batch": round(1000 * self._purge_s / max(len(durations[True]), 1), 2),
        }

    def _count(self, purger: Any) -> None:
        purge = purger.purge

        def counted(**more: Any) -> int:
            began = time.thread_time()
            try:
                return int(purge(**more))
            finally:
                self._purge_s += time.thread_time() - began

        purger.purge = counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", metavar="drain|batch", help="only this")
    parser.add_argument("--rounds", type=int, default=3, help="rounds that count")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=200, help="bytes of a value")
    parser.add_argument("--rate", type=int, default=20_000, help="records a second for `batch`")
    parser.add_argument("--trigger-interval-ms", type=int, default=1000, help="of `batch`; 0: batch after batch")
    parser.add_argument("--seconds", type=int, default=120, help="of `batch`")
    options = parser.parse_args()
    wanted = options.what or ["drain", "batch"]
    spark = spark_session("bench", master="local[2]", settings=DRIVER)
    if "drain" in wanted:
        results: dict[str, list[dict[str, float]]] = {}
        launches = peers.available(["kmini", "kafka"])
        with peers.running(launches) as servers:
            for number in range(options.rounds + 1):
                for name, server in servers.items():
                    measured = drain(spark, server.bootstrap_servers, number, options)
                    print(f"round {number} {name}: {json.dumps(measured)}", file=sys.stderr, flush=True)
                    if number:
                        results.setdefault(name, []).append(measured)
        for name, rounds in results.items():
            medians = {key: round(statistics.median(one[key] for one in rounds), 1) for key in rounds[0]}
            print(name, json.dumps(medians))
    if "batch" in wanted:
        with tempfile.TemporaryDirectory(prefix="bench-pipeline-") as directory:
            server = peers.launch_kmini(Path(directory))
            try:
                print("batch", json.dumps(Batches(spark, server.bootstrap_servers, options).measure()))
            finally:
                server.kill()
    spark.stop()


if __name__ == "__main__":
    main()
