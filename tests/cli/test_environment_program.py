"""`kmini serve --env` as a program."""

from __future__ import annotations

import socket
import ssl
import subprocess

import pytest

from kmini.protocol.messages.describe_cluster import DescribeClusterRequest
from kmini.protocol.messages.find_coordinator import FindCoordinatorRequest
from kmini.protocol.messages.metadata import MetadataRequest
from kmini.testing import Wire
from support.container_variables import SINGLE_NODE


@pytest.mark.parametrize(
    ("brokers", "said"),
    [
        (1, "topic a gets 1 replica instead of 3: there is one broker"),
        (2, "topic a gets 2 replicas instead of 3: there are 2 brokers"),
    ],
)
def test_more_replicas_than_brokers_are_one_each_and_it_is_said(start, stop, brokers: int, said: str) -> None:
    environment = {"KAFKA_CREATE_TOPICS": "a:1:3,b:1:1", "PATH": ""}
    process = start("serve", "--env", "--host", "127.0.0.1", "--port", 0, "--brokers", brokers, env=environment)
    with Wire(process.stdout.readline().strip()) as wire:
        asked = [MetadataRequest.Topic(name=name) for name in ("a", "b")]
        told = wire.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics
    assert [len(topic.partitions[0].replica_nodes) for topic in told] == [brokers, 1]
    assert said in stop(process)[1]


