"""The curves of reading in Spark: one function for each, which measures one point. `bench/curves.py` runs them.

A point has a broker of its own, with a topic of records of 200 bytes. A query that groups them by a hash of their key
reads it by `kmini-log`, from the segment files, and by Spark's own Kafka source, from the broker, in turn. Each point
has a Spark of its own, in a process of its own: `python bench/spark_points.py DIRECTORY SERVERS TASKS ROUNDS` prints
what it measured as JSON. The first round is not counted: Java compiles in it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curve_points import Effort, Point

TOPIC = "read"
RECORD_BYTES = 180
RECORDS_A_BATCH = 1_200
"""About 256 KiB."""
GROUPS = 1_000
DRIVER_MEMORY = "2g"
ROUNDS = 2
"""Counted ones, of which the median is told."""


def spark_tasks(count: int, effort: Effort) -> Point:
    """Tasks at a time, over 8 partitions of 256 MiB."""
    return _point(gib=2, partitions=8, tasks=count, effort=effort)


def spark_partitions(count: int, effort: Effort) -> Point:
    """Partitions of a topic of 2 GiB, with two tasks at a time."""
    return _point(gib=2, partitions=count, tasks=2, effort=effort)


def spark_sizes(count: int, effort: Effort) -> Point:
    """GiB in 8 partitions, with two tasks at a time."""
    return _point(gib=count, partitions=8, tasks=2, effort=effort)


def _point(*, gib: int, partitions: int, tasks: int, effort: Effort) -> Point:
    import peers  # noqa: F401  # puts tests/ on the path
    from raw_client import Client, framed
    from scale import create_topic, started

    from kmini.protocol.messages.produce import ProduceRequest
    from kmini.protocol.records.batch import build_batch
    from kmini.protocol.records.record import Record

    at_ms = time.time_ns() // 1_000_000
    value = os.urandom(RECORD_BYTES)
    batch = build_batch([Record(0, at_ms, b"key-%06d" % number, value) for number in range(RECORDS_A_BATCH)])
    with ExitStack() as stack:
        server = started(stack)
        client = Client(server)
        create_topic(client, TOPIC, partitions)
        frames = []
        for number in range(partitions):
            data = ProduceRequest.Partition(index=number, records=batch)
            topics = [ProduceRequest.Topic(name=TOPIC, partition_data=[data])]
            frames.append(framed(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9))
        for number in range(gib * 2**30 // len(batch)):
            client.ask(frames[number % partitions])
        rounds = ROUNDS if effort.rounds > 1 else 1
        arguments = [str(_directory(server)), f"{server.host}:{server.port}", str(tasks), str(rounds)]
        command = [sys.executable, __file__, *arguments]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=3600).stdout
    found: Point = json.loads(printed.splitlines()[-1])
    return found


def _directory(server: Any) -> Path:
    """The folder of the partitions of the broker."""
    (found,) = Path(server.command[server.command.index("--data-dir") + 1]).glob(f"**/{TOPIC}-0")
    return found.parent


def main() -> None:
    """Measure both sources with one Spark."""
    from log_source import cpu_seconds, ours
    from pyspark.sql import functions as F

    from kmini.pipeline.log_source import KminiLogSource
    from kmini.pipeline.session import spark_session

    directory, servers, tasks, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    spark = spark_session(
        master=f"local[{tasks}]",
        settings={
            "spark.driver.memory": DRIVER_MEMORY,
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": str(tasks),
        },
    )
    spark.dataSource.register(KminiLogSource)
    sources = {
        "log": spark.read.format("kmini-log").options(subscribe=TOPIC).load(directory),
        "kafka": spark.read.format("kafka").options(**{"kafka.bootstrap.servers": servers}, subscribe=TOPIC).load(),
    }
    group = F.pmod(F.xxhash64("key"), F.lit(GROUPS))
    rates: dict[str, list[float]] = {name: [] for name in sources}
    point: dict[str, float] = {}
    for number in range(rounds + 1):
        for name, source in sources.items():
            query = source.groupBy(group.alias("group")).agg(F.count("*").alias("rows"), F.sum(F.length("value")))
            cpu, began = cpu_seconds(), time.perf_counter()
            rows = sum(row["rows"] for row in query.collect())
            taken = time.perf_counter() - began
            if number:
                rates[name].append(rows / taken / 1e6)
                point[f"{name}_cpu_s"] = (cpu_seconds() - cpu) / rows * 1e6
    point |= {f"{name}_rows": statistics.median(found) for name, found in rates.items()}
    point["shuffled_kib"] = _shuffled_bytes(spark) / 1024
    point["mib"] = sum(_highest_kib(process) for process in ours()) / 1024
    print(json.dumps(point))
    spark.stop()


def _shuffled_bytes(spark: Any) -> int:
    """What the stages of the last query wrote for others to read."""
    context = spark.sparkContext
    none, no_numbers = context._jvm.java.util.ArrayList(), context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(none, False, False, no_numbers, none)
    written = [stages.apply(number).shuffleWriteBytes() for number in range(stages.size())]
    return next(count for count in written if count)


def _highest_kib(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return int(status.partition("VmHWM:")[2].split()[0]) if "VmHWM:" in status else 0


if __name__ == "__main__":
    main()
