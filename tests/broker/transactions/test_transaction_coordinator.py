"""From begin to end: what transactions leave in the log, over restarts too. What a request is refused for:
`../handlers/test_init_producer_id.py` and its neighbours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from kmini.broker.controller import topics
from kmini.broker.coordinators.coordinator_topic import Producer
from kmini.broker.transactions.transaction_states import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from kmini.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    KafkaError,
    NotCoordinator,
    ProducerFenced,
    TransactionalIdNotFound,
)
from kmini.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from support.broker.transaction_bank import DECIDED, ORDERS, PARTITIONS, Bank, in_state, open_everywhere

OpenBank = Callable[..., Awaitable[Bank]]

DAY_MS = 86_400_000


async def test_a_commit_is_decided_written_to_every_partition_and_done(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer, *PARTITIONS)
    for partition in PARTITIONS:
        bank.write(producer, b"a", partition)
    assert [bank.last_stable_offset(partition) for partition in PARTITIONS] == [0, 0, 0]
    await bank.end(producer)
    assert [bank.last_stable_offset(partition) for partition in PARTITIONS] == [2, 2, 2]
    assert [bank.markers(partition) for partition in PARTITIONS] == [[("commit", producer, 0)]] * 3
    stored = [entry for entry in bank.stored() if entry is not None]
    assert [entry.state for entry in stored] == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
    assert [sorted(entry.partitions) for entry in stored] == [[], PARTITIONS, PARTITIONS, []]
    assert len({entry.start_ms for entry in stored[1:]}) == 1
    assert stored[0].start_ms == -1


async def test_an_abort_goes_into_the_transaction_index(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    await bank.end(producer, is_commit=False)
    assert bank.state() is COMPLETE_ABORT
    log = bank.broker.replica_manager.partitions[ORDERS].log
    assert [one[:3] for one in log.aborted_transactions(0, 2)] == [(producer.producer_id, 0, 1)]


async def test_partitions_may_be_added_while_it_is_open_and_again_costs_nothing(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer, PARTITIONS[0])
    began = bank.transaction().entry.start_ms
    await bank.clock.advance(1000)
    await bank.begin(producer, PARTITIONS[1])
    count = len(bank.stored())
    await bank.begin(producer, *PARTITIONS[:2])
    assert len(bank.stored()) == count
    assert bank.transaction().entry.partitions == set(PARTITIONS[:2])
    assert bank.transaction().entry.start_ms == began


async def test_the_next_transaction_begins_at_its_own_time(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    await bank.end(producer)
    first = bank.transaction().entry.start_ms
    await bank.clock.advance(5000)
    await bank.begin(producer)
    assert bank.transaction().entry.start_ms >= first + 5000


async def test_a_new_owner_fences_the_previous_one_and_aborts_its_transaction(bank: Bank) -> None:
    zombie = await bank.init()
    await bank.begin(zombie)
    bank.write(zombie, b"never seen")
    with pytest.raises(ConcurrentTransactions):
        await bank.init()
    assert bank.markers() == [("abort", zombie._replace(epoch=1), 0)]
    following = await bank.init()
    assert following == zombie._replace(epoch=2)
    for request in (bank.begin(zombie), bank.end(zombie)):
        with pytest.raises(ProducerFenced):
            await request
    with pytest.raises(InvalidProducerEpoch):
        bank.write(zombie, b"too late", sequence=1)


async def test_ids_that_cannot_be_or_are_not_there(bank: Bank) -> None:
    stranger = Producer(1, 0)
    for name, error in (("", InvalidRequest), ("x" * 0x8000, InvalidRequest), ("t", InvalidProducerIdMapping)):
        with pytest.raises(error):
            await bank.begin(stranger, name=name)
        with pytest.raises(error):
            await bank.end(stranger, name=name)
    with pytest.raises(TransactionalIdNotFound):
        bank.coordinator.find("t")


async def test_without_the_topic_no_broker_is_the_coordinator(bank: Bank) -> None:
    producer = await bank.init()
    topics.delete(bank.broker, TRANSACTION_STATE)
    for request in (bank.init(), bank.begin(producer), bank.end(producer)):
        with pytest.raises(NotCoordinator):
            await request
    assert not bank.coordinator.transactions


# --- what cannot be stored


def refuse_writes(bank: Bank, monkeypatch: pytest.MonkeyPatch, error: type[KafkaError]) -> None:
    async def refuse(*_: object) -> None:
        raise error("refused")

    monkeypatch.setattr(bank.coordinator.store, "write", refuse)


async def test_a_change_that_cannot_be_stored_has_no_effect(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    before = bank.transaction().entry
    with monkeypatch.context() as patched:
        refuse_writes(bank, patched, CoordinatorNotAvailable)
        for request in (bank.begin(producer, PARTITIONS[1]), bank.end(producer)):
            with pytest.raises(CoordinatorNotAvailable):
                await request
    assert bank.transaction().entry == before
    assert bank.transaction().pending is None
    await bank.end(producer)
    assert bank.state() is COMPLETE_COMMIT


async def test_a_fence_that_could_not_be_stored_raises_the_epoch_once(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank.lower_transaction_version()
    zombie = await bank.init()
    await bank.begin(zombie)
    with monkeypatch.context() as patched:
        refuse_writes(bank, patched, CoordinatorNotAvailable)
        for _ in range(3):
            with pytest.raises(CoordinatorNotAvailable):
                await bank.init()
    with pytest.raises(ProducerFenced):
        await bank.end(zombie)
    with pytest.raises(ConcurrentTransactions):
        await bank.init()
    assert bank.markers() == [("abort", zombie._replace(epoch=1), 0)]
    assert not bank.transaction().has_failed_fence


async def test_an_end_that_raises_the_epoch_and_cannot_be_stored_has_no_effect(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    before = bank.transaction().entry
    with monkeypatch.context() as patched:
        refuse_writes(bank, patched, CoordinatorNotAvailable)
        for request in (bank.end_raising_epoch(producer), bank.init(), bank.coordinator.abort("t")):
            with pytest.raises(CoordinatorNotAvailable):
                await request
        assert (bank.transaction().entry, bank.transaction().last_epoch) == (before, -1)
    assert await bank.end_raising_epoch(producer) == producer._replace(epoch=1)
    assert bank.markers() == [("commit", producer._replace(epoch=1), 0)]


# --- ends that raise the epoch (KIP-890)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_an_end_raises_the_epoch_in_the_log_in_the_markers_and_for_the_next_transaction(
    bank: Bank, is_commit: bool
) -> None:
    producer = await bank.init()
    await bank.join(producer, *PARTITIONS)
    bank.write(producer, b"a")
    following = await bank.end_raising_epoch(producer, is_commit=is_commit)
    assert following == producer._replace(epoch=1)
    outcome = "commit" if is_commit else "abort"
    assert [bank.markers(partition) for partition in PARTITIONS] == [[(outcome, following, 0)]] * 3
    stored = [entry for entry in bank.stored() if entry is not None]
    assert [(entry.producer_epoch, entry.client_version) for entry in stored] == [(0, 0), (0, 2), (1, 2), (1, 2)]
    assert {entry.next_producer_id for entry in stored} == {-1}
    with pytest.raises(InvalidProducerEpoch):
        bank.write(producer, b"too late", sequence=1)
    await bank.join(following)
    bank.write(following, b"b")
    assert await bank.end_raising_epoch(following) == producer._replace(epoch=2)


async def test_an_abort_of_nothing_raises_the_epoch_alone(bank: Bank) -> None:
    producer = await bank.init()
    assert await bank.end_raising_epoch(producer, is_commit=False) == producer._replace(epoch=1)
    stored = [entry for entry in bank.stored() if entry is not None]
    assert [entry.state for entry in stored] == [EMPTY, PREPARE_ABORT, COMPLETE_ABORT]
    began_ms = stored[1].start_ms
    assert [entry.start_ms for entry in stored] == [-1, stored[1].last_update_ms, began_ms]
    assert [sorted(entry.partitions) for entry in stored] == [[], [], []]
    assert bank.markers() == []


async def test_the_last_epoch_is_followed_by_another_producer_id(bank: Bank) -> None:
    transaction = in_state(bank, ONGOING)
    transaction.entry = transaction.entry._replace(producer_epoch=32766)
    last = Producer(4711, 32766)
    bank.write(last, b"a")
    following = await bank.end_raising_epoch(last)
    assert (following.producer_id != 4711, following.epoch) == (True, 0)
    assert bank.markers() == [("commit", Producer(4711, 32767), 0)]
    prepared, completed = (entry for entry in bank.stored() if entry is not None)
    assert (prepared.producer_id, prepared.producer_epoch) == (4711, 32767)
    assert prepared.next_producer_id == following.producer_id
    assert (completed.producer_id, completed.producer_epoch, completed.next_producer_id) == (*following, -1)
    assert completed.previous_producer_id == 4711
    assert await bank.end_raising_epoch(last) == following, "the answer was lost"
    assert await bank.init(claimed=last) == following, "and asked for otherwise"
    with pytest.raises(InvalidProducerIdMapping):
        await bank.end_raising_epoch(Producer(4711, 32765))


async def test_the_next_producer_id_is_given_after_a_restart_too(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = in_state(bank, ONGOING)
    transaction.entry = transaction.entry._replace(producer_epoch=32766)
    with monkeypatch.context() as patched:
        patched.setattr(bank.coordinator.completion, "start", lambda _: None)
        following = await bank.end_raising_epoch(Producer(4711, 32766))
    assert bank.state() is PREPARE_COMMIT
    await bank.restart()
    assert bank.state() is COMPLETE_COMMIT
    assert [marker[:2] for marker in bank.markers()] == [("commit", Producer(4711, 32767))]
    assert (bank.transaction().entry.producer_id, bank.transaction().entry.producer_epoch) == following
    assert await bank.end_raising_epoch(Producer(4711, 32766)) == following


async def test_an_end_is_repeated_after_a_restart(bank: Bank) -> None:
    producer = await bank.init()
    await bank.join(producer)
    following = await bank.end_raising_epoch(producer)
    await bank.restart()
    assert await bank.end_raising_epoch(producer) == following


async def test_a_producer_that_ran_into_its_timeout_is_given_the_epoch_by_an_abort(bank: Bank) -> None:
    producer = await bank.init()
    await bank.join(producer)
    bank.write(producer, b"a")
    await bank.clock.advance(71_000, liveness=True)
    assert bank.state() is COMPLETE_ABORT
    assert bank.markers() == [("abort", producer._replace(epoch=1), 0)]
    with pytest.raises(InvalidTxnState):
        await bank.end_raising_epoch(producer)
    with pytest.raises(InvalidProducerEpoch):
        bank.write(producer, b"b", sequence=1)
    assert await bank.end_raising_epoch(producer, is_commit=False) == producer._replace(epoch=1)
    assert await bank.init(claimed=producer) == producer._replace(epoch=1)


async def test_a_client_of_the_first_version_goes_on_with_the_id_without_new_epochs(bank: Bank) -> None:
    producer = await bank.init()
    await bank.join(producer)
    producer = await bank.end_raising_epoch(producer)
    for _ in range(2):
        await bank.begin(producer)
        await bank.end(producer)
    assert [marker[1].epoch for marker in bank.markers()] == [1, 1, 1]
    assert [entry.client_version for entry in bank.stored() if entry is not None] == [0, 2, 2, 2] + [0] * 6


async def test_below_level_2_a_fence_raises_the_epoch_and_the_abort_does_not(bank: Bank) -> None:
    bank.lower_transaction_version()
    producer = await bank.init()
    await bank.begin(producer)
    await bank.coordinator.abort("t")
    stored = [entry for entry in bank.stored() if entry is not None]
    assert [(entry.producer_epoch, entry.client_version) for entry in stored] == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert bank.transaction().last_epoch == -1


# --- after a restart


@DECIDED
async def test_a_decided_transaction_is_completed_at_the_next_start(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, state: TransactionState, completed: TransactionState, outcome: str
) -> None:
    producer = await open_everywhere(bank)
    with monkeypatch.context() as patched:
        patched.setattr(bank.coordinator.completion, "start", lambda _: None)
        await bank.end(producer, is_commit=outcome == "commit")
    assert bank.state() is state
    assert bank.markers() == []
    await bank.restart()
    assert bank.state() is completed
    assert [[name for name, _, _ in bank.markers(one)] for one in PARTITIONS] == [[outcome]] * 3
    assert bank.last_stable_offset() == 2


async def test_an_open_transaction_goes_on_after_a_restart(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    await bank.restart()
    assert bank.state() is ONGOING
    assert bank.last_stable_offset() == 0
    bank.write(producer, b"b", sequence=1)
    await bank.end(producer)
    assert bank.last_stable_offset() == 3


async def test_an_open_transaction_has_the_rest_of_its_time_after_a_restart(bank: Bank) -> None:
    producer = await bank.init(timeout_ms=60_000)
    await bank.begin(producer)
    await bank.restart(after_ms=50_000)
    await bank.clock.advance(20_000, liveness=True)
    assert bank.state() is COMPLETE_ABORT


async def test_a_move_of_log_time_takes_none_of_an_open_transactions_time_when_it_is_loaded(bank: Bank) -> None:
    producer = await bank.init(timeout_ms=60_000)
    await bank.begin(producer)
    await bank.clock.advance("2h")
    await bank.restart()
    await bank.clock.advance(30_000, liveness=True)
    assert bank.state() is ONGOING
    await bank.restart()
    await bank.clock.advance(40_000, liveness=True)
    assert bank.state() is COMPLETE_ABORT


async def test_below_level_1_of_the_feature_values_have_version_0(open_bank: OpenBank) -> None:
    bank = await open_bank(kmini_as_version="3.9")
    producer = await bank.init()
    await bank.begin(producer)
    (entry,) = [entry for entry in bank.stored() if entry is not None and entry.state is ONGOING]
    assert entry.previous_producer_id == -1  # which only later versions tell
    await bank.restart()
    assert bank.transaction().entry == entry
    await bank.end(producer)


# --- around a transaction


async def test_offsets_take_part_by_the_partition_that_keeps_the_group(bank: Bank) -> None:
    producer = await bank.init()
    bank.broker.groups.store.coordinator_of("g")
    await bank.coordinator.add_offsets("t", producer, "g")
    number = bank.broker.groups.store.partition_of("g")
    assert bank.transaction().entry.partitions == {TopicPartition(CONSUMER_OFFSETS, number)}


async def test_an_abort_that_is_asked_for_fences_the_producer(bank: Bank) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    await bank.coordinator.abort("t")
    assert bank.state() is COMPLETE_ABORT
    assert bank.markers() == [("abort", Producer(producer.producer_id, producer.epoch + 1), 0)]
    with pytest.raises(ProducerFenced):
        await bank.end(producer)
    with pytest.raises(InvalidTxnState):
        await bank.coordinator.abort("t")
    with pytest.raises(TransactionalIdNotFound):
        await bank.coordinator.abort("u")


async def test_each_change_of_a_transaction_is_told(bank: Bank) -> None:
    seen: list[TransactionState] = []
    bank.coordinator._changed = lambda: seen.append(bank.state())
    producer = await bank.init()
    await bank.begin(producer)
    await bank.end(producer)
    assert seen == [EMPTY, ONGOING, PREPARE_COMMIT, COMPLETE_COMMIT]
