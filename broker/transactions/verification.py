"""Verification that a partition is part of a producer's transaction, before a transactional append (KIP-890).

A fenced producer may have a request in flight. Appended after the end of its transaction, the records would begin
another transaction that is never ended. So before an append begins a transaction in a partition, the leader asks the
coordinator. If the transaction is open in the partition already, no verification is needed.

Clients of these requests know only some of the coordinator's errors, so the others are translated:

| error of the coordinator                        | error for the client                                  |
|-------------------------------------------------|-------------------------------------------------------|
| TRANSACTION_ABORTABLE                           | the same; INVALID_TXN_STATE if the client is too old  |
| PRODUCER_FENCED                                 | INVALID_PRODUCER_EPOCH                                |
| CONCURRENT_TRANSACTIONS, or no coordinator      | NOT_ENOUGH_REPLICAS, which clients retry              |
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
    from ..replication.partition import Partition
    from .transaction_coordinator import TransactionCoordinator

_RETRIABLE = (ConcurrentTransactions, CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator)


def verify(
    transactions: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    partition: Partition,
    *,
    knows_abortable: bool,
) -> None:
    """Raise the error for the client unless the partition is part of the producer's open transaction. `transactions` is
    the coordinator of this broker, which finds that of the id.

    `knows_abortable` says whether the client knows TRANSACTION_ABORTABLE.
    """
    if not transactions.verifies_partitions or is_open(partition, producer):
        return
    topic_partition = partition.topic_partition
    try:
        coordinator = transactions.coordinator_of(transactional_id)
        code = coordinator.verify(transactional_id, producer, [topic_partition])[topic_partition]
    except KafkaError as error:
        raise for_client(error) from error
    if code != NONE:
        error_class = TransactionAbortable if knows_abortable else InvalidTxnState
        raise error_class("the partition was not added to the transaction")


async def add_partition(
    transactions: TransactionCoordinator, transactional_id: str, producer: Producer, partition: Partition
) -> None:
    """Add the partition to the producer's transaction, as version 2 of transactions does implicitly. Raises what
    `verify` does, and CONCURRENT_TRANSACTIONS, which its clients know."""
    if is_open(partition, producer):
        return
    try:
        coordinator = transactions.coordinator_of(transactional_id)
        await coordinator.add_partitions(transactional_id, producer, [partition.topic_partition])
    except ConcurrentTransactions:
        raise
    except KafkaError as error:
        raise for_client(error) from error


def is_open(partition: Partition, producer: Producer) -> bool:
    """Whether the producer has an open transaction in the partition."""
    known = partition.log.producers.get(producer.producer_id)
    return known is not None and known.transaction_first_offset is not None and known.epoch == producer.epoch


def for_client(error: KafkaError) -> KafkaError:
    """Translate an error of the coordinator for clients of other requests."""
    if isinstance(error, ProducerFenced):
        return InvalidProducerEpoch(error.message)
    if isinstance(error, _RETRIABLE):
        return NotEnoughReplicas(f"the partition cannot be verified now: {error}")
    return error
