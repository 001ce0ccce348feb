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
