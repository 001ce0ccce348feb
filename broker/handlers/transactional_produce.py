"""The transaction that the batches of a Produce request belong to, and the check that they may (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    KafkaError,
    NotEnoughReplicas,
    TransactionalIdAuthorizationFailed,
)
from ...protocol.messages.produce import ProduceRequest
from ...protocol.records.batch import read_header
from ...protocol.records.kernels.records import transactional_batches
from ..coordinators.coordinator_topic import Producer
from ..transactions import verification

if TYPE_CHECKING:
    from ...protocol.topics import TopicPartition
    from ..replication.partition import Partition
    from ..services import Services

ABORTABLE_SINCE = 11
JOINS_SINCE = 12


class Transaction:
    """The transaction of a request with transactional batches, which come from one producer."""

    def __init__(self, transactional_id: str, producer: Producer, services: Services, version: int) -> None:
        self._transactional_id = transactional_id
        self._producer = producer
        self._services = services
        self._version = version
        self._joined: set[TopicPartition] = set()
        self._refused: dict[TopicPartition, KafkaError] = {}

    @property
    def joins(self) -> bool:
        """Whether partitions join it by the request: `join` is called with them before the first append."""
        return self._version >= JOINS_SINCE

    async def join(self, batches: Sequence[tuple[Partition, memoryview]]) -> None:
        """Add the partitions of all batches to the transaction together, unless it is open in them. `check` raises what
        refuses one of them."""
        joining: list[Partition] = []
        for partition, records in batches:
            try:
                if self._begins_in(partition, records):
                    joining.append(partition)
                else:
                    self._joined.add(partition.topic_partition)
            except KafkaError as error:
                self._refused[partition.topic_partition] = error
        if not joining:
            return
        services = self._services
        transaction = services.transactions, self._transactional_id, self._producer
        names = [partition.topic_partition for partition in joining]
        try:
            await verification.add_partitions_patiently(*transaction, joining, services.clock, services.config.current)
        except KafkaError as error:
            told = error if isinstance(error, ConcurrentTransactions) else verification.for_producer(error)
            self._refused.update(dict.fromkeys(names, told))
        else:
            self._joined.update(names)

    def check(self, partition: Partition, records: memoryview) -> None:
        """Raise unless the partition takes part in the transaction."""
        if self.joins:
            if partition.topic_partition not in self._joined:
                # Without an error, this broker came to lead it while the others were joining.
                error = self._refused.get(partition.topic_partition)
                raise error or NotEnoughReplicas("the partition has not joined the transaction")
            return
        transactions = self._services.transactions
        if transactions.verifies_partitions and self._begins_in(partition, records):
            transaction = transactions, self._transactional_id, self._producer
            try:
                verification.verify(*transaction, partition, knows_abortable=self._version >= ABORTABLE_SINCE)
            except KafkaError as error:
                raise verification.for_producer(error) from error

    def _begins_in(self, partition: Partition, records: memoryview) -> bool:
        """Whether the append would begin the transaction in the partition, which then remembers the batch."""
        if not verification.needs_verification(partition, self._producer):
            return False
        partition.log.producers.begin_verification(
            *self._producer, read_header(records).base_sequence, self._services.clock.now_ms(), raises_epoch=self.joins
        )
        return True


def transaction_of(request: ProduceRequest, services: Services, version: int) -> Transaction | None:
    """The transaction of a request with transactional batches, else None.

    Raises TransactionalIdAuthorizationFailed without a transactional id, as Apache Kafka does even without an
    authorizer, and InvalidProducerIdMapping with batches of several producers.
    """
    batches = transactional_batches(request.topic_data)
    if not batches:
        return None
    producers = {Producer(header.producer_id, header.producer_epoch) for header in map(read_header, batches)}
    if request.transactional_id is None:
        raise TransactionalIdAuthorizationFailed("transactional records need a transactional id")
    if len(producers) > 1:
        raise InvalidProducerIdMapping("the transactional records of a request come from one producer")
    return Transaction(request.transactional_id, producers.pop(), services, version)
