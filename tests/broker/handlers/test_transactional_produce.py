"""Produce with transactional batches: codes in Kafka's order of checks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    NONE,
    ConcurrentTransactions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
)
from kmini.protocol.messages.produce import ProduceRequest
from kmini.protocol.records.batch import build_batch
from kmini.protocol.records.record import Record
from support.broker.txn_client import TxnClient

Ask = Callable[..., Awaitable[Any]]


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
