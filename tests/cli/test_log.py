"""`kmini log dump`: the shell around `storage/inspect/dump.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kmini import Broker


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A broker's log directory: three records in orders-0, the first one deleted."""
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
        for value in (b"one", b"two", b"three"):
            broker.produce("orders", value)
        broker.delete_records("orders", 1)
    return tmp_path / "data"


def test_the_files_of_a_broker_are_whole(run, data_dir: Path) -> None:
    result = run("log", "dump", data_dir)
    assert result.exit_code == 0, result.output
    assert "topic=orders partition=0 offset=1" in result.stdout
    assert "orders-0/00000000000000000000.log: segment from offset 0" in result.stdout
    assert "value=" not in result.stdout


def test_records_are_shown_on_request(run, data_dir: Path) -> None:
    (directory,) = data_dir.glob("broker-*/orders-0")
    result = run("log", "dump", "--records", directory, f"{directory}/")
    assert result.exit_code == 0, result.output
    assert result.stdout.count('value="two"') == 2


def test_programs_get_an_object_for_each_thing(run, tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"one", key=b"\xff", headers=[("h", b"v"), ("n", None)], timestamp_ms=1_000)
        broker.produce("orders", b"two", timestamp_ms=2_000)
    (directory,) = (tmp_path / "data").glob("broker-*/orders-0")
    result = run("log", "dump", "--records", "--format", "json", directory)
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert {entry["path"] for entry in told} == {str(path) for path in directory.iterdir()}
    log = str(directory / "00000000000000000000.log")
    heading, first, record, *_ = (entry for entry in told if entry["path"] == log)
    assert (heading["kind"], heading["what"].split(",")[0]) == ("file", "segment from offset 0")
    assert (first["kind"], first["offsets"], first["records"], first["codec"]) == ("batch", [0, 0], 1, "none")
    assert record == {
        "path": log,
        "kind": "record",
        "offset": 0,
        "time": "1970-01-01T00:00:01.000Z",
        "key": {"base64": "/w=="},
        "value": "one",
        "headers": [["h", "v"], ["n", None]],
    }


def test_damage_is_told_to_programs_too(run, data_dir: Path) -> None:
    (log,) = data_dir.glob("broker-*/orders-0/*.log")
    log.write_bytes(log.read_bytes() + b"rest")
    result = run("log", "dump", "--format", "json", data_dir)
    assert result.exit_code == 1
    (damage,) = (told for told in map(json.loads, result.stdout.splitlines()) if told["kind"] == "damage")
    assert (damage["path"], damage["position"]) == (str(log), log.stat().st_size - 4)
    assert damage["reason"].startswith("a torn tail")


def test_damage_is_named_and_is_exit_code_1(run, data_dir: Path) -> None:
    (log,) = data_dir.glob("broker-*/orders-0/*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    result = run("log", "dump", data_dir)
    assert result.exit_code == 1
    assert result.stderr == "kmini: 1 damaged place found\n"
    (damaged,) = (line for line in result.stdout.splitlines() if line.startswith("damaged: "))
    assert damaged.startswith(f"damaged: {log} at byte ")
    assert "the CRC of the batch from offset 2 is" in damaged


def test_a_path_that_is_not_there_is_wrong_usage(run) -> None:
    result = run("log", "dump", "no/such/place")
    assert result.exit_code == 2
    assert "no/such/place" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_files_of_a_running_apache_kafka_are_whole(run, apache_kafka_server, topic_names) -> None:
    topic = topic_names("dump")
    for codec in ("none", "zstd"):
        lines = "".join(f"line {number}\n" for number in range(2_000))
        servers = apache_kafka_server.bootstrap_servers
        result = run("produce", topic, "-z", codec, "-b", servers, "--timeout-ms", "60000", stdin=lines)
        assert result.exit_code == 0, result.output
    command = apache_kafka_server.command
    result = run("log", "dump", "--records", f"{command[command.index('--data-dir') + 1]}/log/{topic}-0")
    assert result.exit_code == 0, result.output
    assert result.stdout.count('value="line 1999"') == 2
