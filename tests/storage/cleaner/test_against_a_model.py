"""Histories drawn at random, cleaned now and then, beside a model that has heard of keys and not of bytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.storage.cleaner.plan import Limits

Bench = Any

KEYS = [b"a", b"b", b"c", b"d", b"a key of some length, because there are such keys"]
RETENTION_MS = 500


@dataclass
class ModelBatch:
    records: list[Record]
    is_aborted: bool = False
    horizon_ms: int | None = None


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
                if not batch.is_aborted
                and record.offset >= newest.get(record.key, -1)
                and not (record.value is None and has_passed)
            ]
            if batch.horizon_ms is None and any(record.value is None for record in batch.records):
                batch.horizon_ms = now_ms + RETENTION_MS

    @property
    def table(self) -> dict[bytes | None, bytes]:
        """What a reader who reads committed records, and all of them, believes in the end."""
        found = {r.key: r.value for batch in self.batches for r in batch.records if not batch.is_aborted}
        return {key: value for key, value in found.items() if value is not None}

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records]


class History:
    """Draws what happens to a log and to its model."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.dice = random.Random(seed)
        self.model = Model()
        self.sequences = dict.fromkeys((1, 2, 3), 0)

    def go_on(self, steps: int) -> None:
        for _ in range(steps):
            self.dice.choice(
                [self.put] * 6 + [self.transaction] * 3 + [self.roll, self.clean, self.wait, self.restart]
            )()
            assert self.bench.records() == self.model.records

    def put(self, producer: int = -1, *, transactional: bool = False) -> ModelBatch:
        dice = self.dice
        base = self.bench.log.log_end_offset
        records = [
            Record(
                base + number,
                self.bench.now_ms + dice.randrange(-50, 50),
                dice.choice(KEYS),
                dice.choice([None, b"", b"value %d" % base, b"x" * 200]),
                dice.choice([(), (("header", None), ("header", b"1"))]),
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
        assert self.bench.append(batch).first_offset == base
        self.model.batches.append(ModelBatch(records))
        return self.model.batches[-1]

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
        limits = Limits(buffer_bytes=self.dice.choice([61, 300, 4_096]))
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
