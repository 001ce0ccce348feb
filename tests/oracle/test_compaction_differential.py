"""Histories drawn at random, cleaned by Apache Kafka, and from the copies taken before by us: the same survives.

Each history is a topic. Nothing of it may be cleaned while it is written (`min.cleanable.dirty.ratio` is 1, or the
policy is `delete`); then its folder is copied, Kafka may clean, and the folder is copied again. Several rounds of that:
later ones meet tombstones and markers that wait for their horizons, and producers that have gone silent. Before the
last round Kafka is stopped, and finds our folders instead of its own when it starts again.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kmini.protocol.records.record import Record
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.producers.producer_entry import ProducerEntry
from support.apache_kafka import give_logs_to_kmini
from support.java_peer import RunTool
from support.oracle.cleaned_logs import Batch, Cleaning, Files, Folder, producers_by_replay, write_folder
from support.oracle.cleaning_kafka import FEW_KEYS, CleaningKafka, Told, told_by
from support.oracle.compaction_histories import DAY_MS, History, recently_ms
from support.server_process import ServerProcess, kmini_command
from support.wire import Wire

pytestmark = pytest.mark.deep

HISTORIES = 40 if os.environ.get("KMINI_SOAK") else 4
ROUNDS = 3
COMPLAINT = re.compile(
    r"isvalid: false|Mismatches|not found|out of order|invalid bytes|Exception|log timestamp: (?!-1$)"
)
"""Of DumpLogSegments, which exits with 0 all the same. (It finds no record with the timestamp of a batch that was
emptied: neither here nor in what Kafka has cleaned.)"""


class Outcome(NamedTuple):
    """What became of the histories."""

    cleanings: dict[int, list[Cleaning]]
    """By seed, round by round."""
    ours: dict[int, Files]
    """The folders as we have cleaned them in the last round but one."""
    handed_over: dict[int, Told]
    """What is in them."""
    taken_over: dict[int, Told]
    """What Kafka told of that once it had started on it."""
    in_small_steps: dict[int, Cleaning]
    """Another round, with a map that has room for few keys, so that it has taken many passes."""
    read_by_us: dict[int, tuple[bytes, bytes]]
    """What was in Kafka's folders at that time, and what a broker of ours has told of them."""