def test_a_broker_starts_with_the_environment_of_a_compose_file(start, stop, run, tmp_path) -> None:
    ports = {"KAFKA_LISTENERS": "CONTROLLER://:29093,PLAINTEXT_HOST://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"}
    told = {"KAFKA_CREATE_TOPICS": "orders:3:1,profiles:1:1:compact", "KAFKA_HEAP_OPTS": "-Xmx1G"}
    data = {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    process = start("serve", "--env", env={**SINGLE_NODE, **ports, **told, **data, "PATH": ""})
    addresses = [process.stdout.readline().strip() for _ in range(2)]
    stderr = until_ready(process)
    assert process.stdout.readline() == stderr.splitlines(keepends=True)[-1], "some wrappers read stdout, some stderr"
    assert run("health", "-b", addresses[0]).exit_code == 0
    assert [told_at(address) for address in addresses] == [("localhost", 9092), ("broker", 19092)]
    assert stop(process)[0] == 0
    assert "environment variables that have no effect here: KAFKA_HEAP_OPTS\n" in stderr
    assert stderr.count("settings of Apache Kafka that have no effect here: ") == 1
    assert {"orders-2", "profiles-0"} <= {path.name for path in (tmp_path / "data" / "broker-1").iterdir()}
    assert "4L6g3nShT-eMCtK--X86sw" in (tmp_path / "data" / "broker-1" / "meta.properties").read_text()


def told_at(address: str) -> tuple[str, int]:
    """Where a client that bootstraps here is told to go."""
    with Wire(address) as wire:
        (node,) = wire.ask(MetadataRequest(topics=[])).brokers
        (same,) = wire.ask(DescribeClusterRequest()).brokers
        (coordinator,) = wire.ask(FindCoordinatorRequest(coordinator_keys=["billing"])).coordinators
    assert (same.host, same.port) == (coordinator.host, coordinator.port) == (node.host, node.port)
    return node.host, node.port


def until_ready(process: subprocess.Popen[str]) -> str:
    """Its output up to the line that Testcontainers waits for, which differs by image."""
    assert process.stderr is not None
    said = ""
    while not said.rpartition("\n")[0].rpartition("\n")[2].startswith("ready: "):
        line = process.stderr.readline()
        assert line, said
        said += line
    for awaited in ("[KafkaServer id=1] started", "Kafka Server started", "Transitioning from RECOVERY to RUNNING"):
        assert awaited in line
    return said


def test_options_win_over_the_environment_and_the_environment_over_the_file(start, tmp_path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=2\nnum.partitions=2\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    said = {"KAFKA_NODE_ID": "3", "KAFKA_NUM_PARTITIONS": "3", "PATH": ""}
    arguments = ("-c", "num.partitions=4", "--port", 0, "--data-dir", tmp_path / "data")
    process = start("serve", properties, "--env", *arguments, env=said)
    assert process.stdout.readline().startswith("127.0.0.1:")
    assert (tmp_path / "data" / "broker-3").exists()


def test_data_of_another_cluster_are_refused(start, stop, tmp_path) -> None:
    arguments = ("serve", "--env", "--host", "127.0.0.1", "--port", 0, "--data-dir", tmp_path)
    process = start(*arguments, env={"CLUSTER_ID": "first", "PATH": ""})
    process.stdout.readline()
    stop(process)
    process = start(*arguments, env={"CLUSTER_ID": "second", "PATH": ""})
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "belongs to cluster first, not to second" in stderr


SECURED = {
    "KMINI_USERS": "alice:wonderland,\nbob",
    "KMINI_ACLS": "alice All topic:orders; bob Read topic:eu-*",
    "KAFKA_CREATE_TOPICS": "orders:1:1",
    "PATH": "",
}


@pytest.mark.parametrize("tls", ["auto", "mutual"])
def test_variables_secure_a_broker_as_options_do(start, stop, run, tmp_path, tls: str) -> None:
    environment = {**SECURED, "KMINI_TLS": tls, "KAFKA_LOG_DIRS": str(tmp_path)}
    process = start("serve", "--env", env={**environment, "KAFKA_LISTENERS": "SASL_SSL://127.0.0.1:0"})
    address = process.stdout.readline().strip()
    until_ready(process)
    healthy = run("health", "--env", **environment, KAFKA_LISTENERS=f"SASL_SSL://{address}")
    assert (healthy.exit_code, healthy.stdout) == (0, f"{address} answers\n"), healthy.stderr
    for user, exit_code, said in (("alice", 0, ""), ("bob", 1, "TOPIC_AUTHORIZATION_FAILED")):
        login = ("-b", address, "--command-config", str(tmp_path / "security" / f"{user}.properties"))
        produced = run("produce", "orders", *login, stdin="hers\n")
        assert (produced.exit_code, said in produced.stderr) == (exit_code, True), produced.stderr
    assert stop(process)[0] == 0


def test_variables_serve_an_issuer_of_the_tokens_that_clients_come_in_with(start, stop, run, tmp_path) -> None:
    asked = {"KMINI_SASL": "oauthbearer", "KMINI_ISSUER": "0", "KAFKA_LISTENERS": "SASL_PLAINTEXT://127.0.0.1:0"}
    process = start("serve", "--env", env={**SECURED, **asked, "KAFKA_LOG_DIRS": str(tmp_path)})
    address = process.stdout.readline().strip()
    until_ready(process)
    login = ("-b", address, "--command-config", str(tmp_path / "security" / "alice.properties"))
    produced = run("produce", "orders", *login, stdin="hers\n")
    assert produced.exit_code == 0, produced.stderr
    assert stop(process)[0] == 0


def test_an_issuer_without_tokens_is_refused(run) -> None:
    for refused in (run("serve", "--issuer", 0, "--tls", "auto"), run("serve", "--env", KMINI_ISSUER="0")):
        assert refused.exit_code == 2
        assert "only --sasl OAUTHBEARER needs an issuer" in refused.stderr


def test_made_certificates_are_for_the_names_of_the_container_and_the_advertised_ones(start, stop, tmp_path) -> None:
    advertised = {"KAFKA_LISTENERS": "SSL://127.0.0.1:0", "KAFKA_ADVERTISED_LISTENERS": "SSL://kafka:9092"}
    process = start("serve", "--env", env={"KMINI_TLS": "auto", "KAFKA_LOG_DIRS": str(tmp_path), **advertised})
    host, _, port = process.stdout.readline().strip().rpartition(":")
    authority = ssl.create_default_context(cafile=tmp_path / "security" / "authority.pem")
    for name in ("kafka", "localhost", socket.gethostname()):
        with (
            socket.create_connection((host, int(port)), 30) as plain,
            authority.wrap_socket(plain, server_hostname=name),
        ):
            pass  # the names were compared
    assert stop(process)[0] == 0


def test_a_listener_of_another_kind_than_the_variables_ask_for_is_refused(run) -> None:
    refused = run("serve", "--env", KMINI_TLS="auto", KAFKA_LISTENERS="PLAINTEXT://:9092")
    assert refused.exit_code == 2
    assert "leave listeners unset, or name it so" in refused.stderr
    refused = run("serve", "--env", KMINI_TLS="yes")
    assert refused.exit_code == 2
    assert "tls='yes': must be one of auto, mutual" in refused.stderr
