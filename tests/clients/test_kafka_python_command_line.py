"""kafka-python's own command line, unchanged: every administrative command against the server under test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from support.server_process import ServerProcess
from support.until import until
from support.wire import Wire

Run = Callable[..., Any]
TopicNames = Callable[[str], str]


@pytest.fixture
def admin(
    server: ServerProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, leaky_clients: None
) -> Run:
    """Run `python -m kafka.admin` in this process; what it prints as JSON."""
    command_line = pytest.importorskip("kafka.cli.admin")
    monkeypatch.setattr(command_line, "configure_logging", lambda config: None)

    def run(*arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        connection = ["-b", server.bootstrap_servers, "--format", "json"]
        exit_code = command_line.run_cli([*connection, *map(str, arguments)])
        printed = capsys.readouterr().out
        assert exit_code == code, printed
        return json.loads(printed) if code == 0 else printed

    return run


@pytest.fixture
def topic(admin: Run, server: ServerProcess, topic_names: TopicNames) -> str:
    """A topic with three partitions and two records in the first."""
    from kafka import KafkaProducer

    name = topic_names("command-line")
    (created,) = admin("topics", "create", "-t", name, "--num-partitions", 2)["topics"]
    assert (created["name"], created["error_code"], created["num_partitions"]) == (name, 0, 2)
    admin("partitions", "create", "-p", f"{name}:3")
    with KafkaProducer(bootstrap_servers=server.bootstrap_servers) as producer:
        for value in (b"one", b"two"):
            producer.send(name, value, partition=0).get(10)
    return name


def test_topics(admin: Run, topic: str) -> None:
    assert topic in admin("topics", "list")
    (described,) = admin("topics", "describe", "-t", topic)
    assert [partition["leader_id"] for partition in described["partitions"]] == [1, 1, 1]
    (deleted,) = admin("topics", "delete", "-t", topic)["topics"]
    assert (deleted["name"], deleted["error_code"]) == (topic, 0)


def test_partitions(admin: Run, topic: str) -> None:
    offsets = {spec: admin("partitions", "list-offsets", "-t", topic, "-s", spec)[topic] for spec in SPECS}
    assert {spec: found["0"]["offset"] for spec, found in offsets.items()} == SPECS
    elected = admin("partitions", "elect-leaders", "-p", f"{topic}:0", "--no-raise-errors")
    assert elected["replica_election_results"][0]["partition_result"][0]["error_code"] == 84
    assert admin("partitions", "alter-reassignments", "-r", f"{topic}:0=1") == {f"{topic}:0": None}
    assert admin("partitions", "list-reassignments") == {}


SPECS = {"earliest": 0, "latest": 2}


def test_configs(admin: Run, topic: str) -> None:
    def retention() -> tuple[str, str]:
        described = admin("configs", "describe", "-r", "topic", "-n", topic, "-c", "retention.ms")
        setting = described["topic"][topic]["retention.ms"]
        return setting["value"], setting["config_source"]

    of_topic = ("-r", "topic", "-n", topic)
    assert retention() == ("604800000", "DEFAULT_CONFIG")
    assert admin("configs", "alter", *of_topic, "-c", "retention.ms=1000000") == {"topic": {topic: "OK"}}
    assert retention() == ("1000000", "DYNAMIC_TOPIC_CONFIG")
    assert admin("configs", "reset", *of_topic, "-c", "retention.ms") == {"topic": {topic: "OK"}}
    assert retention() == ("604800000", "DEFAULT_CONFIG")
    assert topic in admin("configs", "list")["topic"]


def wait_for_coordinator(server: ServerProcess, group: str) -> None:
    """Apache Kafka makes the topic of its groups when one is first asked for, and this client does not wait for it."""
    Group = OffsetFetchRequest.OffsetFetchRequestGroup
    with Wire(server.host, server.port) as wire:

        def is_there() -> bool:
            wire.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[group]), 4)
            (answer,) = wire.ask(OffsetFetchRequest(groups=[Group(group_id=group, topics=None)]), 8).groups
            return bool(answer.error_code == 0)

        until(is_there, f"a coordinator of {group}")


def test_groups(admin: Run, server: ServerProcess, topic: str) -> None:
    group = f"{topic}-group"
    wait_for_coordinator(server, group)
    assert admin("groups", "alter-offsets", "-g", group, "-o", f"{topic}:0:1") == {f"{topic}:0": "NoError"}
    assert group in {listed["group_id"] for listed in admin("groups", "list")}
    described = admin("groups", "describe", "-g", group)[group]
    assert (described["group_state"], described["members"]) == ("Empty", [])
    committed = admin("groups", "list-offsets", "-g", group)[topic]["0"]
    assert (committed["offset"], committed["latest_offset"], committed["lag"]) == (1, 2, 1)
    assert admin("groups", "delete-offsets", "-g", group, "-p", f"{topic}:0") == {f"{topic}:0": "NoError"}
    assert admin("groups", "delete", "-g", group) == {group: "OK"}


def test_cluster(admin: Run, server: ServerProcess, topic: str) -> None:
    described = admin("cluster", "describe")
    assert [(b["broker_id"], b["host"], b["port"]) for b in described["brokers"]] == [(1, server.host, server.port)]
    assert admin("cluster", "api-versions", "-k", "DescribeLogDirs")["DescribeLogDirs"][1] == 5
    assert admin("cluster", "broker-version", "--broker", 1) == {"1": "4.3"}
    assert admin("cluster", "describe-features")["metadata.version"]["finalized"] == [30, 30]
    assert admin("cluster", "update-features", "-f", "metadata.version=30", "--validate-only") == {
        "metadata.version": "OK"
    }
    ((directory,),) = (broker["log_dirs"] for broker in admin("cluster", "describe-log-dirs", "--topic", topic))
    assert [len(listed["partitions"]) for listed in directory["topics"]] == [3]
    moved = admin("cluster", "alter-log-dirs", "-a", f"{topic}:0:1={directory['log_dir']}")
    assert moved == {f"{topic}:0:1": "NoError"}
    (metadata,) = admin("cluster", "describe-quorum")["topics"]
    assert metadata["partitions"][0]["leader_id"] == 1


def test_what_needs_security_says_that_there_is_none(admin: Run) -> None:
    assert "SecurityDisabledError" in admin("acls", "describe", code=1)
    assert admin("users", "describe-scram-credentials") == {}


def test_producers(admin: Run, topic: str) -> None:
    described = admin("transactions", "describe-producers", "-t", topic, "-p", 0)
    (producer,) = described[f"{topic}:0"]["active_producers"]
    assert (producer["last_sequence"], producer["current_transaction_start_offset"]) == (1, -1)


def test_it_runs_from_the_shell(server: ServerProcess, topic: str) -> None:
    command = [sys.executable, "-m", "kafka.admin", "-b", server.bootstrap_servers, "--format", "json"]
    finished = subprocess.run([*command, "topics", "list"], capture_output=True, text=True, timeout=30, check=True)
    assert topic in finished.stdout
