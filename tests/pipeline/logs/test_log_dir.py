"""The logs that the log source finds below a path."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from kmini.pipeline.logs.log_dir import LogDir
from kmini.protocol.topics import TopicPartition
from kmini.storage import filenames
from support.log_files import Log, batch, errors, offsets, read, reader


def test_of_several_brokers_the_replica_that_knows_most_is_read_and_marked_folders_are_not(tmp_path: Path) -> None:
    behind, ahead = Log(tmp_path / "broker-1"), Log(tmp_path / "broker-2")
    behind.segment(0, batch(0))
    behind.high_watermark(5)
    ahead.segment(0, batch(0), batch(5))
    ahead.high_watermark(10)
    Log(tmp_path / "broker-1", TopicPartition(f"orders-1.{'b' * 32}-delete", 0)).folder.rename(
        tmp_path / "broker-1" / f"orders-1.{'b' * 32}-delete"
    )
    assert offsets(read(reader(tmp_path))) == [*range(10)]
    assert offsets(read(reader(tmp_path / "broker-1"))) == [*range(5)]
    assert [folder.mark for folder in LogDir(tmp_path).partitions()] == ["", "", "delete"]


def test_internal_topics_are_read_if_they_are_named(tmp_path: Path) -> None:
    Log(tmp_path, TopicPartition("__consumer_offsets", 0)).segment(0, batch(0))
    Log(tmp_path, TopicPartition("orders", 3)).segment(0, batch(0))
    assert {row["topic"] for row in read(reader(tmp_path))} == {"orders"}
    assert {row["topic"] for row in read(reader(tmp_path, subscribePattern=".*"))} == {"orders"}
    assert {row["topic"] for row in read(reader(tmp_path, subscribe="__consumer_offsets"))} == {"__consumer_offsets"}
    assert {row["topic"] for row in read(reader(tmp_path, assign='{"orders": [3]}'))} == {"orders"}
    assert read(reader(tmp_path, assign='{"orders": [0]}')) == []


def test_a_checkpoint_that_does_not_read_is_a_row(log: Log) -> None:
    log.segment(0, batch(0))
    (log.log_dir / filenames.HIGH_WATERMARK_CHECKPOINT).write_text("0\n7\n")
    rows = read(reader(log.log_dir))
    assert offsets(rows) == [*range(5)]
    assert "7 entries announced, 0 there" in errors(rows)[0]


def test_a_folder_of_a_log_alone_can_be_read(log: Log) -> None:
    log.segment(0, batch(0))
    assert [(row["topic"], row["offset"]) for row in read(reader(log.folder))] == [("orders", n) for n in range(5)]
