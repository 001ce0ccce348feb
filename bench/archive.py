"""Measure archive and replay: records and MB (keys and values) a second, beside their upper bounds.

Prints one line of JSON. `read` is Spark's Kafka source into nothing, and `produce` one idempotent confluent-kafka
producer that is given records made beforehand: the first bounds an archive, the second a task of a replay. All of it
takes turns for some rounds, and the best of each counts; the first round, in which the JVM compiles, does not. `again`
is an archive run without new records. `gaps` is the archive of a topic that has lost every second record: there
Spark asks for the ends of the log at every gap. `exact` are records of timestamp 0, which the driver writes one by one.
`task_peak_mb` is the largest resident memory of a process that replays a partition.

    python bench/archive.py [--records 1000000] [--value-bytes 200] [--partitions 2] [--rounds 2] [--gaps 20000]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(sys.path.pop(0))  # behind the standard library, whose `profile` this folder's profile.py would hide

from confluent_kafka import Producer
from peers import kmini_command

from kmini import Broker
from kmini.client import Client, record
from kmini.pipeline.archives.archive import archive_log_dir, archive_topic
from kmini.pipeline.archives.archive_files import archived_parts, get_description
from kmini.pipeline.archives.cluster_topics import Topics
from kmini.pipeline.archives.partition_replay import Conversion, Plan, run_plan
from kmini.pipeline.archives.replay import replay_topic
from kmini.pipeline.clients import Kafka
from kmini.pipeline.session import spark_session
from support.server_process import ServerProcess

TOPIC = "records"
ZEROS = 2_000


def produce(servers: str, topic: str, partition: int, count: int, value_bytes: int) -> float:
    """Seconds that one producer takes."""
    value = (b"%020d" % partition + bytes(range(32, 127)) * (value_bytes // 95 + 1))[:value_bytes]
    keys = [b"key %d" % number for number in range(1000)]
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            "log_level": 0,
        }
    )
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, keys[number % 1000], partition, timestamp=1_700_000_000_000 + number)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(600) == 0
    return time.perf_counter() - began


def peak_of(plan: Plan) -> float:
    """Peak memory of the process of one task in MB, its interpreter included."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_peak_of, (plan,))


def _peak_of(plan: Plan) -> float:
    outcome = run_plan(plan)
    assert outcome.problem is None, outcome
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


async def send(servers: str, topic: str, count: int, timestamp_ms: int, key: Callable[[int], bytes]) -> None:
    async with Client(servers) as client:
        for first in range(0, count, 5_000):
            numbers = range(first, min(first + 5_000, count))
            records = [record(b"v" * 100, key=key(number), timestamp_ms=timestamp_ms) for number in numbers]
            await client.produce(topic, 0, records)


def folder_mb(folder: Path) -> float:
    return round(sum(file.stat().st_size for file in folder.rglob("*.parquet")) / 1e6, 1)


def measure(arguments: argparse.Namespace, scratch: Path) -> dict[str, Any]:
    server = ServerProcess(kmini_command(scratch / "data", {"log.retention.ms": "-1"}), scratch / "log")
    spark = spark_session(
        "bench", master="local[2]", settings={"spark.log.level": "FATAL", "spark.driver.memory": "2g"}
    )
    servers, kafka = server.bootstrap_servers, Kafka(server.bootstrap_servers)
    topics, partitions, count = Topics(kafka), arguments.partitions, arguments.records
    mb = count * (arguments.value_bytes + 7) / 1e6
    best: dict[str, float] = {}
    try:
        topics.create(TOPIC, partitions, {})
        seconds = [
            produce(servers, TOPIC, number, count // partitions, arguments.value_bytes) for number in range(partitions)
        ]
        best["produce"] = min(seconds) * partitions
        plan = None
        for round_number in range(arguments.rounds + 1):
            archive = str(scratch / f"archive-{round_number}")
            source = spark.read.format("kafka").options(**kafka.spark_options(), subscribe=TOPIC, includeHeaders="true")
            to = f"again-{round_number}"
            found = {
                "read": timed(lambda: source.load().write.format("noop").mode("overwrite").save()),  # noqa: B023
                "archive": timed(lambda: archive_topic(spark, TOPIC, archive, kafka)),  # noqa: B023
                "again": timed(lambda: archive_topic(spark, TOPIC, archive, kafka)),  # noqa: B023
                "log_dir": timed(
                    lambda: archive_log_dir(spark, TOPIC, f"{archive}-files", str(scratch / "data"), kafka)  # noqa: B023
                ),
                "replay": timed(lambda: replay_topic(spark, archive, TOPIC, kafka, to=to)),  # noqa: B023
                "produce": partitions
                * produce(servers, f"plain-{round_number}", 0, count // partitions, arguments.value_bytes),
            }
            if round_number:
                best = {name: min(seconds, best.get(name, seconds)) for name, seconds in found.items()}
            description = get_description(archive, TOPIC)
            parts = archived_parts(archive, description)
            plan = Plan("peak", 0, tuple(parts[0]), Conversion(), kafka.admin_config())
        assert plan is not None
        topics.create("peak", 1, {})
        result: dict[str, Any] = {
            "records": count,
            "value_bytes": arguments.value_bytes,
            "seconds": {name: round(seconds, 2) for name, seconds in best.items()},
            "records_per_s": {name: round(count / seconds) for name, seconds in best.items() if name != "again"},
            "mb_per_s": {name: round(mb / seconds, 1) for name, seconds in best.items() if name != "again"},
            "parquet_mb": folder_mb(scratch / "archive-1"),
            "payload_mb": round(mb, 1),
            "task_peak_mb": round(peak_of(plan)),
        }
        result |= slow_ones(spark, arguments.gaps, scratch)
    finally:
        server.kill()
    return result


def slow_ones(spark: Any, count: int, scratch: Path) -> dict[str, Any]:
    """Records a second where a topic has gaps, from brokers and from files, and where timestamps are 0."""
    gaps, files, zeros = (str(scratch / name) for name in ("gaps", "gaps-files", "zeros"))
    with Broker(data_dir=scratch / "compacted", topics={"zeros": 1}) as broker:
        kafka = Kafka(broker.bootstrap_servers)
        broker.create_topic("gaps", config={"cleanup.policy": "compact"})
        asyncio.run(send(kafka.servers, "gaps", count, 1_700_000_000_000, lambda n: b"same" if n % 2 else b"%d" % n))
        asyncio.run(send(kafka.servers, "zeros", ZEROS, 0, lambda n: b"%d" % n))
        broker.topic("gaps").compact()
        seconds = timed(lambda: archive_topic(spark, "gaps", gaps, kafka))
        from_files = timed(lambda: archive_log_dir(spark, "gaps", files, str(scratch / "compacted")))
        archive_topic(spark, "zeros", zeros, kafka)
        exactly = timed(lambda: replay_topic(spark, zeros, "zeros", kafka, to="zeros-again"))
    rows = count // 2 + 1
    return {
        "gaps": {"records": rows, "per_s": round(rows / seconds), "per_s_from_files": round(rows / from_files)},
        "exact_records_per_s": round(ZEROS / exactly),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--value-bytes", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--gaps", type=int, default=20_000)
    scratch = Path(tempfile.mkdtemp(prefix="kmini-bench-archive-"))
    try:
        print(json.dumps(measure(parser.parse_args(), scratch)))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
