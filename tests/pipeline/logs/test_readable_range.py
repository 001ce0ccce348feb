"""The part of a log that a consumer may read: offsets, transactions and their markers."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from kmini.protocol.records.batch import read_header, rewrite_header
from kmini.storage import filenames
from kmini.storage.filenames import segment_path
from kmini.storage.indexes.transaction_index import AbortedTransaction, TransactionIndex
from kmini.storage.offset_checkpoint_file import write_log_start_offsets
from kmini.storage.producers.producer_entry import ProducerEntry
from kmini.storage.producers.producer_snapshot import write_snapshot
from support.log_files import DISK, ORDERS, Log, batch, data, errors, marker, offsets, read, reader


def flip(data: bytearray, at: int) -> bytearray:
    data[at] ^= 0x10
    return data


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
