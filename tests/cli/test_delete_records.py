"""`kmini delete-records` and `kafka-delete-data`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kmini.cli.delete_records import kafka_delete_data


@pytest.fixture
def filled(broker):
    """`orders` with 10 records in each of two partitions."""
    broker.create_topic("orders", 2)
    for partition in range(2):
        for _ in range(10):
            broker.produce("orders", b"v", partition=partition)
    return broker


def write_offsets(path: Path, *entries: tuple[str, int, int], **other: object) -> Path:
    partitions = [{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in entries]
    path.write_text(json.dumps({"partitions": partitions, "version": 1, **other}))
    return path


def test_each_partition_is_a_line_with_its_low_watermark(ask, filled) -> None:
    assert ask("delete-records", "orders:0:4", "orders:1:-1").stdout == "orders 0 4\norders 1 10\n"
    assert filled.offsets("orders", 0).log_start_offset == 4
    assert filled.offsets("orders", 1).log_start_offset == 10


def test_a_partition_that_fails_is_told_and_hinders_no_other(run, filled) -> None:
    result = run("delete-records", "orders:0:11", "orders:1:2", "-b", filled.bootstrap_servers)
    assert result.exit_code == 1
    failed, deleted = result.stdout.splitlines()
    assert failed.startswith("orders 0 OFFSET_OUT_OF_RANGE: ")
    assert deleted == "orders 1 2"


def test_a_policy_that_forbids_deleting_is_named_with_the_one_that_allows_it(run, broker) -> None:
    broker.create_topic("profiles", config={"cleanup.policy": "compact"})
    result = run("delete-records", "profiles:0:-1", "-b", broker.bootstrap_servers)
    assert result.exit_code == 1
    assert result.stdout == (
        "profiles 0 POLICY_VIOLATION: the cleanup.policy of profiles is compact, so its records are deleted by key; "
        "cleanup.policy=compact,delete allows both\n"
    )


def test_offsets_can_stand_in_kafkas_json(ask, filled, tmp_path) -> None:
    path = write_offsets(tmp_path / "offsets.json", ("orders", 0, 4))
    assert ask("delete-records", "--offset-json-file", path, "orders:1:3").stdout == "orders 0 4\norders 1 3\n"


@pytest.fixture
def dated(broker):
    """`orders` with a record a second from 2026-01-31T12:00:00Z on, ten in each of two partitions."""
    broker.create_topic("orders", 2)
    for partition in range(2):
        for second in range(10):
            broker.produce("orders", b"v", partition=partition, timestamp_ms=1_769_860_800_000 + 1_000 * second)
    return broker


def test_what_is_older_than_a_time_can_be_deleted(ask, dated) -> None:
    assert ask("delete-records", "--before", "2026-01-31T12:00:04Z", "orders").stdout == "orders 0 4\norders 1 4\n"
    assert ask("delete-records", "--before", "2026-01-31T12:00:06Z", "orders:1").stdout == "orders 1 6\n"
    assert [dated.offsets("orders", number).log_start_offset for number in (0, 1)] == [4, 6]


def test_a_time_after_the_last_record_deletes_all_of_them_and_one_before_the_first_none(ask, dated) -> None:
    assert ask("delete-records", "--before", "2025-01-01T00:00:00Z", "orders:0").stdout == "orders 0 0\n"
    assert ask("delete-records", "--before", "2027-01-01T00:00:00Z", "orders:0").stdout == "orders 0 10\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--before", "soon", "orders"), "a time like"),
        (("--before", "2026-01-31T12:00:00Z"), "TOPIC or TOPIC:PARTITION"),
        (("--before", "2026-01-31T12:00:00Z", "orders:0:5"), "TOPIC or TOPIC:PARTITION"),
        (("--before", "2026-01-31T12:00:00Z", "--offset-json-file", "x.json", "orders"), "--offset-json-file"),
    ],
)
def test_what_cannot_be_looked_up_is_said(run, filled, arguments: tuple[str, ...], said: str) -> None:
    result = run("delete-records", *arguments, "-b", filled.bootstrap_servers)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("option", ["--offset-json-file", "--delete-offset-json-file"])
def test_the_script_of_the_kip_does_the_same(filled, tmp_path, option: str) -> None:
    path = write_offsets(tmp_path / "offsets.json", ("orders", 0, 4), ("orders", 1, -1))
    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=5000\nclient.id=janitor\nretries=3\n")
    arguments = ["--bootstrap-server", filled.bootstrap_servers, "--command-config", str(config), option, str(path)]
    result = CliRunner().invoke(kafka_delete_data, arguments)
    assert (result.exit_code, result.stdout) == (0, "orders 0 4\norders 1 10\n")


@pytest.mark.parametrize("missing", ["--bootstrap-server", "--offset-json-file"])
def test_the_script_needs_a_broker_and_offsets(tmp_path, missing: str) -> None:
    arguments = {"--bootstrap-server": "127.0.0.1:1", "--offset-json-file": str(tmp_path)}
    del arguments[missing]
    result = CliRunner().invoke(kafka_delete_data, [part for pair in arguments.items() for part in pair])
    assert result.exit_code == 2
    assert missing in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "target", ["orders", "orders:0", "orders:0:", "orders:x:1", ":0:1", "orders:0:-2", "orders:-1:0", "orders:0:1:2"]
)
def test_a_target_that_is_none_is_told(refuse, target: str) -> None:
    assert "TOPIC:PARTITION:OFFSET was expected, as in orders:0:1000" in refuse("delete-records", target, code=2)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "has no list of partitions"),
        ('{"version": 1}', "has no list of partitions"),
        ('{"partitions": [], "version": 2}', "has version 2: version 1 was expected"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "partition 1 of the list"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": 1.5}]}', "partition 1 of the list"),
        ('{"partitions": [{"topic": "t", "partition": true, "offset": 1}]}', "partition 1 of the list"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": 9223372036854775808}]}', "partition 1 of the list"),
        ('{"partitions": [7]}', "partition 1 of the list"),
        ('{"partitions": []}', "nothing to delete"),
    ],
)
def test_a_file_that_is_no_list_of_offsets_is_told(refuse, tmp_path, content: str, said: str) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(content)
    assert said in refuse("delete-records", "--offset-json-file", path, code=2)


def test_a_partition_named_twice_is_told(refuse, tmp_path) -> None:
    path = write_offsets(tmp_path / "offsets.json", ("orders", 0, 4))
    assert "orders:0 is named twice" in refuse("delete-records", "orders:0:1", "--offset-json-file", path, code=2)


def test_a_file_that_is_not_there_is_told(refuse) -> None:
    assert "cannot read nowhere.json" in refuse("delete-records", "--offset-json-file", "nowhere.json", code=2)


def test_nothing_to_delete_is_told(refuse) -> None:
    assert "nothing to delete" in refuse("delete-records", code=2)
