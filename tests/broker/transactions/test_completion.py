"""The end of a decided transaction: markers are retried until every partition has one, and its last record likewise."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.broker.controller.topology import NO_LEADER
from kmini.broker.transactions.completion import DONE, RETRIABLE
from kmini.broker.transactions.transaction_states import (
    COMPLETE_COMMIT,
    PREPARE_COMMIT,
    TransactionState,
)
from kmini.protocol.errors import (
    ConcurrentTransactions,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
)
from kmini.protocol.topics import TopicPartition
from support.broker.transaction_bank import DECIDED, ORDERS, PARTITIONS, Bank, open_everywhere

FOR_NOW = (
    *(UnknownTopicOrPartition, NotLeaderOrFollower, NotEnoughReplicas, NotEnoughReplicasAfterAppend),
    *(RequestTimedOut, KafkaStorageError),
)


def test_each_error_after_which_a_marker_is_written_again_is_tried_here() -> None:
    assert {error.code for error in FOR_NOW} == RETRIABLE


@pytest.mark.parametrize("error", FOR_NOW, ids=lambda error: error.kafka_name)
async def test_markers_that_are_refused_for_now_are_written_again(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, error: type[KafkaError]
) -> None:
    producer = await bank.init()
    await bank.begin(producer, *PARTITIONS[:2])
    partition = bank.broker.replica_manager.partitions[PARTITIONS[1]]

    def refuse(*_: object) -> None:
        raise error("not now")

    with monkeypatch.context() as patched:
        patched.setattr(partition, "append", refuse)
        await bank.end(producer)  # it is decided, and that is all that is answered
        assert bank.state() is PREPARE_COMMIT
        assert bank.transaction().entry.partitions == set(PARTITIONS[:2])
        assert len(bank.coordinator.completion) == 1
        with pytest.raises(ConcurrentTransactions):
            await bank.begin(producer)
        with pytest.raises(ConcurrentTransactions):
            await bank.init()
    await advance_until(bank, lambda: len(bank.coordinator.completion) == 0)
    assert bank.state() is COMPLETE_COMMIT
    assert [bank.markers(one) for one in PARTITIONS[:2]] == [[("commit", producer, 0)]] * 2


async def advance_until(bank: Bank, condition: Callable[[], bool]) -> None:
    for _ in range(50):
        if condition():
            return
        await bank.clock.advance(100, liveness=True)
        await asyncio.sleep(0)  # the retry runs
    raise AssertionError("it did not happen")


async def test_the_end_of_a_transaction_is_stored_with_retries(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    producer = await bank.init()
    await bank.begin(producer)
    write = bank.coordinator.store.write
    refusals = 0

    async def sometimes(name: str, entry: object) -> None:
        nonlocal refusals
        if getattr(entry, "state", None) is COMPLETE_COMMIT and refusals < 2:
            refusals += 1
            raise CoordinatorNotAvailable("not now")
        await write(name, entry)  # type: ignore[arg-type]

    monkeypatch.setattr(bank.coordinator.store, "write", sometimes)
    await bank.end(producer)
    assert bank.state() is PREPARE_COMMIT
    await advance_until(bank, lambda: bank.state() is COMPLETE_COMMIT)
    assert refusals == 2
    assert len(bank.markers()) == 1


async def test_deleted_partitions_need_no_marker(bank: Bank) -> None:
    producer = await bank.init()
    topics.create(bank.broker, "gone", partitions=1)
    await bank.begin(producer, ORDERS, TopicPartition("gone", 0))
    topics.delete(bank.broker, "gone")
    await bank.end(producer)
    assert bank.state() is COMPLETE_COMMIT


async def test_no_marker_is_written_while_the_decision_may_be_lost(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new coordinator may have loaded a decision that the other replicas do not have yet."""
    producer = await open_everywhere(bank)
    with monkeypatch.context() as patched:
        patched.setattr(bank.coordinator, "has_settled", lambda _: False)
        await bank.end(producer)
        await bank.clock.advance(1_000, liveness=True)
        assert (bank.state(), bank.markers()) == (PREPARE_COMMIT, [])
    await advance_until(bank, lambda: bank.state() is COMPLETE_COMMIT)


