"""The progress of a pipeline: rows a second and lag of each stage, purged records of each topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import RenderableType

    from .purge import TopicPurge


log = logging.getLogger("kmini.pipeline")

SHOWN_EVERY = 10
"""Without a terminal, every tenth progress is shown: one in ten seconds."""


@dataclass(frozen=True)
class StageProgress:
    """The last micro-batch of a stage, as Spark reports it."""

    name: str
    state: str
    batch_id: int | None = None
    input_rows: int = 0
    rows_per_second: float = 0.0
    """Processed rows a second."""
    lag: int | None = None
    """Records behind the end of the batch that its topics had when it was planned."""
    late_rows: int = 0
    """Rows that this run dropped because they came behind the watermark."""


@dataclass(frozen=True)
class TopicProgress:
    name: str
    purged: int
    """Records that went in this run."""
    waits_for: str
    """The consumers that keep a partition from being purged, or why the last purge failed."""


@dataclass(frozen=True)
class Progress:
    pipeline: str
    stages: Sequence[StageProgress]
    topics: Sequence[TopicProgress]


Watcher = Callable[[Progress], None]
"""Called about once a second with the progress of a running pipeline."""


class LateRows:
    """Counts the rows of a stage that came behind the watermark, which Spark reports of each micro-batch."""

    def __init__(self) -> None:
        self.total = 0
        self._counted = -1
        """The last batch that is counted. Spark remembers the last hundred reports."""

    def count(self, query: StreamingQuery) -> int:
        """Add the batches that are new, and return the total.

        Asks the JVM for what it needs: PySpark's `recentProgress` asks for each value of all the reports, which takes
        seconds. A report of an idle query has the number of the batch that comes next, and is left out.
        """
        counted, reports = self._counted, query._jsq.recentProgress()
        for index in reversed(range(len(reports))):
            report = reports[index]
            batch_id = report.batchId()
            if batch_id <= counted:
                break
            if report.durationMs().containsKey("addBatch"):
                self.total += sum(one.numRowsDroppedByWatermark() for one in report.stateOperators())
                self._counted = max(self._counted, batch_id)
        return self.total


def stage_progress(
    name: str, query: StreamingQuery | None, state: str = "", late_rows: LateRows | None = None
) -> StageProgress:
    """The progress of a stage whose query is `query`, None before it runs. `state` overrides the query's own state."""
    if query is None:
        return StageProgress(name, state or "waits")
    state = state or ("runs" if query.isActive else "ended")
    last = query.lastProgress
    if last is None:
        return StageProgress(name, state)
    lags = [lag for source in last["sources"] if (lag := _lag(source)) is not None]
    rate = float(last["processedRowsPerSecond"] or 0.0)
    return StageProgress(
        name,
        state,
        last["batchId"],
        last["numInputRows"],
        rate if rate == rate else 0.0,  # Spark reports NaN while there is no batch
        sum(lags) if lags else None,
        late_rows.count(query) if late_rows is not None else 0,
    )


def _lag(source: Any) -> int | None:
    """Records between a Kafka source and the latest offsets; None for another kind of source."""
    latest, end = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _offsets(reported: Any) -> dict[tuple[str, str], int] | None:
    """The offsets of a source, by topic and partition; None where Spark has none, or reports another kind of offset. A
    batch that is run again after a restart has no latest offset: PySpark makes the text "None" of it."""
    try:
        content = json.loads(reported) if isinstance(reported, str) else reported
    except ValueError:
        return None
    if not isinstance(content, dict) or not all(isinstance(one, dict) for one in content.values()):
        return None
    return {(topic, partition): offset for topic, one in content.items() for partition, offset in one.items()}


def topic_progress(topic: TopicPurge) -> TopicProgress:
    waits = "; ".join(f"{partition} waits for {names}" for partition, names in sorted(topic.waits_for.items()))
    return TopicProgress(topic.topic, topic.purged, topic.problem or waits)


@contextmanager
def logged() -> Iterator[Watcher]:
    """A watcher that logs at INFO now and then. If no handler is set up for logging, the lines go to the standard
    error, with the time."""
    level, handler = log.level, logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    is_set_up = log.hasHandlers()
    if not is_set_up:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    try:
        yield now_and_then(partial(log.info, "%s"))
    finally:
        if not is_set_up:
            log.removeHandler(handler)
            log.setLevel(level)


def now_and_then(show: Callable[[str], None]) -> Watcher:
    """A watcher that shows every tenth progress, and the last one, line by line."""
    reports = count(1)

    def report(progress: Progress) -> None:
        if next(reports) % SHOWN_EVERY == 0 or all(stage.state == "ended" for stage in progress.stages):
            for line in lines(progress):
                show(line)

    return report


def lines(progress: Progress) -> list[str]:
    """The progress as lines of text, for a pipe or a log."""
    found = [
        f"{stage.name}: {stage.state}"
        + ("" if stage.batch_id is None else f", batch {stage.batch_id}, {stage.rows_per_second:.0f} rows/s")
        + ("" if stage.lag is None else f", lag {stage.lag}")
        + (f", {stage.late_rows} late rows dropped" if stage.late_rows else "")
        for stage in progress.stages
    ]
    for topic in progress.topics:
        found.append(f"{topic.name}: {topic.purged} purged" + (f" ({topic.waits_for})" if topic.waits_for else ""))
    return found


def table(progress: Progress) -> RenderableType:
    """The progress as tables, for a terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    stages = Table("stage", "state", box=SIMPLE_HEAD)
    for heading in ("batch", "rows/s", "lag", "dropped late"):
        stages.add_column(heading, justify="right")
    for stage in progress.stages:
        batch = "-" if stage.batch_id is None else str(stage.batch_id)
        lag = "-" if stage.lag is None else f"{stage.lag:,}"
        late = f"{stage.late_rows:,}"
        stages.add_row(Text(stage.name), stage.state, batch, f"{stage.rows_per_second:,.0f}", lag, late)
    topics = Table("topic", box=SIMPLE_HEAD)
    topics.add_column("purged", justify="right")
    topics.add_column("")
    for topic in progress.topics:
        topics.add_row(Text(topic.name), f"{topic.purged:,}", Text(topic.waits_for))
    return Group(stages, *([topics] if progress.topics else []))
