"""A data directory of kmini handed on to Apache Kafka, and both asked the same."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kmini.protocol import messages as m
from kmini.protocol.messages.describe_configs import DYNAMIC_TOPIC_CONFIG, TOPIC
from kmini.protocol.messages.list_offsets import EARLIEST, LATEST
from kmini.testing import Wire
from support import apache_kafka
from support.client_adapters import READ_COMMITTED, ConfluentKafka, Received
from support.server_process import ServerProcess
from support.until import until

NOT_YET = (5, 6, 14, 15, 16, 51, 78)
"""What a broker answers that has just started: LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, three about coordinators,
CONCURRENT_TRANSACTIONS, OFFSET_NOT_AVAILABLE."""

STOCK = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:{controller_port}",
    "listeners": "PLAINTEXT://:{port},CONTROLLER://:{controller_port}",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""What config/server.properties of Apache Kafka's distribution says, with other ports than 9092 and 9093."""


def free_ports(count: int) -> list[int]:
    """Neighbours without a listener."""
    for _ in range(100):
        with ExitStack() as held:
            first = apache_kafka.free_port()
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.create_server(("127.0.0.1", port)))
            except (OSError, OverflowError):
                continue
            return list(range(first, first + count))
    raise TimeoutError(f"there are no {count} free ports in a row")


def graduate(data_dir: Path, out: Path, *options: object) -> dict[str, Any]:
    """Run the command; its report."""
    command = [
        sys.executable,
        "-m",
        "kmini",
        "graduate",
        *map(str, options),
        "--format",
        "json",
        str(data_dir),
        str(out),
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stderr
    report: dict[str, Any] = json.loads(finished.stdout)
    return report


@contextmanager
def apache_kafka_on(properties: Path, port: int, log: Path, **overrides: object) -> Iterator[ServerProcess]:
    """Apache Kafka with these settings, as bin/kafka-server-start.sh starts it. Nothing is formatted first."""
    command = [*apache_kafka.java_command("-Xmx384m", "-XX:TieredStopAtLevel=1"), "kafka.Kafka", str(properties)]
    for name, value in overrides.items():
        command += ["--override", f"{name.replace('_', '.')}={value}"]
    server = ServerProcess(command, log, port=port)
    try:
        yield server
    finally:
        server.stop()


def complaints(log: Path) -> list[str]:
    """What Kafka has logged as an error; that the machine is slow is none."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if " ERROR " in line and "EventPerformanceMonitor" not in line]


class Partition(NamedTuple):
    start: int
    end: int
    records: list[Received]
    """The committed ones."""


class Held(NamedTuple):
    """What a server says that it has."""

    topic_ids: dict[str, bytes]
    settings: dict[str, dict[str, str]]
    """Of each topic, what was set for it."""
    partitions: dict[tuple[str, int], Partition]


def held_by(servers: str, records: Mapping[tuple[str, int], int]) -> Held:
    """Look at all topics. `records` says how many committed records there are to wait for in each partition, of topics
    that are not internal."""
    client = ConfluentKafka()
    with Wire(servers) as wire:
        topics = answered(lambda: _topics(wire), bool)
        ids = {topic.name: topic.topic_id for topic in topics}
        bounds = {place: tuple(offset_of(wire, *place, which) for which in (EARLIEST, LATEST)) for place in records}
        with ThreadPoolExecutor(len(records)) as readers:  # they wait more than they work
            found = readers.map(lambda place: client.consume(servers, *place, records[place], READ_COMMITTED), records)
        partitions = {place: Partition(*bounds[place], its) for place, its in zip(records, found, strict=True)}
        return Held(ids, {name: _settings(wire, name) for name in ids}, partitions)


def _topics(wire: Wire) -> list[Any]:
    """All, once every partition has a leader; before that none."""
    answer = wire.ask(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)
    are_led = all(p.error_code == 0 and p.leader_id >= 0 for topic in answer.topics for p in topic.partitions)
    return list(answer.topics) if are_led else []


def offset_of(wire: Wire, topic: str, partition: int, which: int) -> int:
    """EARLIEST or LATEST."""
    Topic = m.ListOffsetsRequest.Topic
    asked = [Topic.Partition(partition_index=partition, timestamp=which)]
    request = m.ListOffsetsRequest(replica_id=-1, topics=[Topic(name=topic, partitions=asked)])

    def ask() -> Any:
        (answer,) = wire.ask(request, 5).topics
        return answer.partitions[0]

    answer = answered(ask, lambda answer: answer.error_code not in NOT_YET)
    assert answer.error_code == 0
    return int(answer.offset)


def _settings(wire: Wire, topic: str) -> dict[str, str]:
    Resource = m.DescribeConfigsRequest.Resource
    request = m.DescribeConfigsRequest(resources=[Resource(resource_type=TOPIC, resource_name=topic)])
    (answer,) = wire.ask(request, 4).results
    assert answer.error_code == 0
    return {one.name: one.value for one in answer.configs if one.config_source == DYNAMIC_TOPIC_CONFIG}


def committed(servers: str, *groups: str) -> dict[str, dict[tuple[str, int], tuple[int, int, str]]]:
    """Offset, leader epoch and metadata that each group has committed, by topic and partition."""
    found = {}
    with Wire(servers) as wire:
        for group in groups:
            answer = answered(
                lambda group=group: wire.ask(m.OffsetFetchRequest(group_id=group, topics=None), 7),
                lambda answer: answer.error_code not in NOT_YET,
            )
            assert answer.error_code == 0
            found[group] = {
                (topic.name, p.partition_index): (p.committed_offset, p.committed_leader_epoch, p.metadata)
                for topic in answer.topics
                for p in topic.partitions
            }
    return found


def init_producer_id(servers: str, transactional_id: str | None) -> tuple[int, int]:
    """Producer id and epoch, once there is a coordinator that knows the id and nothing is pending."""
    request = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    with Wire(servers) as wire:
        answer = answered(lambda: wire.ask(request, 4), lambda answer: answer.error_code not in NOT_YET)
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def answered(ask: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
    """Ask until an answer is what is waited for, and return that."""

    def answer_if_done() -> list[Any]:
        answer = ask()
        return [answer] if is_done(answer) else []

    (answer,) = until(answer_if_done)
    return answer
