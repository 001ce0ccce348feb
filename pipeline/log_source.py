"""`spark.read.format("kmini-log")`: the segment files of a log directory as a table, without a broker.

    from kmini.pipeline.log_source import KminiLogSource
    spark.dataSource.register(KminiLogSource)
    spark.read.format("kmini-log").option("subscribe", "orders").load(log_dir)

One task reads one segment, or a split of a large one. The rows are the records that a consumer with read_committed
gets. docs/log-source.md says how they are found, and what happens while a broker is running.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructField, StructType

from ..protocol.topics import TopicPartition
from ..storage.filenames import DELETED
from ..storage.filesystem import OsFileSystem
from ..storage.indexes.transaction_index import AbortedTransaction
from ..storage.log_dir_files import CorruptMetadata, read_partition_metadata
from .logs.log_dir import LIVE, LogDir, PartitionFolder, SegmentFile, list_segments
from .logs.options import EARLIEST, LATEST, LogOptions, parse_options
from .logs.pushed_filters import OFFSET, PARTITION, TIMESTAMP, TOPIC, PushedFilters, largest_timestamp
from .logs.readable_range import LogChanged, aborted_within, readable_range
from .logs.rows import COLUMNS, LogRows
from .logs.segment_bytes import SegmentBytes
from .logs.segment_scan import ScanEnd, scan_segment
from .logs.segment_splits import BatchStart, split_starts


class DamagedSegmentError(Exception):
    """A segment is damaged, and the rows have no column for it. The message names file, position and reason."""


MAX_ROWS = 1 << 15
MAX_DATA_BYTES = 4 << 20
_TRIES = 5


@dataclass
class SegmentTask(InputPartition):
    """A segment or a split of one to read, or problems to report."""

    folder: str = ""
    topic: str | None = None
    partition: int | None = None
    topic_id: bytes | None = None
    path: str = ""
    start_offset: int = 0
    end_offset: int | None = None
    is_last: bool = False
    """Whether the log must reach `end_offset` in this segment."""
    first: BatchStart | None = None
    """Where the split begins; None at the start of the segment."""
    following: BatchStart | None = None
    """Where the next split begins; None at the end of the segment."""
    inode: int | None = None
    """Inode of the file, if all of its records are read; else None."""
    aborted: tuple[AbortedTransaction, ...] = ()
    problems: tuple[str, ...] = ()


class KminiLogSource(DataSource):
    """The data source `kmini-log`; register it with `spark.dataSource.register(KminiLogSource)`."""

    @classmethod
    def name(cls) -> str:
        return "kmini-log"

    def schema(self) -> StructType:
        options = parse_options(self.options)
        names = options.columns or [
            name
            for name, column in COLUMNS.items()
            if column.is_default or (name == "headers" and options.include_headers)
        ]
        if unknown := [name for name in names if name not in COLUMNS]:
            raise ValueError(f"columns: there is no column {', '.join(unknown)}")
        return StructType([StructField(name, COLUMNS[name].type) for name in names])

    def reader(self, schema: StructType) -> LogReader:
        options = parse_options(self.options)
        return (FilteringLogReader if options.pushes_down else LogReader)(options, schema)


class LogReader(DataSourceReader):
    """Plans the tasks in the driver, and reads segments in the executors. ValueError for a column that does not exist
    or has another type."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options = options
        self._names = schema.fieldNames()
        for field in schema.fields:
            if field.name not in COLUMNS:
                raise ValueError(f"there is no column {field.name}")
            expected, actual = COLUMNS[field.name].type.simpleString(), field.dataType.simpleString()
            if expected != actual:
                raise ValueError(f"the column {field.name} is of type {expected}, not {actual}")
        self._pushed = PushedFilters()
        self._fails_at_damage = options.fails_at_damage or "error" not in self._names

    # Planning

    def partitions(self) -> list[SegmentTask]:
        tasks: list[SegmentTask] = []
        problems: list[str] = []
        replicas: dict[TopicPartition, PartitionFolder] = {}
        for path in self._options.paths:
            log_dir = LogDir(path)
            for folder in log_dir.partitions():
                if not folder.mark and self._wants(folder.topic, folder.partition):
                    other = replicas.setdefault(folder.topic_partition, folder)
                    if (folder.high_watermark or 0) > (other.high_watermark or 0):
                        replicas[folder.topic_partition] = folder
            problems += log_dir.problems
        for folder in replicas.values():
            try:
                tasks += self._tasks_of(folder)
            except (OSError, LogChanged) as error:
                problems.append(f"{folder.path}: {error}")
        if problems:
            tasks.append(SegmentTask(problems=tuple(problems)))
        return tasks

    def _wants(self, topic: str, partition: int) -> bool:
        return (
            self._options.wants(topic, partition)
            and self._pushed.may_match(TOPIC, topic, topic)
            and self._pushed.may_match(PARTITION, partition, partition)
        )

    def _tasks_of(self, folder: PartitionFolder) -> Iterator[SegmentTask]:
        at = (folder.topic, folder.partition)
        ending = self._options.ending_offsets.get(at, LATEST)
        starting = self._options.starting_offsets.get(at, EARLIEST)
        if ending == EARLIEST or starting == LATEST:
            return
        found = readable_range(
            folder, committed=self._options.is_committed, end_offset=None if ending == LATEST else ending
        )
        task = SegmentTask(folder.path, folder.topic, folder.partition, folder.topic_id)
        if found.problems:
            yield replace(task, problems=found.problems)
        lowest, highest = self._pushed.bounds(OFFSET)
        for segment in found.segments:
            if self._pushed.has(TIMESTAMP) and not self._pushed.may_match(
                TIMESTAMP, None, largest_timestamp(segment, folder.recovery_point)
            ):
                continue
            ends = [end for end in (segment.end_offset, found.end_offset) if end is not None]
            start = max(found.start_offset, segment.base_offset, starting, -1 if lowest is None else lowest)
            end = min(ends, default=None)
            is_cut = highest is not None and (end is None or highest + 1 < end)
            end = highest + 1 if is_cut else end
            if end is not None and start >= end:
                continue
            whole = replace(
                task,
                path=segment.path,
                start_offset=start,
                end_offset=end,
                is_last=segment.end_offset is None and folder.high_watermark is not None and not is_cut,
                inode=segment.inode if end is not None and end == segment.end_offset else None,
            )
            for split in _splits_of(whole, split_starts(segment, self._options.max_partition_bytes)):
                if not self._pushed.may_match(OFFSET, split.start_offset, split.end_offset):
                    continue
                aborted = aborted_within(found.aborted, split.start_offset, split.end_offset)
                yield replace(split, aborted=tuple(aborted))

    # Reading

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, SegmentTask):
            return
        rows = LogRows(self._names, partition.topic, partition.partition)
        for problem in partition.problems:
            yield self._damage(rows, problem)
        if not partition.path:
            return
        for file in open_segments(partition):
            if isinstance(file, str):
                yield self._damage(rows, file)
                continue
            with file:
                yield from self._read(rows, file, partition)

    def _read(self, rows: LogRows, file: SegmentBytes, task: SegmentTask) -> Generator[pa.RecordBatch, None, None]:
        first, following = task.first, task.following
        if not all(start.is_in(file) for start in (first, following) if start):
            first = following = None  # another file: its records are found by their offsets
        batches = scan_segment(
            file,
            columns=rows.scanned,
            start_offset=task.start_offset,
            end_offset=task.end_offset,
            include_control=self._options.include_control,
            aborted=task.aborted,
            first=first,
            following=following,
            max_rows=MAX_ROWS,
            max_data_bytes=MAX_DATA_BYTES,
        )
        is_damaged = False
        while True:
            try:
                batch = next(batches)
            except StopIteration as ended:
                end = ended.value
                break
            if batch.column("error").null_count:
                yield rows.of(batch, file.path)
            else:
                is_damaged = True
                (row,) = batch.to_pylist()
                problem = f"{file.path} at byte {row['position']}: {row['error']}"
                yield self._damage(rows, problem, file.path, row)
        problem = "" if is_damaged else _end_problem(task, file, end, following)
        if problem:
            yield self._damage(rows, f"{file.path}{problem}", file.path)

    def _damage(
        self, rows: LogRows, problem: str, file: str | None = None, row: Mapping[str, Any] | None = None
    ) -> pa.RecordBatch:
        if self._fails_at_damage:
            raise DamagedSegmentError(problem)
        return rows.damage(problem, file, row)


