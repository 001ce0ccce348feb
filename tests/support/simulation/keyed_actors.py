"""Clients of a compacted topic, and what compaction promises them (KIP-58, KIP-354, KIP-534)."""

from __future__ import annotations

from typing import NamedTuple

from kmini.client.errors import check
from kmini.protocol.errors import KafkaError, OutOfOrderSequenceNumber
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.batch_records import decode_records
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from kmini.storage.log import PartitionLog
from support.simulation.actor import Actor
from support.simulation.record_actors import Producer
from support.simulation.world import Violation, World

KEYED = TopicPartition("keyed", 0)
LAG_MS = 3_600_000
RETENTION_MS = 1_800_000
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

    def __init__(self, name: str, world: World) -> None:
        super().__init__(name, world)
        self._sequence = 0
        self.last: dict[bytes, Written] = {}
        self.tombstones: dict[bytes, list[int]] = {}
        """When the tombstones of a key were sent, acknowledged or not, in log time."""

    async def act(self) -> None:
        await self.write(self.random.choice(KEYS), is_tombstone=self.random.random() < 0.3)

    async def write(self, key: bytes, *, is_tombstone: bool = False) -> None:
        if self._producer_id < 0:
            self._producer_id = await self.until_it_works("InitProducerId", self._init)
        self._count += 1
        value = None if is_tombstone else f"{self.name}-{self._count}".encode()
        key = self.name.encode() + key
        record = Record(0, self.world.clock.now_ms(), key, value)
        batch = build_batch([record], producer_id=self._producer_id, producer_epoch=0, base_sequence=self._sequence)
        self._sequence += 1
        began_ms = self.world.clock.now_ms()
        if is_tombstone:
            self.tombstones.setdefault(key, []).append(began_ms)
        try:
            offset = await self.until_it_works(f"{value!r} to {KEYED}", lambda: self.produce(KEYED, bytes(batch)))
        except OutOfOrderSequenceNumber as error:
            raise Violation(f"{self.name}: {KEYED}: {error!r}") from error
        self.world.history.say(f"{self.name}: {key!r} is {value!r} at {offset}")
        self.last[key] = Written(offset, value, began_ms)


class KeyedReader(Actor):
    """Reads the compacted topic from its beginning to its end, and looks for the last value of each key."""

    def __init__(self, name: str, world: World, writers: list[KeyedWriter]) -> None:
        super().__init__(name, world)
        self._writers = writers
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
            answer = await self.fetch(leader, KEYED, offset, max_wait_ms=0, min_bytes=0, max_bytes=4_000)
            check(answer.error_code)
            last = offset
            for position, header in iter_batches(answer.records or b""):
                if not header.is_control:
                    for record in decode_records(answer.records, position, header):
                        if record.offset >= offset:
                            found[bytes(record.key)] = record.offset, record.value
                last = max(last, header.next_offset)
            if last == offset:
                if answer.high_watermark <= until_offset:
                    return None
                return found if self.world.has_stayed(leader, lives) else None
            offset = last


def check_compacted(world: World, log: PartitionLog) -> None:
    """A replica keeps no superseded value below its last segments, and no tombstone, when the bound on compaction lag
    and the retention of tombstones have passed since. Raises Violation."""
    end = log.segments.active.base_offset
    records: dict[bytes, list[tuple[int, bytes | None]]] = {}
    offset = log.log_start_offset
    while offset < end:
        data = log.read(offset, 1 << 20, limit_offset=end)
        for position, header in iter_batches(data):
            if not header.is_control:
                for record in decode_records(data, position, header):
                    records.setdefault(bytes(record.key), []).append((record.offset, record.value))
            offset = header.next_offset
    for key, kept in records.items():
        if len({offset for offset, _ in kept}) > 1:
            raise Violation(f"{KEYED}: {kept} of {key!r} are there after max.compaction.lag.ms (KIP-354)")
        if kept[-1][1] is None:
            raise Violation(f"{KEYED}: the tombstone {kept} of {key!r} is there after its horizon (KIP-534)")
