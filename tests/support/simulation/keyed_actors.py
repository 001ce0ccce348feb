"""Clients of a compacted topic, and what compaction promises them (KIP-58, KIP-354, KIP-534)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kmini.client.errors import check
from kmini.protocol.errors import KafkaError, OutOfOrderSequenceNumber
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.storage.log import PartitionLog
from support.simulation.actor import Actor
from support.simulation.invariants import log_bytes
from support.simulation.record_actors import Producer, TransactionalProducer, aborted_batches
from support.simulation.world import KEYED, Violation, World

LAG_MS = 3_600_000
RETENTION_MS = 1_800_000
SOON_MS = 60_000
"""So long after its horizon a marker may be there."""
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "2048",
    "segment.ms": "600000",
    "min.cleanable.dirty.ratio": "0.3",
    "max.compaction.lag.ms": str(LAG_MS),
    "delete.retention.ms": str(RETENTION_MS),
}
KEYS = [b"%d" % number for number in range(5)]


class Written(NamedTuple):
    """The last record of a key that was acknowledged."""

    offset: int
    value: bytes | None
    """None for a tombstone."""
    time_ms: int
    """When it was sent first, in log time."""


class KeyedWriter(Producer):
    """Writes values and tombstones, the only one for its keys."""

    _epoch = 0

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._sequence = 0
        self.last: dict[bytes, Written] = {}
        """Of each key; in transactions, of committed records."""
        self.tombstones: dict[bytes, list[int]] = {}
        """When the tombstones of a key were sent, acknowledged or not, in log time."""

    async def act(self) -> None:
        await self.write(self.random.choice(KEYS), is_tombstone=self.random.random() < 0.3)

    async def write(self, key: bytes, *, is_tombstone: bool = False) -> None:
        if self._producer_id < 0:
            self._producer_id = await self.until_it_works("InitProducerId", self._init)
        key, written = await self._send(key, is_tombstone=is_tombstone)
        self.world.history.say(f"{self.name}: {key!r} is {written.value!r} at {written.offset}")
        self.last[key] = written

    async def _send(
        self, key: bytes, *, is_tombstone: bool, transactional_id: str | None = None
    ) -> tuple[bytes, Written]:
        """Send the next record, and return its key, which begins with the writer's name, and what was written."""
        self._count += 1
        value = None if is_tombstone else f"{self.name}-{self._count}".encode()
        key = self.name.encode() + key
        record = Record(0, self.world.clock.now_ms(), key, value)
        batch = build_batch(
            [record],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=transactional_id is not None,
        )
        self._sequence += 1
        began_ms = self.world.clock.now_ms()
        if is_tombstone:
            self.tombstones.setdefault(key, []).append(began_ms)
        await self._join_transaction()
        attempt = partial(self.produce, KEYED, bytes(batch), transactional_id)
        try:
            offset = await self.until_it_works(f"{value!r} to {KEYED}", attempt)
        except OutOfOrderSequenceNumber as error:
            raise Violation(f"{self.name}: {KEYED}: {error!r}") from error
        return key, Written(offset, value, began_ms)

    async def _join_transaction(self) -> None:
        """There is none."""


class TransactionalKeyedWriter(KeyedWriter, TransactionalProducer):
    """Writes in transactions, keeps some open for long, and aborts some."""

    async def act(self) -> None:
        is_commit, is_tombstone = self.random.random() < 0.5, self.random.random() < 0.3
        key, open_s = self.random.choice(KEYS), self.random.choice((0.0, 0.0, 1.0, 20.0))
        await self.write(key, is_tombstone=is_tombstone, is_commit=is_commit, open_s=open_s)

    async def write(
        self, key: bytes, *, is_tombstone: bool = False, is_commit: bool = True, open_s: float = 0.0
    ) -> None:
        if self._producer_id < 0:
            await self.renew()
        key, written = await self._send(key, is_tombstone=is_tombstone, transactional_id=self.name)
        await asyncio.sleep(open_s)
        await self.until_it_works("EndTxn", lambda: self.end(is_commit))
        said = "" if is_commit else ", and aborted"
        self.world.history.say(f"{self.name}: {key!r} is {written.value!r} at {written.offset}{said}")
        if is_commit:
            self.last[key] = written

    async def _join_transaction(self) -> None:
        await self.until_it_works("AddPartitionsToTxn", lambda: self.add([KEYED]))


