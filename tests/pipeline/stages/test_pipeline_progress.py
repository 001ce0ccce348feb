"""The progress of a pipeline in a log and on a terminal."""

from __future__ import annotations

from io import StringIO
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


def test_the_batches_before_the_last_one_are_read_only_where_they_are_new() -> None:
    batches = [{"batchId": number, "stateOperators": [{"numRowsDroppedByWatermark": 1}]} for number in range(6)]
    late, reads = LateRows(), 0

    def count(first: int, last: int) -> int:
        def recent() -> list[dict[str, Any]]:
            nonlocal reads
            reads += 1
            return batches[first : last + 1]

        return late.count(batches[last], recent)

    assert [count(0, 0), count(0, 0), count(0, 1)] == [1, 1, 2]
    assert reads == 0
    assert [count(0, 4), count(0, 4), count(0, 5)] == [5, 5, 6]
    assert reads == 1
