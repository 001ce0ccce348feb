"""Measure a broker with many partitions, or with many connections; prints one line of JSON.

partitions   creation, start after a clean stop and after `kill -9`, processor time and memory at rest, and ack p50
             beside a broker with one partition; one in `--every` partitions holds a record
connections  memory of each, after its first request and with `--at-rest` a minute later, processor time at rest, and
             ack p50 of 100 that produce all the time, beside a broker that has no others

`_s` is wall time; `_cpu_s` is the processor time of the broker meanwhile, which other work on the machine disturbs
less. Broker and the one beside it take turns. A start ends with the first answer. Each figure of a start, and each p50,
is the median of `--rounds`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from cores import on_one_core
from peers import ServerProcess, kmini_command
from raw_client import Client, framed

from kmini.protocol.messages.create_topics import CreateTopicsRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from support.server_process import API_VERSIONS_V0

TOPIC = "many"
PARTITIONS_A_TOPIC = 1_000
WORKING = 100
"""Connections that produce all the time."""
MAX_IDLE_MS = 120_000
"""`connections.max.idle.ms` of the brokers: after half of it at most, a connection has given its buffer back."""
START_TIMEOUT_S = 120.0
SETTLING_S = 2.0
"""Seconds between the last request and a measurement at rest."""


def raise_descriptor_limit() -> None:
    """Let this process have as many connections as the system allows."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def started(stack: ExitStack, *, python: str = sys.executable) -> ServerProcess:
    """A broker with a data directory of its own; both go with `stack`."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-scale-")))
    command = kmini_command(directory / "data", {"connections.max.idle.ms": str(MAX_IDLE_MS)})
    command[0] = python
    server = ServerProcess(command, directory / "log", start_timeout=START_TIMEOUT_S)
    stack.callback(server.kill)
    return server


def produce_frame(topic: str, partition: int) -> bytes:
    batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, b"x" * 100)])
    data = ProduceRequest.Partition(index=partition, records=batch)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[data])]
    request = ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
    return framed(request, 9)


def create_topic(client: Client, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.Topic(name=name, num_partitions=partitions, replication_factor=1)
    client.ask(framed(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5))


def create_topics(client: Client, partitions: int) -> None:
    """Create topics of 1,000 partitions at most."""
    for number in range(-(-partitions // PARTITIONS_A_TOPIC)):
        count = min(PARTITIONS_A_TOPIC, partitions - number * PARTITIONS_A_TOPIC)
        create_topic(client, f"{TOPIC}-{number}", count)


def fill_topics(client: Client, partitions: int, every: int = 1) -> None:
    """Write a record to one in `every` partitions."""
    for number in range(0, partitions, every):
        topic, partition = divmod(number, PARTITIONS_A_TOPIC)
        client.ask(produce_frame(f"{TOPIC}-{topic}", partition))


def ack_p50_us(client: Client, frame: bytes, count: int = 2_000) -> float:
    durations = []
    for _ in range(count):
        start = time.perf_counter()
        client.ask(frame)
        durations.append(time.perf_counter() - start)
    return statistics.median(durations) * 1e6


def ack_p50_on_one_core_us(server: ServerProcess, frame: bytes, count: int = 2_000) -> float:
    """What `ack_p50_us` returns for a new connection, with client and broker on one core."""
    client = Client(server)
    try:
        with on_one_core(server):
            return ack_p50_us(client, frame, count)
    finally:
        client.close()


def working_p50_us(clients: list[Client], frame: bytes, count: int = 20_000) -> float:
    """Each connection sends its next record when the last one is acknowledged."""
    poll = select.epoll()
    by_number = {client.socket.fileno(): client for client in clients}
    sent_at: dict[int, float] = {}
    for number, client in by_number.items():
        poll.register(number, select.EPOLLIN)
        client.socket.sendall(frame)
        sent_at[number] = time.perf_counter()
    durations: list[float] = []
    while sent_at:
        for number, _ in poll.poll(10):
            client = by_number[number]
            client.receive()
            durations.append(time.perf_counter() - sent_at.pop(number))
            if len(durations) + len(sent_at) < count:
                client.socket.sendall(frame)
                sent_at[number] = time.perf_counter()
    poll.close()
    return statistics.median(durations) * 1e6


def running_seconds(server: ServerProcess) -> float:
    """Processor time of the threads that the broker has now, to the nanosecond: /proc/PID/stat has it to 10 ms."""
    threads = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def idle_percent(server: ServerProcess, seconds: float, meanwhile: Callable[[float], object] = time.sleep) -> float:
    """Processor time at rest, in percent of a core. `meanwhile` returns after so many seconds."""
    time.sleep(SETTLING_S)
    used, start = running_seconds(server), time.perf_counter()
    meanwhile(seconds)
    return (running_seconds(server) - used) / (time.perf_counter() - start) * 100


def timed_start(server: ServerProcess) -> tuple[float, float]:
    start = time.perf_counter()
    server.start()
    return time.perf_counter() - start, server.processor_seconds()


def median_starts(server: ServerProcess, end: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Wall time and processor time of a start after `end`, which ends the broker."""
    starts = []
    for _ in range(rounds):
        time.sleep(1)
        end()
        starts.append(timed_start(server))
    walls, processor = zip(*starts, strict=True)
    return statistics.median(walls), statistics.median(processor)


