"""Time-outs: an open transaction is aborted after its time-out, and an unused transactional id expires (KIP-98).

| what                      | after                                 | by the clock of | counts from         |
|---------------------------|---------------------------------------|-----------------|---------------------|
| an open transaction       | the time-out that its producer gave   | liveness        | its first partition |
| an id without an open one | `transactional.id.expiration.ms`      | log time        | its last change     |

A transaction or an id with a change that is being stored waits for the next round.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import KafkaError
from ..network.peer_log import PeerLog
from ..scheduler import Turn
from .transaction_states import DEAD, ONGOING, RESTING

if TYPE_CHECKING:
    from ..clock import Clock
    from ..settings.dynamic_config import DynamicBrokerConfig
    from .transaction import Transaction
    from .transaction_store import TransactionStore

log = PeerLog(logging.getLogger("kmini.transactions"))


class TimedCoordinator(Protocol):
    """The transaction coordinator, as time-outs use it."""

    store: TransactionStore
    transactions: dict[str, Transaction]

    def has(self, transaction: Transaction) -> bool: ...

    def open_transactions(self) -> Collection[Transaction]: ...

    async def abort_and_fence(self, transaction: Transaction) -> None: ...


class TimeOuts:
    """Ends the transactions and the ids of a coordinator whose time is over. Belongs to the broker's loop."""

    def __init__(self, coordinator: TimedCoordinator, config: DynamicBrokerConfig, clock: Clock) -> None:
        self._coordinator = coordinator
        self._config = config
        self._clock = clock

    async def abort_timed_out(self) -> None:
        """Abort the transactions that are open for longer than their time-out, and fence their producers."""
        now_ms = self._clock.liveness_ms()
        turn = Turn()
        for transaction in list(self._coordinator.open_transactions()):
            if turn.is_over:
                await turn.next()
            is_open = (
                transaction.entry.state is ONGOING
                and transaction.pending is None
                and self._coordinator.has(transaction)
            )
            if not is_open or transaction.began_ms + transaction.entry.timeout_ms >= now_ms:
                continue
            log.info("%s is aborted: it was open for more than %d ms", transaction, transaction.entry.timeout_ms)
            try:
                await self._coordinator.abort_and_fence(transaction)
            except KafkaError as error:
                log.warning("%s could not be aborted: %s", transaction, error)

    async def expire_ids(self) -> None:
        """Delete the ids that were unused for `transactional.id.expiration.ms`."""
        limit_ms = self._clock.now_ms() - self._config.current.transactional_id_expiration_ms
        turn = Turn()
        for transaction in list(self._coordinator.transactions.values()):
            if turn.is_over:
                await turn.next()
            entry = transaction.entry
            is_resting = entry.state in RESTING and transaction.pending is None and self._coordinator.has(transaction)
            if not is_resting or entry.last_update_ms > limit_ms:
                continue
            try:
                await self._expire(transaction)
            except KafkaError as error:
                log.warning("%s could not be expired: %s", transaction, error)

    def next_time_out_ms(self) -> int | None:
        """The liveness time before which `abort_timed_out` has no effect unless a transaction begins; None if it never
        has one."""
        if any(transaction.pending is not None for transaction in self._coordinator.transactions.values()):
            return 0  # the change may begin a transaction
        times = (
            transaction.began_ms + transaction.entry.timeout_ms + 1
            for transaction in self._coordinator.open_transactions()
        )
        return min(times, default=None)

    def next_id_expiry_ms(self) -> int | None:
        """The log time before which `expire_ids` has no effect unless an id changes; None if it never has one."""
        if any(transaction.pending is not None for transaction in self._coordinator.transactions.values()):
            return 0
        entries = (transaction.entry for transaction in self._coordinator.transactions.values())
        last_ms = min((entry.last_update_ms for entry in entries if entry.state in RESTING), default=None)
        return None if last_ms is None else last_ms + self._config.current.transactional_id_expiration_ms

    async def _expire(self, transaction: Transaction) -> None:
        transaction.begin(DEAD)
        try:
            await self._coordinator.store.write(transaction.transactional_id, None)
        finally:
            transaction.pending = None
        if self._coordinator.has(transaction):
            del self._coordinator.transactions[transaction.transactional_id]
