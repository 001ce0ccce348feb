"""A topic in which a coordinator stores its state: the partitions of its keys, appends, and loading.

A key belongs to one partition, by a hash; the leader of that partition coordinates it. A change is appended to the log
before it is applied to memory; memory does not run ahead of the log, but for one fence (`producer_epochs.fence`). A
change of a group is applied in the same turn of
the loop, and readers are shown it once every in-sync replica has it: `AppendedBatch.when_replicated`. A change of a
transactional id is applied only then; other changes of the id get CONCURRENT_TRANSACTIONS meanwhile. A request is
answered when every in-sync replica has its change (acks=-1).

A new leader answers COORDINATOR_LOAD_IN_PROGRESS until it has read the partition, and every in-sync replica has what it
has read (`Partition.has_settled`). Before that, it cannot tell which part the previous leader has answered clients
with.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ...protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    build_batch,
)
from ...protocol.records.record import Record
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from ...storage.log import PartitionLog
from ...storage.producers.producer_state_manager import Origin
from ...storage.validation import ValidatedRecords
from ..appending import until_replicated
from . import internal_topics
from .loader import without_collection

if TYPE_CHECKING:
    from ..replication.partition import Partition
    from ..replication.replica_manager import ReplicaManager
    from .loader import Steps

log = logging.getLogger("kmini.internal_topics")
T = TypeVar("T")
Take = Callable[[str, T], None]
"""Called with a key and its loaded value."""

KeyValue = tuple[bytes, bytes | None]
"""A record to be appended; without a value it is a tombstone."""

MAX_NAME_BYTES = 0x7FFF
"""Most bytes of a name in a record, such as a group id or a transactional id: its length is an int16."""


class AppendedBatch(NamedTuple):
    """A batch that was appended."""

    partition: Partition
    first_offset: int
    last_offset: int

    @property
    def is_replicated(self) -> bool:
        """Whether the high watermark covers the batch, so that readers may be shown it."""
        return self.partition.log.high_watermark > self.last_offset

    def when_replicated(self, callback: Callable[[], None]) -> None:
        """Call `callback` once `is_replicated`, which may be now; see `Partition.when_replicated`."""
        self.partition.when_replicated(self.last_offset, callback)


Applied = Callable[[AppendedBatch], None]
"""Applies a change to memory, in the turn of the loop in which it was appended."""


class Producer(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


NO_PRODUCER = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, in 32 bits."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    result = 0
    for unit in units:
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


_remembered_hash = lru_cache(4096)(java_hash)


def partition_for(key: str, partitions: int) -> int:
    """The number of the partition, of `partitions`, that stores a group or a transactional id.

    A name that is too long for a record is refused later; hashing it would take long, so its number is 0.
    """
    if len(key) > MAX_NAME_BYTES:
        return 0
    hashed = _remembered_hash(key) if len(key) <= 128 else java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


class CoordinatorTopic:
    """The partitions of a coordinator's topic. Belongs to the broker's loop."""

    def __init__(self, name: str, replica_manager: ReplicaManager, create: Callable[[str], object]) -> None:
        """`create` creates the topic of a name. Raises KafkaError."""
        self.name = name
        self._replica_manager = replica_manager
        self._create = create
        self._partitions = 0
        """The number of partitions when the topic was first seen. Partitions that are added later count after a
        restart, because keys would move."""
        self._topic_id = ZERO_UUID
        self._loading: set[Partition] = set()
        """The partitions that this broker leads and has not read to their end."""

    # --- partitions

    @property
    def partition_count(self) -> int:
        """The number of partitions over which keys are spread; 0 while the topic does not exist."""
        topic = self._replica_manager.controller.topic(self.name)
        if topic is None:
            return 0
        if topic.id != self._topic_id:
            self._topic_id, self._partitions = topic.id, len(topic.partitions)
        return self._partitions

    def number_of(self, key: str) -> int:
        """The number of a key's partition, also before the topic exists."""
        count = self.partition_count
        if not count:
            replica_manager = self._replica_manager
            brokers = len(replica_manager.controller.registered)
            shape = internal_topics.shape_of(self.name, replica_manager.config.current, brokers)
            assert shape is not None
            count = shape.partitions
        return partition_for(key, count)

    def partition_of(self, key: str) -> Partition:
        """The partition of a key. Raises NotCoordinator unless this broker leads it, and CoordinatorLoadInProgress
        while it is loading, or an in-sync replica lacks part of what was loaded."""
        partition = self._led_partition_of(key)
        self._check_loaded(partition)
        return partition

    def _led_partition_of(self, key: str) -> Partition:
        count = self.partition_count
        if not count:
            raise NotCoordinator(f"there is no {self.name} yet: ask FindCoordinator")
        partition = self.led(partition_for(key, count))
        if partition is None:
            raise NotCoordinator(f"this broker does not lead the partition of {self.name}")
        return partition

    def leads(self, key: str) -> bool:
        """Whether the partition of the key exists and this broker leads it."""
        count = self.partition_count
        return count > 0 and self.led(partition_for(key, count)) is not None

    def check_all_loaded(self) -> None:
        """Raise CoordinatorLoadInProgress unless every partition that this broker leads is loaded."""
        for number in range(self.partition_count):
            partition = self.led(number)
            if partition is not None:
                self._check_loaded(partition)

    def led(self, number: int) -> Partition | None:
        """The partition of this number, if this broker leads it."""
        return self._replica_manager.partitions.get(TopicPartition(self.name, number))

    def _check_loaded(self, partition: Partition) -> None:
        if partition in self._loading:
            raise CoordinatorLoadInProgress("the partition is being loaded")
        if not partition.has_settled:
            raise CoordinatorLoadInProgress("the loaded records are not on all in-sync replicas yet")

    def coordinator_of(self, key: str) -> int:
        """The node id of a key's coordinator; creates the topic if it is missing. Raises CoordinatorNotAvailable if
        that fails, or if the partition has no leader."""
        controller = self._replica_manager.controller
        if controller.topic(self.name) is None:
            try:
                self._create(self.name)
            except KafkaError as error:
                raise CoordinatorNotAvailable(f"{self.name} cannot be created: {error.message}") from error
        topic = controller.topics[self.name]
        number = self.number_of(key)
        if number >= len(topic.partitions) or topic.partitions[number].leader < 0:
            raise CoordinatorNotAvailable(f"partition {number} of {self.name} has no leader")
        return topic.partitions[number].leader

    def leader_of(self, key: str) -> int:
        """The node id of the leader of a key's partition, -1 for none. Raises CoordinatorNotAvailable if there is no
        such partition."""
        topic = self._replica_manager.controller.topic(self.name)
        number = self.number_of(key)
        if topic is None or number >= len(topic.partitions):
            raise CoordinatorNotAvailable(f"there is no partition {number} of {self.name}")
        return topic.partitions[number].leader

    # --- reading

    def load(self, partition: Partition, steps: Callable[[PartitionLog, dict[str, T]], Steps], take: Take[T]) -> Steps:
        """Read a partition that this broker leads from now on, in steps, and call `take` with each key and value. Until
        the end, requests for its keys are answered with COORDINATOR_LOAD_IN_PROGRESS. `forget` ends the steps early.

        A key that now belongs to another partition, because the number of partitions changed, is logged and left out.
        """
        if not partition.log.log_end_offset:
            return iter(())
        self._loading.add(partition)
        records = partition.log.log_end_offset - partition.log.log_start_offset
        return without_collection(self._load(partition, steps, take), records)

    def _load(self, partition: Partition, steps: Callable[[PartitionLog, dict[str, T]], Steps], take: Take[T]) -> Steps:
        found: dict[str, T] = {}
        for _ in steps(partition.log, found):
            if partition not in self._loading:
                return
            yield
        number, misplaced = partition.topic_partition.partition, 0
        while found:
            key, value = found.popitem()
            if self.number_of(key) == number:
                take(key, value)
            else:
                misplaced += 1
            yield
            if partition not in self._loading:
                return
        if misplaced:
            where = partition.topic_partition
            log.warning(
                "%d keys in %s belong elsewhere since the number of partitions changed: left out", misplaced, where
            )
        self._loading.discard(partition)

    def forget(self, number: int | None = None) -> None:
        """Stop loading a partition, or all: they are not led here any more."""
        self._loading = {one for one in self._loading if number not in (None, one.topic_partition.partition)}

    def is_loading(self, number: int) -> bool:
        """Whether a partition is led here, and not read to its end yet."""
        return any(one.topic_partition.partition == number for one in self._loading)

    # --- writing

    async def append(
        self,
        key: str,
        records: Collection[KeyValue],
        *,
        timeout_ms: int,
        producer: Producer = NO_PRODUCER,
        applied: Applied | None = None,
    ) -> None:
        """Append one batch to the partition of `key`; call `applied` in the same turn of the loop; then wait for the
        in-sync replicas.

        With a `producer` the batch is part of its transaction. Raises CoordinatorNotAvailable,
        CoordinatorLoadInProgress, NotCoordinator, UnknownServerError, and the errors of a transactional append. If
        `applied` was called, an error undoes nothing.
        """
        try:
            partition = self.partition_of(key)
            appended = partition.append(
                self._batch(partition, records, producer), self._replica_manager.clock.now_ms(), Origin.COORDINATOR
            )
            if applied is not None:
                applied(AppendedBatch(partition, appended.first_offset, appended.last_offset))
            await until_replicated(self._replica_manager, partition, appended.last_offset, timeout_ms)
        except KafkaError as error:
            raise self._as_coordinator(error) from error

    async def replicated(self, key: str, *, timeout_ms: int) -> None:
        """Wait until every in-sync replica has all that the partition of `key` holds now. Raises what `append` does."""
        try:
            partition = self.partition_of(key)
            await until_replicated(self._replica_manager, partition, partition.log.log_end_offset - 1, timeout_ms)
        except KafkaError as error:
            raise self._as_coordinator(error) from error

    def _batch(self, partition: Partition, records: Collection[KeyValue], producer: Producer) -> ValidatedRecords:
        partition.check_min_isr()
        now_ms = self._replica_manager.clock.now_ms()
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=NO_SEQUENCE if producer is NO_PRODUCER else 0,  # as in Kafka; no check uses it
            transactional=producer is not NO_PRODUCER,
        )
        if len(batch) > partition.log.config.max_message_bytes:
            raise MessageTooLarge(f"a batch of {len(batch)} bytes is more than max.message.bytes")
        return ValidatedRecords.of(batch)

    def _as_coordinator(self, error: KafkaError) -> KafkaError:
        """Translate an error of the log for clients of the coordinator, which can only try again, look for the
        coordinator, or give up."""
        message = f"{self.name}: {error.message}"
        if isinstance(error, _RETRIABLE):
            return CoordinatorNotAvailable(message)
        if isinstance(error, (NotLeaderOrFollower, KafkaStorageError)):
            return NotCoordinator(message)
        if isinstance(error, (MessageTooLarge, RecordListTooLarge)):
            return UnknownServerError(message)
        return error


_RETRIABLE = (UnknownTopicOrPartition, NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut)
