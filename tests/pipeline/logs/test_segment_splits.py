"""A segment that is read in splits gives the rows of a segment that is read as a whole."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")


from kmini.protocol.records.batch import read_header
from kmini.protocol.records.batch_records import decode_all
from kmini.storage.log_dir_files import write_partition_metadata
from kmini.storage.offset_checkpoint_file import write_log_start_offsets
from support.log_files import DISK, ORDERS, Log, Row, batch, data, errors, marker, offsets, read, reader
from support.message_sets import message

ALL = (
    "key,value,topic,partition,offset,timestamp,headers,error,isControl,controlType,isTransactional,producerId,"
    "sequence,sizeBytes,file,position,batchSizeBytes"
)

ACTIVE = 40
"""The number of the batch that begins the active segment of a random log."""


def plain(count: int = 40) -> list[bytearray]:
    return [batch(5 * n) for n in range(count)]


def tasks_and_rows(log: Log, max_bytes: int, **options: str) -> tuple[int, list[Row]]:
    source = reader(log.log_dir, maxPartitionBytes=str(max_bytes), columns=ALL, **options)
    tasks = source.partitions()
    return len(tasks), read(source, tasks)


def as_whole(log: Log, **options: str) -> list[Row]:
    return tasks_and_rows(log, 1 << 40, **options)[1]


def random_batches(dice: random.Random, base: int, count: int) -> list[bytearray]:
    """Plain and compressed batches, transactions that end and perhaps one that begins late and stays open, gaps as the
    cleaner leaves them in all but the active segment."""
    found: list[bytearray] = []
    open_since: dict[int, int] = {}
    for number in range(count):
        producer = dice.randrange(1, 4)
        kind = dice.randrange(6)
        if kind == 0 and producer in open_since:
            found.append(marker(base, producer, aborts=dice.random() < 0.5))
            del open_since[producer]
            base += 1
        else:
            records = dice.randrange(1, 8)
            if kind < 3:
                found.append(data(base, producer, records))
                open_since.setdefault(producer, number)
            else:
                found.append(batch(base, records, codec=dice.choice([0, 0, 1, 2, 3, 4])))
            base += records
        if number < ACTIVE and dice.random() < 0.2:
            base += dice.randrange(1, 20)
    for producer, since in open_since.items():
        if since > count - 8:
            continue
        found.append(marker(base, producer, aborts=dice.random() < 0.5))
        base += 1
    return found


def damaged(dice: random.Random, batches: list[bytearray]) -> list[bytes]:
    """The bytes of the batches with damage in some that have whole neighbours.

    Offsets only become larger: where one falls into a gap before the batch ahead of it, a scan from the start blames
    that batch, and a split that begins with it knows better.
    """
    parts = [bytes(one) for one in batches]
    for number in range(dice.randrange(1, 4), len(parts) - 1, dice.randrange(4, 9)):
        one = bytearray(parts[number])
        kind = dice.randrange(6)
        if kind == 0:
            one[dice.randrange(21, len(one))] ^= 1 << dice.randrange(8)
        elif kind == 1:
            one[dice.randrange(8)] |= 1 << dice.randrange(8)
        elif kind == 2:
            one[8:12] = dice.choice([-5, 3, 1 << 30]).to_bytes(4, "big", signed=True)
        elif kind == 3:
            one[:] = dice.randbytes(len(one))
        elif kind == 4:
            del one[dice.randrange(len(one)) :]
        else:
            one += dice.choice([bytes(40), dice.randbytes(dice.randrange(1, 200))])
        parts[number] = bytes(one)
    return parts


SEEDS = range(40 if os.environ.get("KMINI_SOAK") else 6)
CHOICES = ({"include.control": "true"}, {}, {"isolation.level": "read_uncommitted"})


def random_size(dice: random.Random) -> int:
    return dice.choice([200, dice.randrange(100, 1000), dice.randrange(1000, 10_000)])


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_splits_of_any_size_give_the_rows_of_the_whole_segment_in_its_order(log: Log, seed: int) -> None:
    dice = random.Random(seed)
    batches = random_batches(dice, 0, 60)
    for part in (batches[:ACTIVE], batches[ACTIVE:]):
        base = read_header(part[0]).base_offset
        log.segment(base, *part)
        log.index(base, part)
    if dice.randrange(2):
        log.high_watermark(read_header(batches[dice.randrange(50, 59)]).next_offset)
    most = 0
    for options in CHOICES:
        expected = as_whole(log, **options)
        assert not errors(expected)
        for _ in range(3):
            count, rows = tasks_and_rows(log, random_size(dice), **options)
            assert rows == expected
            most = max(most, count)
    assert most > 4
    assert offsets(expected)


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_of_a_damaged_log_splits_give_what_the_whole_segments_give_and_no_other_damage(log: Log, seed: int) -> None:
    """They may give more: damage whose length leads amid a later batch costs this batch too, but not in a split."""
    dice = random.Random(seed)
    batches = random_batches(dice, 0, 60)
    original = {(found.offset, found.key, found.value) for found in decode_all(b"".join(batches))}
    for part in (batches[:ACTIVE], batches[ACTIVE:]):
        base = read_header(part[0]).base_offset
        stored = damaged(dice, part)
        log.segment(base, *stored)
        log.index(base, part, stored)
    same = 0
    for options in CHOICES:
        expected = as_whole(log, **options)
        for _ in range(3):
            _, rows = tasks_and_rows(log, random_size(dice), **options)
            same += rows == expected
            assert set(errors(rows)) <= set(errors(expected))
            assert [row for row in expected if not row["error"]] == [
                row for row in rows if not row["error"] and row in expected
            ]
            more = [row for row in rows if row not in expected]
            assert {(row["offset"], row["key"], row["value"]) for row in more} <= original
            assert offsets(rows) == sorted(set(offsets(rows)))
    assert same
    assert errors(expected)


def test_a_split_begins_amid_a_transaction_that_is_aborted_later_and_skips_its_records(log: Log) -> None:
    batches = [
        data(0, 1),
        *(batch(5 + 5 * n) for n in range(20)),
        data(105, 1),
        marker(110, 1, aborts=True),
        batch(111),
    ]
    log.segment(0, *batches)
    log.index(0, batches)
    count, rows = tasks_and_rows(log, 500)
    assert count > 4
    assert offsets(rows) == [*range(5, 105), *range(111, 116)]


def test_the_number_of_splits_follows_from_the_size_and_small_segments_are_one(log: Log) -> None:
    batches = plain()
    path = log.segment(0, *batches)
    log.index(0, batches)
    size = path.stat().st_size
    assert [tasks_and_rows(log, limit)[0] for limit in (size, size - 1, size // 3 - 1, 1 << 30)] == [1, 2, 4, 1]
    assert tasks_and_rows(log, 1)[0] == 40
    assert len(reader(log.log_dir).partitions()) == 1


def test_only_splits_with_offsets_to_read_become_tasks(log: Log) -> None:
    batches = plain()
    log.segment(0, *batches)
    log.index(0, batches)
    write_log_start_offsets(DISK, str(log.log_dir), {ORDERS: 87})
    log.high_watermark(102)
    source = reader(log.log_dir, maxPartitionBytes=str(len(batches[0])))
    tasks = source.partitions()
    assert [task.first and task.first.base_offset for task in tasks] == [85, 90, 95, 100]
    assert offsets(read(source, tasks)) == [*range(87, 102)]


@pytest.mark.parametrize(
    "change",
    ["none", "zeros", "odd length", "random", "one batch ahead", "shifted offsets", "of another log", "lagging"],
)
def test_an_index_that_is_wrong_changes_no_rows(log: Log, change: str) -> None:
    batches = plain()
    log.segment(0, *batches)
    path = log.index(0, batches)
    content = path.read_bytes()
    expected = as_whole(log)
    if change == "none":
        path.unlink()
    elif change == "of another log":
        log.index(0, [batch(7 * n, 7) for n in range(30)])
    elif change == "one batch ahead":
        path.write_bytes(b"".join(content[at : at + 4] + content[at + 12 : at + 16] for at in range(0, 300, 8)))
    elif change == "shifted offsets":
        path.write_bytes(b"".join(content[at - 8 : at - 4] + content[at + 4 : at + 8] for at in range(8, 300, 8)))
    else:
        path.write_bytes(
            {
                "zeros": bytes(800),
                "odd length": content[:-3],
                "random": random.Random(7).randbytes(320),
                "lagging": content[:80] + bytes(4000),
            }[change]
        )
    for size in (200, 700, 1500):
        count, rows = tasks_and_rows(log, size)
        assert rows == expected
        assert (count > 1) == (change in ("odd length", "lagging"))


def test_an_entry_for_several_batches_that_were_appended_together_begins_a_split(log: Log) -> None:
    """As replicas of Apache Kafka index what they fetch: the last offset of all, and the place of the first."""
    batches = plain()
    log.segment(0, *batches)
    path = log.index(0, batches)
    content = path.read_bytes()
    path.write_bytes(b"".join(content[at + 8 : at + 12] + content[at + 4 : at + 8] for at in range(0, 296, 8)))
    expected = as_whole(log)
    count, rows = tasks_and_rows(log, 1000)
    assert count > 4
    assert rows == expected


def test_batches_of_old_formats_begin_no_split(log: Log) -> None:
    old = [bytearray(message(1, n, b"v" * 50, key=b"k", timestamp=1)) for n in range(60)]
    batches = [*old, *(batch(60 + 5 * n) for n in range(20))]
    log.segment(0, *batches)
    log.index(0, batches)
    expected = as_whole(log)
    assert offsets(expected) == [*range(160)]
    source = reader(log.log_dir, maxPartitionBytes="300", columns=ALL)
    tasks = source.partitions()
    assert len(tasks) > 2
    assert min(task.first.base_offset for task in tasks if task.first) >= 60
    assert read(source, tasks) == expected


def test_a_segment_that_was_replaced_after_planning_gives_each_record_once(log: Log) -> None:
    batches = plain()
    path = log.segment(0, *batches)
    log.index(0, batches)
    source = reader(log.log_dir, maxPartitionBytes="700")
    tasks = source.partitions()
    assert len(tasks) > 4
    Path(f"{path}.swap").write_bytes(b"".join(batch(5 * n, 3) for n in range(0, 40, 3)))
    Path(f"{path}.swap").replace(path)
    rows = read(source, tasks)
    assert offsets(rows) == [5 * n + m for n in range(0, 40, 3) for m in range(3)]
    assert errors(rows) == []


def test_splits_of_a_segment_that_left_the_log_say_which_offsets_are_gone(log: Log) -> None:
    batches = plain(10)
    path = log.segment(0, *batches)
    log.index(0, batches)
    log.segment(50, batch(50))
    write_partition_metadata(DISK, str(log.folder), b"1" * 16)
    source = reader(log.log_dir, maxPartitionBytes=str(path.stat().st_size - 1))
    tasks = source.partitions()
    path.unlink()
    rows = read(source, tasks)
    assert offsets(rows) == [*range(50, 55)]
    assert errors(rows) == [
        f"{path}: offsets from {start} to below {end} have left the log since the read was planned"
        for start, end in ((0, 25), (25, 50))
    ]


def test_a_file_that_was_cut_before_the_next_split_is_damage(log: Log) -> None:
    batches = plain(10)
    path = log.segment(0, *batches)
    log.index(0, batches)
    source = reader(log.log_dir, maxPartitionBytes=str(path.stat().st_size - 1))
    first, _ = source.partitions()
    found = source.read(first)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(batches[0]) * 3])
    rows = [row for part in found for row in part.to_pylist()]
    assert offsets(rows) == [*range(15)]


@pytest.mark.parametrize("shift", [3, 9, 31, 62])
def test_a_wrong_offset_before_a_split_brings_no_offset_of_the_next_split(log: Log, shift: int) -> None:
    """Also where the batch behind it is damaged, so that its own neighbour cannot show that it is wrong."""
    batches = plain(10)
    log.index(0, batches)
    batches[3][:8] = (15 ^ 1 << shift).to_bytes(8, "big")
    batches[4][-1] ^= 1
    path = log.segment(0, *batches)
    _, rows = tasks_and_rows(log, path.stat().st_size - 1)
    assert len(set(offsets(rows))) == len(offsets(rows))
    assert set(offsets(rows)) >= {*range(15), *range(25, 50)}
    assert errors(rows)
