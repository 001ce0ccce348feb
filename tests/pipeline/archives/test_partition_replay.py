"""The rule by which a replay goes on after a kill, without Spark and without a broker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow")
pytest.importorskip("confluent_kafka")

from kmini.pipeline.archives.archive_files import ArchiveError, FilePart, Row, parts_in_order, read_rows
from kmini.pipeline.archives.partition_replay import Conversion, Outcome, Plan, TopicRecord, convert, replay_partition
from support.archives import write_file

small = st.one_of(st.none(), st.binary(max_size=2))
names = st.sampled_from(["a", "é", "", "kmini.tombstone", "n\0l"])
contents = st.tuples(
    st.sampled_from([-1, 0, 1, 2**53]),
    st.sampled_from([0, 1, -1]),
    small,
    small,
    st.one_of(st.none(), st.lists(st.tuples(names, small), min_size=1, max_size=2)),
)
gaps = st.integers(1, 3)
conversions = st.builds(Conversion, st.booleans(), st.booleans())


@st.composite
def row_lists(draw: st.DrawFn, min_size: int = 0) -> list[Row]:
    """Rows whose offsets have gaps, as after compaction."""
    offset, rows = -1, []
    for content in draw(st.lists(contents, min_size=min_size, max_size=12)):
        offset += draw(gaps)
        rows.append(Row(offset, *content))
    return rows


class Killed(Exception):
    """Stands for a kill: the code under test does not catch it."""


class Log:
    """A partition in memory, whose writer is killed after some records."""

    def __init__(self) -> None:
        self.records: list[TopicRecord] = []
        self.life = -1
        """Records until the next kill; negative: none."""
        self.intruder_after = -1
        """When there are so many records, another producer appends one."""

    def end_offset(self) -> int:
        return len(self.records)

    def record_at(self, offset: int) -> TopicRecord | None:
        return self.records[offset]

    def append(self, row: Row) -> None:
        if self.life == 0:
            raise Killed
        self.life -= 1
        self.records.append(
            TopicRecord(len(self.records), row.timestamp_ms, row.key, row.value, list(row.headers or ()))
        )
        if len(self.records) == self.intruder_after:
            self.records.append(TopicRecord(len(self.records), 7, b"intruder", b"", []))

    def write(self, rows: Iterable[Row]) -> int:
        count = 0
        for row in rows:
            assert row.timestamp_ms != 0, "librdkafka would make now of it"
            assert not any("\0" in name for name, _ in row.headers or ()), "librdkafka would cut it"
            self.append(row)
            count += 1
        return count


class Exact:
    def __init__(self, log: Log) -> None:
        self.write = log.append


def parts_of(rows: list[Row], file_sizes: list[int], group_rows: int = 3) -> list[FilePart]:
    """Files with these rows, in a folder that is not removed before the process ends."""
    folder = Path(_SCRATCH.name) / str(next(_NUMBERS))
    folder.mkdir()
    bounds = sorted({0, len(rows), *(size % (len(rows) + 1) for size in file_sizes)})
    files = [write_file(folder / f"{a}.parquet", rows[a:b], group_rows) for a, b in pairwise(bounds)]
    return parts_in_order(files[::-1])


_SCRATCH = tempfile.TemporaryDirectory(prefix="kmini-archives-")
_NUMBERS = iter(range(1 << 30))


def replay(parts: list[FilePart], log: Log, conversion: Conversion = Conversion(), every: int = 4) -> Outcome:  # noqa: B008
    plan = Plan("orders", 0, tuple(parts), conversion, {})
    return replay_partition(plan, log, Exact(log), check_every=every)


def meant(rows: list[Row], conversion: Conversion) -> list[tuple[Any, ...]]:
    converted = (convert(row, conversion) for row in rows)
    return [(row.timestamp_ms, row.key, row.value, list(row.headers or ())) for row in converted]


def told(log: Log) -> list[tuple[Any, ...]]:
    return [tuple(seen)[1:] for seen in log.records]


@settings(deadline=None)
@given(row_lists(), st.lists(st.integers(0, 12), max_size=3), st.integers(1, 5), st.integers(0, 13))
def test_rows_are_read_in_order_from_any_row_on_however_they_lie_in_files(
    rows: list[Row], file_sizes: list[int], group_rows: int, skip: int
) -> None:
    parts = parts_of(rows, file_sizes, group_rows)
    assert sum(part.rows for part in parts) == len(rows)
    assert list(read_rows(parts, skip)) == rows[skip:]


@settings(deadline=None)
@given(row_lists(), st.lists(st.integers(0, 12), max_size=2), st.lists(st.integers(0, 6), max_size=4), conversions)
def test_however_often_it_is_killed_every_row_is_there_once_and_in_order(
    rows: list[Row], file_sizes: list[int], lives: list[int], conversion: Conversion
) -> None:
    log, parts = Log(), parts_of(rows, file_sizes)
    for life in lives:
        log.life, before = life, len(log.records)
        try:
            outcome = replay(parts, log, conversion)
        except Killed:
            assert len(log.records) == before + life
            assert told(log) == meant(rows, conversion)[: len(log.records)]
        else:
            assert outcome.problem is None
    log.life, found = -1, len(log.records)
    outcome = replay(parts, log, conversion)
    assert (outcome.problem, outcome.found, outcome.written) == (None, found, len(rows) - found)
    assert told(log) == meant(rows, conversion)


@settings(deadline=None)
@given(row_lists(min_size=1), st.data())
def test_what_does_not_end_with_the_row_of_that_number_is_not_gone_on_with(
    rows: list[Row], data: st.DataObject
) -> None:
    log, parts = Log(), parts_of(rows, [])
    log.life = data.draw(st.integers(1, len(rows)))
    try:
        replay(parts, log)
    except Killed:
        pass
    last = log.records[-1]
    change = {
        "key": b"other" if last.key is None else None,
        "value": b"other",
        "timestamp_ms": last.timestamp_ms + 1,
        "headers": [*last.headers, ("other", b"")],
    }
    what = data.draw(st.sampled_from(sorted(change)))
    log.records[-1] = last._replace(**{what: change[what]})
    log.life, before = -1, list(log.records)
    outcome = replay(parts, log)
    assert outcome.problem is not None
    assert what.removesuffix("_ms") in outcome.problem
    assert log.records == before


@settings(deadline=None)
@given(row_lists(min_size=1), st.integers(1, 12), st.integers(1, 4))
def test_somebody_elses_record_in_between_is_found(rows: list[Row], after: int, every: int) -> None:
    log, parts = Log(), parts_of(rows, [])
    log.intruder_after = min(after, len(rows))
    outcome = replay(parts, log, every=every)
    assert outcome.problem is not None
    assert "another producer writes to it" in outcome.problem
    assert len(log.records) <= max(1, log.intruder_after) + 1 + every


def test_who_writes_at_the_same_time_is_found_after_the_first_record() -> None:
    log = Log()
    log.intruder_after = 1
    outcome = replay(parts_of([Row(offset, 1, 0, None, b"v", None) for offset in range(50)], []), log, every=100)
    assert outcome.problem is not None
    assert len(log.records) == 2


def test_more_records_than_rows_are_not_a_replay() -> None:
    rows = [Row(offset, 1, 0, None, b"v", None) for offset in range(3)]
    log = Log()
    for row in [*rows, rows[0]]:
        log.append(row)
    outcome = replay(parts_of(rows, []), log)
    assert outcome.problem is not None
    assert "4 records, and the archive 3" in outcome.problem


def test_a_last_record_that_is_gone_says_nothing() -> None:
    class Purged(Log):
        def record_at(self, offset: int) -> TopicRecord | None:
            return None

    rows = [Row(offset, 1, 0, None, b"v", None) for offset in range(3)]
    log = Purged()
    log.append(rows[0])
    outcome = replay(parts_of(rows, []), log)
    assert outcome.problem is not None
    assert "cannot be told" in outcome.problem


def test_without_a_writer_for_it_a_partition_ends_before_the_row_that_librdkafka_cannot_write() -> None:
    rows = [Row(offset, timestamp, 0, None, b"v", None) for offset, timestamp in enumerate([1, 1, 0, 1])]
    log, plan = Log(), Plan("orders", 0, tuple(parts_of(rows, [])), Conversion(), {})
    assert replay_partition(plan, log) == Outcome(0, 0, 2, 0, 0, None, True)
    assert replay_partition(plan, log, Exact(log)) == Outcome(0, 2, 2, 0, 0, None, False)


def test_a_null_value_may_have_been_given_the_header_of_a_tombstone() -> None:
    rows = [Row(0, 1, 0, b"k", None, [("h", b"")]), Row(1, 1, 0, b"k", b"v", None)]
    log = Log()
    log.records.append(TopicRecord(0, 1, b"k", None, [("h", b""), ("kmini.tombstone", b"")]))
    assert replay(parts_of(rows, []), log).problem is None
    rows[0].headers.append(("kmini.tombstone", b""))
    log.records[1:] = []
    assert replay(parts_of(rows, []), log).problem is None
    del rows[0].headers[1:]
    log.records[:] = [TopicRecord(0, 1, b"k", None, [("kmini.tombstone", b""), ("other", b"")])]
    assert replay(parts_of(rows, []), log).problem is not None


def test_files_that_overlap_or_are_out_of_order_are_refused(tmp_path: Path) -> None:
    rows = [Row(offset, 1, 0, None, b"v", None) for offset in range(4)]
    one, two = write_file(tmp_path / "1.parquet", rows[:3]), write_file(tmp_path / "2.parquet", rows[2:])
    with pytest.raises(ArchiveError, match="both have offset 2"):
        parts_in_order([two, one])
    mixed = write_file(tmp_path / "3.parquet", [rows[0], rows[2], rows[1]])
    with pytest.raises(ArchiveError, match="in order"):
        list(read_rows(parts_in_order([mixed])))


def test_a_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    path = tmp_path / "1.parquet"
    write_file(path, [Row(offset, 1, 0, None, b"v" * 100, None) for offset in range(1000)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ArchiveError, match=r"1\.parquet cannot be read"):
        parts_in_order([str(path)])
    path.write_bytes(b"")
    with pytest.raises(ArchiveError, match=r"1\.parquet cannot be read"):
        parts_in_order([str(path)])
