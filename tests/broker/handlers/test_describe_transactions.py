"""DescribeTransactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.protocol.errors import (
    InvalidRequest,
    TransactionalIdNotFound,
)
from kmini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from support.broker.txn_client import TxnClient

EXAMPLE = DescribeTransactionsRequest(transactional_ids=["payments"])

Ask = Callable[..., Awaitable[Any]]


async def test_a_transaction_is_described(client: TxnClient) -> None:
    await client.init()
    await client.add(1, 0)
    request = DescribeTransactionsRequest(transactional_ids=["t", "nobody", "", "t", "t"])
    described, unknown, nameless = (await client.ask(request)).transaction_states
    assert (described.transaction_state, described.transaction_timeout_ms) == ("Ongoing", 60_000)
    assert (described.producer_id, described.producer_epoch) == (client.producer_id, client.epoch)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("orders", [0, 1])]
    assert described.transaction_start_time_ms > 0
    assert (unknown.error_code, nameless.error_code) == (TransactionalIdNotFound.code, InvalidRequest.code)
    assert unknown.transactional_id == "nobody"
