"""What can be asked of a broker inside a program, written once, as coroutines on the broker's own loop.

`embedded.py` makes of them methods that block, and methods that any asyncio event loop can await.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kmini.broker import topics
from kmini.broker.appending import settled, validate_and_append
from kmini.broker.broker import Broker as Core
from kmini.broker.clock import Duration, MovableClock
from kmini.broker.metrics import metrics_text
from kmini.broker.partition import HIGH_WATERMARK, Partition
from kmini.broker.purgatory import Operation, Unattended
from kmini.protocol.errors import InvalidTopic, PolicyViolation, RequestTimedOut
from kmini.protocol.records.batch import build_batch, iter_batches
from kmini.protocol.records.record import Record, decode_records
from kmini.protocol.topics import TopicPartition, is_internal
from kmini.storage.log import PartitionLog
from kmini.voices import waits_for_clients

if TYPE_CHECKING:
    from kmini.storage.cleaner.stats import PassReport

Headers = Iterable[tuple[str, bytes | None]]

READ_BYTES = 1024 * 1024
"""Read from a log at a time when its records are asked for."""


class PartitionOffsets(NamedTuple):
    """Where a partition begins and ends. All are offsets of a next record, so an empty log has three equal ones."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


class Operations:
    """What can be asked of a running broker. Every coroutine runs on the broker's loop and raises KafkaError."""

    def __init__(self, core: Core) -> None:
        self.core = core

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str | int] | None = None
    ) -> None:
        """Create a topic; when this returns it can be produced to. Raises TopicAlreadyExists, InvalidConfig,
        InvalidTopic."""
        texts = {key: str(value) for key, value in (configs or {}).items()}
        topics.create(self.core, name, partitions=partitions, configs=texts)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartition."""
        topics.delete(self.core, name)

    async def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return sorted(self.core.controller.topics)

    async def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> int:
        """Append one record as a producer with acks=all does, creating the topic if the configuration says so; return
        its offset."""
        core = self.core
        if is_internal(topic):
            raise InvalidTopic(f"{topic} is internal: only the broker writes to it")
        if core.controller.topic(topic) is None and core.config.auto_create_topics_enable:
            topics.create_missing(core, topic)
        led = core.leader_of(TopicPartition(topic, partition))
        led.check_min_isr()
        timestamp = core.clock.now_ms() if timestamp_ms is None else timestamp_ms
        batch = build_batch([Record(0, timestamp, key, value, tuple(headers))])
        appended = await validate_and_append(core, led, memoryview(batch), Unattended())
        await settled(core, led, appended.last_offset, core.config.request_timeout_ms)
        return appended.first_offset

    async def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Every record that a consumer could read now, from one partition or from all, in order of partition and
        offset."""
        return [record for led in partitions_of(self.core, topic, partition) for record in readable(led.log)]

    @waits_for_clients
    async def wait_for_records(self, topic: str, count: int, *, timeout_ms: int = 10_000) -> list[Record]:
        """The records of a topic once there are at least `count`. Raises RequestTimedOut, saying what there was."""
        clock = self.core.clock
        deadline_ms = clock.liveness_ms() + timeout_ms
        while not (arrival := Arrival(self, topic, count)).has_come():
            left_ms = deadline_ms - clock.liveness_ms()
            if not await self.core.purgatory.wait(arrival, timeout_ms=left_ms, waiter=arrival):
                there = await self.records(topic) if self.core.controller.topic(topic) else []
                shown = ", ".join(repr(record.value) for record in there[:10])
                raise RequestTimedOut(f"{topic} holds {len(there)} of {count} records after {timeout_ms} ms: [{shown}]")
        return await self.records(topic)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """Where a partition begins and ends."""
        log = self.core.leader_of(TopicPartition(topic, partition)).log
        return PartitionOffsets(log.log_start_offset, log.high_watermark, log.log_end_offset)

    async def delete_records(self, topic: str, offset: int = HIGH_WATERMARK, *, partition: int = 0) -> int:
        """Delete what lies before `offset` (-1: everything committed); return the low watermark. KIP-107, without the
        network."""
        led = self.core.leader_of(TopicPartition(topic, partition))
        led.delete_records(offset)
        await self.core.log_start_checkpoint.written()
        return led.low_watermark

    async def apply_retention(self) -> None:
        """Do now what retention would do at its next check, with every topic."""
        await self.core.apply_retention()

    async def compact(self, topic: str, partition: int | None = None) -> "list[PassReport]":
        """As `topic(topic).compact(partition)`."""
        return await TopicOperations(self, topic).compact(partition)

    async def advance_clock(self, duration: Duration, *, liveness: bool = False) -> None:
        """As `clock.advance`; a number is milliseconds."""
        await ClockOperations(self).advance(duration, liveness=liveness)

    async def metrics_text(self) -> str:
        """The metrics, in Prometheus' text format."""
        return metrics_text(self.core)


