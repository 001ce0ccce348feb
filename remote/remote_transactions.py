"""The transactions of a broker that runs elsewhere: `broker.transactions`, by the requests of KIP-664."""

from __future__ import annotations

import asyncio
import time

from kmini.broker.transactions.transaction_states import ONGOING
from kmini.client import TransactionDescription
from kmini.protocol.errors import InvalidTxnState, TransactionalIdNotFound
from kmini.remote.needs_kmini import RefusingTable
from kmini.remote.remote_operations import RemoteOperations
from kmini.testkit.descriptions import OpenTransaction
from kmini.testkit.phrases import there_is_no
from kmini.testkit.transaction_handle import OPEN, TransactionOperations, listed
from kmini.testkit.waiting import NotInTime

_OPEN = tuple(state.wire_name for state in OPEN)


class RemoteTransactionOperations(RefusingTable):
    """The operations on transactions."""

    _local = TransactionOperations

    def __init__(self, operations: RemoteOperations) -> None:
        self._operations = operations
        self._client = operations.client

    async def open(self) -> list[OpenTransaction]:
        """See `TransactionOperations.open`. They are those of this run: whose ids begin with the prefix, and those that
        write to topics of this run."""
        ids = [one.transactional_id for one in await self._client.list_transactions(states=_OPEN)]
        described = await asyncio.gather(*map(self._describe, ids))
        now_ms = time.time_ns() // 1_000_000
        found = [_opened(one, now_ms) for one in described if one is not None and one.state in _OPEN]
        return sorted(filter(self._is_own, found), key=lambda transaction: -transaction.age_ms)

    def _is_own(self, transaction: OpenTransaction) -> bool:
        return self._operations.has_prefix(transaction.transactional_id) or any(
            self._operations.is_own_topic(place.topic) for place in transaction.partitions
        )

    async def wait_ended(self, transactional_id: str | None = None, *, timeout_ms: int = 10_000) -> None:
        """See `TransactionOperations.wait_ended`. Without an id it waits for those of this run."""

        async def has_ended() -> bool:
            if transactional_id is None:
                return not await self.open()
            described = await self._describe(transactional_id)
            return described is not None and described.state not in _OPEN

        if not await self._operations.until(has_ended, timeout_ms):
            raise NotInTime(f"{await self._status(transactional_id)} (after {timeout_ms} ms)")

    async def abort(self, transactional_id: str) -> None:
        """See `TransactionOperations.abort`."""
        described = await self._describe(transactional_id)
        if described is None:
            raise TransactionalIdNotFound(await self._status(transactional_id))
        if described.state != ONGOING.wire_name:
            raise InvalidTxnState(f"{await self._status(transactional_id)}: there is nothing to abort")
        await self._client.abort_transaction(transactional_id)
        await self.wait_ended(transactional_id, timeout_ms=self._client.timeout_ms)

    async def _describe(self, transactional_id: str) -> TransactionDescription | None:
        try:
            return await self._client.describe_transaction(transactional_id)
        except TransactionalIdNotFound:
            return None

    async def _status(self, transactional_id: str | None) -> str:
        if transactional_id is None:
            return listed(await self.open()) or "no transaction is open"
        described = await self._describe(transactional_id)
        if described is None:
            known = (one.transactional_id for one in await self._client.list_transactions())
            return there_is_no("transactional id", transactional_id, known)
        if described.state in _OPEN:
            return str(_opened(described, time.time_ns() // 1_000_000))
        return f"the last transaction of {transactional_id} is {described.state}"


def _opened(described: TransactionDescription, now_ms: int) -> OpenTransaction:
    return OpenTransaction(
        described.transactional_id,
        described.producer_id,
        described.producer_epoch,
        described.state,
        tuple(sorted(described.partitions)),
        max(now_ms - described.start_ms, 0),
        described.timeout_ms,
    )
