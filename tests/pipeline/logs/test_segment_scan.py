"""Segments scanned into rows: damage, old formats, and bounded memory.

These tests also hold pipeline/logs/arrow_columns.py and pipeline/logs/rows.py.
"""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from kmini.pipeline.log_source import DamagedSegmentError
from kmini.pipeline.logs.segment_scan import COLUMNS, scan_segment
from kmini.protocol.records.batch import build_batch, read_header, rewrite_header
from kmini.protocol.records.batch_records import decode_all
from kmini.protocol.records.record import Record
from support.log_files import Log, batch, data, errors, marker, offsets, read, reader
from support.message_sets import message, wrapper


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


def transactions(log: Log) -> None:
    log.segment(0, data(0, 1), data(5, 2), marker(10, 1, aborts=True), data(11, 1))
    log.segment(16, marker(16, 1, aborts=False), data(17, 2, 1), marker(18, 2, aborts=True), batch(19), data(24, 3))
    log.segment(29, batch(29))


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
