"""`broker.load`: lines, archives and log directories become the records of topics (testkit/seeds.py)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kafka.partitioner.default import murmur2

from kmini import Broker, Cluster
from kmini.cli import kmini
from kmini.pipeline.archives.archive_files import ArchiveError, Description, Row, write_description
from kmini.testkit.seeds import SeedError
from support.archives import write_archive


def shown(broker: Any, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.partition, record.key, record.value) for record in broker.records(topic)]


def times(broker: Any) -> list[int]:
    return [record.timestamp for record in broker.records("orders")]


@pytest.mark.parametrize("host", [Broker, Cluster])
def test_lines_of_json_become_records_of_their_topics(host: Any, tmp_path: Path) -> None:
    seed = tmp_path / "seed.jsonl"
    seed.write_text(
        '{"topic": "orders", "partition": 1, "key": "42", "value": {"state": "plaçed"}, "timestamp": 1700000000000,'
        ' "headers": [["trace", "a"], ["empty", null]]}\n'
        "\n"
        '{"topic": "orders", "partition": 0, "value": null, "key": {"base64": "AP8="}, "headers": {"by": "me"}}\n'
        '{"topic": "made-by-itself", "value": "text"}'
    )
    with host(topics={"orders": 2}) as broker:
        assert broker.load(seed) == {"orders": 2, "made-by-itself": 1}
        first, second = broker.records("orders")
        assert (first.key, first.value, first.headers) == (b"\x00\xff", None, (("by", b"me"),))
        assert (second.partition, second.key, second.timestamp) == (1, b"42", 1_700_000_000_000)
        assert second.value == '{"state":"plaçed"}'.encode()
        assert second.headers == (("trace", b"a"), ("empty", None))
        assert shown(broker, "made-by-itself") == [(0, None, b"text")]


def test_what_consume_prints_is_loaded_as_it_was(tmp_path: Path) -> None:
    with Broker(topics={"orders": 3}) as broker:
        for number in range(20):
            broker.produce("orders", b"v\xff%d" % number, key=b"k%d" % number, partition=number % 3)
        printed = CliRunner().invoke(kmini, ["consume", "orders", "--format", "json", "-b", broker.bootstrap_servers])
        assert printed.exit_code == 0, printed.output
        before = [
            (*one, record.timestamp)
            for one, record in zip(shown(broker, "orders"), broker.records("orders"), strict=True)
        ]
        seed = tmp_path / "seed.jsonl"
        seed.write_text(printed.stdout)
        broker.reset()
        assert broker.load(str(seed)) == {"orders": 20}
        after = [
            (*one, record.timestamp)
            for one, record in zip(shown(broker, "orders"), broker.records("orders"), strict=True)
        ]
        assert after == before


def test_with_a_topic_each_line_is_a_value_and_keys_choose_partitions_as_in_java(tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_bytes(b"one\n\ntwo\r\n\xff")
    keyed = tmp_path / "keyed.jsonl"
    keyed.write_text("".join(f'{{"topic": "keyed", "key": "{number}", "value": "v"}}\n' for number in range(5_000)))
    with Broker(topics={"orders": 1, "keyed": 7}) as broker:
        assert broker.load(lines, topic="orders") == {"orders": 4}
        assert [record.value for record in broker.records("orders")] == [b"one", b"", b"two\r", b"\xff"]
        assert broker.load(keyed) == {"keyed": 5_000}
        by_key = {record.key: record.partition for record in broker.records("keyed")}
        assert by_key == {key: (murmur2(key) & 0x7FFFFFFF) % 7 for key in by_key}
        assert len(by_key) == 5_000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "seed.jsonl, line 2 is no JSON"),
        ("[]", 'a JSON object with "topic" and "value" was expected, as kmini consume --format json'),
        ('{"topic": "orders"}', 'a JSON object with "topic" and "value"'),
        ('{"topic": "orders", "value": 1, "partition": "0"}', "partition and timestamp are whole numbers"),
        ('{"topic": "orders", "value": 1, "headers": [1]}', "headers are pairs of a name and a value"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str, told: str) -> None:
    seed = tmp_path / "seed.jsonl"
    seed.write_text('{"topic": "orders", "value": "fine"}\n' + line)
    with Broker(topics=["orders"]) as broker, pytest.raises(SeedError, match=told):
        broker.load(seed)


def test_what_is_nothing_of_this_is_refused(tmp_path: Path) -> None:
    with Broker(topics=["orders"]) as broker:
        with pytest.raises(SeedError, match=r"no file of lines, no archive \(topic=NAME\), and no log directory"):
            broker.load(tmp_path)
        with pytest.raises(SeedError, match="is for the lines of a file"):
            broker.load(tmp_path, topic="orders")
        with pytest.raises(FileNotFoundError):
            broker.load(tmp_path / "absent.jsonl")


def test_a_copy_of_a_log_directory_brings_topics_groups_and_offsets(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "source", topics={"orders": 2}) as source:
        for number in range(5):
            source.produce("orders", b"%d" % number, key=b"k", partition=number % 2)
        source.delete_records("orders", 1)
        source.group("billing").commit({("orders", 0): 2})
        before = shown(source, "orders")
    with Broker(data_dir=tmp_path / "killed", topics=["crashed"]) as killed:
        killed.produce("crashed", b"recovered")
        shutil.copytree(tmp_path / "killed" / "broker-1", tmp_path / "copy-of-a-running-one")
    copy = tmp_path / "source" / "broker-1"
    files = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    for host in (Broker(topics=["mine"]), Cluster(topics=["mine"])):
        with host as broker:
            assert broker.load(copy) == {"__consumer_offsets": 1, "orders": 4}
            assert shown(broker, "orders") == before
            assert broker.group("billing").offsets() == {("orders", 0): 2}
            assert broker.produce("orders", b"more") == 3
            assert broker.load(tmp_path / "copy-of-a-running-one") == {"crashed": 1}
            assert shown(broker, "crashed") == [(0, None, b"recovered")]
            with pytest.raises(SeedError, match="there is a topic __consumer_offsets already: delete it, or reset"):
                broker.load(copy)
            assert sorted(broker.topics()) == ["__consumer_offsets", "crashed", "mine", "orders"]
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == files


def test_an_archive_brings_its_topics_with_their_settings(tmp_path: Path) -> None:
    rows = [[Row(number, 1_000 + number, 0, b"k", b"v%d" % number, [("h", None)]) for number in range(50)], []]
    write_archive(tmp_path / "backup", "orders", rows, {"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    write_archive(tmp_path / "backup", "untimed", [[Row(7, -1, -1, None, None, None)]])
    for host in (Broker(), Cluster()):
        with host as broker:
            assert broker.load(tmp_path / "backup") == {"orders": 50, "untimed": 1}
            found = broker.records("orders", 0)
            assert [record.value for record in found] == [b"v%d" % number for number in range(50)]
            assert (found[0].timestamp, found[0].headers) == (1_000, (("h", None),))
            assert broker.records("orders", 1) == []
            assert [(one.timestamp, one.value) for one in broker.records("untimed")] == [(-1, None)]
            broker.topic("orders").roll()
            broker.topic("orders").apply_retention()
            assert broker.records("orders") == [], "the retention of the archived topic is in force"
            with pytest.raises(SeedError, match="there is a topic orders already"):
                broker.load(tmp_path / "backup")


def test_a_topic_that_was_not_archived_to_its_end_is_refused(tmp_path: Path) -> None:
    archive = write_archive(tmp_path / "backup", "orders", [[]])
    write_description(archive, Description("orders", 1, {}, is_complete=False))
    with Broker() as broker, pytest.raises(ArchiveError, match="did not come to its end"):
        broker.load(archive)