def partitions_of(core: Core, topic: str, partition: int | None) -> list[Partition]:
    """All partitions of a topic, or one of them. Raises UnknownTopicOrPartition."""
    known = core.controller.topic(topic)
    indexes = range(len(known.partitions) if known else 1) if partition is None else [partition]
    return [core.leader_of(TopicPartition(topic, index)) for index in indexes]


class TopicOperations:
    """What can be asked of one topic: of all its partitions, or of `partition`. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, name: str) -> None:
        self._core = operations.core
        self._name = name

    async def compact(self, partition: int | None = None) -> "list[PassReport]":
        """Roll, and clean now, up to the last record whose transaction is decided, however clean it is.

        Returns what was done, a report for each pass: one a partition, more if `log.cleaner.dedupe.buffer.size` had no
        room for all keys. Raises PolicyViolation unless `cleanup.policy` says compact, KafkaStorageError if a partition
        cannot be cleaned.
        """
        reports = []
        for led in self._partitions(partition):
            if not led.log.config.is_compacted:
                raise PolicyViolation(f"cleanup.policy of {self._name} is not compact")
            reports += await self._core.cleaner.compact(led.topic_partition)
        return reports

    async def roll(self, partition: int | None = None) -> None:
        """Seal the active segment, if it holds anything: retention and compaction can have it from then on."""
        for led in self._partitions(partition):
            self._core.roll(led)

    async def apply_retention(self, partition: int | None = None) -> None:
        """Do now what retention would do at its next check."""
        for led in self._partitions(partition):
            await self._core.cleaner.until_idle(led.topic_partition)
            self._core.retain(led)

    def _partitions(self, partition: int | None) -> list[Partition]:
        return partitions_of(self._core, self._name, partition)


class ClockOperations:
    """The clock of a broker: the wall clock, plus what it was moved by (`broker/clock.py`)."""

    def __init__(self, operations: Operations) -> None:
        clock = operations.core.clock
        assert isinstance(clock, MovableClock)
        self._clock = clock

    async def advance(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move log time by `duration` ("7d", "90m", "1h30m", "250ms", a timedelta, or milliseconds); return when all
        that fell due has run, in order: retention, rolls, compaction, expiry. With `liveness` the time-outs of
        sessions, requests, transactions and connections move too. Raises ValueError."""
        await self._clock.advance(duration, liveness=liveness)

    async def now_ms(self) -> int:
        """Log time, in milliseconds since the epoch: what the broker takes for now."""
        return self._clock.now_ms()


class Arrival(Operation):
    """Complete when a topic holds at least `count` records, or has other partitions than when the wait began."""

    def __init__(self, operations: Operations, topic: str, count: int) -> None:
        self.waiting: asyncio.Future[bool] | None = None
        self._core = operations.core
        self._topic = topic
        self._count = count
        self._partitions = self._led()

    def _led(self) -> list[Partition]:
        return [led for name, led in self._core.partitions.items() if name.topic == self._topic]

    @property
    def keys(self) -> list[TopicPartition | str]:
        return [self._topic, *(partition.topic_partition for partition in self._partitions)]

    def is_complete(self) -> bool:
        return self._led() != self._partitions or self.has_come()

    def has_come(self) -> bool:
        logs = [partition.log for partition in self._partitions]
        # Offsets are an upper bound on records, and cheap: only when they suffice are records counted.
        if sum(log.high_watermark - log.log_start_offset for log in logs) < self._count:
            return False
        return sum(1 for log in logs for _ in readable(log)) >= self._count


def readable(log: PartitionLog) -> Iterator[Record]:
    """The records that a consumer could read: from the log start offset to the high watermark, without control
    records."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        batches = log.read(offset, READ_BYTES, limit_offset=log.high_watermark)
        if not batches:
            return
        for position, header in iter_batches(batches):
            if not header.is_control:
                records = decode_records(batches, position, header)
                yield from (record for record in records if log.log_start_offset <= record.offset)
            offset = header.next_offset
