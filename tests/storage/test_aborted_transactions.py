"""What a reader at read_committed is told to skip: exactly what was undone, however transactions and segments lie."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kmini.protocol.records.batch import build_batch, end_offset_of, iter_batches, read_header
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.control import EndTransactionMarker, build_end_transaction_marker
from kmini.protocol.records.record import Record
from kmini.storage.producers.producer_state_manager import Origin
from kmini.storage.validation import ValidatedRecords

Bench = Any


class Ended(NamedTuple):
    """A transaction that is over, as the test knows it."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_aborted: bool


class Transactions:
    """Producers that write transactions into a log, and what must come of it."""

    def __init__(self, bench: Bench, seed: int) -> None:
        self.bench = bench
        self.ended: list[Ended] = []
        self.committed: dict[int, str] = {}
        """The records that count, by offset."""
        self._dice = random.Random(seed)
        self._open: dict[int, dict[int, str]] = {}
        self._sequences: dict[int, int] = {}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            producer_id = self._dice.randrange(6)
            step = self._dice.random()
            if step < 0.6:
                self._write(producer_id)
            elif step < 0.9:
                if producer_id in self._open:
                    self._end(producer_id)
            else:
                value = f"plain {self.bench.log.log_end_offset}"
                self.committed[self.bench.append(value).first_offset] = value

    def _write(self, producer_id: int) -> None:
        sequence = self._sequences.get(producer_id, 0)
        values = [f"{producer_id}/{sequence + n}" for n in range(self._dice.randrange(1, 4))]
        info = self.bench.append(
            *values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        self._sequences[producer_id] = sequence + len(values)
        self._open.setdefault(producer_id, {}).update(enumerate(values, info.first_offset))

    def _end(self, producer_id: int) -> None:
        written = self._open.pop(producer_id)
        is_aborted = self._dice.random() < 0.5
        marker = EndTransactionMarker(is_abort=is_aborted, coordinator_epoch=0)
        batch = build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1_000)
        log = self.bench.log
        info = log.append_as_leader(ValidatedRecords.of(batch), leader_epoch=0, now_ms=1_000, origin=Origin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        self.ended.append(Ended(producer_id, min(written), info.first_offset, is_aborted))
        if not is_aborted:
            self.committed.update(written)

    @property
    def first_open_offset(self) -> int:
        """What read_committed stops at."""
        return min((min(written) for written in self._open.values()), default=self.bench.log.high_watermark)

    def undone_between(self, offset: int, end_offset: int) -> list[tuple[int, int]]:
        """Producer and first offset of the aborted transactions that lie over these offsets, by their markers."""
        return [
            (ended.producer_id, ended.first_offset)
            for ended in self.ended
            if ended.is_aborted and ended.marker_offset >= offset and ended.first_offset < end_offset
        ]


def read_as_consumer(log: Any, offset: int, max_bytes: int) -> tuple[dict[int, str], int]:
    """What a consumer hands out of one fetch, skipping as Kafka's consumers do, and where it reads on."""
    data = log.read(offset, max_bytes, limit_offset=log.last_stable_offset)
    if not data:
        return {}, offset
    undone = deque(sorted(log.aborted_transactions(offset, end_offset_of(data)), key=lambda one: one.first_offset))
    skipped: set[int] = set()
    found: dict[int, str] = {}
    for position, header in iter_batches(data):
        while undone and undone[0].first_offset <= header.last_offset:
            skipped.add(undone.popleft().producer_id)
        if header.is_control:
            skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            for record in decode_records(data, position, header):
                if record.offset >= offset:
                    found[record.offset] = (record.value or b"").decode()
        offset = header.next_offset
    return found, offset


def read_all(log: Any, max_bytes: int) -> dict[int, str]:
    found: dict[int, str] = {}
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        some, next_offset = read_as_consumer(log, offset, max_bytes)
        assert next_offset > offset
        found |= some
        offset = next_offset
    return found


@pytest.fixture(params=range(6))
def transactions(request: pytest.FixtureRequest, make_bench: Callable[..., Bench]) -> Transactions:
    """Three hundred steps over some ten small segments."""
    transactions = Transactions(make_bench(segment_bytes=2_000), request.param)
    transactions.run(300)
    return transactions


def test_the_last_stable_offset_is_where_the_first_open_transaction_began(transactions: Transactions) -> None:
    assert transactions.bench.log.last_stable_offset == transactions.first_open_offset


@pytest.mark.parametrize("max_bytes", [1, 500, 100_000])
def test_readers_get_what_was_committed_and_nothing_else(transactions: Transactions, max_bytes: int) -> None:
    log = transactions.bench.log
    stable = {n: value for n, value in transactions.committed.items() if n < log.last_stable_offset}
    assert read_all(log, max_bytes) == stable


@pytest.mark.parametrize("max_bytes", [1, 400, 1_500])
def test_a_read_names_exactly_the_aborted_transactions_among_its_records(
    transactions: Transactions, max_bytes: int
) -> None:
    log = transactions.bench.log
    for offset in range(log.last_stable_offset):
        data = log.read(offset, max_bytes, limit_offset=log.last_stable_offset)
        end_offset = end_offset_of(data)
        told = [(one.producer_id, one.first_offset) for one in log.aborted_transactions(offset, end_offset)]
        assert told == transactions.undone_between(offset, end_offset)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_restart_changes_nothing_of_that(transactions: Transactions, is_clean: bool) -> None:
    bench, before = transactions.bench, read_all(transactions.bench.log, 700)
    limit = bench.log.last_stable_offset
    if is_clean:
        bench.close()
    bench.reopen(is_clean=is_clean)
    assert bench.log.last_stable_offset == limit
    assert read_all(bench.log, 700) == before
    transactions.run(100)
    stable = {n: value for n, value in transactions.committed.items() if n < bench.log.last_stable_offset}
    assert read_all(bench.log, 700) == stable


def test_a_truncation_above_the_high_watermark_changes_nothing_of_that(transactions: Transactions) -> None:
    bench, before = transactions.bench, read_all(transactions.bench.log, 700)
    limit, end = bench.log.last_stable_offset, bench.log.high_watermark
    bench.log.append_as_leader(
        ValidatedRecords.of(build_batch([Record(0, 0, None, b"gone")])), leader_epoch=0, now_ms=0
    )
    assert bench.log.truncate_to(end)
    assert bench.log.last_stable_offset == limit
    assert read_all(bench.log, 700) == before


def test_deleting_records_from_under_an_open_transaction_keeps_it_open(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    writer = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    bench.append("a", base_sequence=0, **writer)
    bench.append("plain")
    log = bench.log
    log.raise_log_start_offset(2)
    assert log.last_stable_offset == 2
    bench.append("b", base_sequence=1, **writer)
    assert log.last_stable_offset == 2
    marker = build_end_transaction_marker(EndTransactionMarker(True, 0), producer_id=1, producer_epoch=0, timestamp=1)
    log.append_as_leader(ValidatedRecords.of(marker), leader_epoch=0, now_ms=1, origin=Origin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 4
    assert read_all(log, 10_000) == {}


def test_the_end_of_what_was_read_is_behind_the_last_batch_that_begins_in_it() -> None:
    batches = [bytes(build_batch([Record(offset, 1, None, b"v" * 20)] * 1, base_offset=offset)) for offset in (7, 8, 9)]
    data = b"".join(batches)
    size = len(batches[0])
    assert end_offset_of(data) == 10
    assert end_offset_of(data[: 2 * size]) == 9
    assert end_offset_of(data[: size + 61]) == 9
    assert end_offset_of(data[: size + 60]) == 8
    assert read_header(data).next_offset == 8
