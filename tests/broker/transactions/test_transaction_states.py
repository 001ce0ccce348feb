"""The tables: every transition, and every request in every state from every kind of producer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.coordinators.coordinator_topic import NO_PRODUCER, Producer
from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_records import Entry
from kmini.broker.transactions.transaction_states import (
    ADD,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    COMPLETED,
    DEAD,
    EMPTY,
    END,
    INIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREVIOUS,
    RESTING,
    STORED,
    Claim,
    TransactionState,
)
from kmini.protocol.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
)
from support.broker.transaction_bank import ORDERS, PARTITIONS, Bank

MAY_FOLLOW = {
    (EMPTY, EMPTY),
    (EMPTY, COMPLETE_COMMIT),
    (EMPTY, COMPLETE_ABORT),
    (ONGOING, ONGOING),
    (ONGOING, EMPTY),
    (ONGOING, COMPLETE_COMMIT),
    (ONGOING, COMPLETE_ABORT),
    (PREPARE_COMMIT, ONGOING),
    (PREPARE_ABORT, ONGOING),
    (PREPARE_ABORT, PREPARE_EPOCH_FENCE),
    (COMPLETE_COMMIT, PREPARE_COMMIT),
    (COMPLETE_ABORT, PREPARE_ABORT),
    (DEAD, EMPTY),
    (DEAD, COMPLETE_COMMIT),
    (DEAD, COMPLETE_ABORT),
    (PREPARE_EPOCH_FENCE, ONGOING),
}


@pytest.mark.parametrize("before", TransactionState)
@pytest.mark.parametrize("after", TransactionState)
def test_a_state_follows_only_those_that_it_may(before: TransactionState, after: TransactionState) -> None:
    transaction = Transaction("t", Entry(1, 0, 1000, before))
    if (after, before) in MAY_FOLLOW:
        transaction.begin(after)
        assert transaction.pending is after
    else:
        with pytest.raises(ValueError, match=f"{before.wire_name} cannot become {after.wire_name}"):
            transaction.begin(after)
        assert transaction.pending is None


def test_every_table_knows_every_state() -> None:
    assert set(PREVIOUS) == set(TransactionState)
    assert set(ADD) == set(STORED) == set(TransactionState) - {DEAD, PREPARE_EPOCH_FENCE}
    assert set(INIT) == {(claim, state) for claim in Claim for state in STORED}
    assert set(END) == {(state, is_commit) for state in STORED for is_commit in (True, False)}
    assert set(RESTING) | set(COMPLETED) | {ONGOING} == set(STORED)


def test_the_names_are_kafkas() -> None:
    assert [state.wire_name for state in TransactionState] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


# --- every request in every state, from every kind of producer

OWNER = Producer(4711, 5)
PRODUCERS = {
    "nobody": NO_PRODUCER,
    "owner": OWNER,
    "before": Producer(4711, 4),
    "long before": Producer(4711, 2),
    "after": Producer(4711, 6),
    "stranger": Producer(4712, 5),
}
FENCED, STRANGE, BUSY, WRONG = ProducerFenced, InvalidProducerIdMapping, ConcurrentTransactions, InvalidTxnState

WhatBecomes = type[KafkaError] | TransactionState
Request = Callable[[Bank, str, Producer], Awaitable[object]]


async def _init(bank: Bank, name: str, producer: Producer) -> Producer:
    return await bank.init(name, claimed=producer)


async def _add(bank: Bank, name: str, producer: Producer) -> None:
    await bank.begin(producer, *PARTITIONS[:2], name=name)


async def _commit(bank: Bank, name: str, producer: Producer) -> None:
    await bank.end(producer, is_commit=True, name=name)


async def _abort(bank: Bank, name: str, producer: Producer) -> None:
    await bank.end(producer, is_commit=False, name=name)


REQUESTS = pytest.mark.parametrize("request_", [_init, _add, _commit, _abort], ids=["init", "add", "commit", "abort"])


def in_state(bank: Bank, state: TransactionState, name: str = "t") -> Transaction:
    """An id of OWNER in this state, with an epoch before that it may ask for again; its markers are not sent."""
    partitions = frozenset({ORDERS}) if state in (ONGOING, *COMPLETED) else frozenset()
    entry = Entry(*OWNER, 60_000, state, partitions, bank.clock.now_ms(), bank.clock.now_ms(), 4711)
    transaction = bank.coordinator.transactions[name] = Transaction(name, entry)
    transaction.last_epoch = 4
    return transaction


def expected_of_owner(request: Request, state: TransactionState) -> WhatBecomes:
    """In words of the state table of the specification, for the owner of the id."""
    if request is _add:
        return BUSY if state in COMPLETED else ONGOING
    wanted = {_commit: (PREPARE_COMMIT, COMPLETE_COMMIT), _abort: (PREPARE_ABORT, COMPLETE_ABORT)}[request]
    if state is ONGOING:
        return wanted[1]
    if state is wanted[0]:
        return BUSY
    return state if state is wanted[1] else WRONG


def expected(request: Request, sender: str, state: TransactionState) -> WhatBecomes:
    if request is not _init:
        if sender in ("nobody", "stranger"):
            return STRANGE
        return expected_of_owner(request, state) if sender == "owner" else FENCED
    if sender == "stranger":
        return FENCED
    if state is ONGOING or state in COMPLETED:
        return BUSY
    return EMPTY if sender in ("nobody", "owner", "before") else FENCED


@REQUESTS
async def test_every_request_in_every_state(bank: Bank, request_: Request) -> None:
    for state in STORED:
        for sender in PRODUCERS:
            name = f"{sender}, {state.wire_name}"
            transaction = in_state(bank, state, name)
            before, outcome = transaction.entry, expected(request_, sender, state)
            if isinstance(outcome, TransactionState):
                await request_(bank, name, PRODUCERS[sender])
                assert transaction.entry.state is outcome, name
                continue
            with pytest.raises(outcome):
                await request_(bank, name, PRODUCERS[sender])
            if request_ is _init and state is ONGOING and sender != "stranger":
                assert (transaction.entry.state, transaction.entry.producer_epoch) == (COMPLETE_ABORT, 6), name
                assert bank.markers()[-1] == ("abort", Producer(4711, 6), 0)
            else:
                assert transaction.entry == before, name
                assert bank.stored(name) == [], name


@REQUESTS
async def test_while_a_change_is_being_stored_there_is_no_other(bank: Bank, request_: Request) -> None:
    for state in STORED:
        in_state(bank, state).pending = state
        for producer in PRODUCERS.values():
            with pytest.raises(ConcurrentTransactions):
                await request_(bank, "t", producer)


async def test_verification_in_every_state(bank: Bank) -> None:
    for state in STORED:
        in_state(bank, state)
        for sender, producer in PRODUCERS.items():
            refusal: type[KafkaError] | None = BUSY if state in COMPLETED else None
            if sender != "owner":
                refusal = STRANGE if sender in ("nobody", "stranger") else FENCED
            if refusal is not None:
                with pytest.raises(refusal):
                    bank.coordinator.verify("t", producer, PARTITIONS)
                continue
            inside = NONE if state is ONGOING else TransactionAbortable.code
            outside = TransactionAbortable.code
            assert list(bank.coordinator.verify("t", OWNER, PARTITIONS).values()) == [inside, outside, outside]


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
