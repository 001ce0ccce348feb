"""The measurements behind docs/performance.md: one function for each curve, which measures one point of it.

Each point has a broker and a data directory of its own, except the sizes of a log, which grow in one. `bench/curves.py`
runs them; `bench/scale.py` has what they share.
"""

from __future__ import annotations

import select
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

from groups import joined
from offsets import COMMIT_VERSION, must_be_fine
from raw_client import Client, framed
from scale import (
    START_TIMEOUT_S,
    TOPIC,
    WORKING,
    ServerProcess,
    ack_p50_on_one_core_us,
    create_topic,
    create_topics,
    fill_topics,
    idle_percent,
    produce_frame,
    started,
    timed_start,
    working_p50_us,
)

from kmini.protocol.messages.fetch import FetchRequest
from kmini.protocol.messages.heartbeat import HeartbeatRequest
from kmini.protocol.messages.offset_commit import OffsetCommitRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from support.group_requests import await_coordinator
from support.server_process import API_VERSIONS_V0
from support.wire import Wire

FIRST_TOPIC = f"{TOPIC}-0"
HEARTBEAT_S = 3.0
"""Seconds between two heartbeats of a member: Kafka's default."""
FETCH_WAIT_MS = 500
"""`fetch.max.wait.ms` of a consumer: Kafka's default."""
BATCH_BYTES = 256 * 1024
"""Bytes of the batches that fill a log."""
BATCHES_A_GIB = 2**30 // BATCH_BYTES
READS = 300
"""Fetches from random places of a log."""

Point = dict[str, float]


class Effort(NamedTuple):
    """How long a point is measured."""

    idle_s: float
    rounds: int
    requests: int
    """Requests of a round."""


def p50_us(server: ServerProcess, frame: bytes, effort: Effort) -> float:
    """The median of the rounds' medians of one connection's requests."""
    return statistics.median(ack_p50_on_one_core_us(server, frame, effort.requests) for _ in range(effort.rounds))


def restarts(server: ServerProcess, effort: Effort) -> Point:
    """A clean stop, and starts after clean stops and after kills."""
    start = time.perf_counter()
    server.stop(START_TIMEOUT_S)
    point = {"stop_s": time.perf_counter() - start}
    clean = [timed_start(server)[0]]
    killed = []
    for _ in range(effort.rounds - 1):
        server.stop(START_TIMEOUT_S)
        clean.append(timed_start(server)[0])
    for _ in range(effort.rounds):
        server.kill()
        killed.append(timed_start(server)[0])
    return point | {"clean_start_s": statistics.median(clean), "killed_start_s": statistics.median(killed)}


def memory_of_first(server: ServerProcess) -> int:
    """Resident bytes after a first request of each kind, which import modules and compile codecs."""
    client = Client(server)
    create_topic(client, "first", 1)
    client.ask(produce_frame("first", 0))
    client.ask(fetch_frame("first", 0, wait_ms=0))
    client.close()
    return server.resident_bytes()


# Connections


def connections(count: int, effort: Effort) -> Point:
    with ExitStack() as stack:
        server = started(stack)
        create_topics(Client(server), 1)
        frame = produce_frame(FIRST_TOPIC, 0)
        p50_us(server, frame, effort)
        before = memory_of_first(server)
        clients = [Client(server) for _ in range(count)]
        for client in clients:
            client.ask(API_VERSIONS_V0)
        point = {
            "kib_each": (server.resident_bytes() - before) / 1024 / count,
            "idle_percent": idle_percent(server, effort.idle_s),
            "ack_p50_us": p50_us(server, frame, effort),
        }
        if count >= WORKING:
            found = [working_p50_us(clients[:WORKING], frame, 5 * effort.requests) for _ in range(effort.rounds)]
            point["working_ack_p50_us"] = statistics.median(found)
        return point


# Partitions


def partitions(count: int, effort: Effort) -> Point:
    with ExitStack() as stack:
        server = started(stack)
        before = memory_of_first(server)
        client = Client(server)
        create_topics(client, count)
        fill_topics(client, count)
        point = {
            "kib_each": (server.resident_bytes() - before) / 1024 / count,
            "idle_percent": idle_percent(server, effort.idle_s),
            "ack_p50_us": p50_us(server, produce_frame(FIRST_TOPIC, 0), effort),
        }
        point |= restarts(server, effort)
        return point | {"mib": server.resident_bytes() / 2**20}


# Groups


def commit_frame(group: str, member_id: str) -> bytes:
    partition = OffsetCommitRequest.Partition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequest.Topic(name=FIRST_TOPIC, partitions=[partition])]
    request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=1, member_id=member_id, topics=topics)
    return framed(request, COMMIT_VERSION)


def heartbeat_frame(group: str, member_id: str) -> bytes:
    return framed(HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id), 3)


