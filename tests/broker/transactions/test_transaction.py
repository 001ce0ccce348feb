"""A transactional id in memory: changes that are being stored."""

from __future__ import annotations

import pytest

from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_records import Entry
from kmini.broker.transactions.transaction_states import EMPTY, ONGOING, PREPARE_COMMIT
from kmini.protocol.errors import ConcurrentTransactions


def a_transaction(epoch: int = 3, **changes: object) -> Transaction:
    return Transaction("t", Entry(7, epoch, 60_000, EMPTY)._replace(**changes))  # type: ignore[arg-type]


def test_a_change_that_is_being_stored_refuses_others() -> None:
    transaction = a_transaction()
    transaction.check_nothing_pending()
    transaction.begin(ONGOING)
    with pytest.raises(ConcurrentTransactions, match="Ongoing is being stored"):
        transaction.check_nothing_pending()


def test_a_change_that_the_state_does_not_allow_is_a_bug_of_the_caller() -> None:
    with pytest.raises(ValueError, match="Empty cannot become PrepareCommit"):
        a_transaction().begin(PREPARE_COMMIT)
