"""EndTxn: a transaction ends once, and the same end may be asked for again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    NONE,
    InvalidProducerIdMapping,
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
)
from kmini.protocol.messages.end_txn import EndTxnRequest
from support.broker.txn_client import TxnClient

EXAMPLE = EndTxnRequest(transactional_id="payments", producer_id=1, producer_epoch=0, committed=True)

Ask = Callable[..., Awaitable[Any]]


async def test_an_unknown_producer_and_an_empty_transactional_id_are_refused(client: TxnClient) -> None:
    unknown = {"producer_id": 3, "producer_epoch": 0}
    assert await client.end(**unknown) == InvalidProducerIdMapping.code
    assert await client.end(transactional_id="", **unknown) == InvalidRequest.code
    assert await client.add_offsets(transactional_id="", **unknown) == InvalidRequest.code


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("committed", [True, False])
async def test_a_transaction_ends_once_and_may_be_ended_so_again(
    client: TxnClient, version: int, committed: bool
) -> None:
    await client.init()
    assert await client.end(version, committed=committed) == InvalidTxnState.code
    await client.add()
    assert await client.end(version, committed=committed) == NONE
    assert await client.end(version, committed=committed) == NONE
    assert await client.end(version, committed=not committed) == InvalidTxnState.code


async def test_version_5_answers_the_producer_id_and_epoch_of_the_next_transaction(client: TxnClient) -> None:
    await client.init()
    producer_id = client.producer_id
    for epoch in range(1, 4):
        await client.add(version=4)
        assert await client.end_raising_epoch(committed=epoch % 2 == 0) == (NONE, producer_id, epoch)


async def test_the_end_may_be_asked_for_again_with_the_epoch_before(client: TxnClient) -> None:
    await client.init()
    before = {"producer_id": client.producer_id, "producer_epoch": client.epoch}
    await client.add()
    following = await client.end_raising_epoch()
    assert await client.end_raising_epoch(**before) == following
    assert await client.end_raising_epoch(**before, committed=False) == (InvalidTxnState.code, -1, -1)
    assert await client.end_raising_epoch() == (InvalidTxnState.code, -1, -1), "nothing is open"


async def test_an_abort_of_nothing_raises_the_epoch(client: TxnClient) -> None:
    await client.init()
    producer_id = client.producer_id
    assert await client.end_raising_epoch() == (InvalidTxnState.code, -1, -1)
    assert await client.end_raising_epoch(committed=False) == (NONE, producer_id, 1)
    assert await client.end_raising_epoch(committed=False, producer_epoch=0) == (NONE, producer_id, 1), "a repetition"
    assert await client.end_raising_epoch(committed=False) == (NONE, producer_id, 2)
    assert await client.end(4, committed=True) == InvalidTxnState.code
    assert await client.end(4, committed=False) == NONE
    assert await client.end_raising_epoch(committed=False) == (NONE, producer_id, 3)


async def test_version_5_answers_no_producer_id_with_an_error(client: TxnClient) -> None:
    await client.init()
    for wrong, error in (
        ({"transactional_id": ""}, InvalidRequest),
        ({"transactional_id": "unknown"}, InvalidProducerIdMapping),
        ({"producer_id": client.producer_id + 1}, InvalidProducerIdMapping),
        ({"producer_epoch": 7}, ProducerFenced),
    ):
        assert await client.end_raising_epoch(committed=False, **wrong) == (error.code, -1, -1)
