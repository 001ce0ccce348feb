"""Files that change their size while the log source reads them."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from support.log_files import Log, batch, errors, offsets, reader


def test_a_file_that_becomes_shorter_while_it_is_read_is_told_and_no_end_of_the_process(log: Log) -> None:
    log.segment(0, *(batch(5 * n) for n in range(20_000)))
    log.high_watermark(100_000)
    source = reader(log.log_dir)
    (task,) = source.partitions()
    batches = source.read(task)
    found = next(batches).num_rows
    os.truncate(task.path, 100)
    rest = [row for rows in batches for row in rows.to_pylist()]
    assert found + len(offsets(rest)) < 100_000
    assert errors(rest)
