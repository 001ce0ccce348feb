"""The progress of a pipeline in a log and on a terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

pytest.importorskip("confluent_kafka")

from kmini.pipeline.stages.pipeline_progress import Progress, StageProgress, TopicProgress, lines, table


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
