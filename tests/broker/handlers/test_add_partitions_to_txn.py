"""AddPartitionsToTxn: all partitions or none; errors by version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.broker.controller import topics
from kmini.protocol.errors import (
    NONE,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
    UnknownTopicOrPartition,
)
from kmini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, TxnTopic
from support.broker.txn_client import TxnClient

EXAMPLE = AddPartitionsToTxnRequest(
    transactions=[
        AddPartitionsToTxnRequest.Transaction(
            transactional_id="payments",
            producer_id=1,
            producer_epoch=0,
            verify_only=True,
            topics=[TxnTopic(name="orders", partitions=[0])],
        )
    ],
    v3_and_below_transactional_id="payments",
    v3_and_below_producer_id=1,
    v3_and_below_producer_epoch=0,
    v3_and_below_topics=[TxnTopic(name="orders", partitions=[0])],
)

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", range(6))
async def test_partitions_are_added(client: TxnClient, version: int) -> None:
    await client.init()
    assert await client.add(0, 1, version=version) == [NONE, NONE]


@pytest.mark.parametrize("version", range(6))
async def test_one_that_there_is_not_has_all_refused(client: TxnClient, version: int) -> None:
    await client.init()
    assert await client.add(0, 7, 1, version=version) == [
        OperationNotAttempted.code,
        UnknownTopicOrPartition.code,
        OperationNotAttempted.code,
    ]
    assert client.broker.transactions.transactions["t"].entry.state.wire_name == "Empty"


async def test_clients_do_not_add_internal_partitions(client: TxnClient) -> None:
    await client.init()
    assert await client.add(0, topic="__consumer_offsets") == [TopicAuthorizationFailed.code]
    assert await client.add(0, topic="__consumer_offsets", version=4) == [NONE]


async def test_what_is_pending_goes_with_its_topic(client: TxnClient) -> None:
    await client.init()
    await client.add_offsets()
    assert await client.commit_offset(7) == NONE
    topics.delete(client.broker, "orders")
    topics.create(client.broker, "orders", partitions=2)
    await client.end()
    assert await client.committed(stable=True) == (NONE, -1)


@pytest.mark.parametrize("version", range(4))
async def test_a_wrong_epoch_is_called_by_what_the_version_knows(client: TxnClient, version: int) -> None:
    await client.init()
    error = InvalidProducerEpoch if version < 2 else ProducerFenced
    assert await client.add(version=version, epoch=9) == [error.code]
    assert await client.add_offsets(version=version, producer_epoch=9) == error.code
    assert await client.end(version, producer_epoch=9) == error.code


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_may_only_ask(client: TxnClient, version: int) -> None:
    await client.init()
    assert await client.add(0, version=version, verify_only=True) == [TransactionAbortable.code]
    await client.add(0)
    assert await client.add(0, 1, version=version, verify_only=True) == [NONE, TransactionAbortable.code]


@pytest.mark.parametrize("version", range(6))
async def test_what_brokers_add_belongs_to_the_second_version_of_transactions(client: TxnClient, version: int) -> None:
    await client.init()
    await client.add(version=version)
    entry = client.broker.transactions.transactions["t"].entry
    assert (entry.state.wire_name, entry.client_version) == ("Ongoing", 2 if version >= 4 else 0)


@pytest.mark.parametrize("version", [4, 5])
async def test_each_transaction_of_a_request_has_its_own_outcome(client: TxnClient, ask: Ask, version: int) -> None:
    other = TxnClient(client.broker, ask, "other")
    for one in (client, other):
        await one.init()
    asked = [
        AddPartitionsToTxnRequest.Transaction(
            transactional_id=name,
            producer_id=one.producer_id,
            producer_epoch=one.epoch,
            topics=[TxnTopic(name="orders", partitions=[number])],
        )
        for name, one, number in (("t", client, 0), ("other", other, 9), ("unknown", other, 1), ("other", other, 1))
    ]
    answer = await client.ask(AddPartitionsToTxnRequest(transactions=asked), version)
    codes = [
        (result.transactional_id, result.topic_results[0].results_by_partition[0].partition_error_code)
        for result in answer.results_by_transaction
    ]
    assert codes == [
        ("t", NONE),
        ("other", UnknownTopicOrPartition.code),
        ("unknown", InvalidProducerIdMapping.code),
        ("other", NONE),
    ]
