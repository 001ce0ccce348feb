"""A transactional id in memory: changes that are being stored, and the time that it and its transactions have."""

from __future__ import annotations

import pytest

from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_records import Entry
from kmini.broker.transactions.transaction_states import COMPLETE_ABORT, EMPTY, ONGOING, PREPARE_COMMIT
from kmini.protocol.errors import ConcurrentTransactions
from support.broker.transaction_bank import PARTITIONS, Bank


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


# --- its time


async def test_a_partition_that_is_added_late_does_not_renew_the_time_out(bank: Bank) -> None:
    producer = await bank.init(timeout_ms=60_000)
    await bank.begin(producer, PARTITIONS[0])
    began_ms, due_ms = bank.transaction().entry.start_ms, bank.coordinator.next_time_out_ms()
    for partition in PARTITIONS[1:]:
        await bank.clock.advance(25_000, liveness=True)
        await bank.begin(producer, partition)
    assert (bank.transaction().entry.start_ms, bank.coordinator.next_time_out_ms()) == (began_ms, due_ms)
    await bank.clock.advance(21_000, liveness=True)
    assert bank.state() is COMPLETE_ABORT


async def test_a_transaction_is_open_for_its_whole_time_out_and_no_longer(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bank.begin(await bank.init(timeout_ms=60_000))
    due_ms = bank.transaction().began_ms + 60_000
    for now_ms, state in ((due_ms, ONGOING), (due_ms + 1, COMPLETE_ABORT)):
        monkeypatch.setattr(bank.clock, "liveness_ms", lambda now_ms=now_ms: now_ms)
        await bank.coordinator.abort_timed_out()
        await bank.a_few_turns()
        assert bank.state() is state


async def test_an_id_is_kept_for_its_whole_time_and_no_longer(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    await bank.init()
    due_ms = bank.coordinator.next_id_expiry_ms()
    assert due_ms is not None
    for now_ms, ids in ((due_ms - 1, {"t"}), (due_ms, set())):
        monkeypatch.setattr(bank.clock, "now_ms", lambda now_ms=now_ms: now_ms)
        await bank.coordinator.expire_ids()
        assert bank.coordinator.transactions.keys() == ids
