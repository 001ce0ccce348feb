"""A machine that runs the storage of a broker, acknowledges requests, and fails at the n-th file operation.

A test has a story: a function that produces, deletes, writes checkpoints. `survive` runs the story for n = 1, 2, … with
a fault at the n-th file operation, until the story has fewer than n. After every fault the machine restarts, and every
promise to its clients must hold.
"""

from __future__ import annotations

import contextlib
import errno
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kmini.protocol.errors import KafkaStorageError
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.deletion import delete_records_below
from kmini.storage.filenames import HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from kmini.storage.filesystem.faults import CHANGES, READS, Faults, PowerLoss
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.log_config import LogConfig
from kmini.storage.log_manager import LogManager
from kmini.storage.offset_checkpoint_file import write_offsets
from kmini.storage.validation import ValidatedRecords

DIRECTORY = "/data/broker-1"
ORDERS = TopicPartition("orders", 0)


@dataclass
class Promises:
    """The acknowledgements that the clients of one partition have, and the requests without an answer."""

    sent: list[str] = field(default_factory=list)
    """Every value that the producer has sent, in order."""
    acknowledged: dict[int, str] = field(default_factory=dict)
    """Offset -> value of every acknowledged record."""
    unanswered: tuple[int, str] | None = None
    """Sequence and value of a batch that was refused or not answered: its producer sends it again."""
    next_sequence: int = 0
    log_start_offset: int = 0
    """The largest log start offset that DeleteRecords was answered with."""
    retained_from: int = 0
    """The largest log start offset so far: records below it may be gone."""


class Machine:
    """The storage of one broker, driven as the broker drives it. A request that the disk refuses is not
    acknowledged."""

    def __init__(self, **config: Any) -> None:
        self.config = LogConfig(**{"flush_messages": 1, "segment_bytes": 300, "index_interval_bytes": 100, **config})
        self.filesystem = MemoryFileSystem()
        self.now_ms = 1_000
        self.promises: dict[TopicPartition, Promises] = defaultdict(Promises)
        self.manager: LogManager

    def start(self) -> None:
        self.manager = LogManager.open(
            self.filesystem,
            DIRECTORY,
            node_id=1,
            cluster_id="cluster",
            config_of=lambda topic: self.config,
            now_ms=lambda: self.now_ms,
            recovery_threads=1,
        )

    def log(self, topic_partition: TopicPartition = ORDERS) -> PartitionLog:
        """Return the log of a partition. A missing one is created, because the controller knows the partition."""
        found = self.manager.get(topic_partition)
        return found or self.manager.create(topic_partition, bytes(range(16)), self.config)

    # Requests of clients

    def produce(self, *values: str, topic_partition: TopicPartition = ORDERS) -> None:
        """Send a batch for each value as an idempotent producer; send a refused batch again before the next one."""
        promises = self.promises[topic_partition]
        for value in values:
            if promises.unanswered is None or self._send(topic_partition, *promises.unanswered):
                promises.sent.append(value)
                promises.unanswered = (promises.next_sequence, value)
                promises.next_sequence += 1
                self._send(topic_partition, *promises.unanswered)

    def _send(self, topic_partition: TopicPartition, sequence: int, value: str) -> bool:
        batch = build_batch(
            [Record(0, self.now_ms, b"key", value.encode())], producer_id=7, producer_epoch=0, base_sequence=sequence
        )
        promises = self.promises[topic_partition]
        with refusals_allowed():
            log = self.log(topic_partition)
            appended = log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=self.now_ms)
            log.update_high_watermark(log.log_end_offset)
            if log.flush_is_due():
                work = log.flush_work()
                work.run()
                work.finish()
            promises.acknowledged[appended.first_offset] = value
            promises.unanswered = None
        self.run_background()
        return promises.unanswered is None

    def delete_records(self, offset: int, topic_partition: TopicPartition = ORDERS) -> None:
        """Delete records in the order of storage/deletion.py, as the broker does; the answer comes after the last
        step."""
        promises = self.promises[topic_partition]

        def after_checkpoint(delete_files: Callable[[], object]) -> None:
            promises.retained_from = max(promises.retained_from, log.log_start_offset)
            self.manager.write_log_start_offsets(self.manager.log_start_offsets())
            delete_files()

        with refusals_allowed():
            log = self.log(topic_partition)
            delete_records_below(log, min(offset, log.high_watermark), after_checkpoint)
            promises.log_start_offset = max(promises.log_start_offset, log.log_start_offset)
        self.run_background()

    # Periodic tasks

    def run_background(self) -> None:
        for work in self.manager.take_background_work():
            work.run()
            with refusals_allowed():
                work.finish()

    def pass_time(self, ms: int) -> None:
        """Move the clock, apply retention, and remove the files that are due."""
        self.now_ms += ms
        self.manager.apply_retention(self.now_ms)
        for name, log in self.manager.logs.items():
            self.promises[name].retained_from = max(self.promises[name].retained_from, log.log_start_offset)
        self.run_background()
        self.manager.delete_due_files(self.now_ms)

    def write_checkpoints(self) -> None:
        with refusals_allowed():
            write_offsets(self.filesystem, f"{DIRECTORY}/{RECOVERY_POINT_CHECKPOINT}", self.manager.recovery_points())
            write_offsets(self.filesystem, f"{DIRECTORY}/{HIGH_WATERMARK_CHECKPOINT}", self.manager.high_watermarks())
            self.manager.write_log_start_offsets(self.manager.log_start_offsets())

    def restart(self) -> None:
        """Shut down cleanly, as far as the disk allows, and start; start again if the disk failed."""
        with refusals_allowed():
            self.manager.close()
        try:
            self.start()
        except OSError:
            self.start()

    # The promises

    def check(self) -> None:
        """Check every promise, first as it is, then after producers have sent unanswered batches again."""
        for topic_partition, promises in list(self.promises.items()):
            log = self.log(topic_partition)
            log.update_high_watermark(log.log_end_offset)
            assert log.log_start_offset >= promises.log_start_offset, "the log start offset went back"
            self._check_records(log, promises)
            if promises.unanswered is not None:
                assert self._send(topic_partition, *promises.unanswered), "the batch is refused again"
            self.produce(f"afterwards {promises.next_sequence}", topic_partition=topic_partition)
            assert promises.unanswered is None, "nothing can be appended"
            self._check_records(log, promises)

    def _check_records(self, log: PartitionLog, promises: Promises) -> None:
        found = dict(self._records(log))
        values = list(found.values())
        assert len(set(values)) == len(values), f"twice: {values}"
        assert values == [value for value in promises.sent if value in set(values)], "not what was sent, in order"
        start = max(promises.retained_from, log.log_start_offset)
        expected = {offset: value for offset, value in promises.acknowledged.items() if offset >= start}
        assert expected.items() <= found.items(), f"lost {expected.items() - found.items()}"

    def _records(self, log: PartitionLog) -> Iterator[tuple[int, str]]:
        offset = log.log_start_offset
        while offset < log.high_watermark:
            data = log.read(offset, 10_000, limit_offset=log.high_watermark)
            assert data, f"nothing to read at {offset}"
            for position, header in iter_batches(data):
                for record in decode_records(data, position, header):
                    if record.offset >= log.log_start_offset:
                        assert record.value is not None
                        yield record.offset, record.value.decode()
                offset = header.next_offset


