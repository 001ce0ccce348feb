"""A log on a bench that is cleaned at will: in memory, with a clock that stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.append_info import AppendInfo
from kmini.storage.background_work import Deletions
from kmini.storage.cleaner.clean import Pass
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.cleaner.cleaner_checkpoint import CleanerCheckpoint
from kmini.storage.cleaner.dirtiness import assess, capture
from kmini.storage.cleaner.schedule import Job, Schedule
from kmini.storage.cleaner.stats import PassReport
from kmini.storage.filesystem.faults import Faults
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_environment import LogEnvironment
from kmini.storage.log_manager import create_log
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.recovery import load_log
from kmini.storage.validation import ValidatedRecords

DIRECTORY = "/data/orders-0"
ORDERS_0 = TopicPartition("orders", 0)
DAY_MS = 86_400_000
CHECKPOINT_DIRECTORY = "/data"
BACKOFF_MS = 15_000


class Unwatched:
    """Lets a pass do what it likes."""

    def on_bytes(self, count: int) -> None:
        """Never stops it."""


class CleaningBench:
    """One compacted log. `log` is another object after every `reopen`."""

    def __init__(self, **config: Any) -> None:
        self.config = LogConfig(**{"cleanup_policy": ("compact",), "index_interval_bytes": 100, **config})
        self.filesystem = MemoryFileSystem()
        self.filesystem.make_directory(DIRECTORY)
        self.now_ms = 1_000
        self.checkpoint: int | None = None
        self.limits = Limits()
        self.environment = self._new_environment()
        self.log = create_log(self.environment, DIRECTORY, ORDERS_0, bytes(range(16)), self.config)

    def _new_environment(self) -> LogEnvironment:
        return LogEnvironment(self.filesystem, [], Deletions(self.filesystem), lambda: self.now_ms)

    # Writing

    def put(self, *pairs: tuple[str | None, str | None], timestamp: int | None = None, **batch: Any) -> AppendInfo:
        """One batch with a record for each key and value."""
        at = self.now_ms if timestamp is None else timestamp
        records = [Record(0, at, _bytes(key), _bytes(value)) for key, value in pairs]
        return self.append(build_batch(records, **batch))

    def append(self, batch: bytearray | bytes, origin: Origin = Origin.CLIENT, *, leader_epoch: int = 0) -> AppendInfo:
        info = self.log.append_as_leader(
            ValidatedRecords.of(bytearray(batch)), leader_epoch=leader_epoch, now_ms=self.now_ms, origin=origin
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return info

    def append_old(self, messages: bytes) -> None:
        """Append messages of magic 0 or 1 as they are, as a log of an old Kafka has them."""
        (_, header), *_ = iter_batches(messages)
        last = decode_records(messages, 0, header)[-1].offset
        self.log.segments.active.append(messages, last, header.max_timestamp)
        self.log.log_end_offset = self.log.producers.end_offset = last + 1
        self.log.update_high_watermark(last + 1)

    def end_transaction(self, producer_id: int, *, abort: bool, producer_epoch: int = 0) -> AppendInfo:
        marker = EndTransactionMarker(abort, 0)
        batch = build_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=self.now_ms
        )
        return self.append(batch, Origin.COORDINATOR)

    def roll(self) -> None:
        self.log.roll(self.now_ms)
        self.run_background()

    # Cleaning

    def clean(self, *, roll: bool = True, limits: Limits | None = None, watch: Any = None) -> PassReport:
        """A pass over all that can be cleaned, swapped in group by group; the checkpoint moves."""
        if roll:
            self.roll()
        log = capture(self.log, assess(self.log, self.checkpoint, self.now_ms))
        passing = Pass(log, self.now_ms, limits or self.limits, watch or Unwatched())
        for group in passing.run():
            self.log.segments.replace(group.sources, group.segment, self.now_ms + self.config.file_delete_delay_ms)
            self.filesystem.sync_directory(DIRECTORY)
        self.checkpoint = passing.report.end_offset
        return passing.report

    # Reading

    def batches(self) -> list[tuple[Any, bytes]]:
        """Header and bytes of every batch that is in the log."""
        return [(header, bytes(data)) for segment in self.log.segments for _, header, data in segment.batches()]

    def records(self) -> list[Record]:
        """Every data record that is in the log, of aborted transactions too."""
        return [
            record
            for header, data in self.batches()
            if not header.is_control
            for record in (decode_records(data, 0, header) if header.record_count else [])
        ]

    def pairs(self) -> list[tuple[int, str | None, str | None]]:
        """Offset, key and value of every data record that is in the log."""
        return [(record.offset, _text(record.key), _text(record.value)) for record in self.records()]

    def markers(self) -> list[int]:
        """Offsets of the control batches that are in the log, emptied ones left out."""
        return [header.base_offset for header, _ in self.batches() if header.is_control and header.record_count]

    def horizons(self) -> dict[int, int]:
        """Base offset -> delete horizon, of the batches that have one."""
        return {header.base_offset: header.base_timestamp for header, _ in self.batches() if header.has_delete_horizon}

    def read_all(self) -> list[int]:
        """The offsets that a consumer gets, from the log start to the high watermark."""
        found, offset = [], self.log.log_start_offset
        while offset < self.log.high_watermark:
            data = self.log.read(offset, 1_000, limit_offset=self.log.high_watermark)
            if not data:
                break
            for position, header in iter_batches(data):
                if header.record_count and not header.is_control:
                    found += [r.offset for r in decode_records(data, position, header) if r.offset >= offset]
                offset = header.next_offset
        return found

    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.log.segments]

    def files(self, suffix: str = "") -> list[str]:
        return [name for name in self.filesystem.list(DIRECTORY) if name.endswith(suffix)]

    # Time and the end

    def run_background(self) -> None:
        work = self.environment.background[:]
        self.environment.background.clear()
        for piece in work:
            piece.run()
            piece.finish()

    def close(self) -> None:
        self.run_background()
        self.log.close()

    def reopen(self, *, is_clean: bool = False, filesystem: MemoryFileSystem | None = None) -> PartitionLog:
        """Load the log as another process finds it: in what a kill leaves, or in another file system."""
        self.filesystem = filesystem or self.filesystem.kill()
        self.environment = self._new_environment()
        self.log = load_log(self.environment, DIRECTORY, ORDERS_0, self.config, is_clean=is_clean)
        self.log.update_high_watermark(self.log.log_end_offset)
        return self.log

    def break_at(self, **faults: Any) -> Faults:
        self.filesystem.faults = Faults(**faults)
        return self.filesystem.faults


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


@pytest.fixture
def make_cleaning_bench() -> Callable[..., CleaningBench]:
    return CleaningBench


@pytest.fixture
def bench() -> CleaningBench:
    return CleaningBench()


@pytest.fixture(params=["compiled", "interpreted"])
def sieve(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each kernel of compaction in turn, used by passes too."""
    from kmini.protocol.records import load_kernel
    from kmini.storage.cleaner import offset_map

    module = load_kernel.load("sieve", interpreted=request.param == "interpreted")
    if request.param == "compiled" and module.__file__.endswith(".py"):
        pytest.skip("the kernel is not compiled here")
    monkeypatch.setattr(offset_map, "load_sieve", lambda: module)
    return module


