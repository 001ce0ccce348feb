"""Verification of transactional appends: when the coordinator is asked, and the errors for clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.transactions import verification
from kmini.broker.transactions.transaction_states import ONGOING
from kmini.protocol.errors import (
    ConcurrentTransactions,
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


async def test_an_open_transaction_is_not_verified_again(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    partition = bank.broker.replica_manager.partitions[ORDERS]
    assert verification.needs_verification(partition, producer)
    bank.write(producer, b"a")
    assert not verification.needs_verification(partition, producer)
    assert verification.needs_verification(partition, producer._replace(epoch=1))
    bank.write(producer._replace(epoch=1), b"b")
    with pytest.raises(InvalidProducerEpoch):
        verification.needs_verification(partition, producer)


async def test_errors_of_the_coordinator_are_translated_for_producers(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(ConcurrentTransactions) as raised:
        verify(bank, producer)
    told = verification.for_producer(raised.value)
    assert isinstance(told, NotEnoughReplicas)
    assert "CONCURRENT_TRANSACTIONS" in str(told)
    unchanged = TransactionAbortable("it was not added")
    assert verification.for_producer(unchanged) is unchanged


async def test_partitions_are_added_together_by_the_second_version_of_transactions(bank: Bank) -> None:
    producer = await bank.init()
    partitions = [bank.broker.replica_manager.partitions[one] for one in PARTITIONS[:2]]
    await verification.add_partitions(bank.coordinator, "t", producer, partitions)
    assert bank.state() is ONGOING
    assert bank.transaction().entry.partitions == set(PARTITIONS[:2])
    assert [entry.client_version for entry in bank.stored() if entry is not None] == [0, 2]
    with pytest.raises(InvalidProducerEpoch):
        await verification.add_partitions(bank.coordinator, "t", producer._replace(epoch=9), partitions)


async def add_while_busy(bank: Bank, monkeypatch: pytest.MonkeyPatch, refusals: int) -> list[int]:
    """Add a partition while the coordinator is busy for so many tries; the times of the tries, in ms from the first."""
    tries: list[int] = []
    add = bank.coordinator.add_partitions

    async def busy(*arguments: Any, **options: Any) -> None:
        tries.append(bank.clock.liveness_ms() - began_ms)
        if len(tries) <= refusals:
            raise ConcurrentTransactions("the last transaction is being ended")
        await add(*arguments, **options)

    monkeypatch.setattr(bank.coordinator, "add_partitions", busy)
    producer, partition = await bank.init(), bank.broker.replica_manager.partitions[ORDERS]
    began_ms = bank.clock.liveness_ms()
    adding = asyncio.ensure_future(
        verification.add_partitions_patiently(
            bank.coordinator, "t", producer, [partition], bank.clock, bank.broker.config.current
        )
    )
    while not adding.done():
        await asyncio.sleep(0)
        await bank.clock.advance(10, liveness=True)
    await adding
    return tries


async def test_partitions_are_added_once_the_last_transaction_has_ended(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = await add_while_busy(bank, monkeypatch, 2)
    assert len(tries) == 3
    assert all(later - earlier >= 20 for earlier, later in pairwise(tries))
    assert bank.transaction().entry.partitions == {ORDERS}


async def test_the_producer_is_told_of_a_transaction_that_does_not_end_soon(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConcurrentTransactions):
        await add_while_busy(bank, monkeypatch, 1000)
    assert bank.clock.liveness_ms() > 100
