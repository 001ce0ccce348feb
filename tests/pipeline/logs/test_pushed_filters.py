"""The filters that Spark 4.1 gives to the log source leave out parts of a log, and never a matching record.

PySpark 4.0 has no classes for filters, so the tests use classes of the same names and fields. Spark's own filters are
tried in tests/pipeline/test_log_source.py.
"""

from __future__ import annotations

import datetime
import pickle
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from kmini.pipeline.log_source import FilteringLogReader, LogReader, SegmentTask
from kmini.pipeline.logs.pushed_filters import PushedFilters
from kmini.protocol.records.batch import build_batch, read_header
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import filenames
from kmini.storage.filenames import segment_path
from kmini.storage.indexes.time_index import TimeIndex
from support.log_files import DISK, Log, batch, offsets, read, reader


@dataclass
class EqualTo:
    attribute: tuple[str, ...]
    value: Any


class GreaterThan(EqualTo):
    pass


class GreaterThanOrEqual(EqualTo):
    pass


class LessThan(EqualTo):
    pass


class LessThanOrEqual(EqualTo):
    pass


class EqualNullSafe(EqualTo):
    pass


class In(EqualTo):
    pass


class StringContains(EqualTo):
    pass


@dataclass
class Not:
    child: Any


def passes(one: EqualTo, value: Any) -> bool:
    return bool(
        {
            "EqualTo": lambda: value == one.value,
            "EqualNullSafe": lambda: value == one.value,
            "GreaterThan": lambda: value > one.value,
            "GreaterThanOrEqual": lambda: value >= one.value,
            "LessThan": lambda: value < one.value,
            "LessThanOrEqual": lambda: value <= one.value,
            "In": lambda: value in one.value,
        }[type(one).__name__]()
    )


KINDS = [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In]


def moment(ms: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=ms)


def filtering(log: Log, *filters: Any, **options: str) -> LogReader:
    found = reader(log.log_dir, pushDownPredicate="true", **options)
    assert isinstance(found, FilteringLogReader)
    assert found.pushFilters(list(filters)) == list(filters)
    return found


def planned(source: LogReader) -> list[tuple[int | None, int, int | None]]:
    return [(task.partition, task.start_offset, task.end_offset) for task in source.partitions()]


def time_index(log: Log, base_offset: int, *entries: tuple[int, int]) -> Path:
    path = Path(segment_path(str(log.folder), base_offset, filenames.TIME_INDEX))
    index = TimeIndex(DISK, str(path), base_offset)
    index.reset()
    for timestamp, offset in entries:
        index.maybe_append(timestamp, offset)
    index.flush()
    return path


def at(base_offset: int, *timestamps: int) -> bytearray:
    records = [Record(base_offset + n, ms, b"k", b"v") for n, ms in enumerate(timestamps)]
    return build_batch(records, base_offset=base_offset)


def test_partitions_and_topics_that_do_not_match_are_not_planned(log: Log) -> None:
    for topic in ("orders", "payments"):
        for partition in range(4):
            folder = log if (topic, partition) == ("orders", 0) else Log(log.log_dir, TopicPartition(topic, partition))
            folder.segment(0, batch(0))

    def parts(*filters: Any) -> list[tuple[str | None, int | None]]:
        return [(task.topic, task.partition) for task in filtering(log, *filters).partitions()]

    topic = EqualTo(("topic",), "orders")
    assert parts(topic) == [("orders", n) for n in range(4)]
    assert parts(topic, In(("partition",), (0, 3, 9))) == [("orders", 0), ("orders", 3)]
    assert parts(topic, GreaterThan(("partition",), 1), LessThanOrEqual(("partition",), 2)) == [
        ("orders", 1),
        ("orders", 2),
    ]
    assert len(parts(Not(topic), StringContains(("topic",), "x"), EqualNullSafe(("topic",), None))) == 8


def test_segments_and_splits_whose_offsets_do_not_match_are_not_planned(log: Log) -> None:
    batches = [batch(5 * n) for n in range(20)]
    log.segment(0, *batches)
    log.index(0, batches)
    log.segment(100, batch(100))
    log.high_watermark(105)
    size = str(len(batches[0]) * 5)

    def plan(*filters: Any) -> list[tuple[int | None, int, int | None]]:
        return planned(filtering(log, *filters, maxPartitionBytes=size))

    assert plan() == [(0, 0, 25), (0, 25, 50), (0, 50, 75), (0, 75, 100), (0, 100, 105)]
    assert plan(GreaterThanOrEqual(("offset",), 60), LessThan(("offset",), 80)) == [(0, 60, 75), (0, 75, 81)]
    assert plan(In(("offset",), (3, 77))) == [(0, 3, 25), (0, 75, 78)]
    assert plan(EqualTo(("offset",), 105)) == []
    assert plan(In(("offset",), ())) == []
    source = filtering(log, LessThanOrEqual(("offset",), 102), maxPartitionBytes=size, errors="fail")
    assert offsets(read(source)) == [*range(103)]


