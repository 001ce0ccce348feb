"""Measure commits of offsets beside Apache Kafka, and a restart with 100,000 of them.

Prints one line of JSON. Commits are single requests for one partition, each sent when the one before was answered, in
rounds that take turns. The restart is from the launch of the process to its first answer, after a clean shutdown and
after kill -9; every offset was a commit, and so a batch, of its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from peers import ServerProcess, available, kmini_command, running
from raw_client import Client, framed

from kmini.protocol.messages import (
    CreateTopicsRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

TOPIC = "orders"
COMMIT_VERSION, FETCH_VERSION = 8, 5
PARTITIONS = 100


def commit(group: str, partition: int, offset: int) -> bytes:
    partitions = [
        OffsetCommitRequest.Partition(
            partition_index=partition, committed_offset=offset, committed_leader_epoch=0, committed_metadata=""
        )
    ]
    topics = [OffsetCommitRequest.Topic(name=TOPIC, partitions=partitions)]
    return framed(OffsetCommitRequest(group_id=group, topics=topics), COMMIT_VERSION)


def must_be_fine(answer: bytes) -> None:
    """The answer to a commit."""
    response = OffsetCommitResponse.decode(answer[5:], COMMIT_VERSION)
    if codes := {p.error_code for topic in response.topics for p in topic.partitions} - {0}:
        raise RuntimeError(f"a commit failed with {codes}")


def prepare(client: Client, group: str) -> None:
    """Have the topic, the topic of offsets, and the group's coordinator."""
    topic = CreateTopicsRequest.Topic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    client.ask(framed(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 4))
    for _ in range(500):
        answer = client.ask(framed(FindCoordinatorRequest(key=group), 1))
        if FindCoordinatorResponse.decode(answer[4:], 1).error_code == 0:
            try:
                must_be_fine(client.ask(commit(group, PARTITIONS - 1, 0)))
            except RuntimeError:
                pass
            else:
                return
        time.sleep(0.02)
    raise TimeoutError("there is no coordinator")


def commit_latencies(rounds: int, count: int) -> dict[str, dict[str, float]]:
    """Microseconds, by server."""
    durations: dict[str, list[float]] = {}
    with running(available(["kmini", "kafka"])) as servers:
        clients = {name: Client(server) for name, server in servers.items()}
        for client in clients.values():
            prepare(client, "bench")
        for number, (name, client) in itertools.product(range(rounds + 1), clients.items()):
            frames = [commit("bench", offset % PARTITIONS, offset) for offset in range(count)]
            for frame in frames:
                start = time.perf_counter()
                client.ask(frame)
                if number:  # the first round warms up
                    durations.setdefault(name, []).append(time.perf_counter() - start)
        for client in clients.values():
            client.close()
    return {
        name: {
            "p50_us": round(statistics.median(taken) * 1e6),
            "p99_us": round(sorted(taken)[len(taken) * 99 // 100] * 1e6),
        }
        for name, taken in durations.items()
    }


def restart_times(offsets: int) -> dict[str, float]:
    """Seconds, without offsets and with them."""
    with tempfile.TemporaryDirectory() as directory:
        server = ServerProcess(kmini_command(Path(directory) / "data", {}), Path(directory) / "log")
        try:
            client = Client(server)
            prepare(client, "group-0")
            measured = {"empty_start_s": restarted(server, client)}
            client = Client(server)
            start = time.perf_counter()
            for group in range(offsets // PARTITIONS):
                client.send(*(commit(f"group-{group}", partition, group) for partition in range(PARTITIONS)))
                for _ in range(PARTITIONS):
                    must_be_fine(client.receive())
            measured["commits_a_second"] = offsets / (time.perf_counter() - start)
            measured["start_s"] = restarted(server, client)
            measured["start_after_kill_s"] = restarted(server, Client(server), kill=True)
            must_be_there(Client(server), offsets)
        finally:
            server.kill()
    return {name: round(value, 3) for name, value in measured.items()}


def restarted(server: ServerProcess, client: Client, *, kill: bool = False) -> float:
    """Seconds from launch to the first answer."""
    client.close()
    if kill:
        server.kill()
    else:
        server.stop()
    start = time.perf_counter()
    server.start()
    return time.perf_counter() - start


def must_be_there(client: Client, offsets: int) -> None:
    for group in range(0, offsets // PARTITIONS, 97):
        request = OffsetFetchRequest(group_id=f"group-{group}", topics=None)
        response = OffsetFetchResponse.decode(client.ask(framed(request, FETCH_VERSION))[4:], FETCH_VERSION)
        found = {p.committed_offset for topic in response.topics for p in topic.partitions}
        if found != {group} or len(response.topics[0].partitions) != PARTITIONS:
            raise RuntimeError(f"group {group} has lost offsets")
    client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offsets", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--commits", type=int, default=3_000, help="in a round")
    options = parser.parse_args()
    print(json.dumps(restart_times(options.offsets) | commit_latencies(options.rounds, options.commits)))


if __name__ == "__main__":
    main()
