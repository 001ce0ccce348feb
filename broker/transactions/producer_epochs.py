"""The producer id and epoch of a transactional id: which producer owns it, is fenced, or is given the next epoch.

The producer with the entry's producer id and epoch owns the id; every other one is fenced. InitProducerId gives the
next epoch, by the tables below (KIP-360). The coordinator raises the epoch itself where it aborts an open transaction:
for another producer of the id, or after a time-out.

With the second version of transactions (KIP-890) every end of a transaction raises the epoch, too: its markers and the
producer's next transaction have the next epoch, so that a late request of the last transaction is fenced in every
partition of it. After the last epoch comes another producer id, with epoch 0.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from ...protocol.errors import ConcurrentTransactions, InvalidProducerIdMapping, KafkaError, ProducerFenced
from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ..coordinators.coordinator_topic import NO_PRODUCER, Producer
from .transaction import Transaction
from .transaction_records import Entry
from .transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STORED,
    TransactionState,
)

MAX_EPOCH = 0x7FFF
EXHAUSTED_EPOCH = MAX_EPOCH - 1
"""From this epoch on no producer gets the next one: the coordinator fences with the last."""

EPOCH_PER_TRANSACTION = 2
"""The level of `transaction.version` from which on every transaction has its own producer epoch."""


class Claim(Enum):
    """The kinds of producers that send InitProducerId, by the producer id and epoch that they give (KIP-360)."""

    NEWCOMER = auto()
    """No producer id: a producer that starts. The previous producer of the id is fenced."""
    OWNER = auto()
    """The present id and epoch: a producer that resumes after an error. Also any producer, if the id has no epoch
    yet."""
    RETURNING = auto()
    """The previous id and epoch: the answer with the present ones was lost."""
    FENCED = auto()
    """The right producer id with an old epoch."""
    STRANGER = auto()
    """Another producer id."""


class Init(Enum):
    """The effects of an InitProducerId."""

    RAISE_EPOCH = auto()
    """Raise the epoch by one; if epochs are exhausted, give a new producer id with epoch 0."""
    REPEAT = auto()
    """Answer with the present producer id and epoch."""
    ABORT = auto()
    """Raise the epoch, abort the open transaction, and answer CONCURRENT_TRANSACTIONS: the client tries again."""


_BUSY = ConcurrentTransactions

# fmt: off
_INIT: dict[Claim, tuple[Init | type[KafkaError], ...]] = {
    #                 Empty, Complete…  Ongoing         Prepare…
    Claim.NEWCOMER:  (Init.RAISE_EPOCH, Init.ABORT,     _BUSY),
    Claim.OWNER:     (Init.RAISE_EPOCH, Init.ABORT,     _BUSY),
    Claim.RETURNING: (Init.REPEAT,      Init.ABORT,     _BUSY),
    Claim.FENCED:    (ProducerFenced,   Init.ABORT,     _BUSY),
    Claim.STRANGER:  (ProducerFenced,   ProducerFenced, ProducerFenced),
}
_COLUMN = {
    EMPTY: 0, COMPLETE_COMMIT: 0, COMPLETE_ABORT: 0,
    ONGOING: 1,
    PREPARE_COMMIT: 2, PREPARE_ABORT: 2,
}
# fmt: on

INIT: dict[tuple[Claim, TransactionState], Init | type[KafkaError]] = {
    (claim, state): actions[_COLUMN[state]] for claim, actions in _INIT.items() for state in STORED
}
"""By claim and state, the effect of an InitProducerId, or the error that refuses it."""


def check_owner(transaction: Transaction, producer: Producer) -> None:
    """Raise InvalidProducerIdMapping or ProducerFenced unless this producer owns the id."""
    entry = transaction.entry
    if producer.producer_id != entry.producer_id:
        raise InvalidProducerIdMapping(f"the producer id is {entry.producer_id}, not {producer.producer_id}")
    if producer.epoch != entry.producer_epoch:
        raise ProducerFenced(f"the epoch is {entry.producer_epoch}, not {producer.epoch}")


def repeats_end(transaction: Transaction, producer: Producer) -> bool:
    """Whether a producer that ends a transaction with the second version of transactions has the epoch of the last
    transaction, whose end it may ask for again. Raises InvalidProducerIdMapping or ProducerFenced for a producer that
    owns the id neither now nor then."""
    entry = transaction.entry
    has_new_id = producer == (entry.previous_producer_id, EXHAUSTED_EPOCH) and entry.producer_epoch == 0
    if producer.producer_id != entry.producer_id and not has_new_id:
        raise InvalidProducerIdMapping(f"the producer id is {entry.producer_id}, not {producer.producer_id}")
    is_before = producer.epoch + 1 == entry.producer_epoch
    is_present = producer.epoch == entry.producer_epoch
    if entry.state in COMPLETED:
        is_valid = is_before
    elif entry.state in COMPLETED.values():
        is_valid = is_before or has_new_id or is_present
    else:
        is_valid = is_present
    if not is_valid:
        raise ProducerFenced(f"the epoch is {entry.producer_epoch}, not {producer.epoch}")
    return is_before or has_new_id


def claim_of(transaction: Transaction, producer: Producer) -> Claim:
    """The claim of a producer that sends InitProducerId."""
    entry = transaction.entry
    if producer == NO_PRODUCER:
        return Claim.NEWCOMER
    if entry.producer_epoch == NO_PRODUCER_EPOCH:
        return Claim.OWNER
    if producer.producer_id != entry.producer_id:
        was_replaced = producer.producer_id == entry.previous_producer_id and producer.epoch >= EXHAUSTED_EPOCH
        if not was_replaced:
            return Claim.STRANGER
    elif producer.epoch == entry.producer_epoch:
        return Claim.OWNER
    return Claim.RETURNING if producer.epoch == transaction.last_epoch else Claim.FENCED


def next_producer(
    transaction: Transaction, claim: Claim, action: Init, new_producer_id: Callable[[], int]
) -> tuple[Producer, int]:
    """The producer id and epoch for a producer, and the previous epoch, with which it may ask for them again."""
    entry = transaction.entry
    if action is Init.REPEAT:
        return Producer(entry.producer_id, entry.producer_epoch), transaction.last_epoch
    last_epoch = entry.producer_epoch if claim is Claim.OWNER else NO_PRODUCER_EPOCH
    if entry.producer_epoch >= EXHAUSTED_EPOCH:
        return Producer(new_producer_id(), 0), last_epoch
    return Producer(entry.producer_id, entry.producer_epoch + 1), last_epoch


def raised_by_end(entry: Entry, new_producer_id: Callable[[], int]) -> dict[str, int]:
    """The fields of an entry that change because the end of a transaction raises the epoch."""
    is_exhausted = entry.producer_epoch >= EXHAUSTED_EPOCH
    return {
        "producer_epoch": min(entry.producer_epoch + 1, MAX_EPOCH),
        "next_producer_id": new_producer_id() if is_exhausted else NO_PRODUCER_ID,
        "client_version": EPOCH_PER_TRANSACTION,
    }


def producer_after(entry: Entry) -> Producer:
    """The producer id and epoch once the end of a transaction is complete."""
    if entry.next_producer_id == NO_PRODUCER_ID or entry.client_version < EPOCH_PER_TRANSACTION:
        return Producer(entry.producer_id, entry.producer_epoch)
    return Producer(entry.next_producer_id, 0)


def fence(transaction: Transaction) -> None:
    """Raise the epoch in memory, so that the owner is fenced, where the abort does not raise it (`transaction.version`
    below 2); the caller stores it with the abort of the transaction. An epoch that could not be stored is not raised
    again."""
    if not transaction.has_failed_fence:
        epoch = min(transaction.entry.producer_epoch + 1, MAX_EPOCH)
        transaction.entry = transaction.entry._replace(producer_epoch=epoch)
    transaction.last_epoch = NO_PRODUCER_EPOCH
