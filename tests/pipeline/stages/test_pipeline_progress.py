"""The progress of a pipeline in a log and on a terminal."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

pytest.importorskip("confluent_kafka")

from kmini.pipeline.stages.pipeline_progress import (
    LateRows,
    Progress,
    StageProgress,
    TopicProgress,
    lines,
    stage_progress,
    table,
)


def test_progress_reads_in_a_log_and_on_a_terminal() -> None:
    stages = [StageProgress("first", "runs", 7, 100, 1234.5, 42), StageProgress("second", "waits")]
    progress = Progress("p", stages, [TopicProgress("between", 1000, "0 waits for group billing")])
    assert lines(progress) == [
        "first: runs, batch 7, 1234 rows/s, lag 42",
        "second: waits",
        "between: 1000 purged (0 waits for group billing)",
    ]
    terminal = Console(width=100, record=True, file=StringIO())
    terminal.print(table(progress))
    drawn = terminal.export_text()
    assert all(word in drawn for word in ("first", "1,23", "42", "between", "1,000", "0 waits for group billing"))


class Query:
    """A query of Spark's, as far as its progress is concerned."""

    isActive = True

    def __init__(self, latest: Any, end: Any) -> None:
        sources = [{"latestOffset": latest, "endOffset": end}]
        self.lastProgress = {"batchId": 1, "numInputRows": 5, "processedRowsPerSecond": 2.0, "sources": sources}


@pytest.mark.parametrize(
    ("latest", "end", "lag"),
    [
        ('{"in": {"0": 7, "1": 4}}', '{"in": {"0": 5, "1": 4}}', 2),
        ({"in": {"0": 7}}, {"in": {"0": 5}}, 2),
        ("None", '{"in": {"0": 5}}', None),
        (None, '{"in": {"0": 5}}', None),
        ("7", "5", None),
    ],
    ids=["as a text", "as a dict", "of a batch that is run again", "without one", "of a source that is not Kafka"],
)
def test_the_lag_of_a_batch(latest: Any, end: Any, lag: int | None) -> None:
    shown = stage_progress("s", cast(Any, Query(latest, end)))
    assert (shown.batch_id, shown.input_rows, shown.rows_per_second, shown.lag) == (1, 5, 2.0, lag)


class Report:
    """The JVM's report of a batch, with one row dropped by each of two operators."""

    def __init__(self, batch_id: int, *, is_idle: bool = False) -> None:
        self._batch_id = batch_id
        self._is_idle = is_idle
        self.reads = 0

    def batchId(self) -> int:
        return self._batch_id

    def durationMs(self) -> Report:
        return self

    def containsKey(self, key: str) -> bool:
        return key == "addBatch" and not self._is_idle

    def stateOperators(self) -> list[Report]:
        self.reads += 1
        return [self, self]

    def numRowsDroppedByWatermark(self) -> int:
        return 0 if self._is_idle else 1


def late_rows(late: LateRows, *reports: Report) -> int:
    query = SimpleNamespace(_jsq=SimpleNamespace(recentProgress=lambda: reports))
    return late.count(cast(Any, query))


def test_late_rows_are_read_once_of_each_batch() -> None:
    late = LateRows()
    batches = [Report(number) for number in range(6)]
    assert [late_rows(late, *batches[:last]) for last in (0, 1, 1, 4, 4, 6)] == [0, 2, 2, 8, 8, 12]
    assert [batch.reads for batch in batches] == [1] * 6


def test_late_rows_of_the_batch_after_an_idle_time_are_counted() -> None:
    """An idle query reports the number of the batch that comes next."""
    late = LateRows()
    before, idle, after = Report(0), Report(1, is_idle=True), Report(1)
    assert late_rows(late, before, idle) == 2
    assert late_rows(late, before, idle, after) == 4