@contextlib.contextmanager
def refusals_allowed() -> Iterator[None]:
    """Ignore an error of the disk: the client gets it as the answer, and no acknowledgement."""
    with contextlib.suppress(KafkaStorageError, OSError):
        yield


@dataclass
class Outage:
    """A fault at the n-th file operation, and the file system that the machine finds when it restarts."""

    name: str
    arm: Callable[[int], Faults]
    after: Callable[[MemoryFileSystem, int], MemoryFileSystem]

    def __str__(self) -> str:
        return self.name


def _killed(filesystem: MemoryFileSystem, n: int) -> MemoryFileSystem:
    return filesystem.kill()


def _without_power(filesystem: MemoryFileSystem, n: int) -> MemoryFileSystem:
    return filesystem.crash(seed=n)


_WRITES = {"append", "create", "write_at", "make_directory"}

OUTAGES = [
    Outage("a call fails", lambda n: Faults(fail_at=n, operations=CHANGES | READS), _killed),
    Outage(
        "a sync fails, and then power",
        lambda n: Faults(fail_at=n, operations={"sync", "sync_directory"}),
        _without_power,
    ),
    Outage(
        "the disk is full from then on",
        lambda n: Faults(fail_at=n, fail_for_good=True, error=errno.ENOSPC, operations=_WRITES),
        _killed,
    ),
    Outage("power is lost after it", lambda n: Faults(power_loss_at=n, operations=CHANGES), _without_power),
    Outage("power is lost in it", lambda n: Faults(tear_at=n, operations=CHANGES), _without_power),
    Outage("the process is killed after it", lambda n: Faults(power_loss_at=n, operations=CHANGES), _killed),
]


Story = Callable[[Machine], None]


@pytest.fixture
def make_machine() -> Callable[..., Machine]:
    return Machine


@pytest.fixture(params=OUTAGES, ids=str)
def outage(request: pytest.FixtureRequest) -> Outage:
    found: Outage = request.param
    return found


@pytest.fixture
def survive_from(outage: Outage) -> Callable[[Callable[[], Any], Callable[[Any], None]], int]:
    """Run a story on a machine that `begin` makes, with a fault at every file operation in turn, and check the
    promises; return the number of runs. The machine has a `filesystem`, `start` and `check`."""

    def run(begin: Callable[[], Any], story: Callable[[Any], None]) -> int:
        for n in range(1, 2_000):
            machine = begin()
            faults = machine.filesystem.faults = outage.arm(n)
            with contextlib.suppress(PowerLoss):
                story(machine)
            machine.filesystem = outage.after(machine.filesystem, n)
            try:
                machine.start()
                machine.check()
            except Exception as error:
                raise AssertionError(f"after a fault at operation {n} ({faults.last}): {error}") from error
            if not faults.is_spent:
                return n
        raise AssertionError("the story does not end")

    return run


@pytest.fixture
def survive(survive_from: Callable[..., int]) -> Callable[..., int]:
    """`survive_from` for the storage of one running broker. The story `before` runs without faults."""

    def run(story: Story, *, before: Story | None = None, **config: Any) -> int:
        def begin() -> Machine:
            machine = Machine(**config)
            machine.start()
            if before is not None:
                before(machine)
            return machine

        return survive_from(begin, story)

    return run
