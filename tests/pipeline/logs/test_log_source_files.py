"""The log source on files made by hand: damage, transactions, old formats, and a broker at work between planning and
reading. Without a session of Spark: what is planned is read in this process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from kmini.pipeline.log_source import DamagedSegmentError, KminiLogSource, LogReader, SegmentTask
from kmini.pipeline.logs.log_dir import LogDir
from kmini.pipeline.logs.options import parse_options
from kmini.pipeline.logs.segment_scan import COLUMNS, scan_segment
from kmini.protocol.records.batch import build_batch, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage import filenames
from kmini.storage.filenames import segment_path
from kmini.storage.filesystem import OsFileSystem
from kmini.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from kmini.storage.log_dir_files import write_partition_metadata
from kmini.storage.offset_checkpoint_file import write_log_start_offsets, write_offsets
from kmini.storage.producers.producer_snapshot import ProducerEntry, write_snapshot
from support.message_sets import message, wrapper

DISK = OsFileSystem()
ORDERS = TopicPartition("orders", 0)

Row = dict[str, Any]


class Log:
    """The log of one partition, in a log directory."""

    def __init__(self, log_dir: Path, at: TopicPartition = ORDERS) -> None:
        self.log_dir = log_dir
        self.folder = log_dir / f"{at.topic}-{at.partition}"
        self.folder.mkdir(parents=True)

    def segment(self, base_offset: int, *batches: bytes | bytearray, suffix: str = "") -> Path:
        path = Path(segment_path(str(self.folder), base_offset, filenames.LOG, suffix))
        path.write_bytes(b"".join(batches))
        return path

    def checkpoint(self, name: str, offset: int, at: TopicPartition = ORDERS) -> None:
        write_offsets(DISK, str(self.log_dir / name), {at: offset})

    def high_watermark(self, offset: int) -> None:
        self.checkpoint(filenames.HIGH_WATERMARK_CHECKPOINT, offset)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "logs")


def batch(base_offset: int, count: int = 5, **about: Any) -> bytearray:
    records = [Record(base_offset + n, 1000 + n, b"k%d" % n, b"v" * 50) for n in range(count)]
    return build_batch(records, base_offset=base_offset, **about)


def data(base_offset: int, producer_id: int, count: int = 5) -> bytearray:
    """Of a transaction."""
    return batch(base_offset, count, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(offset: int, producer_id: int, *, aborts: bool) -> bytearray:
    end = EndTransactionMarker(aborts, 0)
    return build_end_transaction_marker(end, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)


def reader(path: Path, **options: str) -> LogReader:
    source = KminiLogSource({"path": str(path), **options})
    return source.reader(source.schema())


def read(reader: LogReader, tasks: Sequence[SegmentTask] | None = None) -> list[Row]:
    found: list[Row] = []
    for task in reader.partitions() if tasks is None else tasks:
        for rows in reader.read(task):
            found += rows.to_pylist()
    return found


def offsets(rows: list[Row]) -> list[int]:
    return [row["offset"] for row in rows if row["offset"] is not None]


def errors(rows: list[Row]) -> list[str]:
    return [row["error"] for row in rows if row["error"] is not None]


# Damage


def flip(data: bytearray, at: int) -> bytearray:
    data[at] ^= 0x10
    return data


def with_length(data: bytearray, length: int) -> bytearray:
    data[8:12] = length.to_bytes(4, "big", signed=True)
    return data


def with_malformed_record(data: bytearray) -> bytearray:
    """The third of five; the checksum is right."""
    size = (len(data) - 61) // 5
    data[61 + 2 * size] = 0x01
    rewrite_header(data, 0, read_header(data))
    return data


def with_codec(data: bytearray, codec: int) -> bytearray:
    header = read_header(data)
    rewrite_header(data, 0, header._replace(attributes=header.attributes | codec))
    return data


DAMAGE: dict[str, tuple[bytes | bytearray, list[int], str]] = {
    "a flipped bit": (flip(batch(5), 100), [], "CRC"),
    "a length that is negative": (with_length(batch(5), -7), [], "cannot have the length -7"),
    "a length to beyond the file": (with_length(batch(5), 1 << 30), [], "cut off"),
    "a length that is too short": (with_length(batch(5), 100), [], "CRC"),
    "an unknown magic": (batch(5)[:16] + b"\x09" + batch(5)[17:], [], "there is no magic 9"),
    "zeros": (bytes(500), [], "cannot have the length 0"),
    "offsets that were there before": (batch(0), [], "offset 0 comes where 5"),
    "a record that is none": (with_malformed_record(batch(5)), [5, 6], "record 2 is malformed"),
    "an unknown codec": (with_codec(batch(5), 7), [], "there is no codec 7"),
    "a codec that it is not written with": (with_codec(batch(5), 1), [], "no gzip data"),
}


@pytest.mark.parametrize(("damaged", "left", "reason"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_a_row_that_says_where_and_what_and_reading_goes_on_behind_it(
    log: Log, damaged: bytes, left: list[int], reason: str
) -> None:
    path = log.segment(0, batch(0), damaged, batch(10), batch(15, codec=3))
    rows = read(reader(log.log_dir))
    assert offsets(rows) == [*range(5), *left, *range(10, 20)]
    assert errors(rows)
    assert all(str(path) in error and f"at byte {len(batch(0))}" in error for error in errors(rows)[:1])
    assert reason in errors(rows)[0]
    row = next(row for row in rows if row["error"])
    assert (row["topic"], row["partition"], row["key"], row["timestamp"]) == ("orders", 0, None, None)


@pytest.mark.parametrize("bit", [0, 2, 20, 33, 62])
@pytest.mark.parametrize("codec", [0, 3])
def test_an_offset_that_is_damaged_costs_its_batch_and_no_other(log: Log, bit: int, codec: int) -> None:
    """No checksum covers it."""

    def moved(data: bytearray) -> bytearray:
        return bytearray((int.from_bytes(data[:8], "big") ^ 1 << bit).to_bytes(8, "big")) + data[8:]

    first, second, third, fourth = (batch(base, codec=codec) for base in (0, 16, 21, 26))
    log.segment(31, batch(31))
    log.segment(0, first, moved(second), third, fourth)
    rows = read(reader(log.log_dir))
    assert offsets(rows) == [*range(5), *range(21, 36)]
    (error,) = errors(rows)
    assert f"at byte {len(first)}: " in error
    log.segment(0, first, second, moved(third))
    rows = read(reader(log.log_dir))
    (error,) = errors(rows)
    if bit > 10:  # else it is not to be told which of the last two is wrong
        assert offsets(rows) == [*range(5), *range(16, 21), *range(31, 36)]
        assert f"at byte {len(first + second)}: " in error


def test_a_torn_tail_is_a_row(log: Log) -> None:
    for cut in (1, 16, 17, 60, len(batch(5)) - 1):
        log.segment(0, batch(0), batch(5)[:cut])
        rows = read(reader(log.log_dir))
        assert offsets(rows) == [*range(5)]
        (error,) = errors(rows)
        assert f"at byte {len(batch(0))}: " in error


def test_a_torn_tail_beyond_the_high_watermark_is_what_a_broker_is_just_writing(log: Log) -> None:
    log.segment(0, batch(0), batch(5)[:70])
    log.high_watermark(5)
    rows = read(reader(log.log_dir))
    assert (offsets(rows), errors(rows)) == ([*range(5)], [])


def test_a_log_that_ends_below_its_high_watermark_has_lost_records_and_a_row_says_so(log: Log) -> None:
    path = log.segment(0, batch(0))
    log.high_watermark(9)
    rows = read(reader(log.log_dir))
    assert offsets(rows) == [*range(5)]
    assert errors(rows) == [f"{path}: the log ends at offset 5, and records below 9 were committed"]


def test_damage_fails_the_query_where_that_is_asked_or_no_column_can_tell_it(log: Log) -> None:
    log.segment(0, batch(0), flip(batch(5), 100))
    for options in ({"errors": "fail"}, {"columns": "key,value"}):
        with pytest.raises(DamagedSegmentError, match=f"at byte {len(batch(0))}: the CRC"):
            read(reader(log.log_dir, **options))


@pytest.mark.parametrize("seed", range(12))
def test_random_damage_never_brings_other_records(log: Log, seed: int) -> None:
    """Nor takes any of a batch that is whole."""
    dice = random.Random(seed)
    for _ in range(15):
        batches = [batch(5 * n, codec=dice.randrange(5)) for n in range(6)]
        whole = bytearray(b"".join(batches))
        starts = [sum(map(len, batches[:n])) for n in range(7)]
        at = dice.randrange(len(whole))
        change = dice.randrange(3)
        if change == 0:
            whole[at] ^= 1 << dice.randrange(8)
        elif change == 1:
            whole[at : at + 40] = dice.randbytes(40)
        else:
            del whole[at : at + dice.randrange(1, 300)]
        (log.folder / f"{0:020d}.log").write_bytes(whole)
        rows = read(reader(log.log_dir))
        touched = {n for n in range(6) if at - 1 < starts[n + 1] and (change or starts[n] <= at)}
        untouched = [o for n in range(6) if n not in touched for o in range(5 * n, 5 * n + 5)]
        assert set(offsets(rows)) >= set(untouched) - set(range(5 * min(touched, default=6), 30))
        expected = {record.offset: (record.key, record.value) for record in decode_all(b"".join(batches))}
        for row in rows:
            # offset and leader epoch are not under the checksum
            if row["offset"] is not None and 0 <= row["offset"] < 30:
                assert row["value"] == expected[row["offset"]][1]
        assert len(offsets(rows)) <= 30
        assert errors(rows) or len(offsets(rows)) == 30 or change == 2


# What a consumer may read


def test_it_begins_at_the_log_start_offset_and_ends_at_the_high_watermark(log: Log) -> None:
    log.segment(0, batch(0), batch(5))
    log.segment(10, batch(10), batch(15))
    write_log_start_offsets(DISK, str(log.log_dir), {ORDERS: 7})
    log.high_watermark(12)
    assert offsets(read(reader(log.log_dir))) == [*range(7, 12)]


def transactions(log: Log) -> None:
    log.segment(0, data(0, 1), data(5, 2), marker(10, 1, aborts=True), data(11, 1))
    log.segment(16, marker(16, 1, aborts=False), data(17, 2, 1), marker(18, 2, aborts=True), batch(19), data(24, 3))
    log.segment(29, batch(29))


def test_without_any_index_transactions_are_told_by_their_markers(log: Log) -> None:
    transactions(log)
    assert offsets(read(reader(log.log_dir))) == [*range(11, 16), *range(19, 24)]
    everything = read(reader(log.log_dir, **{"isolation.level": "read_uncommitted"}))
    assert offsets(everything) == [n for n in range(34) if n not in (10, 16, 18)]


def test_markers_are_given_on_request(log: Log) -> None:
    transactions(log)
    rows = read(
        reader(log.log_dir, **{"include.control": "true"}, columns="offset,isControl,controlType,producerId,error")
    )
    control = [(row["offset"], row["controlType"], row["producerId"]) for row in rows if row["isControl"]]
    assert control == [(10, 0, 1), (16, 1, 1), (18, 0, 2)]


@pytest.mark.parametrize("index", ["right", "damaged"])
def test_below_the_recovery_point_transaction_indexes_tell_and_where_one_is_damaged_the_markers(
    log: Log, index: str
) -> None:
    transactions(log)
    for base, entries in ((0, [AbortedTransaction(1, 0, 10, 5)]), (16, [AbortedTransaction(2, 5, 18, 19)])):
        path = segment_path(str(log.folder), base, filenames.TRANSACTION_INDEX)
        written = TransactionIndex(DISK, path, base)
        written.reset()
        for entry in entries:
            written.append(entry)
        written.flush()
        if index == "damaged" and base == 0:
            os.truncate(path, 20)
    log.checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, 29)
    write_snapshot(DISK, str(log.folder), 29, [ProducerEntry(3, transaction_first_offset=24)])
    assert offsets(read(reader(log.log_dir))) == [*range(11, 16), *range(19, 24)]


def test_a_transaction_that_was_open_in_a_snapshot_and_ends_behind_it_is_followed(log: Log) -> None:
    transactions(log)
    for path in log.folder.glob(f"{0:020d}.log"):
        path.unlink()
    write_snapshot(DISK, str(log.folder), 16, [ProducerEntry(2, transaction_first_offset=5)])
    assert offsets(read(reader(log.log_dir))) == [*range(19, 24)]


def test_what_ends_beyond_the_high_watermark_is_still_open(log: Log) -> None:
    log.segment(0, batch(0), data(5, 1), batch(10), marker(15, 1, aborts=False))
    log.high_watermark(15)
    assert offsets(read(reader(log.log_dir))) == [*range(5)]
    log.high_watermark(16)
    assert offsets(read(reader(log.log_dir))) == [*range(15)]


def test_a_marker_that_is_damaged_is_told_although_nothing_is_read_from_there_on(log: Log) -> None:
    log.segment(0, batch(0), data(5, 1), flip(marker(10, 1, aborts=False), 70), batch(11))
    rows = read(reader(log.log_dir))
    assert offsets(rows) == [*range(5)]
    (error,) = errors(rows)
    assert "a transaction is open since offset 5" in error


def test_the_batches_that_a_cleaner_has_emptied_open_no_transaction(log: Log) -> None:
    emptied = data(0, 1, 1)[:61]
    rewrite_header(emptied, 0, read_header(emptied)._replace(batch_length=49, record_count=0))
    log.segment(0, emptied, batch(1))
    assert offsets(read(reader(log.log_dir))) == [*range(1, 6)]


# Formats


@pytest.mark.parametrize(("magic", "append_time"), [(0, 0), (1, 0), (1, 8)])
def test_old_messages_are_rows_as_the_decoder_finds_them(log: Log, magic: int, append_time: int) -> None:
    def some(first: int, base: int) -> bytes:
        """Three messages, with offsets from `base` on."""
        return b"".join(
            message(magic, base + n, b"v%d" % (first + n), key=key, timestamp=first + n)
            for n, key in enumerate((b"a", None, b""))
        )

    sets = [some(0, 0)]
    for number, codec in enumerate((1, 2, 3), 1):
        inner = some(3 * number, 3 * number if magic == 0 else 0)
        sets.append(wrapper(magic, 3 * number + 2, inner, codec, attributes=append_time, timestamp=99))
    written = b"".join(sets) + batch(12)
    path = log.segment(0, written)
    rows = [row for found in scan_segment(path) for row in found.to_pylist()]
    assert [Record(row["offset"], row["timestamp"], row["key"], row["value"], ()) for row in rows] == decode_all(
        written
    )
    kind = -1 if magic == 0 else 1 if append_time else 0
    assert [row["timestamp_type"] for row in rows] == [-1 if magic == 0 else 0] * 3 + [kind] * 9 + [0] * 5
    assert offsets(read(reader(log.log_dir, endingOffsets='{"orders": {"0": 8}}'))) == [*range(8)]
    assert offsets(read(reader(log.log_dir, startingOffsets='{"orders": {"0": 8}}'))) == [*range(8, 17)]


def test_a_batch_with_a_delete_horizon_has_the_timestamps_of_its_records(log: Log) -> None:
    records = [Record(3, 700, b"k", None), Record(4, 900, b"k", None)]
    path = log.segment(0, build_batch(records, base_offset=3, delete_horizon_ms=5600))
    rows = [row for found in scan_segment(path) for row in found.to_pylist()]
    assert [(row["timestamp"], row["delete_horizon_ms"]) for row in rows] == [(700, 5600), (900, 5600)]


def test_a_timestamp_beyond_what_spark_can_hold_is_null_and_takes_no_other_with_it(log: Log) -> None:
    log.segment(0, build_batch([Record(0, 1 << 62, None, b""), Record(1, 1000, None, b""), Record(2, -1, None, b"")]))
    rows = read(reader(log.log_dir))
    assert [row["timestamp"] and row["timestamp"].timestamp() for row in rows] == [None, 1.0, -0.001]


def test_names_of_headers_that_are_not_utf_8_get_replacement_characters(log: Log) -> None:
    whole = build_batch([Record(0, 0, None, b"", (("nämé", b"x"), ("plain", None)))])
    at = whole.index("nämé".encode())
    whole[at] = 0xFF
    rewrite_header(whole, 0, read_header(whole))
    log.segment(0, whole)
    (row,) = read(reader(log.log_dir, includeHeaders="true"))
    assert [header["key"] for header in row["headers"]] == ["\ufffdämé", "plain"]


@pytest.mark.parametrize("codec", [0, 3, 4])
def test_large_records_and_many_small_ones_come_in_bounded_arrow_batches(log: Log, codec: int) -> None:
    large = Record(3, 1, b"k" * 300_000, bytes(2_000_000), (("h" * 1000, b"x" * 100_000),) * 3)
    small = [Record(n, 1, b"%d" % n, b"v" * 10) for n in range(4, 3000)]
    path = log.segment(
        0, build_batch([large], base_offset=3, codec=codec), build_batch(small, base_offset=4, codec=codec)
    )
    batches = list(scan_segment(path, max_rows=1000, max_data_bytes=5000))
    assert batches[0].num_rows == 1
    assert all(found.num_rows <= 1000 for found in batches)
    assert len(batches) > 5
    rows = [row for found in batches for row in found.select(["offset", "key", "value", "headers"]).to_pylist()]
    assert rows[0]["headers"] == [{"key": "h" * 1000, "value": b"x" * 100_000}] * 3
    assert (rows[0]["key"], rows[0]["value"]) == (large.key, large.value)
    assert [(row["offset"], row["key"], row["value"]) for row in rows[1:]] == [
        (r.offset, r.key, r.value) for r in small
    ]


def test_a_choice_of_columns_gives_what_all_of_them_would(log: Log) -> None:
    transactions(log)
    for path in log.folder.glob("*.log"):
        every = [row for found in scan_segment(path) for row in found.to_pylist()]
        for name in COLUMNS:
            rows = [row for found in scan_segment(path, columns=[name]) for row in found.to_pylist()]
            assert rows == [{name: row[name]} for row in every], name


# A broker at work


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


# Directories and options


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


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"subscribe": "a", "assign": "{}"}, "exclude each other"),
        ({"colour": "red"}, "there is no option colour"),
        ({"startingOffsets": "latest"}, "can be earliest"),
        ({"endingOffsets": "{"}, "endingOffsets"),
        ({"isolation.level": "serializable"}, "can be read_committed or read_uncommitted"),
        ({"startingTimestamp": "5"}, "filter on the column timestamp"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"columns": "key,colour"}, "there is no column colour"),
    ],
)
def test_an_option_that_cannot_be_is_named(log: Log, options: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        reader(log.log_dir, **options)


def test_headers_are_a_column_where_they_are_included_or_named(log: Log) -> None:
    log.segment(0, build_batch([Record(0, 0, None, b"", (("h", b"x"),))]))
    for options in ({"includeHeaders": "true"}, {"columns": "headers,error"}):
        (row,) = read(reader(log.log_dir, **options))
        assert row["headers"] == [{"key": "h", "value": b"x"}]
    (row,) = read(reader(log.log_dir))
    assert "headers" not in row


def test_an_ending_offset_beyond_a_log_of_which_nothing_is_written_down_is_no_loss(log: Log) -> None:
    log.segment(0, batch(0))
    rows = read(reader(log.log_dir, endingOffsets='{"orders": {"0": 99}}'))
    assert (offsets(rows), errors(rows)) == ([*range(5)], [])


def test_the_options_of_sparks_kafka_source_that_change_no_rows_are_taken() -> None:
    options = {"path": "/x", "kafka.bootstrap.servers": "a:1", "failOnDataLoss": "false", "minPartitions": "4"}
    assert parse_options(options) == parse_options({"path": "/x"})


def test_a_column_of_another_type_is_refused(log: Log) -> None:
    source: Callable[[StructType], LogReader] = KminiLogSource({"path": str(log.log_dir)}).reader
    with pytest.raises(ValueError, match="the column offset is of type bigint, not int"):
        source(StructType([StructField("offset", IntegerType())]))
    assert (
        source(StructType([StructField("value", BinaryType()), StructField("error", StringType())])).partitions() == []
    )
