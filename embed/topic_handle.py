"""One topic of a broker or a cluster: `broker.topic("orders")`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmini.argument_checks import ARGUMENTS
from kmini.broker.broker import BrokerServer
from kmini.broker.replication.partition import Partition
from kmini.handle import Awaiting, Blocking, Handle, method
from kmini.protocol.errors import PolicyViolation
from kmini.shared_operations import SharedOperations

if TYPE_CHECKING:
    from kmini.storage.cleaner.stats import PassReport


class TopicOperations:
    """The operations of one topic: of all its partitions, or of `partition`. Raises UnknownTopicOrPartition."""

    def __init__(self, operations: SharedOperations, name: str) -> None:
        self._operations = operations
        self._name = name

    async def compact(self, partition: int | None = None) -> list[PassReport]:
        """Roll the log and clean it now, up to the last record whose transaction is decided, whatever its dirty ratio.

        Returns a report for each pass: one a partition, and more if `log.cleaner.dedupe.buffer.size` has no room for
        all keys. Raises UnknownTopicOrPartition, PolicyViolation unless `cleanup.policy` says compact, and
        KafkaStorageError if a partition cannot be cleaned.
        """
        reports = []
        for broker, led in self._partitions(partition):
            if not led.log.config.is_compacted:
                raise PolicyViolation(f"cleanup.policy of {self._name} is not compact")
            reports += await broker.cleaner.compact(led.topic_partition)
        return reports

    async def roll(self, partition: int | None = None) -> None:
        """Seal the active segment if it holds records: retention and compaction may take it from then on.

        Raises UnknownTopicOrPartition, KafkaStorageError.
        """
        for broker, led in self._partitions(partition):
            broker.replica_manager.roll(led)

    async def apply_retention(self, partition: int | None = None) -> None:
        """Apply retention now. Raises UnknownTopicOrPartition, KafkaStorageError."""
        for broker, led in self._partitions(partition):
            await broker.cleaner.until_idle(led.topic_partition)
            broker.replica_manager.retain(led)

    def _partitions(self, partition: int | None) -> list[tuple[BrokerServer, Partition]]:
        return self._operations.leaders_of(self._name, partition)


class _TopicHandle(Handle[TopicOperations]):
    """The methods of `Topic` and `AsyncTopic`."""

    def __init__(self, host: Handle[SharedOperations], name: str) -> None:
        """Raises TypeError for a name that is no text."""
        ARGUMENTS["topic"]("name", name)
        super().__init__(host._thread, lambda: TopicOperations(host._operations, name))
        self._called = f"topic({name!r})."
        self.name = name

    compact = method(TopicOperations.compact)
    roll = method(TopicOperations.roll)
    apply_retention = method(TopicOperations.apply_retention)


class Topic(_TopicHandle, Blocking[TopicOperations]):
    """One topic of a broker or a cluster, which need not exist yet."""


class AsyncTopic(_TopicHandle, Awaiting[TopicOperations]):
    """One topic of a broker or a cluster; see Topic."""
