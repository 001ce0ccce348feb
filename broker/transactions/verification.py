"""Verification that a partition is part of a producer's transaction, before a transactional append (KIP-890).

A fenced producer may have a request in flight. Appended after the end of its transaction, the records would begin
another transaction that is never ended. So before an append begins a transaction in a partition, the leader asks the
coordinator. If the transaction is open in the partition already, no verification is needed.

With the second version of transactions the leader adds the partition to the transaction instead: its producers announce
none. They have a new epoch in every transaction, and the end of one leaves it in the partition: a late append is
refused by that.

Clients of Produce know only some of the coordinator's errors, so the others are translated:

| error of the coordinator                        | error for the client                                        |
|-------------------------------------------------|-------------------------------------------------------------|
| TRANSACTION_ABORTABLE                           | the same; INVALID_TXN_STATE if the client is too old        |
| PRODUCER_FENCED                                 | INVALID_PRODUCER_EPOCH                                      |
| CONCURRENT_TRANSACTIONS                         | NOT_ENOUGH_REPLICAS, which clients retry; the same where    |
|                                                 | the partition is added, after some tries                    |
| no coordinator                                  | NOT_ENOUGH_REPLICAS                                         |

Clients of TxnOffsetCommit get the last two as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
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
from .producer_epochs import EPOCH_PER_TRANSACTION

if TYPE_CHECKING:
    from ..clock import Clock
    from ..replication.partition import Partition
    from ..settings.broker_config import BrokerConfig
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
    """Raise the coordinator's error, with that of the first two lines of the table, unless the partition is part of the
    producer's open transaction. `transactions` is the coordinator of this broker, which finds that of the id.

    `knows_abortable` says whether the client knows TRANSACTION_ABORTABLE.
    """
    topic_partition = partition.topic_partition
    try:
        coordinator = transactions.coordinator_of(transactional_id)
        code = coordinator.verify(transactional_id, producer, [topic_partition])[topic_partition]
    except ProducerFenced as error:
        raise InvalidProducerEpoch(error.message) from error
    if code != NONE:
        error_class = TransactionAbortable if knows_abortable else InvalidTxnState
        raise error_class("the partition was not added to the transaction")


async def add_partitions(
    transactions: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[Partition],
) -> None:
    """Add partitions to the producer's transaction, as the second version of transactions does. Raises the
    coordinator's error, or InvalidProducerEpoch where it is ProducerFenced."""
    try:
        coordinator = transactions.coordinator_of(transactional_id)
        added = [partition.topic_partition for partition in partitions]
        await coordinator.add_partitions(transactional_id, producer, added, client_version=EPOCH_PER_TRANSACTION)
    except ProducerFenced as error:
        raise InvalidProducerEpoch(error.message) from error


async def add_partitions_patiently(
    transactions: TransactionCoordinator,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[Partition],
    clock: Clock,
    config: BrokerConfig,
) -> None:
    """Do what `add_partitions` does, and try again while the last transaction is being ended: with pauses of
    `add.partitions.to.txn.retry.backoff.ms`, until `add.partitions.to.txn.retry.backoff.max.ms` have passed."""
    began_ms = clock.liveness_ms()
    while True:
        try:
            await add_partitions(transactions, transactional_id, producer, partitions)
            return
        except ConcurrentTransactions:
            patience_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
            if clock.liveness_ms() - began_ms >= patience_ms:
                raise
        await _pause(clock, config.add_partitions_to_txn_retry_backoff_ms)


async def _pause(clock: Clock, pause_ms: int) -> None:
    over = asyncio.Event()
    timer = clock.call_later(pause_ms, over.set, liveness=True)
    try:
        await over.wait()
    finally:
        timer.cancel()


def needs_verification(partition: Partition, producer: Producer) -> bool:
    """Whether the producer has no open transaction in the partition. Raises InvalidProducerEpoch for an epoch below the
    known one."""
    known = partition.log.producers.get(producer.producer_id)
    if known is None:
        return True
    if producer.epoch < known.epoch:
        raise InvalidProducerEpoch(f"epoch {producer.epoch} is older than {known.epoch}")
    return known.transaction_first_offset is None or known.epoch != producer.epoch


def for_producer(error: KafkaError) -> KafkaError:
    """Translate an error of the coordinator for clients of Produce."""
    if isinstance(error, _RETRIABLE):
        return NotEnoughReplicas(f"the partition cannot be verified now: {error}")
    return error
