"""Partition folders before and after a cleaning, and kmini's cleaner at work on one of them."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import NamedTuple

from kmini.protocol.records.batch import BatchHeader
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.background_work import Deletions
from kmini.storage.cleaner.clean import Pass
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.dirtiness import assess, capture
from kmini.storage.cleaner.stats import PassReport
from kmini.storage.filenames import parse_segment_file
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.producers.producer_entry import ProducerEntry
from kmini.storage.recovery import load_log


class Batch(NamedTuple):
    """A batch that is in a log, decoded."""

    header: BatchHeader
    records: list[Record]

    @property
    def horizon_ms(self) -> int | None:
        return self.header.base_timestamp if self.header.has_delete_horizon else None


class Unwatched:
    """Lets a pass do what it likes."""

    def on_bytes(self, count: int) -> None:
        """Never stops it."""


class File(NamedTuple):
    content: bytes
    modified_ms: int
    """Old tombstones go by it."""


Files = dict[str, File]
"""The files of a partition's folder, by name."""


def read_folder(path: Path) -> Files:
    """Without what is on its way in or out."""
    found = {}
    for file in path.iterdir():
        if not file.name.endswith((".deleted", ".cleaned", ".swap")):
            found[file.name] = File(file.read_bytes(), file.stat().st_mtime_ns // 1_000_000)
    return found


def write_folder(files: Files, path: Path) -> None:
    path.mkdir(parents=True)
    for name, file in files.items():
        (path / name).write_bytes(file.content)
        os.utime(path / name, ns=(file.modified_ms * 1_000_000,) * 2)


class Cleaning(NamedTuple):
    """A round of a history: Kafka's folder before and after it was cleaned."""

    partition: TopicPartition
    number: int
    before: Files
    after: Files
    config: LogConfig
    log_start_offset: int
    checkpoint: int | None
    """Up to where it was clean before."""
    end_offset: int
    """And afterwards."""
    ended_ms: int
    """By then Kafka was done."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything that can be cleaned: an open transaction may be in front of it."""
        return self.end_offset > max(self.checkpoint or 0, self.log_start_offset)

    def load(self, files: Files) -> Folder:
        return Folder(self.partition, files, self.config, self.log_start_offset)


class Folder:
    """A partition's folder in memory, which kmini has loaded."""

    def __init__(self, partition: TopicPartition, files: Files, config: LogConfig, log_start_offset: int) -> None:
        self.config = config
        self.filesystem = MemoryFileSystem()
        self.path = f"/{partition}"
        self.filesystem.make_directory(self.path)
        for name, content in files.items():
            with contextlib.closing(self.filesystem.open(f"{self.path}/{name}", create=True)) as file:
                file.append(content.content)
            self.filesystem.set_modified_ms(f"{self.path}/{name}", content.modified_ms)
        now_ms = time.time_ns() // 1_000_000
        environment = LogEnvironment(self.filesystem, [], Deletions(self.filesystem), lambda: now_ms)
        newest = max(int(name.removesuffix(".log")) for name in files if name.endswith(".log"))
        self.log: PartitionLog = load_log(
            environment,
            self.path,
            partition,
            config,
            is_clean=False,
            recovery_point=newest,
            log_start_offset=log_start_offset,
        )
        self.log.update_high_watermark(self.log.log_end_offset)

    def close(self) -> Files:
        """What is there once the log has been closed."""
        self.log.close()
        for work in self.log.environment.background:
            work.run()
        return {
            name: File(self.filesystem.read(f"{self.path}/{name}"), self.filesystem.modified_ms(f"{self.path}/{name}"))
            for name in self.filesystem.list(self.path)
        }

    def cleanable_end(self, checkpoint: int | None) -> int:
        """Up to where a pass goes, if its map has room."""
        return assess(self.log, checkpoint, self.log.environment.now_ms()).end_offset

    def clean(self, checkpoint: int | None, now_ms: int, limits: Limits) -> PassReport:
        """One pass, swapped in group by group."""
        captured = capture(self.log, assess(self.log, checkpoint, now_ms))
        passing = Pass(captured, now_ms, limits, Unwatched())
        for group in passing.run():
            self.log.segments.replace(group.sources, group.segment, now_ms)
            self.filesystem.sync_directory(self.path)
        self.log.environment.deletions.delete_due(now_ms)
        return passing.report

    def batches(self) -> list[Batch]:
        found = []
        for segment in self.log.segments:
            for _, header, data in segment.batches():
                records = decode_records(data, 0, header) if header.record_count else []
                found.append(Batch(header, list(records)))
        return found

    def readable_batches(self) -> list[Batch]:
        """Without what DeleteRecords took."""
        return [batch for batch in self.batches() if batch.header.last_offset >= self.log.log_start_offset]

    def half_deleted_producers(self) -> set[int]:
        """Those of whose transactions DeleteRecords took something."""
        return {
            batch.header.producer_id
            for batch in self.batches()
            if batch.header.is_transactional and batch.header.base_offset < self.log.log_start_offset
        }

    def readable_bytes(self) -> bytes:
        return b"".join(
            data
            for segment in self.log.segments
            for _, header, data in segment.batches()
            if header.last_offset >= self.log.log_start_offset
        )

    def producers(self) -> list[tuple[int, ...]]:
        """As DescribeProducers tells them."""
        return sorted(
            (
                entry.producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp,
                entry.coordinator_epoch,
                -1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
            )
            for entry in self.log.producers.entries()
        )

    def aborted(self, unsure: set[int]) -> list[AbortedTransaction]:
        """What the transaction indexes tell, without what DeleteRecords took, and without some producers."""
        entries = [
            entry
            for segment in self.log.segments
            for entry in segment.transaction_index.collect(0, self.log.log_end_offset)[0]
        ]
        start = self.log.log_start_offset
        return [entry for entry in entries if entry.last_offset >= start and entry.producer_id not in unsure]

    def segment_files(self) -> set[str]:
        return {name for name in self.filesystem.list(self.path) if parse_segment_file(name) is not None}


def producers_by_replay(folder: Folder) -> list[ProducerEntry]:
    """What a restart knows of the producers if it has nothing but the log. Closes it."""
    files = {name: file for name, file in folder.close().items() if not name.endswith(".snapshot")}
    loaded = Folder(folder.log.topic_partition, files, folder.config, folder.log.log_start_offset)
    return sorted(loaded.log.producers.entries())
