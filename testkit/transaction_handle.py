"""The transactions of a broker or a cluster: `broker.transactions`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kmini.broker.broker import BrokerServer
from kmini.broker.coordination import TRANSACTIONS
from kmini.broker.transactions.transaction import Transaction
from kmini.broker.transactions.transaction_states import COMPLETED, ONGOING
from kmini.protocol.errors import (
    InvalidTxnState,
    TransactionalIdNotFound,
)
from kmini.protocol.topics import TRANSACTION_STATE
from kmini.testkit.descriptions import OpenTransaction
from kmini.testkit.handle import Awaiting, Blocking, Handle, method, waits_for_clients
from kmini.testkit.operations import Operations
from kmini.testkit.phrases import there_is_no
from kmini.testkit.waiting import NotInTime, until

SHOWN = 10
"""Most transactions, or partitions, in an error message."""

OPEN = (ONGOING, *COMPLETED)
"""The states of a transaction that has begun and not ended."""


def listed(found: Collection[OpenTransaction]) -> str:
    """Open transactions in an error message."""
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(map(str, [*found][:SHOWN])) + more


class TransactionOperations:
    """The operations on transactions."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def open(self) -> list[OpenTransaction]:
        """The transactions that have begun and not ended, the oldest first.

        >>> broker.transactions.open()
        []
        """
        return self._open()

    @waits_for_clients
    async def wait_ended(self, transactional_id: str | None = None, *, timeout_ms: int = 10_000) -> None:
        """Wait until no transaction is open, or none of a transactional id, and the markers of the last one are
        written: consumers at `read_committed` get its records from then on, or never.

        Of an id that no producer has yet, it waits for one. Raises RequestTimedOut, which is an AssertionError as well
        and tells what is open.
        """
        if not await until(self._operations, lambda: self._has_ended(transactional_id), _keys, timeout_ms):
            raise NotInTime(f"{self._status(transactional_id)} (after {timeout_ms} ms)")

    async def abort(self, transactional_id: str) -> None:
        """Abort the open transaction of an id, as its time-out does: its producer is fenced, and learns that by
        PRODUCER_FENCED or INVALID_PRODUCER_EPOCH. The markers are written when this returns.

        Raises TransactionalIdNotFound, which lists the ids; InvalidTxnState if no transaction of the id is open;
        ConcurrentTransactions while a change of it is being stored; CoordinatorNotAvailable, CoordinatorLoadInProgress
        and RequestTimedOut.
        """
        broker, transaction = self._find(transactional_id)
        if transaction.entry.state is not ONGOING:
            raise InvalidTxnState(f"{self._status(transactional_id)}: there is nothing to abort")
        await broker.transactions.abort(transactional_id)
        timeout_ms = broker.config.current.request_timeout_ms
        if not await until(self._operations, lambda: self._has_ended(transactional_id), _keys, timeout_ms):
            raise NotInTime(f"{self._status(transactional_id)} (after {timeout_ms} ms)")

    # --- looking them up

    def _all(self) -> Iterator[tuple[BrokerServer, Transaction]]:
        if self._operations.has_topic(TRANSACTION_STATE):
            for broker in self._operations.running:
                for transaction in broker.transactions.listed():
                    yield broker, transaction

    def _find(self, transactional_id: str) -> tuple[BrokerServer, Transaction]:
        for broker, transaction in self._all():
            if transaction.transactional_id == transactional_id:
                broker.transactions.find(transactional_id)  # which says if it is being loaded
                return broker, transaction
        raise TransactionalIdNotFound(self._no_such_id(transactional_id))

    def _no_such_id(self, transactional_id: str) -> str:
        names = (transaction.transactional_id for _, transaction in self._all())
        return there_is_no("transactional id", transactional_id, names)

    def _open(self) -> list[OpenTransaction]:
        now_ms = self._operations.clock.liveness_ms()
        found = [_opened(transaction, now_ms) for _, transaction in self._all() if not _is_at_rest(transaction)]
        return sorted(found, key=lambda transaction: -transaction.age_ms)

    def _has_ended(self, transactional_id: str | None) -> bool:
        if transactional_id is None:
            has_topic = self._operations.has_topic(TRANSACTION_STATE)
            if has_topic and not self._operations.is_led(TRANSACTION_STATE):
                return False  # what is open there is not known
            return all(_is_at_rest(transaction) for _, transaction in self._all())
        mine = [one for _, one in self._all() if one.transactional_id == transactional_id]
        return bool(mine) and all(map(_is_at_rest, mine))

    def _status(self, transactional_id: str | None) -> str:
        found = [one for one in self._open() if transactional_id in (None, one.transactional_id)]
        if found:
            return listed(found)
        for _, transaction in self._all():
            if transaction.transactional_id == transactional_id:
                return f"the last transaction of {transactional_id} is {transaction.entry.state.wire_name}"
        if transactional_id is None and self._operations.has_topic(TRANSACTION_STATE):
            return f"no transaction is known to be open, and a partition of {TRANSACTION_STATE} has no leader that runs"
        return "no transaction is open" if transactional_id is None else self._no_such_id(transactional_id)


def _keys() -> list[object]:
    return [TRANSACTIONS, TRANSACTION_STATE]


def _is_at_rest(transaction: Transaction) -> bool:
    return transaction.pending is not ONGOING and transaction.entry.state not in OPEN


def _opened(transaction: Transaction, now_ms: int) -> OpenTransaction:
    entry = transaction.entry
    return OpenTransaction(
        transaction.transactional_id,
        entry.producer_id,
        entry.producer_epoch,
        entry.state.wire_name,
        tuple(sorted(entry.partitions)),
        max(now_ms - transaction.began_ms, 0),
        entry.timeout_ms,
    )


class _TransactionsHandle(Handle[TransactionOperations]):
    """The methods of `Transactions` and `AsyncTransactions`."""

    _called = "transactions."

    def __init__(self, host: Handle[Operations]) -> None:
        super().__init__(host._thread, lambda: host._operations.part(TransactionOperations))

    open = method(TransactionOperations.open)
    wait_ended = method(TransactionOperations.wait_ended)
    abort = method(TransactionOperations.abort)


class Transactions(_TransactionsHandle, Blocking[TransactionOperations]):
    """The transactions of a broker or a cluster."""


class AsyncTransactions(_TransactionsHandle, Awaiting[TransactionOperations]):
    """The transactions of a broker or a cluster; see Transactions."""
