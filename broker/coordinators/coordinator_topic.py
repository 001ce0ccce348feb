"""A topic in which a coordinator keeps its state: whose key is where, how it is written, and how it is read again.

A key belongs to one partition, by a hash, and the leader of that partition coordinates it. A change is appended to the
log and applied to memory in the same turn of the loop; memory never runs ahead of the log. A request is answered when
every in-sync replica has its change (acks=-1), and readers see a change from then on: `Written.when_replicated`.

A new leader answers COORDINATOR_LOAD_IN_PROGRESS until it has read the partition, and every replica in sync has what it
has read (`Partition.has_settled`). Before that it cannot know which part of it the leader before has told clients of.
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
from ...storage.producers.producer_state import Origin
from ...storage.validation import ValidatedRecords
from ..appending import settled
from ..controller import topics
from . import internal_topics
from .loader import without_collection

if TYPE_CHECKING:
    from ..broker import Broker
    from ..replication.partition import Partition
    from .loader import Steps

log = logging.getLogger("kmini.internal_topics")
T = TypeVar("T")
Take = Callable[[str, T], None]
"""Takes in a key, and what was found of it."""

KeyValue = tuple[bytes, bytes | None]
"""A record to be written; without a value it says that there is nothing any more."""

MAX_NAME_BYTES = 0x7FFF
"""Of a group id, a transactional id, or whatever else has a name in a record: its length is an int16 there."""


class Written(NamedTuple):
    """A batch that was appended."""

    partition: Partition
    first_offset: int
    last_offset: int

    @property
    def is_replicated(self) -> bool:
        """Whether the high watermark covers the batch, so that readers may be shown it."""
        return self.partition.log.high_watermark > self.last_offset

    def when_replicated(self, callback: Callable[[], None]) -> None:
        """Call `callback` when `is_replicated` becomes true, or now; see `Partition.when_replicated`."""
        self.partition.when_replicated(self.last_offset, callback)


Applied = Callable[[Written], None]
"""Applies a change to memory, in the same turn of the loop in which it was appended."""


class Producer(NamedTuple):
    """In whose name a transaction writes."""

    producer_id: int
    epoch: int


NOBODY = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, in 32 bits."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    result = 0
    for unit in units:
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


_remembered_hash = lru_cache(4096)(java_hash)


def partition_for(key: str, partitions: int) -> int:
    """The partition, of so many, that a group or a transactional id is kept in. What no record has room for is kept
    nowhere: whoever asks for it is refused later, and does not get the time that a hash of it would take."""
    if len(key) > MAX_NAME_BYTES:
        return 0
    hashed = _remembered_hash(key) if len(key) <= 128 else java_hash(key)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions


class InternalTopic:
    """The partitions of one internal topic. Belongs to the broker's loop."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker = broker
        self.name = name
        self._partitions = 0
        """Of the topic, when it was first seen: it may get more, but keys keep their places until the next start."""
        self._topic_id = ZERO_UUID
        self._loading: set[Partition] = set()
        """The partitions that are led here, and not read to their end yet."""

    # --- places

    @property
    def partition_count(self) -> int:
        """How many partitions keys are spread over; 0 while there is no topic."""
        topic = self._broker.controller.topic(self.name)
        if topic is None:
            return 0
        if topic.id != self._topic_id:
            self._topic_id, self._partitions = topic.id, len(topic.partitions)
        return self._partitions

    def number_of(self, key: str) -> int:
        """The partition that a key belongs to; of the topic to be, if there is none yet."""
        count = self.partition_count
        if not count:
            shape = internal_topics.shape_of(self._broker, self.name)
            assert shape is not None
            count = shape.partitions
        return partition_for(key, count)

    def partition_of(self, key: str) -> Partition:
        """The partition that a key belongs to. Raises NotCoordinator unless this broker leads it, and
        CoordinatorLoadInProgress while a replica in sync lacks something of what was loaded from it."""
        partition = self._led_partition_of(key)
        self._check_loaded(partition)
        return partition

    def _led_partition_of(self, key: str) -> Partition:
        count = self.partition_count
        if not count:
            raise NotCoordinator(f"there is no {self.name} yet: ask FindCoordinator")
        partition = self._broker.partitions.get(TopicPartition(self.name, partition_for(key, count)))
        if partition is None:
            raise NotCoordinator(f"this broker does not lead the partition of {self.name}")
        return partition

    def leads(self, key: str) -> bool:
        """Whether there is a partition that the key belongs to, and this broker leads it."""
        count = self.partition_count
        return count > 0 and TopicPartition(self.name, partition_for(key, count)) in self._broker.partitions

    def check_all_loaded(self) -> None:
        """Raise CoordinatorLoadInProgress unless every partition that this broker leads is loaded."""
        for number in range(self.partition_count):
            partition = self._broker.partitions.get(TopicPartition(self.name, number))
            if partition is not None:
                self._check_loaded(partition)

    def _check_loaded(self, partition: Partition) -> None:
        if partition in self._loading:
            raise CoordinatorLoadInProgress("the partition is being loaded")
        if not partition.has_settled:
            raise CoordinatorLoadInProgress("what was loaded is not on all replicas yet, and may be lost again")

    def coordinator_of(self, key: str) -> int:
        """The node that coordinates a key; the topic is made if it is missing. CoordinatorNotAvailable if that cannot
        be, or if the partition has no leader."""
        broker = self._broker
        if broker.controller.topic(self.name) is None:
            try:
                topics.create_missing(broker, self.name)
            except KafkaError as error:
                raise CoordinatorNotAvailable(f"{self.name} cannot be made: {error.message}") from error
        topic = broker.controller.topics[self.name]
        number = self.number_of(key)
        if number >= len(topic.partitions) or topic.partitions[number].leader < 0:
            raise CoordinatorNotAvailable(f"partition {number} of {self.name} has no leader")
        return topic.partitions[number].leader

    def coordinator_broker(self, key: str) -> Broker:
        """The broker that coordinates a key. Raises CoordinatorNotAvailable where it cannot be reached, or there is
        none."""
        topic = self._broker.controller.topic(self.name)
        number = self.number_of(key)
        if topic is None or number >= len(topic.partitions):
            raise CoordinatorNotAvailable(f"there is no partition {number} of {self.name}")
        coordinator = self._broker.peer(topic.partitions[number].leader)
        if coordinator is None:
            raise CoordinatorNotAvailable(f"the leader of partition {number} of {self.name} cannot be reached")
        return coordinator

    # --- reading

    def load(self, partition: Partition, steps: Callable[[PartitionLog, dict[str, T]], Steps], take: Take[T]) -> Steps:
        """Find out what a partition that is led here from now on holds, and give it to `take`, key by key. Until then
        requests for its keys are answered with COORDINATOR_LOAD_IN_PROGRESS. The steps end early after `forget`.

        A key that belongs to another partition now, because the number of them has changed, is logged and left out.
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
        number, strangers = partition.topic_partition.partition, 0
        while found:
            key, value = found.popitem()
            if self.number_of(key) == number:
                take(key, value)
            else:
                strangers += 1
            yield
            if partition not in self._loading:
                return
        if strangers:
            where = partition.topic_partition
            log.warning(
                "%d keys in %s belong elsewhere since the number of partitions changed: left out", strangers, where
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
        producer: Producer = NOBODY,
        applied: Applied | None = None,
    ) -> None:
        """Append one batch to the partition that `key` belongs to; call `applied` in the same turn of the loop; then
        wait for the replicas.

        In the name of a producer the batch is part of its transaction. Raises CoordinatorNotAvailable,
        CoordinatorLoadInProgress, NotCoordinator or UnknownServerError, and what a partition says of producers; if
        `applied` was called, nothing is undone.
        """
        try:
            partition = self.partition_of(key)
            appended = partition.append(
                self._batch(partition, records, producer), self._broker.clock.now_ms(), Origin.COORDINATOR
            )
            if applied is not None:
                applied(Written(partition, appended.first_offset, appended.last_offset))
            await settled(self._broker, partition, appended.last_offset, timeout_ms)
        except KafkaError as error:
            raise self._as_coordinator(error) from error

    async def replicated(self, key: str, *, timeout_ms: int) -> None:
        """Return when all that the partition of `key` holds now is on every in-sync replica. Raises what `append`
        does."""
        try:
            partition = self.partition_of(key)
            await settled(self._broker, partition, partition.log.log_end_offset - 1, timeout_ms)
        except KafkaError as error:
            raise self._as_coordinator(error) from error

    def _batch(self, partition: Partition, records: Collection[KeyValue], producer: Producer) -> ValidatedRecords:
        partition.check_min_isr()
        now_ms = self._broker.clock.now_ms()
        batch = build_batch(
            [Record(0, now_ms, key, value) for key, value in records],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=NO_SEQUENCE if producer is NOBODY else 0,  # nobody counts them, but Kafka's begin at 0
            transactional=producer is not NOBODY,
        )
        if len(batch) > partition.log.config.max_message_bytes:
            raise MessageTooLarge(f"a batch of {len(batch)} bytes is more than max.message.bytes")
        return ValidatedRecords.of(batch)

    def _as_coordinator(self, error: KafkaError) -> KafkaError:
        """What clients of a coordinator are told where its log refuses: they know nothing of that log, and what they
        can do is to ask again, to look for the coordinator, or to give up."""
        message = f"{self.name}: {error.message}"
        if isinstance(error, _ASK_AGAIN):
            return CoordinatorNotAvailable(message)
        if isinstance(error, (NotLeaderOrFollower, KafkaStorageError)):
            return NotCoordinator(message)
        if isinstance(error, (MessageTooLarge, RecordListTooLarge)):
            return UnknownServerError(message)
        return error


_ASK_AGAIN = (UnknownTopicOrPartition, NotEnoughReplicas, NotEnoughReplicasAfterAppend, RequestTimedOut)
