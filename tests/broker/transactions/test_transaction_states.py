"""The tables: every transition, and every request in every state from every kind of producer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.coordinators.coordinator_topic import Producer
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
    END_RAISING_EPOCH,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    PREVIOUS,
    RESTING,
    STORED,
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
from support.broker.transaction_bank import OWNER, PARTITIONS, PRODUCERS, Bank, in_state
from support.for_each import for_each

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
    (PREPARE_ABORT, EMPTY),
    (PREPARE_ABORT, COMPLETE_COMMIT),
    (PREPARE_ABORT, COMPLETE_ABORT),
    (COMPLETE_COMMIT, PREPARE_COMMIT),
    (COMPLETE_ABORT, PREPARE_ABORT),
    (DEAD, EMPTY),
    (DEAD, COMPLETE_COMMIT),
    (DEAD, COMPLETE_ABORT),
    (PREPARE_EPOCH_FENCE, ONGOING),
}


@for_each("before", TransactionState)
@for_each("after", TransactionState)
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
    assert set(END) == {(state, is_commit) for state in STORED for is_commit in (True, False)}
    assert set(END_RAISING_EPOCH) == {(*key, is_repeated) for key in END for is_repeated in (True, False)}
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


@pytest.mark.sockets
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


@pytest.mark.sockets
@REQUESTS
async def test_while_a_change_is_being_stored_there_is_no_other(bank: Bank, request_: Request) -> None:
    for state in STORED:
        in_state(bank, state).pending = state
        for sender, producer in PRODUCERS.items():
            error: type[KafkaError] = ConcurrentTransactions
            if request_ in (_commit, _abort) and sender != "owner":  # in Kafka's order
                error = STRANGE if sender in ("nobody", "stranger") else FENCED
            with pytest.raises(error):
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


# --- the end of a transaction in the second version of transactions


EndsOfOwner = dict[TransactionState, tuple[WhatBecomes, WhatBecomes]]
NOT_REPEATED: EndsOfOwner = {
    EMPTY: (WRONG, COMPLETE_ABORT),
    ONGOING: (COMPLETE_COMMIT, COMPLETE_ABORT),
    PREPARE_COMMIT: (FENCED, FENCED),
    PREPARE_ABORT: (FENCED, FENCED),
    COMPLETE_COMMIT: (WRONG, COMPLETE_ABORT),
    COMPLETE_ABORT: (WRONG, COMPLETE_ABORT),
}
"""By state, what commit and abort become for a producer with the stored epoch."""

REPEATED: EndsOfOwner = {
    EMPTY: (FENCED, FENCED),
    ONGOING: (FENCED, FENCED),
    PREPARE_COMMIT: (BUSY, WRONG),
    PREPARE_ABORT: (WRONG, BUSY),
    COMPLETE_COMMIT: (COMPLETE_COMMIT, WRONG),
    COMPLETE_ABORT: (WRONG, COMPLETE_ABORT),
}
"""The same for a producer with the epoch before."""


@pytest.mark.parametrize("is_commit", [True, False])
async def test_every_end_that_raises_the_epoch_in_every_state(bank: Bank, is_commit: bool) -> None:
    for state in STORED:
        for sender in PRODUCERS:
            name = f"{sender}, {state.wire_name}"
            transaction = in_state(bank, state, name)
            before = transaction.entry
            table = {"owner": NOT_REPEATED, "before": REPEATED}.get(sender)
            outcome: WhatBecomes = STRANGE if sender in ("nobody", "stranger") else FENCED
            if table is not None:
                outcome = table[state][0 if is_commit else 1]
            if not isinstance(outcome, TransactionState):
                with pytest.raises(outcome):
                    await bank.end_raising_epoch(PRODUCERS[sender], is_commit=is_commit, name=name)
                assert (transaction.entry, bank.stored(name)) == (before, []), name
                continue
            following = await bank.end_raising_epoch(PRODUCERS[sender], is_commit=is_commit, name=name)
            is_repeated = sender == "before"
            assert following == (OWNER if is_repeated else Producer(4711, 6)), name
            assert (transaction.entry.state, transaction.entry.producer_epoch) == (outcome, following.epoch), name
            assert (transaction.entry == before) is is_repeated, name


@pytest.mark.parametrize("is_commit", [True, False])
async def test_while_a_change_is_being_stored_no_end_raises_the_epoch(bank: Bank, is_commit: bool) -> None:
    for state in STORED:
        in_state(bank, state).pending = state
        for producer in PRODUCERS.values():
            with pytest.raises(ConcurrentTransactions):
                await bank.end_raising_epoch(producer, is_commit=is_commit)
