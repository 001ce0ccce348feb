"""Produce with transactional batches: codes in Kafka's order of checks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.broker import BrokerServer
from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.find_coordinator import TRANSACTION, FindCoordinatorRequest
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from kmini.protocol.topics import TopicPartition
from support.broker.txn_client import TxnClient

Ask = Callable[..., Awaitable[Any]]
StartBroker = Callable[..., Awaitable[BrokerServer]]
ORDERS_1 = TopicPartition("orders", 1)


@pytest.mark.parametrize("version", [3, 10, 11])
async def test_produce_outside_of_a_transaction_is_refused(client: TxnClient, version: int) -> None:
    await client.init()
    error = TransactionAbortable if version >= 11 else InvalidTxnState
    refused = await client.produce(version=version)
    assert (refused.error_code, refused.base_offset) == (error.code, -1)
    await client.add()
    assert (await client.produce(version=version)).error_code == NONE
    assert (await client.produce(version=version, transactional=False)).error_code == InvalidTxnState.code


async def test_a_transactional_batch_needs_a_transactional_id(client: TxnClient) -> None:
    await client.init()
    await client.add()
    refused = await client.produce(transactional_id=None)
    assert refused.error_code == TransactionalIdAuthorizationFailed.code


async def test_the_transactional_id_must_be_the_producers(client: TxnClient, ask: Ask) -> None:
    await client.init()
    await client.add()
    other = TxnClient(client.broker, ask, "other")
    await other.init()
    refused = await client.produce(transactional_id="other")
    assert refused.error_code == InvalidProducerIdMapping.code


async def test_two_producers_in_one_request_are_refused(client: TxnClient, ask: Ask) -> None:
    batches = [
        build_batch([Record(0, 1, None, b"v")], producer_id=one, producer_epoch=0, base_sequence=0, transactional=True)
        for one in (1, 2)
    ]
    partitions = [ProduceRequest.Partition(index=index, records=bytes(batch)) for index, batch in enumerate(batches)]
    request = ProduceRequest(
        transactional_id="t",
        acks=1,
        timeout_ms=1000,
        topic_data=[ProduceRequest.Topic(name="orders", partition_data=partitions)],
    )
    (topic,) = (await client.ask(request, 11)).responses
    assert [one.error_code for one in topic.partition_responses] == [InvalidProducerIdMapping.code] * 2


async def test_a_fenced_producers_batch_has_an_old_epoch(client: TxnClient) -> None:
    await client.init()
    await client.add()
    await client.produce()
    zombie = client.epoch
    assert (await client.init()).error_code == ConcurrentTransactions.code
    await client.init()
    assert (await client.produce(epoch=zombie)).error_code == InvalidProducerEpoch.code


async def test_without_verification_an_append_begins_a_transaction_that_the_coordinator_does_not_know(
    start_broker: StartBroker, ask: Ask
) -> None:
    broker = await start_broker(transaction_partition_verification_enable="false")
    topics.create(broker, "orders", partitions=2)
    client = TxnClient(broker, ask)
    await ask(broker, FindCoordinatorRequest(key="t", key_type=TRANSACTION), 1)
    await client.init()
    assert (await client.produce()).error_code == NONE
    assert broker.transactions.transactions["t"].entry.partitions == frozenset()
    assert (await client.produce_to([1], version=12, sequence=0))[0].error_code == NONE
    assert broker.transactions.transactions["t"].entry.partitions == {TopicPartition("orders", 1)}


async def test_a_batch_that_overtook_the_first_one_of_its_transaction_is_out_of_order(client: TxnClient) -> None:
    await client.init()
    assert (await client.produce_to([0], sequence=3))[0].error_code == TransactionAbortable.code
    await client.add()
    assert (await client.produce_to([0], sequence=4))[0].error_code == OutOfOrderSequenceNumber.code
    assert (await client.produce_to([0], sequence=3))[0].error_code == NONE
    assert (await client.produce_to([0], sequence=4))[0].error_code == NONE


# --- the second version of transactions


@pytest.mark.parametrize("version", [12, 13])
async def test_partitions_join_by_produce(client: TxnClient, version: int) -> None:
    await client.init()
    for epoch in range(3):
        assert [one.error_code for one in await client.produce_to([0, 1], version=version)] == [NONE, NONE]
        entry = client.broker.transactions.transactions["t"].entry
        assert (entry.state.wire_name, entry.client_version, entry.producer_epoch) == ("Ongoing", 2, epoch)
        assert entry.partitions == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
        assert (await client.end_raising_epoch())[0] == NONE


async def test_partitions_of_a_request_join_by_one_change_and_once(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    coordinator = client.broker.transactions
    joined: list[list[int]] = []
    add = coordinator.add_partitions

    async def noting(name: str, producer: Any, partitions: Any, **options: Any) -> None:
        joined.append([one.partition for one in partitions])
        await add(name, producer, partitions, **options)

    monkeypatch.setattr(coordinator, "add_partitions", noting)
    answers = await client.produce_to([1, 0, 7], version=12)
    assert [one.error_code for one in answers] == [NONE, NONE, UnknownTopicOrPartition.code]
    await client.produce_to([0, 1], version=12, sequence=1)
    assert joined == [[1, 0]]


async def test_a_late_request_of_the_last_transaction_begins_none(client: TxnClient) -> None:
    await client.init()
    assert (await client.produce(version=12)).error_code == NONE
    await client.end_raising_epoch()
    late = await client.produce_to([0, 1], version=12, epoch=0, sequence=1)
    assert [one.error_code for one in late] == [InvalidProducerEpoch.code] * 2
    assert client.broker.transactions.transactions["t"].entry.state.wire_name == "CompleteCommit"


async def test_a_partition_that_does_not_know_the_producer_expects_sequence_0(client: TxnClient) -> None:
    await client.init()
    (refused,) = await client.produce_to([0], version=12, sequence=5)
    assert refused.error_code == OutOfOrderSequenceNumber.code
    assert (await client.produce_to([0], version=12, sequence=0))[0].error_code == NONE


async def test_errors_of_the_coordinator_are_those_that_the_client_knows(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    for wrong, error in (
        ({"epoch": 7}, InvalidProducerEpoch),
        ({"producer_id": client.producer_id + 1}, InvalidProducerIdMapping),
        ({"transactional_id": "unknown"}, InvalidProducerIdMapping),
    ):
        assert (await client.produce_to([0], version=12, **wrong))[0].error_code == error.code
    monkeypatch.setattr(client.broker.transactions, "_peer", lambda node_id: None)
    assert (await client.produce_to([0], version=12))[0].error_code == NotEnoughReplicas.code


async def test_a_request_while_the_last_transaction_is_ended_waits_for_it_for_some_time(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    await client.produce(version=12)
    completion = client.broker.transactions.completion
    ending: list[Any] = []
    with monkeypatch.context() as patched:
        patched.setattr(completion, "start", ending.append)
        assert (await client.end_raising_epoch())[0] == NONE
    (refused,) = await client.produce_to([0], version=12)
    assert refused.error_code == ConcurrentTransactions.code
    waiting = asyncio.ensure_future(client.produce_to([0], version=12))
    await asyncio.sleep(0)
    completion.start(ending[0])
    (answer,) = await waiting
    assert (answer.error_code, answer.base_offset) == (NONE, 2)


async def test_a_partition_that_this_broker_leads_only_after_the_others_joined_is_not_appended_to(
    client: TxnClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await client.init()
    partitions = client.broker.replica_manager.partitions
    coordinator, add, late = client.broker.transactions, client.broker.transactions.add_partitions, ORDERS_1
    moving = partitions.pop(late)

    async def adding(*arguments: Any, **options: Any) -> None:
        await add(*arguments, **options)
        partitions[late] = moving

    monkeypatch.setattr(coordinator, "add_partitions", adding)
    answers = await client.produce_to([0, 1], version=12)
    assert [one.error_code for one in answers] == [NONE, NotEnoughReplicas.code]
    assert [one.error_code for one in await client.produce_to([1], version=12, sequence=0)] == [NONE]
