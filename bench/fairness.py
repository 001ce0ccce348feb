"""Measure how long a group member's heartbeat takes beside bulk on other connections; prints one line of JSON a run.

none         no bulk
produce      requests of 1 MB, batches of 16 KB for 64 partitions
large        requests of 50 MB, batches of 1 MB for 50 partitions
consume      answers of 50 MB, 1 MiB from each of 50 partitions
both         `produce` and `consume`, half of the rate each
compressed   requests of about 1 MB, one lz4 batch; the rate counts bytes before compression

The bulk is paced at `--rate` MB a second over `--connections`, in processes of their own. A heartbeat leaves every
five milliseconds on a connection of its own, and is measured from the moment at which it was due: a broker that is late
with one is late with those behind it, too. `broker_cpu` is the broker's processor time as a share of a core.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from functools import partial
from typing import Any

from noise import Noise
from peers import ServerProcess, available, running
from raw_client import Client, framed

from kmini.client import Address
from kmini.protocol.errors import NONE
from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kmini.protocol.messages.produce import ProduceRequest, ProduceResponse
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.compression import Codec
from kmini.protocol.records.record import Record
from support.group_requests import await_coordinator, join, sync
from support.kafka_requests import create_topics
from support.until import until
from support.wire import Wire

TOPIC = "bulk"
PARTITIONS = 64
READ_PARTITIONS = 50
PRODUCE_VERSION, FETCH_VERSION, HEARTBEAT_VERSION = 7, 11, 3
RECORD_BYTES = 1_000
BEAT_S = 0.005
TIMEOUT_S = 60.0


def batch(size: int, codec: int = Codec.NONE) -> bytearray:
    """A batch with `size` bytes of values that compress to about a third."""
    now_ms = int(time.time() * 1000)
    values = [
        os.urandom(RECORD_BYTES // 3).hex().encode().ljust(RECORD_BYTES, b".") for _ in range(size // RECORD_BYTES)
    ]
    return build_batch([Record(0, now_ms, None, value) for value in values], codec=codec)


def produce(partitions: range, batch_bytes: int, codec: int = Codec.NONE) -> bytes:
    records = batch(batch_bytes, codec)
    data = [ProduceRequest.Partition(index=number, records=records) for number in partitions]
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[ProduceRequest.Topic(name=TOPIC, partition_data=data)]
    )
    return framed(request, PRODUCE_VERSION)


def fetch() -> bytes:
    asked = [
        FetchRequest.Partition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20)
        for number in range(READ_PARTITIONS)
    ]
    request = FetchRequest(
        max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[FetchRequest.Topic(topic=TOPIC, partitions=asked)]
    )
    return framed(request, FETCH_VERSION)


def repeat(
    address: tuple[str, int], frame: bytes, counted: int | None, rate: float, seconds: float, moved: Any
) -> None:
    """Send one request again and again, in a process of its own, and add what it counts for to `moved`. `counted` is
    the bytes that one counts for; None: those of its answer."""
    connection = Client(Address(*address), TIMEOUT_S)
    began = time.perf_counter()
    total = 0
    while (due := began + total / rate) < began + seconds:
        time.sleep(max(due - time.perf_counter(), 0))
        if time.perf_counter() >= began + seconds:
            break
        connection.send(frame)
        size = connection.discard()
        total += size if counted is None else counted
    with moved.get_lock():
        moved.value += total


def frames_of(kind: str) -> list[tuple[bytes, int | None]]:
    """The requests of a kind of bulk, with the bytes that each counts for; None: those of its answer."""
    if kind == "none":
        return []
    if kind == "consume":
        return [(fetch(), None)]
    if kind == "compressed":
        frame = produce(range(1), 3_000_000, Codec.LZ4)
        return [(frame, 3_000_000)]
    frame = produce(range(50), 1_000_000) if kind == "large" else produce(range(PARTITIONS), 16_000)
    return [(frame, len(frame))] + ([(fetch(), None)] if kind == "both" else [])


def fill(server: ServerProcess) -> None:
    """The topic, with at least 1 MiB in each partition."""
    with Wire(server.host, server.port) as wire:
        wire.ask(create_topics({"name": TOPIC, "num_partitions": PARTITIONS}), 5)
    connection = Client(server, TIMEOUT_S)

    def is_accepted(frame: bytes) -> bool:
        answer = ProduceResponse.decode(memoryview(connection.ask(frame)[4:]), PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0].error_code == NONE

    for number in range(PARTITIONS):
        frame = produce(range(number, number + 1), 600_000)
        for _ in range(2):
            until(partial(is_accepted, frame), timeout_s=30.0)  # Apache Kafka takes a while to lead a new partition


def member_of_new_group(wire: Wire) -> tuple[str, str, int]:
    """Group, member id and generation of the only member of a stable group."""
    group = f"beating-{time.time_ns()}"
    await_coordinator(wire, group)
    member_id: str = wire.ask(join(group), 5).member_id
    generation: int = wire.ask(join(group, member_id), 5).generation_id
    wire.ask(sync(group, member_id, generation, {member_id: b"all"}), 3)
    return group, member_id, generation


def beats_ms(server: ServerProcess, seconds: float) -> list[float]:
    """How long each heartbeat took from the moment at which it was due."""
    with Wire(server.host, server.port) as wire:
        group, member_id, generation = member_of_new_group(wire)
    beat = framed(HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id), HEARTBEAT_VERSION)
    connection = Client(server, TIMEOUT_S)
    durations = []
    began = due = time.perf_counter()
    while due < began + seconds:
        time.sleep(max(due - time.perf_counter(), 0))
        answer = HeartbeatResponse.decode(memoryview(connection.ask(beat)[4:]), HEARTBEAT_VERSION)
        durations.append((time.perf_counter() - due) * 1000)
        if answer.error_code:
            raise RuntimeError(f"a heartbeat got error {answer.error_code}")
        due += BEAT_S
    return durations


def measure(server: ServerProcess, kind: str, options: argparse.Namespace) -> dict[str, Any]:
    frames = frames_of(kind)
    moved = multiprocessing.Value("d", 0.0)
    share = options.rate * 1e6 / max(len(frames), 1) / options.connections
    address = (server.host, server.port)
    processes = [
        multiprocessing.Process(target=repeat, args=(address, frame, counted, share, options.seconds, moved))
        for frame, counted in frames
        for _ in range(options.connections)
    ]
    cpu_s = server.processor_seconds()
    for process in processes:
        process.start()
    durations = sorted(beats_ms(server, options.seconds))
    cpu_s = server.processor_seconds() - cpu_s
    for process in processes:
        process.join()
        if process.exitcode:
            raise RuntimeError("the bulk failed")
    return {
        "bulk": kind,
        "mb_s": round(moved.value / options.seconds / 1e6),
        "beats": len(durations),
        "p50_ms": round(durations[len(durations) // 2], 2),
        "p99_ms": round(durations[len(durations) * 99 // 100], 2),
        "max_ms": round(durations[-1], 2),
        "broker_cpu": round(cpu_s / options.seconds, 2),
    }


KINDS = ["none", "produce", "large", "consume", "both", "compressed"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="*", help="kmini, kafka, kfake; kmini by default")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--rate", type=float, default=200.0, help="MB of bulk a second")
    parser.add_argument("--connections", type=int, default=1, help="connections over which the bulk is spread")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    noise = Noise()
    with running(available(options.peers or ["kmini"])) as servers:
        for server in servers.values():
            fill(server)
        for number in range(options.rounds):
            for kind in options.kinds:
                for name, server in servers.items():
                    noise.sample()
                    print(json.dumps({"round": number, "peer": name, **measure(server, kind, options)}))
                    sys.stdout.flush()
    print(noise.sentence(), file=sys.stderr)


if __name__ == "__main__":
    main()
