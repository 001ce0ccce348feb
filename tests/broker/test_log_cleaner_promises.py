"""What the cleaner promises, after any history: a running broker, its schedule included, beside a model of the records.

Log time moves by days between steps. It runs with the wall clock too, so everything that is promised by a time is
promised by that time and however long the example has taken so far: passes and all else.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, event, example, given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kmini.broker.broker import BrokerServer
from kmini.broker.clock import MovableClock
from kmini.broker.controller import topics
from kmini.broker.metrics_text import metrics_text
from kmini.broker.settings.broker_config import BrokerConfig
from kmini.protocol.records.batch import BatchHeader, build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.control import (
    ControlType,
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
)
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.log import PartitionLog
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords

P = TopicPartition("profiles", 0)
BACKOFF_MS = 15_000
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SHIFT_MS = HOUR_MS
"""D: how far timestamps are from the broker's clock at most."""
PRODUCER = 7
SPACING = 10
"""Passes for horizons alone are so many times apart as the last one took."""


class Written(NamedTuple):
    """A record, as the model remembers it."""

    offset: int
    key: bytes
    value: bytes | None
    transaction: int | None


@dataclass
class Reader:
    """Reads committed records, some at a time, and keeps the newest value of every key."""

    at_end_ms: int
    """When it was last at the end, or began."""
    position: int = 0
    table: dict[bytes, bytes] = field(default_factory=dict)

    def read(self, log: PartitionLog, max_bytes: int) -> None:
        end = log.last_stable_offset
        if self.position >= end:
            return
        data = log.read(self.position, max_bytes, limit_offset=end)
        if not data:
            self.position = end
            return
        coming = sorted(log.aborted_transactions(self.position, end), key=lambda each: each.first_offset)
        undone = set()
        for at, header in iter_batches(data):
            while coming and coming[0].first_offset <= header.last_offset:
                undone.add(coming.pop(0).producer_id)
            if header.record_count:
                self._take(header, decode_records(data, at, header), undone)
            self.position = header.next_offset

    def _take(self, header: BatchHeader, records: list[Record], undone: set[int]) -> None:
        if header.is_control:
            if control_type(records[0].key) == ControlType.ABORT:
                undone.discard(header.producer_id)
        elif not header.is_transactional or header.producer_id not in undone:
            for record in records:
                if record.offset < self.position:
                    continue
                assert record.key is not None
                if record.value is None:
                    self.table.pop(record.key, None)
                else:
                    self.table[record.key] = record.value