def test_a_filter_that_ends_within_a_gap_of_the_last_segment_is_no_loss(log: Log) -> None:
    log.segment(0, batch(0), batch(20))
    log.high_watermark(25)
    assert offsets(read(filtering(log, LessThan(("offset",), 10), errors="fail"))) == [*range(5)]


@pytest.mark.parametrize("seed", range(5))
def test_no_matching_record_is_left_out(log: Log, seed: int) -> None:
    """Timestamps are in no order, and have parts of a millisecond in filters."""
    dice = random.Random(seed)
    every, base = [], 0
    for _ in range(3):
        batches = []
        for _ in range(8):
            batches.append(at(base, *(dice.randrange(1000, 2000) for _ in range(5))))
            base += 5
        first = read_header(batches[0]).base_offset
        log.segment(first, *batches)
        log.index(first, batches)
        headers = [read_header(one) for one in batches]
        newest = max(headers, key=lambda header: header.max_timestamp)
        time_index(log, first, (newest.max_timestamp, newest.last_offset))
    log.checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, base)
    every = read(reader(log.log_dir))
    left_out = 0
    for _ in range(60):
        filters = []
        for _ in range(dice.randrange(1, 3)):
            column = dice.choice(["offset", "timestamp", "partition"])
            ranges: dict[str, Any] = {
                "offset": lambda: dice.randrange(-3, base + 3),
                "partition": lambda: dice.randrange(2),
                "timestamp": lambda: moment(dice.randrange(990, 2010) + dice.choice([0, 0.25])),
            }
            kind = dice.choice(KINDS)
            value = ranges[column]()
            filters.append(kind((column,), (value, ranges[column]()) if kind is In else value))
        rows = read(filtering(log, *filters, maxPartitionBytes=str(dice.randrange(100, 900))))
        matching = [row for row in every if all(passes(one, row[one.attribute[0]]) for one in filters)]
        assert [row for row in rows if row in matching] == matching
        left_out += len(every) - len(rows)
    assert left_out > 1000


def test_only_a_segment_whose_largest_timestamp_is_certain_is_left_out_by_time(log: Log) -> None:
    segments = {0: [at(0, 5000, 10), at(2, 20)], 10: [at(10, 30), at(11, 40)], 20: [at(20, 1)]}
    for base, batches in segments.items():
        log.segment(base, *batches)
        log.index(base, batches)
    after = GreaterThan(("timestamp",), moment(40))

    def bases() -> list[int]:
        return [task.start_offset for task in filtering(log, after).partitions()]

    time_index(log, 0, (5000, 1))
    path = time_index(log, 10, (30, 10), (40, 11))
    time_index(log, 20, (1, 20))
    assert bases() == [0, 10, 20]  # nothing is flushed
    log.checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, 20)
    assert bases() == [0, 10, 20]  # 40 may match "> 40": parts of a millisecond are not told apart
    after = GreaterThan(("timestamp",), moment(41))
    assert bases() == [0, 20]  # the active segment may grow
    after = EqualTo(("timestamp",), datetime.datetime(2030, 1, 1))
    assert bases() == [0, 10, 20]  # a value without a time zone
    after = GreaterThan(("timestamp",), moment(41))
    whole = path.read_bytes()
    for damaged in (whole[:-3], whole[:12] + (35).to_bytes(8, "big") + whole[20:], bytes(24), b"", whole[::-1]):
        path.write_bytes(damaged)
        assert bases() == [0, 10, 20], damaged
    path.unlink()
    assert bases() == [0, 10, 20]


def test_without_the_option_the_reader_has_no_filters_that_spark_could_refuse(log: Log) -> None:
    log.segment(0, batch(0))
    assert "pushFilters" not in vars(LogReader)
    assert type(reader(log.log_dir)) is LogReader
    assert PushedFilters([Not(EqualTo(("offset",), 1))]).bounds("offset") == (None, None)


def test_tasks_are_made_of_plain_values_that_spark_can_pickle(log: Log) -> None:
    batches = [batch(5 * n) for n in range(20)]
    log.segment(0, *batches)
    log.index(0, batches)
    source = filtering(log, GreaterThan(("offset",), 5), maxPartitionBytes="1000")
    tasks: list[SegmentTask] = pickle.loads(pickle.dumps(source.partitions()))
    assert read(pickle.loads(pickle.dumps(source)), tasks) == read(source)
