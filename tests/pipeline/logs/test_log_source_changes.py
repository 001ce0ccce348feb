"""Logs that a broker changes between the planning and the reading of the log source."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from kmini.storage.log_dir_files import write_partition_metadata
from support.log_files import DISK, Log, batch, errors, offsets, read, reader


def test_a_segment_that_left_the_log_after_planning_is_read_while_it_is_there(log: Log) -> None:
    first = log.segment(0, batch(0))
    log.segment(5, batch(5))
    source = reader(log.log_dir)
    tasks = source.partitions()
    first.rename(f"{first}.deleted")
    assert offsets(read(source, tasks)) == [*range(10)]
    Path(f"{first}.deleted").unlink()
    rows = read(source, tasks)
    assert offsets(rows) == [*range(5, 10)]
    assert errors(rows) == [f"{first}: offsets from 0 to below 5 have left the log since the read was planned"]


def test_segments_that_a_cleaner_has_put_into_one_after_planning_give_each_record_once(log: Log) -> None:
    first, second = log.segment(0, batch(0)), log.segment(5, batch(5))
    log.segment(10, batch(10))
    source = reader(log.log_dir)
    tasks = source.partitions()
    Path(f"{first}.swap").write_bytes(batch(0, 2) + batch(5, 3))
    Path(f"{first}.swap").replace(first)
    second.unlink()
    rows = read(source, tasks)
    assert (offsets(rows), errors(rows)) == ([0, 1, 5, 6, 7, *range(10, 15)], [])


def test_what_is_appended_after_planning_is_not_read(log: Log) -> None:
    path = log.segment(0, batch(0))
    log.high_watermark(5)
    source = reader(log.log_dir)
    tasks = source.partitions()
    path.write_bytes(batch(0) + batch(5) + batch(10)[:80])
    assert [row["offset"] for row in read(source, tasks)] == [*range(5)]


def test_a_topic_that_was_deleted_after_planning_is_an_error_and_one_made_anew_too(log: Log) -> None:
    path = log.segment(0, batch(0))
    write_partition_metadata(DISK, str(log.folder), b"1" * 16)
    source = reader(log.log_dir)
    tasks = source.partitions()
    moved = log.folder.rename(log.log_dir / f"orders-0.{'a' * 32}-delete")
    assert errors(read(source, tasks)) == [f"{log.folder}: the log has gone since the read was planned"]
    log.folder.mkdir()
    path.write_bytes((moved / path.name).read_bytes())
    write_partition_metadata(DISK, str(log.folder), b"2" * 16)
    rows = read(source, tasks)
    assert rows[0]["offset"] is None
    assert "created anew" in rows[0]["error"]