def groups(count: int, effort: Effort) -> Point:
    """Groups of one member, each with a connection, a heartbeat every three seconds, and a committed offset."""
    names = [f"group-{number}" for number in range(count)]
    with ExitStack() as stack:
        server = started(stack)
        create_topics(Client(server), 1)
        with Wire(server.host, server.port) as wire:
            await_coordinator(wire, "first", names[0])
            member_id = joined(wire, "first")
            Client(server).ask(commit_frame("first", member_id))
            before = server.resident_bytes()
            members = [joined(wire, name) for name in names]
        clients = [Client(server) for _ in names]
        beats = [heartbeat_frame(*pair) for pair in zip(names, members, strict=True)]
        commits = [commit_frame(*pair) for pair in zip(names, members, strict=True)]
        for client, commit in zip(clients, commits, strict=True):
            client.ask(commit)

        def beat(seconds: float) -> None:
            began, ends = time.perf_counter(), time.perf_counter() + seconds
            for number in range(int(seconds / HEARTBEAT_S * count) or 1):
                due = began + number * HEARTBEAT_S / count
                time.sleep(max(min(due, ends) - time.perf_counter(), 0))
                clients[number % count].ask(beats[number % count])
            time.sleep(max(ends - time.perf_counter(), 0))

        def asked_p50_us(frames: list[bytes]) -> float:
            """One request at a time, of one group after the other."""
            found = []
            for number in range(effort.rounds * effort.requests):
                start = time.perf_counter()
                clients[number % count].ask(frames[number % count])
                found.append(time.perf_counter() - start)
            return statistics.median(found) * 1e6

        point = {
            "kib_each": (server.resident_bytes() - before) / 1024 / count,
            "idle_percent": idle_percent(server, effort.idle_s, beat),
            "heartbeat_p50_us": asked_p50_us(beats),
            "commit_p50_us": asked_p50_us(commits),
        }
        for client, heartbeat, commit in zip(clients, beats, commits, strict=True):  # all are members still
            if (answer := client.ask(heartbeat))[-2:] != b"\0\0":
                raise RuntimeError(f"a heartbeat was answered with {answer!r}")
            must_be_fine(client.ask(commit))
        return point | restarts(server, effort)


# Consumers


def fetch_frame(topic: str, offset: int, *, wait_ms: int, max_bytes: int = 1 << 20) -> bytes:
    partition = FetchRequest.Partition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchRequest.Topic(topic=topic, partitions=[partition])]
    return framed(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=50 << 20, topics=topics), 12)


class Consumers:
    """Consumers of one partition, each with a connection and a fetch that waits."""

    def __init__(self, server: ServerProcess, count: int) -> None:
        self._clients = {client.socket.fileno(): client for client in (Client(server) for _ in range(count))}
        self._poll = select.epoll()
        for number in self._clients:
            self._poll.register(number, select.EPOLLIN)
        self._offset = 0
        self._frame = fetch_frame(FIRST_TOPIC, 0, wait_ms=FETCH_WAIT_MS)
        self._empty_size = len(next(iter(self._clients.values())).ask(self._frame))
        for client in self._clients.values():
            client.socket.sendall(self._frame)

    def _answers(self) -> Iterator[tuple[Client, bool]]:
        """The consumers that have an answer, and whether it has records."""
        for number, _ in self._poll.poll(1):
            client = self._clients[number]
            yield client, len(client.receive()) > self._empty_size

    def wait(self, seconds: float) -> None:
        """Fetch again and again, while nothing is written."""
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            for client, _ in self._answers():
                client.socket.sendall(self._frame)

    def deliver(self, producer: Client, record: bytes) -> list[float]:
        """Write a record; return the seconds until each consumer had it."""
        taken = []
        start = time.perf_counter()
        producer.socket.sendall(record)
        while len(taken) < len(self._clients):
            for client, has_records in self._answers():
                if has_records:
                    taken.append(time.perf_counter() - start)
                else:
                    client.socket.sendall(self._frame)
        producer.receive()
        self._offset += 1
        self._frame = fetch_frame(FIRST_TOPIC, self._offset, wait_ms=FETCH_WAIT_MS)
        for client in self._clients.values():
            client.socket.sendall(self._frame)
        return taken


def consumers(count: int, effort: Effort) -> Point:
    with ExitStack() as stack:
        server = started(stack)
        producer = Client(server)
        create_topics(producer, 1)
        before = memory_of_first(server)
        readers = Consumers(server, count)
        record = produce_frame(FIRST_TOPIC, 0)
        rounds = max(min(effort.requests, 5_000 // count), 5)
        taken = [readers.deliver(producer, record) for _ in range(rounds)]
        return {
            "end_to_end_p50_us": statistics.median(statistics.median(one) for one in taken) * 1e6,
            "end_to_end_last_us": statistics.median(map(max, taken)) * 1e6,
            "kib_each": (server.resident_bytes() - before) / 1024 / count,
            "idle_percent": idle_percent(server, effort.idle_s, readers.wait),
        }


# Sizes of a log


def large_produce_frame() -> bytes:
    batch = build_batch([Record(0, time.time_ns() // 1_000_000, None, bytes(BATCH_BYTES - 100))])
    data = ProduceRequest.Partition(index=0, records=batch)
    topics = [ProduceRequest.Topic(name=FIRST_TOPIC, partition_data=[data])]
    return framed(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)


def logs(sizes_gib: list[int], effort: Effort, tell: Callable[[int], None]) -> Iterator[Point]:
    """One partition that grows from size to size; single records go to another one. `tell` gets each size before it is
    written."""
    with ExitStack() as stack:
        server = started(stack)
        create_topics(Client(server), 2)
        batches, frame = 0, large_produce_frame()
        for gib in sizes_gib:
            tell(gib)
            writer = Client(server)
            start, first = time.perf_counter(), batches
            for _ in range(max(gib * BATCHES_A_GIB - batches, 0)):
                writer.ask(frame)
                batches += 1
            written = (batches - first) * BATCH_BYTES / 2**20 / (time.perf_counter() - start)
            reads = []
            for number in range(READS):
                offset = number * 7_919 % batches  # a prime: all over the log
                start = time.perf_counter()
                writer.ask(fetch_frame(FIRST_TOPIC, offset, wait_ms=0, max_bytes=1))
                reads.append(time.perf_counter() - start)
            point = {
                "written_mib_s": written,
                "mib": server.resident_bytes() / 2**20,
                "idle_percent": idle_percent(server, effort.idle_s),
                "ack_p50_us": p50_us(server, produce_frame(FIRST_TOPIC, 1), effort),
                "fetch_p50_us": statistics.median(reads) * 1e6,
            }
            yield point | restarts(server, effort)
