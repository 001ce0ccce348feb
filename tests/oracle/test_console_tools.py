"""Kafka's command line tools, unchanged, against the server under test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.java_peer import RunTool

TopicNames = Callable[[str], str]


@pytest.fixture
def topic(tool: RunTool, topic_names: TopicNames) -> str:
    """A topic with two partitions."""
    name = topic_names("tools")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2).lines == [f"Created topic {name}."]
    return name


def test_topic_command_lists_what_it_created(tool: RunTool, topic: str) -> None:
    assert topic in tool("TopicCommand", "--list").lines


def test_topic_command_describes_partitions_and_settings(tool: RunTool, topic_names: TopicNames) -> None:
    name = topic_names("described")
    settings = ("--config", "cleanup.policy=compact", "--config", "retention.ms=1000")
    assert tool("TopicCommand", "--create", "--topic", name, "--partitions", 2, *settings).exit == 0
    finished = tool("TopicCommand", "--describe", "--topic", name)
    assert finished.exit == 0, finished.stderr
    head, *partitions = finished.lines
    assert f"Topic: {name}\t" in head
    assert "PartitionCount: 2\tReplicationFactor: 1\t" in head
    assert {"cleanup.policy=compact", "retention.ms=1000"} <= {*head.partition("Configs: ")[2].split(",")}
    assert len(partitions) == 2
    assert all("Leader: 1\tReplicas: 1\tIsr: 1" in line for line in partitions)


def test_topic_command_refuses_a_topic_that_exists_already(tool: RunTool, topic: str) -> None:
    finished = tool("TopicCommand", "--create", "--topic", topic)
    assert finished.exit == 1
    assert "TopicExistsException" in finished.stderr
    assert tool("TopicCommand", "--create", "--topic", topic, "--if-not-exists").exit == 0


def test_topic_command_deletes(tool: RunTool, topic: str) -> None:
    assert tool("TopicCommand", "--delete", "--topic", topic).exit == 0
    assert topic not in tool("TopicCommand", "--list").lines


def test_the_console_consumer_reads_what_the_console_producer_wrote(tool: RunTool, topic_names: TopicNames) -> None:
    name = topic_names("console")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    finished = tool("ConsoleProducer", "--topic", name, *keyed, stdin="k1:one\nk2:two\nk3:three\n")
    assert finished.exit == 0, finished.stderr
    assert read(tool, name, "--offset", "earliest", count=3) == ["k1:one", "k2:two", "k3:three"]
    assert read(tool, name, "--offset", 1, count=1) == ["k2:two"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_console_producer_compresses(tool: RunTool, topic_names: TopicNames, codec: str) -> None:
    name = topic_names(codec)
    lines = [f"{codec}:{number}" for number in range(500)]
    finished = tool("ConsoleProducer", "--topic", name, "--compression-codec", codec, stdin="\n".join(lines) + "\n")
    assert finished.exit == 0, finished.stderr
    assert [line.removeprefix("null:") for line in read(tool, name, "--offset", "earliest", count=500)] == lines


def read(tool: RunTool, topic: str, *start: object, count: int) -> list[str]:
    """Read partition 0 with the console consumer; a key, or `null`, stands before each value."""
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
    limits = ("--max-messages", count, "--timeout-ms", 15_000)
    finished = tool("ConsoleConsumer", "--topic", topic, "--partition", 0, *start, *limits, *shown)
    assert f"Processed a total of {count} messages" in finished.stderr
    return finished.lines


def test_get_offset_shell_knows_the_first_and_the_last_offset(tool: RunTool, topic: str, tmp_path: Path) -> None:
    fill_first_partition(tool, topic, 10)
    delete_before(tool, topic, 4, tmp_path)
    offsets = {time: tool("GetOffsetShell", "--topic", topic, "--time", time).lines for time in (-1, -2, -3)}
    assert offsets[-1] == [f"{topic}:0:10", f"{topic}:1:0"]
    assert offsets[-2] == [f"{topic}:0:4", f"{topic}:1:0"]
    assert tool("GetOffsetShell", "--topic-partitions", f"{topic}:0", "--time", "latest").lines == [f"{topic}:0:10"]


def fill_first_partition(tool: RunTool, topic: str, count: int) -> None:
    """The console producer chooses no partition, so the records go where their key sends them: to partition 0."""
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    lines = "".join(f"{KEY_OF_PARTITION_0}:{number}\n" for number in range(count))
    assert tool("ConsoleProducer", "--topic", topic, *keyed, stdin=lines).exit == 0


KEY_OF_PARTITION_0 = "c"
"""Kafka's murmur2 sends this key to partition 0 of 2."""


def delete_before(tool: RunTool, topic: str, offset: int, directory: Path) -> list[str]:
    path = directory / "delete.json"
    entry = {"topic": topic, "partition": 0, "offset": offset}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}), encoding="utf-8")
    finished = tool("DeleteRecordsCommand", "--offset-json-file", path)
    assert finished.exit == 0, finished.stderr
    return finished.lines


def test_delete_records_command_shows_the_low_watermark(tool: RunTool, topic: str, tmp_path: Path) -> None:
    fill_first_partition(tool, topic, 10)
    assert f"partition: {topic}-0\tlow_watermark: 7" in delete_before(tool, topic, 7, tmp_path)
    assert f"partition: {topic}-0\tlow_watermark: 10" in delete_before(tool, topic, -1, tmp_path)


def test_delete_records_command_names_the_error_of_a_partition(tool: RunTool, topic: str, tmp_path: Path) -> None:
    lines = delete_before(tool, topic, 1, tmp_path)
    assert any(f"partition: {topic}-0\terror" in line and "OffsetOutOfRangeException" in line for line in lines), lines


def test_the_console_consumer_is_told_that_its_offset_is_gone(tool: RunTool, topic: str, tmp_path: Path) -> None:
    fill_first_partition(tool, topic, 10)
    delete_before(tool, topic, 6, tmp_path)
    reset = ("--command-property", "auto.offset.reset=earliest")
    lines = read(tool, topic, "--offset", 2, *reset, count=4)
    assert lines == [f"{KEY_OF_PARTITION_0}:{number}" for number in range(6, 10)]
