"""Whether a partition takes part in the transaction in whose name something is about to be appended (KIP-890).

A producer that was given up may still have a request on its way. Appended after the transaction has ended, its records
would begin another one that nobody ever ends. So whoever is about to begin one in a partition asks the coordinator
first. Partitions in which the transaction is open already need not ask.

Clients know only some of the coordinator's errors from these requests, so they are told others:

| the coordinator says                            | the client is told                           |
|-------------------------------------------------|----------------------------------------------|
| TRANSACTION_ABORTABLE                           | itself, or INVALID_TXN_STATE where it is not known yet |
| PRODUCER_FENCED                                 | INVALID_PRODUCER_EPOCH                       |
| CONCURRENT_TRANSACTIONS, or it cannot be asked  | NOT_ENOUGH_REPLICAS: try again               |
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.errors import (
    NONE,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    ProducerFenced,
    TransactionAbortable,
)
from ..coordinators.coordinator_topic import Producer

if TYPE_CHECKING:
    from ..broker import Broker
    from ..replication.partition import Partition

_TRY_AGAIN = (ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


def verify(
    broker: Broker, transactional_id: str, producer: Producer, partition: Partition, *, knows_abortable: bool
) -> None:
    """Raise, as a client is to be told, unless `producer` may append to the partition in its transaction now.

    `knows_abortable` says whether the client knows TRANSACTION_ABORTABLE.
    """
    if not broker.config.transaction_partition_verification_enable or is_open(partition, producer):
        return
    topic_partition = partition.topic_partition
    try:
        coordinator = broker.transactions.store.topic.coordinator_broker(transactional_id)
        code = coordinator.transactions.verify(transactional_id, producer, [topic_partition])[topic_partition]
    except KafkaError as error:
        raise as_told(error) from error
    if code != NONE:
        error_class = TransactionAbortable if knows_abortable else InvalidTxnState
        raise error_class("the partition was not added to the transaction")


async def join(broker: Broker, transactional_id: str, producer: Producer, partition: Partition) -> None:
    """Have the partition take part, as the second version of transactions does without being asked. Raises as
    `verify` does, but for CONCURRENT_TRANSACTIONS, which such a client knows."""
    if is_open(partition, producer):
        return
    try:
        coordinator = broker.transactions.store.topic.coordinator_broker(transactional_id)
        await coordinator.transactions.add_partitions(transactional_id, producer, [partition.topic_partition])
    except ConcurrentTransactions:
        raise
    except KafkaError as error:
        raise as_told(error) from error


def is_open(partition: Partition, producer: Producer) -> bool:
    """Whether the producer has begun a transaction in the partition."""
    known = partition.log.producers.get(producer.producer_id)
    return known is not None and known.transaction_first_offset is not None and known.epoch == producer.epoch


def as_told(error: KafkaError) -> KafkaError:
    """The coordinator's error as a client of another request is told it."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, _TRY_AGAIN):
        return NotEnoughReplicas(f"whether the partition takes part cannot be said now: {error}")
    return error
