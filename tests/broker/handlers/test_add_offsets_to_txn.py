"""AddOffsetsToTxn: a transaction commits offsets only of groups that it has added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kmini.protocol.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    TransactionAbortable,
)
from kmini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from support.broker.txn_client import TxnClient

EXAMPLE = AddOffsetsToTxnRequest(transactional_id="payments", producer_id=1, producer_epoch=0, group_id="readers")

Ask = Callable[..., Awaitable[Any]]


@pytest.mark.parametrize("version", [3, 4])
async def test_offsets_need_their_partition_in_the_transaction(client: TxnClient, version: int) -> None:
    await client.init()
    error = TransactionAbortable if version >= 4 else InvalidTxnState
    assert await client.commit_offset(7, version=version) == error.code
    assert await client.commit_offset(7, version=version, producer_epoch=5) == InvalidProducerEpoch.code
    await client.add_offsets()
    await client.end()
    assert await client.commit_offset(7, version=version) == error.code
