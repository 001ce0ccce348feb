"""Three brokers in one process beside one: prints one line of JSON.

- `start`: from launching `kmini serve` to its first answer, for three brokers and for one; and `with Cluster()` in a
  process that has started one before; milliseconds. `idle_mib`: memory of three brokers after a second.
- `produce`: a 100-byte record, acks=all, to a topic with three replicas on three brokers, and with one on one broker;
  medians in microseconds and their ratio. The two take turns, so that both see the same machine; client and brokers
  run on one core.
- `delete`: DeleteRecords of the record before, over three replicas; median and worst, milliseconds.
- `kill`: from killing the leader of a partition until another broker's Metadata names a new one; median and worst,
  milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cores import on_one_core
from peers import ServerProcess, kmini_command
from raw_client import Client, framed

from kmini.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record

TOPIC = "orders"
BROKERS = 3
VALUE = b"x" * 100
PRODUCE_VERSION, DELETE_VERSION, METADATA_VERSION, CREATE_VERSION = 8, 1, 8, 4
"""The last ones whose headers are of the old kind."""


class Address:
    """The address of one of several brokers, for `Client`."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port


@contextmanager
def serving(brokers: int) -> Iterator[tuple[ServerProcess, float]]:
    """So many brokers in a process of their own, and how many milliseconds they took to answer."""
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as directory:
        command = [*kmini_command(Path(directory) / "data", {}), "--brokers", str(brokers)]
        began = time.perf_counter()
        server = ServerProcess(command, Path(directory) / "log")
        try:
            yield server, (time.perf_counter() - began) * 1000
        finally:
            server.kill()


def metadata(client: Client) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=TOPIC)], allow_auto_topic_creation=False)
    return MetadataResponse.decode(client.ask(framed(request, METADATA_VERSION))[4:], METADATA_VERSION)


def leader_of(answer: MetadataResponse) -> int:
    return int(answer.topics[0].partitions[0].leader_id)


def client_of_leader(server: ServerProcess, replicas: int) -> Client:
    """Make the topic, and connect to its leader."""
    first = Client(server)
    topic = CreateTopicsRequest.Topic(name=TOPIC, num_partitions=1, replication_factor=replicas)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
    made = CreateTopicsResponse.decode(first.ask(framed(request, CREATE_VERSION))[4:], CREATE_VERSION)
    assert not made.topics[0].error_code, made
    answer = metadata(first)
    first.close()
    (leader,) = (broker for broker in answer.brokers if broker.node_id == leader_of(answer))
    return Client(Address(leader.host, leader.port))  # type: ignore[arg-type]


def produce(client: Client) -> int:
    """One record, acknowledged by all; its offset."""
    batch = bytes(build_batch([Record(0, time.time_ns() // 1_000_000, None, VALUE)]))
    partition = ProduceRequest.Topic.Partition(index=0, records=batch)
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[ProduceRequest.Topic(name=TOPIC, partition_data=[partition])]
    )
    answer = ProduceResponse.decode(client.ask(framed(request, PRODUCE_VERSION))[4:], PRODUCE_VERSION)
    outcome = answer.responses[0].partition_responses[0]
    assert not outcome.error_code, outcome
    return int(outcome.base_offset)


def delete(client: Client, offset: int) -> None:
    """Delete what is before an offset, everywhere."""
    partition = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.Topic(name=TOPIC, partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=30_000)
    answer = DeleteRecordsResponse.decode(client.ask(framed(request, DELETE_VERSION))[4:], DELETE_VERSION)
    outcome = answer.topics[0].partitions[0]
    assert (outcome.error_code, outcome.low_watermark) == (0, offset), outcome


def seconds(work: object, *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)  # type: ignore[operator]
    return time.perf_counter() - began


def measure_serving(repetitions: int, records: int) -> dict[str, float]:
    started: dict[int, list[float]] = {BROKERS: [], 1: []}
    for _ in range(repetitions):
        for brokers, durations in started.items():
            with serving(brokers) as (_, duration_ms):
                durations.append(duration_ms)
    measured = {f"start_{brokers}_ms": statistics.median(durations) for brokers, durations in started.items()}
    with serving(BROKERS) as (several, _), serving(1) as (one, _):
        time.sleep(1)
        measured["idle_mib"] = several.resident_bytes() / 2**20
        clients = {BROKERS: client_of_leader(several, BROKERS), 1: client_of_leader(one, 1)}
        taken: dict[int, list[float]] = {brokers: [] for brokers in clients}
        deletions = []
        with on_one_core(several, one):
            for number in range(records):
                for brokers, client in clients.items():
                    taken[brokers].append(seconds(produce, client))
                if number % 10 == 9:
                    deletions.append(seconds(delete, clients[BROKERS], number))
        for client in clients.values():
            client.close()
    for brokers, durations in taken.items():
        measured[f"produce_{brokers}_us"] = statistics.median(durations[records // 10 :]) * 1e6
    measured["produce_ratio"] = measured[f"produce_{BROKERS}_us"] / measured["produce_1_us"]
    measured["delete_median_ms"] = statistics.median(deletions) * 1000
    measured["delete_max_ms"] = max(deletions) * 1000
    return measured


def measure_embedded(repetitions: int) -> dict[str, float]:
    from kmini import Cluster

    with Cluster(BROKERS):
        pass
    started, told = [], []
    for _ in range(repetitions):
        began = time.perf_counter()
        with Cluster(BROKERS) as cluster:
            started.append(time.perf_counter() - began)
            cluster.create_topic(TOPIC, replication_factor=BROKERS)
            leader = cluster.leader(TOPIC)
            other = next(broker for broker in cluster.brokers() if broker != leader)
            host, port = cluster.address_of(other).rsplit(":", 1)
            client = Client(Address(host, int(port)))  # type: ignore[arg-type]
            assert leader_of(metadata(client)) == leader
            began = time.perf_counter()
            cluster.kill(leader)
            while leader_of(metadata(client)) in (leader, -1):
                pass
            told.append(time.perf_counter() - began)
            client.close()
    return {
        "cluster_median_ms": statistics.median(started) * 1000,
        "kill_median_ms": statistics.median(told) * 1000,
        "kill_max_ms": max(told) * 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--records", type=int, default=2_000)
    options = parser.parse_args()
    measured = {
        **measure_serving(options.repetitions, options.records),
        **measure_embedded(options.repetitions),
    }
    print(json.dumps({name: round(value, 2) for name, value in measured.items()}))


if __name__ == "__main__":
    main()
