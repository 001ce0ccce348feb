"""Measure many partitions: creating them, starting with them, and keeping them idle; prints one line of JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from peers import ServerProcess, kmini_command


def produce_to_each(servers: str, topic: str, partitions: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for partition in range(partitions):
        producer.produce(topic, b"one record", partition=partition)
    if producer.flush(60):
        sys.exit("not everything was acknowledged")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--idle-seconds", type=float, default=10)
    options = parser.parse_args()
    from support.client_adapters import create_topic

    with tempfile.TemporaryDirectory() as directory:
        server = ServerProcess(kmini_command(Path(directory) / "data", {}), Path(directory) / "log")
        try:
            empty = server.resident_bytes()
            start = time.perf_counter()
            create_topic(server.bootstrap_servers, "many", partitions=options.partitions)
            created = time.perf_counter() - start
            produce_to_each(server.bootstrap_servers, "many", options.partitions)
            filled = server.resident_bytes()
            descriptors = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
            server.stop()
            start = time.perf_counter()
            server.start()
            clean_start = time.perf_counter() - start
            restarted = server.resident_bytes()
            used = server.processor_seconds()
            time.sleep(options.idle_seconds)
            idle = (server.processor_seconds() - used) / options.idle_seconds
            server.kill()
            start = time.perf_counter()
            server.start()
            start_after_kill = time.perf_counter() - start
        finally:
            server.kill()
    measured = {
        "create_s": created,
        "kib_a_partition": (filled - empty) / 1024 / options.partitions,
        "kib_a_partition_after_restart": (restarted - empty) / 1024 / options.partitions,
        "descriptors": descriptors,
        "clean_start_s": clean_start,
        "start_after_kill_s": start_after_kill,
        "idle_percent_of_a_core": idle * 100,
    }
    print(json.dumps({name: round(value, 3) for name, value in measured.items()}))


if __name__ == "__main__":
    main()
