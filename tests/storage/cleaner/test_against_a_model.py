"""Histories drawn at random, cleaned now and then, beside a model that has heard of keys and not of bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kmini.protocol.records.batch import assign_offsets, build_batch
from kmini.protocol.records.record import TOMBSTONE_HEADER, Record
from kmini.storage.cleaner.cleanable_log import Limits
from kmini.storage.validation import validate

Bench = Any

KEYS = [b"a", b"b", b"c", b"d", b"a key of some length, because there are such keys"]
RETENTION_MS = 500
FLAG = (TOMBSTONE_HEADER, b"")


def deletes(record: Record) -> bool:
    """Whether it is a tombstone, in a log whose producers write that header only where it is a flag (KIP-87)."""
    return record.value is None or FLAG in record.headers


@dataclass
class ModelBatch:
    records: list[Record]
    is_aborted: bool = False
    horizon_ms: int | None = None

    def __post_init__(self) -> None:
        self.offsets = range(self.records[0].offset, self.records[-1].offset + 1)
        """Of all that were in it."""


@dataclass
class Model:
    """What compaction promises, in as few words as possible."""

    batches: list[ModelBatch] = field(default_factory=list)

    def clean(self, first_dirty: int, end: int, now_ms: int) -> None:
        newest = {
            record.key: record.offset
            for batch in self.batches
            for record in batch.records
            if not batch.is_aborted and first_dirty <= record.offset < end
        }
        for batch in self.batches:
            if not batch.records or batch.records[0].offset >= end:
                continue
            has_passed = batch.horizon_ms is not None and batch.horizon_ms <= now_ms
            batch.records = [
                record
                for record in batch.records
                if record.offset >= end
                or (
                    not batch.is_aborted
                    and record.offset >= newest.get(record.key, -1)
                    and not (deletes(record) and has_passed)
                )
            ]
            is_mapped = batch.offsets[-1] < end
            if is_mapped and batch.horizon_ms is None and any(map(deletes, batch.records)):
                batch.horizon_ms = now_ms + RETENTION_MS

    @property
    def table(self) -> dict[bytes | None, bytes]:
        """The state after reading all committed records."""
        found = {record.key: record for batch in self.batches for record in batch.records if not batch.is_aborted}
        return {key: record.value for key, record in found.items() if record.value is not None and not deletes(record)}

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]

    def without_aborted(self, records: list[Record]) -> list[Record]:
        aborted = {offset for batch in self.batches if batch.is_aborted for offset in batch.offsets}
        return [record for record in records if record.offset not in aborted]


class History:
    """Draws what happens to a log and to its model."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.dice = random.Random(seed)
        self.model = Model()
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        self.has_flag = bench.config.kmini_tombstone_flag_enable
        self.map_keys = [10_000]
        """For how many keys the maps have room of which one is drawn for each pass."""

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.dice.choice(
                [self.put] * 6 + [self.transaction] * 3 + [self.roll, self.clean, self.wait, self.restart]
            )()
            self.check()

    def check(self) -> None:
        """Where a pass has not mapped, it may still drop what was aborted."""
        told, known = self.bench.records(), self.model.records
        if len(self.map_keys) > 1:
            told, known = self.model.without_aborted(told), self.model.without_aborted(known)
        assert told == known

    def put(self, producer: int = -1, *, transactional: bool = False) -> ModelBatch:
        dice = self.dice
        base = self.bench.log.log_end_offset
        records = [
            Record(
                base + number,
                self.bench.now_ms + dice.randrange(-50, 50),
                dice.choice(KEYS),
                dice.choice([None, b"", b"value %d" % base, b"x" * 200]),
                dice.choice([(), (("header", None), ("header", b"1")), *[(FLAG,)] * self.has_flag]),
            )
            for number in range(dice.randrange(1, 5))
        ]
        if producer < 0 and not transactional:
            producer = dice.choice([-1, 3])
        more: dict[str, Any] = {}
        if producer > 0:
            more = {"producer_id": producer, "producer_epoch": 0, "base_sequence": self.sequences[producer]}
            self.sequences[producer] += len(records)
        codec = dice.choice([0, 0, 0, 1, 2, 3, 4])
        batch = build_batch(records, base_offset=base, codec=codec, transactional=transactional, **more)
        if self.has_flag:
            batch, records = self.flagged(batch, records)
        assert self.bench.append(batch).first_offset == base
        self.model.batches.append(ModelBatch(records))
        return self.model.batches[-1]

    def flagged(self, batch: bytearray, records: list[Record]) -> tuple[bytearray, list[Record]]:
        """The stored form of a producer's batch: null values get the header, and records with the header get the
        bit."""
        assign_offsets(batch, 0, 0, -1)
        validated = validate(batch, self.bench.config, self.bench.now_ms)
        return bytearray(validated.records), [
            record._replace(headers=(*record.headers, FLAG))
            if deletes(record) and FLAG not in record.headers
            else record
            for record in records
        ]

    def transaction(self) -> None:
        """Of one producer, or of two that are at it together."""
        producers = self.dice.choice([[1], [2], [1, 2]])
        written: dict[int, list[ModelBatch]] = {producer: [] for producer in producers}
        for _ in range(self.dice.randrange(1, 4)):
            producer = self.dice.choice(producers)
            written[producer].append(self.put(producer, transactional=True))
            self.dice.choice([self.put, self.roll, self.clean, lambda: None])()
        for producer in producers:
            if written[producer]:
                is_abort = self.dice.random() < 0.5
                self.bench.end_transaction(producer, abort=is_abort)
                for batch in written[producer]:
                    batch.is_aborted = is_abort

    def roll(self) -> None:
        self.bench.roll()

    def wait(self) -> None:
        self.bench.now_ms += self.dice.choice([1, 100, RETENTION_MS])

    def clean(self) -> None:
        map_bytes = 24 * (self.dice.choice(self.map_keys) + 1)
        limits = Limits(buffer_bytes=self.dice.choice([61, 300, 4_096]), map_bytes=map_bytes)
        report = self.bench.clean(roll=self.dice.random() < 0.5, limits=limits)
        self.model.clean(report.first_dirty_offset, report.end_offset, self.bench.now_ms)

    def restart(self) -> None:
        if self.dice.random() < 0.5:
            self.bench.close()
            self.bench.reopen(is_clean=True)
        else:
            self.bench.reopen()