class FilteringLogReader(LogReader):
    """A LogReader that leaves out what the filters of the query cannot match.

    Spark 4.1 refuses a reader with `pushFilters` unless `spark.sql.python.filterPushdown.enabled` is set, so it is a
    class of its own. Spark 4.0 does not call the method.
    """

    def pushFilters(self, filters: list[Any]) -> list[Any]:
        """Note the filters, and return all of them: Spark applies them to the rows."""
        self._pushed = PushedFilters(filters)
        return filters


def _splits_of(task: SegmentTask, starts: Iterable[BatchStart]) -> Iterator[SegmentTask]:
    """The task for each split of its segment that has offsets to read."""
    starts = [start for start in starts if task.end_offset is None or start.base_offset < task.end_offset]
    for first, following in pairwise([None, *starts, None]):
        split = replace(task, first=first, following=following)
        if first is not None:
            split.start_offset = max(task.start_offset, first.base_offset)
        if following is not None:
            split.end_offset, split.is_last, split.inode = following.base_offset, False, None
        if split.end_offset is None or split.start_offset < split.end_offset:
            yield split


def _end_problem(task: SegmentTask, file: SegmentBytes, end: ScanEnd, following: BatchStart | None) -> str:
    """The problem of a file with whole batches that does not end at the expected offset; empty without one."""
    if task.inode is None and task.end_offset is not None and task.is_last and end.next_offset < task.end_offset:
        return f": the log ends at offset {end.next_offset}, and records below {task.end_offset} were committed"
    if following is not None and end.position < following.position:
        return f": the file ends at byte {end.position}, and the next split begins at {following.position}"
    if file.inode == task.inode and end.position < file.size:
        return f" at byte {end.position}: the offset of a batch is beyond {task.end_offset}, where the segment ends"
    return ""