@pytest.fixture(scope="module")
def outcome(need_kafka: None, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Apache Kafka cleans every history, is stopped, gets what we have cleaned instead, and goes on with that."""
    directory = tmp_path_factory.mktemp("compaction")
    histories = [History(f"history-{seed}", seed, recently_ms()) for seed in range(HISTORIES)]
    outcome = Outcome({history.seed: [] for history in histories}, {}, {}, {}, {}, {})
    with CleaningKafka(directory, histories) as kafka:
        for number in range(ROUNDS):
            if number == ROUNDS - 1:
                kafka.stop()
                outcome.read_by_us.update(read_by_us(kafka.log_directory, histories, directory))
                for history in histories:
                    last = outcome.cleanings[history.seed][-1]
                    files, told = hand_over(last, kafka.folder(history))
                    outcome.ours[history.seed], outcome.handed_over[history.seed] = files, told
                kafka.start()
                for history in histories:
                    outcome.taken_over[history.seed] = kafka.told(history)
            for history, cleaning in zip(histories, kafka.clean(histories), strict=True):
                outcome.cleanings[history.seed].append(cleaning)
        kafka.shrink_map()
        for history, cleaning in zip(histories, kafka.clean(histories, retention_ms=DAY_MS), strict=True):
            outcome.in_small_steps[history.seed] = cleaning
    return outcome


def clean_a_copy(cleaning: Cleaning) -> Folder:
    """What Kafka did, done by us at the time at which Kafka did it: which its new delete horizons tell."""
    folder, theirs = cleaning.load(cleaning.before), cleaning.load(cleaning.after)
    old = {batch.header.base_offset for batch in folder.batches() if batch.horizon_ms is not None}
    new = {
        batch.horizon_ms
        for batch in theirs.batches()
        if batch.horizon_ms is not None and batch.header.base_offset not in old
    }
    assert len(new) <= 1, "Kafka has needed one pass"
    now_ms = new.pop() - cleaning.config.delete_retention_ms if new else cleaning.ended_ms
    if cleaning.is_due:
        report = folder.clean(cleaning.checkpoint, now_ms, Limits())
        assert report.end_offset == cleaning.end_offset
    return folder


def hand_over(cleaning: Cleaning, path: Path) -> tuple[Files, Told]:
    """Put what we have cleaned in the place of what Kafka has cleaned. Its checkpoints hold for both."""
    folder = clean_a_copy(cleaning)
    log = folder.log
    told = Told(folder.readable_bytes(), log.log_start_offset, log.log_end_offset, folder.producers())
    shutil.rmtree(path)
    files = folder.close()
    write_folder(files, path)
    return files, told


def read_by_us(log_directory: Path, histories: list[History], directory: Path) -> dict[int, tuple[bytes, bytes]]:
    """What `kmini serve` tells of the logs that Kafka has cleaned, beside what is in their files."""
    data_dir = directory / "kmini"
    give_logs_to_kmini(log_directory, data_dir)
    ours = ServerProcess(kmini_command(data_dir, {"log.retention.ms": "-1"}), directory / "kmini.log")
    try:
        with Wire(ours.host, ours.port) as wire:
            found = {}
            for history in histories:
                files = sorted((log_directory / f"{history.topic}-0").glob("*.log"))
                held = b"".join(file.read_bytes() for file in files)
                found[history.seed] = held, told_by(wire, history.topic).data
            return found
    finally:
        ours.stop()


def comparable(batch: Batch) -> tuple[object, ...]:
    """All of a batch but its bytes. Of those that have records but no horizon the base timestamp does not count: it
    only saves room, and Kafka takes that of the first record that is left, where we leave it."""
    header = batch.header
    base_timestamp = None if batch.records and batch.horizon_ms is None else header.base_timestamp
    return header._replace(batch_length=0, crc=0, base_timestamp=0), base_timestamp, batch.records


def compared(folder: Folder, unsure: set[int]) -> list[Batch]:
    """What is readable, without the markers of some producers: below the log start Kafka has forgotten which
    transactions were aborted, and what it takes for committed data keeps the next marker of the producer."""
    return [
        batch
        for batch in folder.readable_batches()
        if not (batch.header.is_control and batch.header.producer_id in unsure)
    ]


def last_known(folder: Folder, unsure: set[int]) -> list[ProducerEntry]:
    """What the log alone tells of producers, with the last batch of each."""
    return [
        producer._replace(batches=producer.batches[-1:])
        for producer in producers_by_replay(folder)
        if producer.producer_id not in unsure
    ]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_same_survives(outcome: Outcome, seed: int) -> None:
    for cleaning in outcome.cleanings[seed]:
        ours, theirs = clean_a_copy(cleaning), cleaning.load(cleaning.after)
        unsure = cleaning.load(cleaning.before).half_deleted_producers()
        kept, mine = (compared(folder, unsure) for folder in (theirs, ours))
        assert [*map(comparable, mine)] == [*map(comparable, kept)], f"round {cleaning.number}"
        assert ours.aborted(unsure) == theirs.aborted(unsure)
        if not cleaning.log_start_offset:  # Kafka's retention may have removed segments by now, or not
            assert ours.segment_files() == theirs.segment_files()
            empty = [
                {segment.base_offset for segment in each.log.segments if not segment.size} for each in (ours, theirs)
            ]
            assert empty[0] == empty[1]
        assert last_known(ours, unsure) == last_known(theirs, unsure)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_same_survives_many_passes_with_a_small_map(outcome: Outcome, seed: int) -> None:
    """But for horizons: Kafka sets them before it knows that nothing older is left. And where a pass begins within a
    segment, it takes a committed transaction for an aborted one that the same producer had further up, and does not
    look at its keys; so some more may be left there, but nothing that is the newest of its key."""
    cleaning = outcome.in_small_steps[seed]
    ours, theirs = cleaning.load(cleaning.before), cleaning.load(cleaning.after)
    checkpoint = cleaning.checkpoint
    while cleaning.is_due and checkpoint != cleaning.end_offset:
        report = ours.clean(checkpoint, cleaning.ended_ms, Limits(map_bytes=24 * (FEW_KEYS + 1)))
        checkpoint = report.end_offset
        assert checkpoint == cleaning.end_offset or report.keys == FEW_KEYS
        assert checkpoint > report.first_dirty_offset
    left = {record.offset: record for record in records(ours)}
    newest = {record.key: record.offset for record in records(cleaning.load(cleaning.before))}
    more = [record for record in records(theirs) if record.offset not in left]
    assert [record for record in records(theirs) if record.offset in left] == [*left.values()]
    assert not [record for record in more if record.offset == newest[record.key]]
    if not any(batch.header.is_transactional for batch in cleaning.load(cleaning.before).batches()):
        assert not more
    unsure = cleaning.load(cleaning.before).half_deleted_producers()
    assert last_known(ours, unsure) == last_known(theirs, unsure)


def test_the_base_timestamp_of_what_has_lost_its_first_record_stays_here_only(outcome: Outcome) -> None:
    for ours, theirs in first_rounds(outcome):
        kept = {batch.header.base_offset: batch.header for batch in theirs.batches()}
        for batch in ours.batches():
            header = kept.get(batch.header.base_offset)
            if header is not None and header.base_timestamp != batch.header.base_timestamp:
                assert header.base_timestamp == batch.records[0].timestamp
                return
    raise AssertionError("it is the same in all of them")


def first_rounds(outcome: Outcome) -> Iterator[tuple[Folder, Folder]]:
    """Each history cleaned by us and by Kafka."""
    for cleaning, *_ in outcome.cleanings.values():
        yield clean_a_copy(cleaning), cleaning.load(cleaning.after)


def records(folder: Folder) -> list[Record]:
    return [record for batch in folder.readable_batches() for record in batch.records]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_apache_kafka_goes_on_with_what_we_have_cleaned(outcome: Outcome, seed: int) -> None:
    assert outcome.taken_over[seed] == outcome.handed_over[seed]


def test_every_file_that_we_have_cleaned_is_sound(outcome: Outcome, kafka_tool: RunTool, tmp_path: Path) -> None:
    """Indexes and snapshots too."""
    for seed, files in outcome.ours.items():
        write_folder(files, tmp_path / f"history-{seed}-0")
    paths = [path for path in sorted(tmp_path.rglob("0*.*")) if path.suffix != ".txnindex" or path.stat().st_size]
    finished = kafka_tool("DumpLogSegments", "--files", ",".join(map(str, paths)))
    assert finished.exit == 0, finished.stderr
    lines = (finished.stdout + finished.stderr).splitlines()
    assert len([line for line in lines if line.startswith("Dumping ")]) == len(paths)
    assert not [line for line in lines if COMPLAINT.search(line)]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_we_serve_what_apache_kafka_has_cleaned(outcome: Outcome, seed: int) -> None:
    held, told = outcome.read_by_us[seed]
    assert held.endswith(told)
    assert told
