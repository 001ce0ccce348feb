"""The operations of one broker inside a program, beside those it shares with a cluster (`shared_operations.py`).

`embedded.py` makes blocking and awaitable methods of them.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from kmini.argument_checks import Config
from kmini.broker.broker import BrokerServer
from kmini.broker.clock import Duration, MovableClock
from kmini.broker.metrics_text import metrics_text
from kmini.broker.replication.partition import Partition
from kmini.contents import PartitionOffsets
from kmini.protocol.errors import PolicyViolation
from kmini.shared_operations import SharedOperations

if TYPE_CHECKING:
    from kmini.storage.cleaner.stats import PassReport


class Operations(SharedOperations):
    """The operations of a running broker. Every coroutine runs on the broker's loop and raises KafkaError."""

    def __init__(self, core: BrokerServer) -> None:
        assert isinstance(core.clock, MovableClock)
        super().__init__(core.controller, core.clock)
        self.core = core

    @property
    def running(self) -> Collection[BrokerServer]:
        return (self.core,)

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Config | None = None, *, replication_factor: int = -1
    ) -> None:
        """Create a topic; clients can produce to it when this returns.

        Raises TopicAlreadyExists, InvalidTopic, InvalidConfig, InvalidPartitions, InvalidReplicationFactor.
        """
        self.create(name, partitions, replication_factor, configs)

    async def offsets(self, topic: str, partition: int = 0) -> PartitionOffsets:
        """The offsets of a partition. Raises UnknownTopicOrPartition."""
        return PartitionOffsets.of(self.leader_of(topic, partition)[1].log)

    async def apply_retention(self) -> None:
        """Apply retention to every topic now."""
        await self.core.housekeeping.apply_retention()

    async def compact(self, topic: str, partition: int | None = None) -> "list[PassReport]":
        """Do `topic(topic).compact(partition)`. Raises UnknownTopicOrPartition, PolicyViolation, KafkaStorageError."""
        return await TopicOperations(self, topic).compact(partition)

    async def metrics_text(self) -> str:
        """The metrics, in Prometheus' text format."""
        return metrics_text(self.core)


class TopicOperations:
    """The operations of one topic: of all its partitions, or of `partition`. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: Operations, name: str) -> None:
        self._operations = operations
        self._core = operations.core
        self._name = name

    async def compact(self, partition: int | None = None) -> "list[PassReport]":
        """Roll the log and clean it now, up to the last record whose transaction is decided, whatever its dirty ratio.

        Returns a report for each pass: one a partition, and more if `log.cleaner.dedupe.buffer.size` has no room for
        all keys. Raises UnknownTopicOrPartition, PolicyViolation unless `cleanup.policy` says compact, and
        KafkaStorageError if a partition cannot be cleaned.
        """
        reports = []
        for led in self._partitions(partition):
            if not led.log.config.is_compacted:
                raise PolicyViolation(f"cleanup.policy of {self._name} is not compact")
            reports += await self._core.cleaner.compact(led.topic_partition)
        return reports

    async def roll(self, partition: int | None = None) -> None:
        """Seal the active segment if it holds records: retention and compaction may take it from then on.

        Raises UnknownTopicOrPartition, KafkaStorageError.
        """
        for led in self._partitions(partition):
            self._core.replica_manager.roll(led)

    async def apply_retention(self, partition: int | None = None) -> None:
        """Apply retention now. Raises UnknownTopicOrPartition, KafkaStorageError."""
        for led in self._partitions(partition):
            await self._core.cleaner.until_idle(led.topic_partition)
            self._core.replica_manager.retain(led)

    def _partitions(self, partition: int | None) -> list[Partition]:
        return self._operations.led(self._name, partition)


class ClockOperations:
    """The clock of a broker or a cluster: the wall clock, plus the time that it was moved (`broker/clock.py`)."""

    def __init__(self, operations: SharedOperations) -> None:
        self._clock = operations.clock

    async def advance(self, duration: Duration, *, liveness: bool = False) -> None:
        """Move log time by `duration` ("7d", "90m", "1h30m", "250ms", a timedelta, or milliseconds); return when
        everything that fell due has run, in order: retention, rolls, compaction, expiry. With `liveness` the time-outs
        of sessions, requests, transactions and connections move too. Raises ValueError."""
        await self._clock.advance(duration, liveness=liveness)

    async def now_ms(self) -> int:
        """Log time in milliseconds since the epoch: the broker's current time."""
        return self._clock.now_ms()
