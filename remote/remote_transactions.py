"""The transactions of a broker that runs elsewhere: `broker.transactions`, by the requests of KIP-664."""

from __future__ import annotations

import asyncio
import time

from kmini.broker.transactions.transaction_states import ONGOING
from kmini.client import TransactionDescription
from kmini.protocol.errors import InvalidTxnState, TransactionalIdNotFound
from kmini.remote.remote_operations import RemoteOperations
from kmini.testkit.descriptions import OpenTransaction
from kmini.testkit.handle import Awaiting, Blocking, Handle, method, waits_for_clients
from kmini.testkit.phrases import there_is_no
from kmini.testkit.transaction_handle import OPEN, listed
from kmini.testkit.waiting import NotInTime

_OPEN = tuple(state.wire_name for state in OPEN)


class RemoteTransactionOperations:
    """The operations on transactions."""

    def __init__(self, operations: RemoteOperations) -> None:
        self._operations = operations
        self._client = operations.client

    async def open(self) -> list[OpenTransaction]:
        """The transactions of this run that have begun and not ended, the oldest first: those whose ids begin with the
        prefix, and those that write to topics of this run."""
        ids = [one.transactional_id for one in await self._client.list_transactions(states=_OPEN)]
        described = await asyncio.gather(*map(self._describe, ids))
        now_ms = time.time_ns() // 1_000_000
        found = [_opened(one, now_ms) for one in described if one is not None and one.state in _OPEN]
        return sorted(filter(self._is_own, found), key=lambda transaction: -transaction.age_ms)

    def _is_own(self, transaction: OpenTransaction) -> bool:
        return self._operations.has_prefix(transaction.transactional_id) or any(
            self._operations.is_own_topic(place.topic) for place in transaction.partitions
        )

    @waits_for_clients
    async def wait_ended(self, transactional_id: str | None = None, *, timeout_ms: int = 10_000) -> None:
        """Wait until no transaction of this run is open, or none of a transactional id, and the markers of the last one
        are written: consumers at `read_committed` get its records from then on, or never.

        Of an id that no producer has yet, it waits for one. Raises RequestTimedOut, which is an AssertionError as well
        and tells what is open.
        """

        async def has_ended() -> bool:
            if transactional_id is None:
                return not await self.open()
            described = await self._describe(transactional_id)
            return described is not None and described.state not in _OPEN

        if not await self._operations.until(has_ended, timeout_ms):
            raise NotInTime(f"{await self._status(transactional_id)} (after {timeout_ms} ms)")

    async def abort(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, as a new producer of the id does: the present one is fenced, and learns
        that by PRODUCER_FENCED or INVALID_PRODUCER_EPOCH. The markers are written when this returns.

        Raises TransactionalIdNotFound, which lists the ids; InvalidTxnState if no transaction of the id is open;
        ConcurrentTransactions while a change of it is being stored; CoordinatorNotAvailable, CoordinatorLoadInProgress
        and RequestTimedOut.
        """
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


class _RemoteTransactionsHandle(Handle[RemoteTransactionOperations]):
    """The methods of `RemoteTransactions` and `AsyncRemoteTransactions`."""

    _called = "transactions."

    def __init__(self, host: Handle[RemoteOperations]) -> None:
        super().__init__(host._thread, lambda: RemoteTransactionOperations(host._operations))

    open = method(RemoteTransactionOperations.open)
    wait_ended = method(RemoteTransactionOperations.wait_ended)
    abort = method(RemoteTransactionOperations.abort)


class RemoteTransactions(_RemoteTransactionsHandle, Blocking[RemoteTransactionOperations]):
    """The transactions of a broker that runs elsewhere."""


class AsyncRemoteTransactions(_RemoteTransactionsHandle, Awaiting[RemoteTransactionOperations]):
    """The transactions of a broker that runs elsewhere; see RemoteTransactions."""