async def test_a_partition_without_a_leader_gets_its_marker_from_the_next_one(bank: Bank) -> None:
    producer = await open_everywhere(bank)
    elect(bank, PARTITIONS[1], NO_LEADER)
    await bank.end(producer)
    assert (bank.state(), len(bank.markers(PARTITIONS[2]))) == (PREPARE_COMMIT, 1)
    elect(bank, PARTITIONS[1], bank.broker.node_id)
    await advance_until(bank, lambda: bank.state() is COMPLETE_COMMIT)
    assert [len(bank.markers(one)) for one in PARTITIONS] == [1, 1, 1]


def elect(bank: Bank, partition: TopicPartition, leader: int) -> None:
    topic = bank.broker.controller.topics[partition.topic]
    state = topic.partitions[partition.partition]
    following = state._replace(leader=leader, leader_epoch=state.leader_epoch + 1)
    bank.broker.controller.change_partitions({(topic.id, partition.partition): following})


@pytest.mark.parametrize("error", [UnsupportedForMessageFormat, UnsupportedVersion])
async def test_a_log_too_old_for_transactions_needs_no_marker(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, error: type[KafkaError]
) -> None:
    producer = await bank.init()
    await bank.begin(producer, *PARTITIONS[:2])

    def refuse(*_: object) -> None:
        raise error("this format has no transactions")

    monkeypatch.setattr(bank.broker.replica_manager.partitions[PARTITIONS[1]], "append", refuse)
    await bank.end(producer)
    assert bank.state() is COMPLETE_COMMIT
    assert error.code in DONE


async def test_the_marker_of_a_newer_coordinator_ends_the_retries(bank: Bank) -> None:
    """As in Apache Kafka: an administrator with a newer coordinator epoch, and the next coordinator goes on."""
    producer = await bank.init()
    await bank.begin(producer)
    bank.write(producer, b"a")
    from kmini.broker.transactions.markers import Marker

    assert await bank.broker.marker_writer.write(Marker(producer, False, 7), [ORDERS]) == {ORDERS: 0}
    await bank.end(producer)
    assert bank.state() is PREPARE_COMMIT
    assert len(bank.coordinator.completion) == 0
    assert len(bank.markers()) == 1


@DECIDED
async def test_a_decided_transaction_survives_a_kill_between_its_markers(
    bank: Bank,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    state: TransactionState,
    completed: TransactionState,
    outcome: str,
) -> None:
    """One partition has its marker, the others have not: what a kill leaves behind is the files as they are."""
    producer = await open_everywhere(bank)

    def refuse(*_: object) -> None:
        raise KafkaStorageError("killed here")

    with monkeypatch.context() as patched:
        for partition in PARTITIONS[1:]:
            patched.setattr(bank.broker.replica_manager.partitions[partition], "append", refuse)
        await bank.end(producer, is_commit=outcome == "commit")
        assert bank.state() is state
        killed = tmp_path.with_name(tmp_path.name + "-killed")
        shutil.copytree(tmp_path, killed)
    broker = await BrokerServer.start(bank.broker.config.current, str(killed), clock=bank.clock)
    try:
        after = Bank(broker)
        await after.a_few_turns()
        assert after.state() is completed
        assert [len(after.markers(one)) for one in PARTITIONS] == [2, 1, 1]  # the first is told once more
        assert {name for one in PARTITIONS for name, _, _ in after.markers(one)} == {outcome}
        assert after.last_stable_offset() == 3
        assert len(broker.replica_manager.partitions[ORDERS].log.aborted_transactions(0, 3)) == (outcome == "abort")
    finally:
        await broker.stop()
