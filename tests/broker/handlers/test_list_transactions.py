"""ListTransactions: filters by state, producer id, duration and pattern."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kmini.protocol.errors import (
    InvalidRegularExpression,
)
from kmini.protocol.messages.list_transactions import ListTransactionsRequest
from support.broker.txn_client import TxnClient

EXAMPLE = ListTransactionsRequest(state_filters=[], producer_id_filters=[])

Ask = Callable[..., Awaitable[Any]]


async def test_transactions_are_listed_by_filters(client: TxnClient, ask: Ask) -> None:
    other = TxnClient(client.broker, ask, "other")
    await client.init()
    await other.init()
    await client.add()

    async def listed(version: int = 1, **filters: Any) -> list[str]:
        answer = await client.ask(ListTransactionsRequest(**filters), version)
        return sorted(one.transactional_id for one in answer.transaction_states)

    assert await listed() == ["other", "t"]
    assert await listed(state_filters=["Ongoing"]) == ["t"]
    assert await listed(state_filters=["Nonsense"]) == []
    assert await listed(producer_id_filters=[other.producer_id]) == ["other"]
    assert await listed(duration_filter=3_600_000) == ["other"]  # as if it had begun long ago
    assert await listed(2, transactional_id_pattern="o.*r") == ["other"]
    assert await listed(2, transactional_id_pattern="o") == []
    answer = await client.ask(ListTransactionsRequest(state_filters=["Nonsense", "Empty"]), 0)
    assert answer.unknown_state_filters == ["Nonsense"]
    answer = await client.ask(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == InvalidRegularExpression.code