class World:
    """A broker with one compacted partition, what was written to it, and when what was superseded."""

    def __init__(self, data_dir: str, max_lag_ms: int, retention_ms: int, ratio: float) -> None:
        self.max_lag_ms, self.retention_ms = max_lag_ms, retention_ms
        self.data_dir = data_dir
        self.configs = {
            "cleanup.policy": "compact",
            "max.compaction.lag.ms": str(max_lag_ms),
            "delete.retention.ms": str(retention_ms),
            "min.cleanable.dirty.ratio": str(ratio),
            "segment.bytes": "1000",
        }
        self.filesystem = MemoryFileSystem()
        self.clock = MovableClock()
        self.began = time.monotonic()
        self.broker: BrokerServer
        self.written: list[Written] = []
        self.decided: dict[int, bool | None] = {}
        """Of each transaction whether it was committed; None while it is open."""
        self.superseded_ms: dict[int, int] = {}
        """By offset: since when there is something newer."""
        self.sequence = 0
        self.held_up_until_ms = 0
        """Until then the bound was suspended: by a transaction, or because no broker was running."""
        self.reader: Reader

    async def start(self) -> None:
        config = BrokerConfig.parse({"listeners": "PLAINTEXT://127.0.0.1:0", "log.cleaner.backoff.ms": str(BACKOFF_MS)})
        self.broker = await BrokerServer.start(config, self.data_dir, clock=self.clock, filesystem=self.filesystem)
        if P not in self.broker.replica_manager.partitions:
            topics.create(self.broker, P.topic, configs=self.configs)
            self.reader = Reader(self.clock.now_ms())
        self.held_up_until_ms = self.clock.now_ms()

    @property
    def log(self) -> PartitionLog:
        return self.broker.replica_manager.partitions[P].log

    @property
    def slack_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000) + 100

    # What happens

    async def put(self, key: int, is_tombstone: bool, shift_ms: int, codec: int, is_transactional: bool) -> None:
        offset, now_ms = self.log.log_end_offset, self.clock.now_ms()
        value = None if is_tombstone else b"<value %d>" % offset
        record = Record(offset, now_ms + shift_ms, b"key %d" % key, value)
        if is_transactional:
            if None not in self.decided.values():
                self.decided[len(self.decided)] = None
            batch = build_batch(
                [record],
                base_offset=offset,
                codec=codec,
                transactional=True,
                producer_id=PRODUCER,
                producer_epoch=0,
                base_sequence=self.sequence,
            )
            self.sequence += 1
        else:
            batch = build_batch([record], base_offset=offset, codec=codec)
        self.broker.replica_manager.partitions[P].append(ValidatedRecords.of(batch), now_ms)
        transaction = len(self.decided) - 1 if is_transactional else None
        self.written.append(Written(offset, record.key or b"", value, transaction))
        self._note_superseded()

    async def end(self, is_commit: bool) -> None:
        if None not in self.decided.values():
            return
        now_ms = self.clock.now_ms()
        marker = build_end_transaction_marker(
            EndTransactionMarker(not is_commit, 0), producer_id=PRODUCER, producer_epoch=0, timestamp=now_ms
        )
        self.broker.replica_manager.partitions[P].append(
            ValidatedRecords.of(bytearray(marker)), now_ms, Origin.COORDINATOR
        )
        self.decided[len(self.decided) - 1] = is_commit
        self.held_up_until_ms = self.clock.now_ms()
        self._note_superseded()

    async def wait(self, duration_ms: int) -> None:
        await self.clock.advance(duration_ms)

    async def roll(self) -> None:
        self.log.roll(self.clock.now_ms())

    async def be_down(self, duration_ms: int) -> None:
        await self.broker.stop()
        await self.clock.advance(duration_ms)
        await self.start()

    async def read(self, max_bytes: int) -> None:
        self.reader.read(self.log, max_bytes)
        now_ms = self.clock.now_ms()
        if self.reader.position < self.log.last_stable_offset:
            return
        if now_ms - self.reader.at_end_ms < self.retention_ms:
            event("a reader has kept up")
            assert self.reader.table == self.table(self.log.last_stable_offset)
            self.reader.at_end_ms = now_ms
        else:
            self.reader = Reader(now_ms)

    # The model

    def is_committed(self, record: Written) -> bool:
        return record.transaction is None or self.decided[record.transaction] is True

    def table(self, end_offset: int) -> dict[bytes, bytes]:
        found = {r.key: r.value for r in self.written if r.offset < end_offset and self.is_committed(r)}
        return {key: value for key, value in found.items() if value is not None}

    def _note_superseded(self) -> None:
        newest: dict[bytes, int] = {}
        for record in reversed(self.written):
            if self.is_committed(record):
                if record.key in newest:
                    self.superseded_ms.setdefault(record.offset, self.clock.now_ms())
                newest.setdefault(record.key, record.offset)

    # What must hold

    def batches_on_disk(self) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Of every file of the partition that holds any, whatever its name, but those that are deleted."""
        directory = self.log.directory
        for name in self.filesystem.list(directory):
            if ".log" in name and not name.endswith(".deleted"):
                data = self.filesystem.read(f"{directory}/{name}")
                for at, header in iter_batches(data):
                    yield header, list(decode_records(data, at, header)) if header.record_count else []

    def check(self) -> None:
        self.check_newest_values()
        self.check_files()

    def check_newest_values(self) -> None:
        written = {record.offset: record for record in self.written}
        reader, last, found = Reader(0), -1, set()
        while reader.position < self.log.high_watermark:
            data = self.log.read(reader.position, 500, limit_offset=self.log.high_watermark)
            if not data:
                break
            for at, header in iter_batches(data):
                assert header.base_offset > last
                last = header.last_offset
                reader.position = header.next_offset
                if header.is_control or not header.record_count:
                    continue
                for record in decode_records(data, at, header):
                    assert (record.key, record.value) == written[record.offset][1:3]
                    found.add(record.offset)
        newest = {record.key: record for record in self.written if self.is_committed(record)}
        assert {record.offset for record in newest.values() if record.value is not None} <= found

    def check_files(self) -> None:
        now_ms, slack_ms = self.clock.now_ms(), self.slack_ms
        is_open = None in self.decided.values()
        committed = {record.offset for record in self.written if self.is_committed(record)}
        spacing_ms = BACKOFF_MS + max(BACKOFF_MS, SPACING * slack_ms)
        for header, records in self.batches_on_disk():
            horizon_ms = header.base_timestamp if header.has_delete_horizon else None
            is_marker = header.is_control and bool(records)
            if horizon_ms is not None and (is_marker or any(record.value is None for record in records)):
                event("a horizon waits")
                since_ms = max(horizon_ms, self.held_up_until_ms)
                assert now_ms <= since_ms + spacing_ms + slack_ms, "a horizon has passed"
            if header.is_control:
                continue
            for record in records:
                if record.offset in committed and record.value is not None and record.offset in self.superseded_ms:
                    due_ms = self.superseded_ms[record.offset] + self.max_lag_ms + 2 * SHIFT_MS
                    if is_open and now_ms > due_ms + BACKOFF_MS + slack_ms:
                        event("an open transaction holds up the bound")
                        assert self.delay_secs() > 0
                    elif not is_open:
                        due_ms = max(due_ms, self.held_up_until_ms) + BACKOFF_MS
                        assert now_ms <= due_ms + slack_ms, f"offset {record.offset} is still there"

    def delay_secs(self) -> float:
        (value,) = (
            sample.value
            for family in text_string_to_metric_families(metrics_text(self.broker))
            for sample in family.samples
            if sample.name == "kafka_log_logcleaner_max_compaction_delay_secs"
        )
        return value


PUTS = st.tuples(
    st.just("put"),
    st.integers(0, 3),
    st.booleans(),
    st.integers(-SHIFT_MS, SHIFT_MS),
    st.sampled_from([0, 0, 4]),
    st.sampled_from([False, False, False, True]),
)
DURATIONS = st.sampled_from([1_000, 16_000, HOUR_MS // 2, HOUR_MS, 3 * HOUR_MS, 7 * HOUR_MS, 25 * HOUR_MS])
STEPS = st.one_of(
    PUTS,
    PUTS,
    PUTS,
    st.tuples(st.just("end"), st.booleans()),
    st.tuples(st.just("wait"), DURATIONS),
    st.tuples(st.just("wait"), DURATIONS),
    st.tuples(st.just("read"), st.sampled_from([100, 100_000])),
    st.tuples(st.just("read"), st.just(100_000)),
    st.tuples(st.just("roll")),
    st.tuples(st.just("be_down"), DURATIONS),
)


HELD_UP: list[tuple[object, ...]] = [
    ("put", 0, False, 0, 0, False),
    ("put", 0, False, 0, 0, True),
    ("put", 0, True, 0, 0, False),
    ("wait", 30 * HOUR_MS),
    ("wait", 16_000),
    ("end", False),
    ("wait", 16_000),
]
"""By an open transaction: afterwards a back-off is all that it takes."""

KEEPING_UP: list[tuple[object, ...]] = [
    ("put", 0, False, 0, 0, False),
    ("read", 100_000),
    ("put", 0, True, 0, 0, False),
    ("put", 1, False, 0, 0, False),
    ("wait", 7 * HOUR_MS),
    ("wait", 7 * HOUR_MS),
    ("wait", 7 * HOUR_MS),
    ("read", 100_000),
]
"""With a tombstone that was cleaned meanwhile."""


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.sampled_from([6 * HOUR_MS, DAY_MS]),
    st.sampled_from([2 * HOUR_MS, DAY_MS, 3 * DAY_MS]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.lists(STEPS, min_size=20, max_size=60),
)
@example(DAY_MS, DAY_MS, 1.0, HELD_UP)
@example(6 * HOUR_MS, DAY_MS, 1.0, KEEPING_UP)
def test_what_the_cleaner_promises_holds_after_any_history(
    max_lag_ms: int, retention_ms: int, ratio: float, steps: list[tuple[object, ...]]
) -> None:
    async def live() -> None:
        with tempfile.TemporaryDirectory() as data_dir:
            world = World(data_dir, max_lag_ms, retention_ms, ratio)
            await world.start()
            try:
                for name, *arguments in steps:
                    await getattr(world, str(name))(*arguments)
                    world.check()
                await world.end(is_commit=True)
                await world.wait(9 * DAY_MS)
                world.check()
                assert not any(
                    record.value is None
                    for header, records in world.batches_on_disk()
                    for record in ([] if header.is_control else records)
                ), "the last tombstone has gone"
            finally:
                await world.broker.stop()

    asyncio.run(live())
