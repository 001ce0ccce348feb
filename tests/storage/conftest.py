"""A partition log on a bench: in memory, with a clock that stands still, reopened at will."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, iter_batches, read_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.append_info import AppendInfo
from kmini.storage.background_work import Deletions
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.log_manager import create_log
from kmini.storage.recovery import load_log
from kmini.storage.timestamp_search import TimestampedOffset, batches_since, newest_batch
from kmini.storage.validation import ValidatedRecords

DIRECTORY = "/data/orders-0"
ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def refuses_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of storage run on a file system that refuses to rename and remove open files, as Windows does. (Those
    of the broker and of crashes run on one that does not.)"""
    monkeypatch.setattr(MemoryFileSystem, "refuses_open_files_by_default", True)


class LogBench:
    """One log, and what happens around it. `log` is another object after every `reopen`."""

    def __init__(self, **config: Any) -> None:
        self.filesystem = MemoryFileSystem()
        self.filesystem.make_directory(DIRECTORY)
        self.now_ms = 1_000
        self.config = LogConfig(**config)
        self.environment = self._new_environment()
        self.log = create_log(self.environment, DIRECTORY, ORDERS_0, bytes(range(16)), self.config)

    def _new_environment(self) -> LogEnvironment:
        return LogEnvironment(self.filesystem, [], Deletions(self.filesystem), lambda: self.now_ms)

    # Writing

    def append(
        self, *values: str, timestamp: int = 1_000, commit: bool = True, leader_epoch: int = 0, **batch: Any
    ) -> AppendInfo:
        """One batch of records with these values; `batch` is for build_batch. Moves the high watermark, if `commit`."""
        built = build_batch([Record(0, timestamp, None, value.encode()) for value in values or ("",)], **batch)
        info = self.log.append_as_leader(ValidatedRecords.of(built), leader_epoch=leader_epoch, now_ms=self.now_ms)
        if commit:
            self.log.update_high_watermark(self.log.log_end_offset)
        return info

    def fill(self, segments: int, records: int = 2) -> None:
        """Segments of `records` records each, sealed, and an empty active one."""
        for _ in range(segments):
            for _ in range(records):
                self.append(f"value {self.log.log_end_offset}")
            self.log.roll(self.now_ms)

    # Reading

    def values(self) -> list[str]:
        """Of all records that a consumer gets, from the log start to the high watermark."""
        found = []
        offset = self.log.log_start_offset
        while offset < self.log.high_watermark:
            data = self.log.read(offset, 10_000, limit_offset=self.log.high_watermark)
            if not data:
                break
            for position, header in iter_batches(data):
                records = decode_records(data, position, header)
                found += [(record.value or b"").decode() for record in records if record.offset >= offset]
                offset = header.next_offset
        return found

    def offset_for_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        """What ListOffsets answers for a timestamp."""
        for batch in batches_since(self.log, timestamp):
            if found := batch.first_since(timestamp, self.log.log_start_offset, 1 << 20):
                return found
        return None

    def max_timestamp_offset(self) -> TimestampedOffset | None:
        """What ListOffsets answers for MAX_TIMESTAMP."""
        batch = newest_batch(self.log)
        return batch and batch.first_since(batch.header.max_timestamp, 0, 1 << 20)

    def offsets_of(self, data: bytes) -> list[int]:
        """Base offsets of the whole batches in what a read returned."""
        return [header.base_offset for _, header in iter_batches(data)]

    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    def files(self, suffix: str = "") -> list[str]:
        """Names in the log's directory, by their end."""
        return [name for name in self.filesystem.list(DIRECTORY) if name.endswith(suffix)]

    def content(self, name: str) -> bytes:
        return self.filesystem.read(f"{DIRECTORY}/{name}")

    def write(self, name: str, content: bytes) -> None:
        file = self.filesystem.open(f"{DIRECTORY}/{name}", create=True)
        file.truncate(0)
        file.append(content)
        file.close()

    # Time and the end

    def run_background(self) -> int:
        """Do what the log has left for a thread; how many pieces of work there were."""
        work = self.environment.background[:]
        self.environment.background.clear()
        for piece in work:
            piece.run()
            piece.finish()
        return len(work)

    def close(self) -> None:
        self.run_background()
        self.log.close()

    def reopen(self, *, is_clean: bool = False, faults: Faults | None = None, **offsets: int) -> PartitionLog:
        """Load the log as another process finds it, after `close` or a kill. `offsets` are what checkpoints say."""
        self.filesystem = self.filesystem.kill(faults)
        self.environment = self._new_environment()
        self.log = load_log(self.environment, DIRECTORY, ORDERS_0, self.config, is_clean=is_clean, **offsets)
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log


@pytest.fixture
def make_bench() -> Callable[..., LogBench]:
    return LogBench


@pytest.fixture
def bench() -> LogBench:
    """With segments of Kafka's default size: nothing rolls by itself."""
    return LogBench()


@pytest.fixture
def batch_size() -> Callable[..., int]:
    """How many bytes `LogBench.append` writes for these values."""

    def measure(*values: str) -> int:
        return read_header(build_batch([Record(0, 1_000, None, value.encode()) for value in values or ("",)])).size

    return measure
