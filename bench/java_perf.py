"""java_perf.py HOST:PORT: Kafka's Java clients at full speed; prints one line of JSON.

ProducerPerformance is Kafka's own. Its ConsumerPerformance needs a consumer group; AssignedConsumerPerformance.java
does the same work on one assigned partition, so that brokers without groups can be compared too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from pathlib import Path

from peers import apache_kafka

CONSUMER = Path(__file__).resolve().with_name("AssignedConsumerPerformance.java")


def java(*arguments: object) -> str:
    command = [*apache_kafka.java_command("-Xms512m", "-Xmx512m"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


def produce(servers: str, topic: str, size: int, count: int) -> float:
    """Records a second as ProducerPerformance reports them in its last line."""
    output = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", count, "--record-size", size, "--throughput", -1),
        *("--bootstrap-server", servers, "--command-property", "acks=1", "batch.size=65536", "linger.ms=5"),
    )
    sent, rate = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", output)[-1]
    if int(sent) != count:
        raise RuntimeError(f"{sent} of {count} records were acknowledged")
    return float(rate)


def consume(servers: str, topic: str, count: int) -> float:
    return float(java(CONSUMER, servers, topic, count))


def measure(servers: str, count: int) -> dict[str, float]:
    measured: dict[str, float] = {}
    for size, records in ((100, count), (1000, count // 5)):
        topic = f"java-{size}-{time.time_ns()}"
        measured[f"java_produce_{size}_krec_s"] = round(produce(servers, topic, size, records) / 1000)
        measured[f"java_consume_{size}_krec_s"] = round(consume(servers, topic, records) / 1000)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", metavar="HOST:PORT")
    parser.add_argument("--count", type=int, default=1_000_000, help="records of 100 bytes; a fifth as many of 1 KB")
    options = parser.parse_args()
    print(json.dumps(measure(options.servers, options.count)))


if __name__ == "__main__":
    main()
