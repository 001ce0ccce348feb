"""`kmini graduate` (cli/graduate.py)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from subprocess import run as run_process

import pytest
from click.testing import CliRunner, Result

from kmini import Broker
from kmini.broker.controller.controller import Controller
from kmini.broker.security.acls import AclBinding
from kmini.broker.settings.properties import parse_properties
from kmini.cli import kmini
from kmini.records import tombstone

pytestmark = pytest.mark.sockets


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(kmini, ["graduate", *map(str, arguments)], prog_name="kmini")


def test_it_says_what_was_done_and_how_to_go_on(data_dir: Path, out: Path) -> None:
    result = invoke(data_dir, out)
    assert result.exit_code == 0, result.output
    heading, *lines = result.stdout.splitlines()
    assert heading.split("\t") == ["topic", "partitions", "offsets", "copied bytes", "linked bytes", "tombstones"]
    assert [line.split("\t")[:3] for line in lines[:2]] == [["empty", "1", "0"], ["orders", "2", "8"]]
    assert lines[-1] == f"Start Apache Kafka: bin/kafka-server-start.sh {out}/server.properties"
    assert parse_properties((out / "server.properties").read_text())["log.dirs"] == str(out)


def test_what_is_not_as_it_was_is_said(data_dir: Path, out: Path) -> None:
    with Broker(data_dir=data_dir) as broker:
        broker.create_topic("profiles", config={"kmini.tombstone.flag.enable": "true"})
        broker.produce("profiles", **tombstone(b"alice", b"value"))
    result = invoke(data_dir, out)
    assert "kmini.tombstone.flag.enable\ttopic profiles\ttrue\t-\tApache Kafka does not have it" in result.stdout
    assert "1 flagged tombstone has a null value now." in result.stdout


def test_what_stands_in_no_topic_is_counted(data_dir: Path, out: Path) -> None:
    controller = Controller.open(str(data_dir))
    controller.create_acls([AclBinding(2, 3, "orders", "User:alice", "*", 3, 3)])
    controller.close()
    result = invoke(data_dir, out)
    assert "Taken over as well: access rules: 1." in result.stdout
    assert "in force where server.properties asks for them: give --config" in result.stdout


def test_records_that_apache_kafka_will_delete_soon_are_named(data_dir: Path, out: Path) -> None:
    """They are older than `retention.ms`: a broker whose clock tests move, or that was stopped, has kept them."""
    old_ms = time.time_ns() // 1_000_000 - 10 * 86_400_000
    with Broker(data_dir=data_dir) as broker:
        for name, config in (
            ("old", {}),
            ("kept", {"retention.ms": "-1"}),
            ("compacted", {"cleanup.policy": "compact"}),
        ):
            broker.create_topic(name, config={"segment.bytes": "300", **config})
            for _ in range(6):
                broker.produce(name, b"." * 100, key=b"k", timestamp_ms=old_ms)
            broker.produce(name, b"new", key=b"k")
    report = json.loads(invoke("--format", "json", data_dir, out).stdout)
    expired = {topic["name"]: topic["expired"] for topic in report["topics"]}
    assert 0 < expired["old"] < 7
    assert (expired["kept"], expired["compacted"], expired["orders"]) == (0, 0, 0)


def test_the_note_says_how_many_and_what_to_do(data_dir: Path, out: Path) -> None:
    with Broker(data_dir=data_dir) as broker:
        broker.create_topic("old")
        broker.produce("old", b"v", timestamp_ms=1)
    note = "Apache Kafka deletes them soon after its start: 1 of old (offsets). Raise retention.ms of the topic before"
    assert note in invoke(data_dir, out).stdout


def test_as_json_it_is_one_object(data_dir: Path, out: Path) -> None:
    result = invoke("--format", "json", "--node-id", 3, data_dir, out)
    report = json.loads(result.stdout)
    assert report["node_id"] == 3
    assert [topic["name"] for topic in report["topics"]] == ["empty", "orders"]
    assert report["topics"][1]["offsets"] == 8
    assert report.keys() >= {"cluster_id", "acls", "changed_settings", "open_transactions", "left_behind"}


def test_the_settings_of_the_broker_become_those_of_kafka(data_dir: Path, out: Path, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("listeners=PLAINTEXT://127.0.0.1:19092\nnode.id=4\n")
    assert invoke("--config", path, data_dir, out).exit_code == 0
    properties = parse_properties((out / "server.properties").read_text())
    assert (properties["node.id"], properties["listeners"]) == (
        "4",
        "PLAINTEXT://127.0.0.1:19092,CONTROLLER://localhost:9093",
    )
    assert "node.id=4\n" in (out / "meta.properties").read_text()


def test_a_refusal_is_one_sentence(data_dir: Path, out: Path) -> None:
    (data_dir / "broker-1" / ".kafka_cleanshutdown").unlink()
    result = invoke(data_dir, out)
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert "was not closed in order" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize("missing", ["data", "config"])
def test_what_is_not_there_is_wrong_usage(data_dir: Path, out: Path, tmp_path: Path, missing: str) -> None:
    options = ("--config", tmp_path / "no.properties") if missing == "config" else ()
    result = invoke(*options, tmp_path / "nowhere" if missing == "data" else data_dir, out)
    assert result.exit_code == 2


@pytest.mark.sockets
def test_serving_does_not_import_it() -> None:
    code = "import sys, kmini.cli.serve, kmini.broker.broker; print('kmini.graduation' in sys.modules)"
    finished = run_process([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout == "False\n"