def partitions_of(few: ServerProcess, many: ServerProcess, options: argparse.Namespace) -> dict[str, float]:
    measured: dict[str, float] = {}
    create_topics(Client(few), 1)
    start = time.perf_counter()
    client = Client(many)
    create_topics(client, options.count)
    measured["create_s"] = time.perf_counter() - start
    fill_topics(client, options.count, options.every)
    measured["created_mib"] = many.resident_bytes() / 2**20
    measured["idle_percent"] = idle_percent(many, options.idle_seconds)
    os.sync()  # else the system writes the new files while appends are timed
    acks: dict[ServerProcess, list[float]] = {few: [], many: []}
    frame = produce_frame(f"{TOPIC}-0", 0)
    for _ in range(options.rounds):
        for server, found in acks.items():
            found.append(ack_p50_on_one_core_us(server, frame))
    measured["one_ack_p50_us"], measured["ack_p50_us"] = (statistics.median(found) for found in acks.values())
    measured["ack_ratio"] = measured["ack_p50_us"] / measured["one_ack_p50_us"]
    for name, end in (("clean", lambda: many.stop(START_TIMEOUT_S)), ("killed", many.kill)):
        measured[f"{name}_start_s"], measured[f"{name}_start_cpu_s"] = median_starts(many, end, options.rounds)
        measured[f"{name}_mib"] = many.resident_bytes() / 2**20
        measured[f"{name}_idle_percent"] = idle_percent(many, options.idle_seconds)
    return measured


def connections_of(few: ServerProcess, many: ServerProcess, options: argparse.Namespace) -> dict[str, float]:
    for server in (few, many):
        create_topics(Client(server), 1)
    frame = produce_frame(f"{TOPIC}-0", 0)
    working = {server: [Client(server) for _ in range(WORKING)] for server in (few, many)}
    for clients in working.values():
        working_p50_us(clients, frame)
    before = many.resident_bytes()
    idle = [Client(many) for _ in range(options.count - WORKING)]
    for client in idle:
        client.ask(API_VERSIONS_V0)
    opened = time.monotonic()
    measured = {
        "kib_a_connection": (many.resident_bytes() - before) / 1024 / len(idle),
        "idle_percent": idle_percent(many, options.idle_seconds),
    }
    acks: dict[ServerProcess, list[float]] = {few: [], many: []}
    for _ in range(options.rounds):
        for server, found in acks.items():
            found.append(working_p50_us(working[server], frame))
    measured["alone_ack_p50_us"], measured["ack_p50_us"] = (statistics.median(found) for found in acks.values())
    measured["ack_ratio"] = measured["ack_p50_us"] / measured["alone_ack_p50_us"]
    if options.at_rest:
        time.sleep(max(opened + MAX_IDLE_MS / 1000 * 0.55 - time.monotonic(), 0))
        measured["kib_a_connection_at_rest"] = (many.resident_bytes() - before) / 1024 / len(idle)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("of", choices=("partitions", "connections"))
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle-seconds", type=float, default=20)
    parser.add_argument("--at-rest", action="store_true", help="of connections, a minute later: memory of each")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the kmini to measure")
    options = parser.parse_args()
    raise_descriptor_limit()
    measure = {"partitions": partitions_of, "connections": connections_of}[options.of]
    with ExitStack() as stack:
        few, many = (started(stack, python=options.python) for _ in range(2))
        measured = measure(few, many, options)
    print(json.dumps({name: round(value, 3) for name, value in measured.items()}))


if __name__ == "__main__":
    main()