@pytest.mark.parametrize("seed", range(40))
def test_the_survivors_are_those_of_the_model(make_cleaning_bench: Callable[..., Bench], seed: int) -> None:
    bench = make_cleaning_bench(segment_bytes=1_200, delete_retention_ms=RETENTION_MS)
    history = History(bench, seed)
    history.go_on(60)
    before = history.model.table
    bench.now_ms += 10 * RETENTION_MS
    for _ in range(2):
        history.clean()
    assert bench.records() == history.model.records
    assert history.model.table == before


@pytest.mark.parametrize("seed", range(300, 320))
def test_so_they_are_with_explicit_tombstones(make_cleaning_bench: Callable[..., Bench], seed: int) -> None:
    """KIP-87: some records have a value and delete their key all the same."""
    bench = make_cleaning_bench(segment_bytes=1_200, delete_retention_ms=RETENTION_MS, kmini_tombstone_flag_enable=True)
    history = History(bench, seed)
    history.go_on(60)
    before = history.model.table
    for _ in range(2):
        report = bench.clean()
        history.model.clean(report.first_dirty_offset, report.end_offset, bench.now_ms)
        bench.now_ms += RETENTION_MS
    assert bench.records() == history.model.records
    assert history.model.table == before
    assert not any(map(deletes, bench.records()))


@pytest.mark.parametrize("seed", range(100, 104))
def test_with_the_interpreted_kernel_too(
    make_cleaning_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    from kmini.protocol.records import load_kernel
    from kmini.storage.cleaner import offset_map

    interpreted = load_kernel.load("sieve", interpreted=True)
    monkeypatch.setattr(offset_map, "load_sieve", lambda: interpreted)
    bench = make_cleaning_bench(segment_bytes=1_200, delete_retention_ms=RETENTION_MS)
    History(bench, seed).go_on(40)


@pytest.mark.parametrize("seed", range(400, 440))
def test_so_they_are_when_passes_end_where_their_map_is_full(
    make_cleaning_bench: Callable[..., Bench], seed: int
) -> None:
    """Within a segment, or a batch, and the next one begins there."""
    bench = make_cleaning_bench(segment_bytes=1_200, delete_retention_ms=RETENTION_MS)
    history = History(bench, seed)
    history.map_keys = [1, 2, 3, 10_000]
    history.go_on(80)
    before = history.model.table
    history.map_keys = [10_000]
    bench.now_ms += 10 * RETENTION_MS
    for _ in range(2):
        bench.roll()
        history.clean()
    history.check()
    assert history.model.table == before


@pytest.mark.parametrize("seed", range(200, 212))
def test_a_small_map_takes_more_passes_to_the_same_end(make_cleaning_bench: Callable[..., Bench], seed: int) -> None:
    bench = make_cleaning_bench(segment_bytes=900, delete_retention_ms=RETENTION_MS)
    history = History(bench, seed)
    for _ in range(25):
        history.put()
    committed = {record.key: record for record in bench.records()}
    two_keys = Limits(map_bytes=24 * 3, load_factor=0.9)
    bench.roll()
    for _ in range(200):
        report = bench.clean(roll=False, limits=two_keys)
        if report.end_offset == bench.log.log_end_offset:
            break
    assert {record.key: record for record in bench.records()} == committed
    assert len(bench.records()) == len(committed)
