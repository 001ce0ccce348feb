"""The transaction that the batches of a Produce request belong to, and the check that they may (KIP-98, KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...protocol.errors import InvalidProducerIdMapping, TransactionalIdAuthorizationFailed
from ...protocol.messages.produce import ProduceRequest
from ...protocol.records.batch import read_header
from ...protocol.records.kernels.records import transactional_batches
from ..coordinators.coordinator_topic import Producer
from ..transactions import verification

if TYPE_CHECKING:
    from ..replication.partition import Partition
    from ..transactions.transaction_coordinator import TransactionCoordinator

ABORTABLE_SINCE = 11
JOINS_SINCE = 12


class Transaction(NamedTuple):
    """The transactional id of a request with transactional batches, and their producer."""

    transactional_id: str
    producer: Producer

    async def check(self, transactions: TransactionCoordinator, partition: Partition, version: int) -> None:
        """Raise unless the partition takes part in the transaction. From JOINS_SINCE on the partition joins it."""
        if version >= JOINS_SINCE:
            await verification.add_partition(transactions, *self, partition)
        else:
            verification.verify(transactions, *self, partition, knows_abortable=version >= ABORTABLE_SINCE)


def transaction_of(request: ProduceRequest) -> Transaction | None:
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
    return Transaction(request.transactional_id, producers.pop())