class KeyedReader(Actor):
    """Reads the compacted topic from its beginning to its end, and looks for the last value of each key."""

    def __init__(
        self,
        name: str,
        world: World,
        writers: Sequence[KeyedWriter],
        *,
        is_read_committed: bool = False,
    ) -> None:
        super().__init__(name, world)
        self._writers = writers
        self._is_read_committed = is_read_committed
        self.reads = 0
        """How many reads have found what was acknowledged before them."""

    async def act(self) -> None:
        expected = {key: written for writer in self._writers for key, written in writer.last.items()}
        began_ms = self.world.clock.now_ms()
        try:
            found = await self._read(max((written.offset for written in expected.values()), default=-1))
        except KafkaError as error:
            self._leaders.clear()
            if not error.retriable:
                raise Violation(f"{self.name}: {error!r}") from error
            return
        if self.world.clock.now_ms() >= began_ms + RETENTION_MS:
            return  # a tombstone may have gone after the value before it was read
        if found is not None:
            self.compare(expected, found)
            self.reads += 1

    def compare(self, expected: dict[bytes, Written], found: dict[bytes, tuple[int, bytes | None]]) -> None:
        """Raise Violation unless the last values are there, or later ones. A tombstone may go when it is old."""
        now_ms = self.world.clock.now_ms()
        for key, written in expected.items():
            offset, value = found.get(key, (-1, None))
            if offset < written.offset:
                sent = [sent_ms for writer in self._writers for sent_ms in writer.tombstones.get(key, ())]
                is_old = any(written.time_ms <= sent_ms <= now_ms - RETENTION_MS for sent_ms in sent)
                if is_old and (offset < 0 or written.offset < self.world.unsure_below):
                    continue
                raise Violation(f"{self.name}: {key!r} is {value!r} at {offset}, and was {written} before")
            if offset == written.offset and value != written.value:
                raise Violation(f"{self.name}: {key!r} is {value!r} at {offset}, not {written}")

    async def _read(self, until_offset: int) -> dict[bytes, tuple[int, bytes | None]] | None:
        """Offset and value of the last record of each key; None if the leader may have been an old one, or does not
        know yet that this offset is below the high watermark."""
        leader = self.leader(KEYED)
        lives = self.world.lives(leader)
        found: dict[bytes, tuple[int, bytes | None]] = {}
        offset = 0
        while True:
            answer = await self.fetch(
                leader,
                KEYED,
                offset,
                is_read_committed=self._is_read_committed,
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=4_000,
            )
            check(answer.error_code)
            last = offset
            is_aborted = aborted_batches(answer)
            for position, header in iter_batches(answer.records or b""):
                if not is_aborted(header) and not header.is_control:
                    for record in decode_records(answer.records, position, header):
                        if record.offset >= offset:
                            found[bytes(record.key)] = record.offset, record.value
                last = max(last, header.next_offset)
            if last == offset:
                end = answer.last_stable_offset if self._is_read_committed else answer.high_watermark
                if end <= until_offset:
                    return None
                return found if self.world.has_stayed(leader, lives) else None
            offset = last


def check_compacted(world: World, log: PartitionLog) -> None:
    """A replica keeps no superseded value below its last segments, and no tombstone, when the bound on compaction lag
    and the retention of tombstones have passed since. Raises Violation."""
    records: dict[bytes, list[tuple[int, bytes | None]]] = {}
    data = log_bytes(log)
    for position, header in iter_batches(data):
        if header.base_offset >= log.segments.active.base_offset:
            break
        is_over = header.has_delete_horizon and header.base_timestamp < world.clock.now_ms() - SOON_MS
        if header.is_control and is_over:
            raise Violation(f"{KEYED}: the marker at {header.base_offset} is there after its horizon (KIP-534)")
        if not header.is_control:
            for record in decode_records(data, position, header):
                records.setdefault(bytes(record.key), []).append((record.offset, record.value))
    for key, kept in records.items():
        if len({offset for offset, _ in kept}) > 1:
            raise Violation(f"{KEYED}: {kept} of {key!r} are there after max.compaction.lag.ms (KIP-354)")
        if kept[-1][1] is None:
            raise Violation(f"{KEYED}: the tombstone {kept} of {key!r} is there after its horizon (KIP-534)")


async def check_horizons(world: World) -> None:
    """A marker without data goes with the pass that runs at its horizon (KIP-534). Raises Violation."""
    logs = [world.cluster.brokers[node_id].logs.logs[KEYED] for node_id in world.cluster.state(KEYED).replicas]
    due_ms = {horizon_ms for log in logs for horizon_ms in _horizons_of_markers(log)}
    for horizon_ms in sorted(due_ms):
        if horizon_ms < world.clock.now_ms() + SOON_MS:
            continue  # the next pass keeps a distance from the last one
        await world.clock.advance(horizon_ms - world.clock.now_ms())
        for log in logs:
            if horizon_ms in _horizons_of_markers(log):
                raise Violation(f"{KEYED}: a marker is there after the pass that ran at its horizon (KIP-534)")


def _horizons_of_markers(log: PartitionLog) -> set[int]:
    """The delete horizons of the markers below the active segment."""
    return {
        header.base_timestamp
        for _, header in iter_batches(log_bytes(log))
        if header.is_control and header.has_delete_horizon and header.base_offset < log.segments.active.base_offset
    }
