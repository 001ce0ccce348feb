"""Verification of transactional appends: when the coordinator is asked, and the errors for clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.transactions import verification
from kmini.broker.transactions.transaction_states import ONGOING
from kmini.protocol.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    TransactionAbortable,
)
from support.broker.transaction_bank import ORDERS, PARTITIONS, Bank

OpenBank = Callable[..., Awaitable[Bank]]


def verify(bank: Bank, producer: Producer, *, name: str = "t", knows_abortable: bool = True) -> None:
    partition = bank.broker.replica_manager.partitions[ORDERS]
    verification.verify(bank.coordinator, name, producer, partition, knows_abortable=knows_abortable)


async def test_a_partition_that_was_added_takes_part(bank: Bank) -> None:
    producer = await bank.init()
    for knows_abortable, error in ((True, TransactionAbortable), (False, InvalidTxnState)):
        with pytest.raises(error, match="not added"):
            verify(bank, producer, knows_abortable=knows_abortable)
    await bank.begin(producer, PARTITIONS[1])
    with pytest.raises(TransactionAbortable):
        verify(bank, producer)
    await bank.begin(producer)
    verify(bank, producer)


async def test_what_ended_meanwhile_cannot_be_begun_again_by_a_late_request(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    await bank.end(producer, is_commit=False)
    with pytest.raises(TransactionAbortable):
        verify(bank, producer)


async def test_an_open_transaction_is_not_verified_again(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")

    def ask(*_: object) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(bank.coordinator, "verify", ask)
    verify(bank, producer)
    with pytest.raises(AssertionError, match="asked"):
        verify(bank, producer._replace(epoch=1))


async def test_what_the_coordinator_says_is_translated(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await bank.init()
    with pytest.raises(InvalidProducerEpoch):
        verify(bank, producer._replace(epoch=7))
    with pytest.raises(InvalidProducerIdMapping):
        verify(bank, producer._replace(producer_id=77))
    with pytest.raises(InvalidProducerIdMapping):
        verify(bank, producer, name="unknown")
    await bank.begin(producer)
    with monkeypatch.context() as patched:
        patched.setattr(bank.coordinator.completion, "start", lambda _: None)
        await bank.end(producer)
    with pytest.raises(NotEnoughReplicas, match="CONCURRENT_TRANSACTIONS"):
        verify(bank, producer)


async def test_it_can_be_switched_off(open_bank: OpenBank) -> None:
    bank = await open_bank(transaction_partition_verification_enable="false")
    verify(bank, await bank.init())


async def test_in_the_second_version_of_transactions_a_partition_joins_unasked(bank: Bank) -> None:
    producer = await bank.init()
    partition = bank.broker.replica_manager.partitions[ORDERS]
    await verification.add_partition(bank.coordinator, "t", producer, partition)
    assert bank.state() is ONGOING
    assert bank.transaction().entry.partitions == {ORDERS}
    with pytest.raises(InvalidProducerEpoch):
        await verification.add_partition(bank.coordinator, "t", producer._replace(epoch=9), partition)
