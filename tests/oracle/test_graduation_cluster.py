"""A cluster of three brokers moves on to one node of Apache Kafka, with the server.properties that Kafka comes with."""

from __future__ import annotations

import time
from pathlib import Path

from kmini.testkit.cluster import Cluster
from support.client_adapters import ConfluentKafka, Sent
from support.java_peer import JavaPeer
from support.oracle.graduated import STOCK, apache_kafka_on, complaints, free_ports, graduate

PARTITIONS = 3
RECORDS = 800
"""In each partition; of 3 KiB, so that there are sealed segments of 1 MiB."""
HANDLED = 300
GROUP = "billing"


def records(partition: int, since: int = 0) -> list[Sent]:
    """Records that name themselves, and take room."""
    now = time.time_ns() // 1_000_000
    return [
        Sent(now, None, f"{partition}:{number}:".encode().ljust(3_000, b"."), ()) for number in range(since, RECORDS)
    ]


def consume(java: JavaPeer, servers: str, count: int) -> list[str]:
    """What a member of the group gets next: which records they are, with offset and partition."""
    finished = java.run(
        "ConsoleConsumer", "--bootstrap-server", servers, "--topic", "orders", "--group", GROUP, "--from-beginning",
        "--max-messages", count, "--timeout-ms", 30_000,
        "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true",
    )  # fmt: skip
    assert finished.exit == 0, finished.stderr
    return [line.rstrip(".") for line in finished.lines]


def test_one_node_of_kafka_has_what_the_leaders_had(need_kafka: None, java: JavaPeer, tmp_path: Path) -> None:
    data_dir, out = tmp_path / "data", tmp_path / "kafka"
    client = ConfluentKafka()
    settings = {"min.insync.replicas": 2, "segment.bytes": 1_048_576}
    with Cluster(3, data_dir=data_dir, config={"default.replication.factor": 3}) as cluster:
        cluster.create_topic("orders", partitions=PARTITIONS, config=settings)
        for number in range(PARTITIONS):
            client.produce(cluster.bootstrap_servers, "orders", number, records(number)[: RECORDS // 2], "none")
        handled = consume(java, cluster.bootstrap_servers, HANDLED)
        cluster.stop_broker(2)  # its replicas are whole, and old
        for number in range(PARTITIONS):
            client.produce(cluster.bootstrap_servers, "orders", number, records(number, RECORDS // 2), "none")
        leaders = {cluster.leader("orders", number) for number in range(PARTITIONS)}
        assert leaders == {1, 3}
        before = [client.consume(cluster.bootstrap_servers, "orders", n, RECORDS) for n in range(PARTITIONS)]

    files = {path: path.read_bytes() for path in data_dir.rglob("*") if path.is_file()}
    report = graduate(data_dir, out, "--link")
    (orders,) = [topic for topic in report["topics"] if topic["name"] == "orders"]
    assert orders["offsets"] == PARTITIONS * RECORDS
    assert orders["linked_bytes"] > orders["copied_bytes"] > 0
    assert not report["from_followers"]

    port, controller_port = free_ports(2)
    stock = tmp_path / "stock.properties"
    lines = [f"{name}={value.format(port=port, controller_port=controller_port)}\n" for name, value in STOCK.items()]
    stock.write_text("".join(lines))
    with apache_kafka_on(stock, port, tmp_path / "kafka.log", log_dirs=out) as kafka:
        rest = consume(java, kafka.bootstrap_servers, PARTITIONS * RECORDS - HANDLED)
        assert sorted(handled + rest) == sorted(
            f"Partition:{partition}\tOffset:{number}\t{partition}:{number}:"
            for partition in range(PARTITIONS)
            for number in range(RECORDS)
        )
        after = [client.consume(kafka.bootstrap_servers, "orders", n, RECORDS) for n in range(PARTITIONS)]
        assert after == before
        assert client.produce(kafka.bootstrap_servers, "orders", 0, records(0)[:1], "none") == [RECORDS]
    assert {path: path.read_bytes() for path in files} == files  # linked, and read by Kafka, and not changed
    assert not complaints(tmp_path / "kafka.log")