def open_segments(task: SegmentTask) -> Iterator[SegmentBytes | str]:
    """Yield the files that hold the planned records, to be closed by the caller, or problems.

    The segment itself is read even if it has left the log meanwhile; else the segments that have replaced it.
    """
    for _ in range(_TRIES):
        for path in (task.path, task.path + DELETED):
            try:
                file = SegmentBytes(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                yield f"{path}: cannot be read: {error.strerror or error}"
                return
            if _is_another_topic(task):
                file.close()
                yield f"{task.folder}: the topic was deleted and created anew since the read was planned"
            else:
                yield file
            return
        try:
            segments = _covering(task)
        except (FileNotFoundError, NotADirectoryError):
            yield f"{task.folder}: the log has gone since the read was planned"
            return
        first = segments[0].base_offset if segments else None
        if first is None or first > task.start_offset:
            upto = "" if first is None and task.end_offset is None else f" to below {first or task.end_offset}"
            yield f"{task.path}: offsets from {task.start_offset}{upto} have left the log since the read was planned"
        with contextlib.ExitStack() as opened:
            try:
                files = [opened.enter_context(SegmentBytes(segment.path)) for segment in segments]
            except FileNotFoundError:
                continue
            opened.pop_all()
            yield from files
            return
    yield f"{task.path}: the segments of this log change all the time"


def _covering(task: SegmentTask) -> list[SegmentFile]:
    """The live segments that may hold planned records."""
    return [
        segment
        for segment in list_segments(task.folder)
        if segment.state == LIVE
        and (segment.end_offset is None or segment.end_offset > task.start_offset)
        and (task.end_offset is None or segment.base_offset < task.end_offset)
    ]


def _is_another_topic(task: SegmentTask) -> bool:
    try:
        topic_id = read_partition_metadata(OsFileSystem(), task.folder)
    except (OSError, CorruptMetadata):
        return False
    return None not in (topic_id, task.topic_id) and topic_id != task.topic_id
