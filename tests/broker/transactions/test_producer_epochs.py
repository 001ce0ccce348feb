"""The producer id and epoch of a transactional id: its owner, claims of producers, and what InitProducerId gives."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.transactions.producer_epochs import (
    EXHAUSTED_EPOCH,
    INIT,
    MAX_EPOCH,
    Claim,
    Init,
    check_owner,
    claim_of,
    fence,
    next_producer,
)
from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_records import Entry
from kmini.broker.transactions.transaction_states import COMPLETE_COMMIT, EMPTY, STORED
from kmini.protocol.errors import InvalidProducerIdMapping, ProducerFenced
from kmini.protocol.records.batch import NO_PRODUCER_EPOCH
from support.broker.transaction_bank import PRODUCERS, Bank, in_state

OWNER = Producer(7, 3)


def a_transaction(epoch: int = 3, **changes: object) -> Transaction:
    return Transaction("t", Entry(7, epoch, 60_000, EMPTY)._replace(**changes))  # type: ignore[arg-type]


def test_the_table_knows_every_claim_in_every_stored_state() -> None:
    assert set(INIT) == {(claim, state) for claim in Claim for state in STORED}


def test_only_the_owner_passes_the_check_of_the_owner() -> None:
    transaction = a_transaction()
    check_owner(transaction, OWNER)
    with pytest.raises(InvalidProducerIdMapping):
        check_owner(transaction, Producer(8, 3))
    with pytest.raises(ProducerFenced):
        check_owner(transaction, Producer(7, 2))


@pytest.mark.parametrize(
    ("producer", "claim"),
    [
        (NO_PRODUCER, Claim.NEWCOMER),
        (OWNER, Claim.OWNER),
        (Producer(7, 2), Claim.RETURNING),
        (Producer(7, 1), Claim.FENCED),
        (Producer(8, 3), Claim.STRANGER),
    ],
)
def test_a_producer_claims_an_id_by_its_producer_id_and_epoch(producer: Producer, claim: Claim) -> None:
    transaction = a_transaction()
    transaction.last_epoch = 2
    assert claim_of(transaction, producer) is claim


def test_any_producer_owns_an_id_without_an_epoch() -> None:
    assert claim_of(a_transaction(NO_PRODUCER_EPOCH), Producer(8, 5)) is Claim.OWNER


def test_the_previous_producer_id_returns_only_with_an_exhausted_epoch() -> None:
    transaction = a_transaction(0, previous_producer_id=6)
    transaction.last_epoch = EXHAUSTED_EPOCH
    assert claim_of(transaction, Producer(6, EXHAUSTED_EPOCH)) is Claim.RETURNING
    assert claim_of(transaction, Producer(6, EXHAUSTED_EPOCH - 1)) is Claim.STRANGER


def test_epochs_are_exhausted_before_the_last_one_which_fences() -> None:
    def following(epoch: int) -> Producer:
        return next_producer(a_transaction(epoch), Claim.NEWCOMER, Init.RAISE_EPOCH, lambda: 99)[0]

    assert following(EXHAUSTED_EPOCH - 1) == Producer(7, EXHAUSTED_EPOCH)
    assert following(EXHAUSTED_EPOCH) == Producer(99, 0)
    fenced = a_transaction(EXHAUSTED_EPOCH)
    fence(fenced)
    assert fenced.entry.producer_epoch == MAX_EPOCH


def test_an_epoch_that_could_not_be_stored_is_not_raised_again() -> None:
    transaction = a_transaction()
    transaction.last_epoch = 2
    fence(transaction)
    transaction.has_failed_fence = True
    fence(transaction)
    assert (transaction.entry.producer_epoch, transaction.last_epoch) == (4, NO_PRODUCER_EPOCH)


# --- what InitProducerId gives


@pytest.mark.parametrize(
    ("sender", "epoch", "last_epoch"),
    [("nobody", 6, -1), ("owner", 6, 5), ("before", 5, 4)],
    ids=lambda value: str(value),
)
async def test_the_epoch_that_is_given(bank: Bank, sender: str, epoch: int, last_epoch: int) -> None:
    transaction = in_state(bank, COMPLETE_COMMIT)
    assert await bank.init(timeout_ms=7_000, claimed=PRODUCERS[sender]) == Producer(4711, epoch)
    assert transaction.last_epoch == last_epoch
    assert transaction.entry.timeout_ms == 7_000
    assert transaction.entry.start_ms == -1


@pytest.mark.parametrize("sender", ["nobody", "owner"])
async def test_an_exhausted_epoch_is_followed_by_another_producer_id(bank: Bank, sender: str) -> None:
    transaction = in_state(bank, EMPTY)
    transaction.entry = transaction.entry._replace(producer_epoch=32766)
    following = await bank.init(claimed=NO_PRODUCER if sender == "nobody" else Producer(4711, 32766))
    assert following.producer_id != 4711
    assert following.epoch == 0
    assert transaction.entry.previous_producer_id == 4711
    again = bank.init(claimed=Producer(4711, 32766))
    if sender == "owner":  # its answer was lost
        assert await again == following
    else:
        with pytest.raises(ProducerFenced):
            await again


async def test_an_id_without_an_epoch_belongs_to_the_first_producer(bank: Bank) -> None:
    transaction = in_state(bank, EMPTY)
    transaction.entry = transaction.entry._replace(producer_epoch=-1)
    assert await bank.init(claimed=PRODUCERS["stranger"]) == Producer(4711, 0)
    assert transaction.last_epoch == -1