class Logs:
    """Several logs and the schedule of their cleaning."""

    def __init__(self, make: Callable[..., CleaningBench]) -> None:
        self._make = make
        self.benches: dict[TopicPartition, CleaningBench] = {}
        self.filesystem = MemoryFileSystem()
        self.filesystem.make_directory(CHECKPOINT_DIRECTORY)
        self.schedule = Schedule(CleanerCheckpoint(self.filesystem, CHECKPOINT_DIRECTORY), backoff_ms=BACKOFF_MS)
        self.now_ms = 1_000

    def add(
        self, name: str, *, clean: int = 0, dirty: int = 0, timestamp: int = 1_000, **config: Any
    ) -> TopicPartition:
        """A log with so many segments of one size that are clean, and that are dirty."""
        partition = TopicPartition(name, 0)
        bench = self.benches[partition] = self._make(**config)
        for _ in range(clean + dirty):
            bench.put(("a", "1"), timestamp=timestamp)
            bench.roll()
        if clean:
            self.schedule.checkpoint.set(partition, clean)
        return partition

    @property
    def logs(self) -> dict[TopicPartition, Any]:
        return {partition: bench.log for partition, bench in self.benches.items()}

    def pick(self) -> Job | None:
        return self.schedule.pick(self.logs, self.now_ms)

    def picked(self) -> str | None:
        """The name of what is picked; it is cleaned in no time."""
        job = self.pick()
        if job is None:
            return None
        self.end(job)
        return job.partition.topic

    def end(self, job: Job, **report: Any) -> bool:
        done = PassReport(job.range.first_dirty_offset, job.range.end_offset, **report)
        return self.schedule.ended(job, done, None, self.now_ms)


@pytest.fixture
def logs(make_cleaning_bench: Callable[..., CleaningBench]) -> Logs:
    return Logs(make_cleaning_bench)
