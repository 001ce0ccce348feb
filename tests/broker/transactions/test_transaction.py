"""A transactional id in memory: its owner, the claims of producers, and changes that are being stored."""

from __future__ import annotations

import pytest

from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.transactions.transaction import EXHAUSTED_EPOCH, Transaction
from kmini.broker.transactions.transaction_records import Entry
from kmini.broker.transactions.transaction_states import EMPTY, ONGOING, PREPARE_COMMIT, Claim
from kmini.protocol.errors import ConcurrentTransactions, InvalidProducerIdMapping, ProducerFenced
from kmini.protocol.records.batch import NO_PRODUCER_EPOCH

OWNER = Producer(7, 3)


def a_transaction(epoch: int = 3, **changes: object) -> Transaction:
    return Transaction("t", Entry(7, epoch, 60_000, EMPTY)._replace(**changes))  # type: ignore[arg-type]


def test_only_the_owner_passes_the_check_of_the_owner() -> None:
    transaction = a_transaction()
    transaction.check_owner(OWNER)
    with pytest.raises(InvalidProducerIdMapping):
        transaction.check_owner(Producer(8, 3))
    with pytest.raises(ProducerFenced):
        transaction.check_owner(Producer(7, 2))


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
    assert transaction.claim_of(producer) is claim


def test_any_producer_owns_an_id_without_an_epoch() -> None:
    assert a_transaction(NO_PRODUCER_EPOCH).claim_of(Producer(8, 5)) is Claim.OWNER


def test_the_previous_producer_id_returns_only_with_an_exhausted_epoch() -> None:
    transaction = a_transaction(0, previous_producer_id=6)
    transaction.last_epoch = EXHAUSTED_EPOCH
    assert transaction.claim_of(Producer(6, EXHAUSTED_EPOCH)) is Claim.RETURNING
    assert transaction.claim_of(Producer(6, EXHAUSTED_EPOCH - 1)) is Claim.STRANGER


def test_epochs_are_exhausted_before_the_last_one_which_fences() -> None:
    assert not a_transaction(EXHAUSTED_EPOCH - 1).is_exhausted
    assert a_transaction(EXHAUSTED_EPOCH).is_exhausted


def test_a_change_that_is_being_stored_refuses_others() -> None:
    transaction = a_transaction()
    transaction.check_nothing_pending()
    transaction.begin(ONGOING)
    with pytest.raises(ConcurrentTransactions, match="Ongoing is being stored"):
        transaction.check_nothing_pending()


def test_a_change_that_the_state_does_not_allow_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="Empty cannot become PrepareCommit"):
        a_transaction().begin(PREPARE_COMMIT)
