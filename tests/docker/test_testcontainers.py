"""What the modules of Testcontainers do with the image, done in containers of its files without an engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kmini.protocol.messages.describe_cluster import DescribeClusterRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire
from support.certificates import Authority
from support.docker.containers import HOSTNAME, TIMEOUT_S, Container, why_not
from support.docker.wrappers import (
    GO_WITH_CLUSTER_ID,
    JAVA_CONFLUENT,
    NODE_KEYSTORE,
    NODE_KEYSTORE_PASSWORD,
    NODE_SASL,
    NODE_ZOOKEEPER,
    PYTHON_KRAFT,
    RUST,
    WRAPPERS,
    Wrapper,
)

kafka = pytest.importorskip("kafka")

USER = {"sasl_plain_username": "app-user", "sasl_plain_password": "userPassword"}


@pytest.fixture(scope="module", autouse=True)
def _need_containers() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "root"
    path.mkdir()
    yield path
    assert not list(path.iterdir()), "the container's files stay in its own namespace"


def start(wrapper: Wrapper, container: Container) -> int:
    """Do what the module does once the container runs, and wait as it does; return the published port."""
    port = container.publish(wrapper.port)
    address = container.execute("hostname", "-i").stdout.strip()
    script = wrapper.script
    for name, value in {"port": str(port), "hostname": HOSTNAME, "address": address}.items():
        script = script.replace(f"{{{name}}}", value)
    if wrapper.is_written_inside:
        finished = container.execute("sh", "-c", f"echo '{script}' > {wrapper.path}")
        assert finished.returncode == 0, finished.stderr
    else:
        container.put(wrapper.path, script, wrapper.mode)
    if wrapper.awaited:
        container.wait_for(wrapper.awaited, *wrapper.streams)
    else:
        wait_for_port(container, wrapper.port)
    return port


def wait_for_port(container: Container, port: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_open(container, port):
        assert time.monotonic() < deadline, container.said()


def is_open(container: Container, port: int) -> bool:
    """Ask inside of the container whether it listens at a port, each of the three ways in which Node's module asks."""
    ways = (
        f"cat /proc/net/tcp* | awk '{{print $2}}' | grep -i :{port:04x}",
        f"nc -vz -w 1 localhost {port}",
        f"/bin/bash -c '</dev/tcp/localhost/{port}'",
    )
    return container.execute("/bin/sh", "-c", " || ".join(f"({way})" for way in ways)).returncode == 0


def exchange(port: int, **security: str) -> None:
    """Produce a record and consume it, through what the broker tells its clients."""
    address = f"localhost:{port}"
    producer = kafka.KafkaProducer(bootstrap_servers=address, **security)
    consumer = None
    try:
        producer.send("orders", b"hello").get(timeout=TIMEOUT_S)
        consumer = kafka.KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_S * 1000,
            **security,
        )
        assert next(iter(consumer)).value == b"hello"
    finally:
        producer.close()
        if consumer is not None:
            consumer.close()


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=[wrapper.name for wrapper in WRAPPERS])
def test_a_module_of_testcontainers_starts_a_broker_that_clients_outside_reach(wrapper: Wrapper, root: Path) -> None:
    with Container(root, wrapper.command, wrapper.environ) as container:
        port = start(wrapper, container)
        with Wire(f"127.0.0.1:{port}") as wire:
            (told,) = wire.ask(MetadataRequest(topics=[]), 9).brokers
        assert told.host in ("localhost", "127.0.0.1")  # whichever the script says
        assert told.port == port
        exchange(port)
        assert "not found" not in container.said()


def test_a_broker_of_testcontainers_tells_its_neighbours_the_address_of_its_own_listener(root: Path) -> None:
    with Container(root, PYTHON_KRAFT.command, PYTHON_KRAFT.environ) as container:
        start(PYTHON_KRAFT, container)
        address = container.execute("hostname", "-i").stdout.strip()
        finished = container.execute("sh", "-c", f"echo hello | kmini produce payments -b {address}:9092")
        assert finished.returncode == 0, finished.stderr


def test_a_cluster_id_in_the_environment_wins_over_a_random_one(root: Path) -> None:
    with Container(root, GO_WITH_CLUSTER_ID.command, GO_WITH_CLUSTER_ID.environ) as container:
        port = start(GO_WITH_CLUSTER_ID, container)
        with Wire(f"127.0.0.1:{port}") as wire:
            assert wire.ask(DescribeClusterRequest()).cluster_id == "kraftCluster"
        exchange(port)


def test_a_user_that_kafka_storage_adds_can_log_in_over_tls(root: Path, tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "authority.pem").write_text(authority.pem)
    trusting = {"security_protocol": "SASL_SSL", "ssl_cafile": str(tmp_path / "authority.pem")}
    with Container(root, NODE_SASL.command, NODE_SASL.environ) as container:
        container.put(NODE_KEYSTORE, authority.sign("kafka").pkcs12(NODE_KEYSTORE_PASSWORD), 0o644)
        port = start(NODE_SASL, container)
        exchange(port, sasl_mechanism="SCRAM-SHA-512", **USER, **trusting)


def test_nothing_listens_at_zookeepers_port_which_node_awaits_for_tags_before_8(root: Path) -> None:
    with Container(root, NODE_ZOOKEEPER.command, NODE_ZOOKEEPER.environ) as container:
        exchange(start(NODE_ZOOKEEPER, container))
        container.wait_for("kmini needs no ZooKeeper", "stderr")
        assert not is_open(container, 2181)


def test_the_topics_are_there_when_the_awaited_line_is(root: Path) -> None:
    environ = {**RUST.environ, "KAFKA_CREATE_TOPICS": "orders:3:1,profiles:1:1:compact"}
    with Container(root, RUST.command, environ) as container:
        port = start(RUST, container)
        with Wire(f"127.0.0.1:{port}") as wire:
            topics = wire.ask(MetadataRequest(topics=None), 9).topics
        assert {topic.name: len(topic.partitions) for topic in topics} == {"orders": 3, "profiles": 1}


def test_a_step_that_fails_ends_the_start(root: Path) -> None:
    append = "echo 'kafka-storage format --add-scram nonsense' >> /etc/confluent/docker/configure"
    script = f"#!/bin/bash\n{append}\n/etc/confluent/docker/run\necho ended with $?\n"
    with Container(root, JAVA_CONFLUENT.command, JAVA_CONFLUENT.environ) as container:
        container.put(JAVA_CONFLUENT.path, script, 0o777)
        container.wait_for("ended with 2", "stdout")
        assert "--add-scram nonsense=…" in container.said()
        assert "Kafka Server started" not in container.said()
