"""A transactional id in the coordinator's memory: its stored entry, and the change that is being stored."""

from __future__ import annotations

from ...protocol.errors import ConcurrentTransactions
from ...protocol.records.batch import NO_PRODUCER_EPOCH
from .transaction_records import Entry
from .transaction_states import PREVIOUS, TransactionState


class Transaction:
    """A transactional id, with the transaction that is open, is ending, or was the last."""

    __slots__ = ("began_ms", "entry", "has_failed_fence", "last_epoch", "pending", "transactional_id")

    def __init__(self, transactional_id: str, entry: Entry) -> None:
        self.transactional_id = transactional_id
        self.entry = entry
        """The stored entry; replaced once a change is stored."""
        self.last_epoch = NO_PRODUCER_EPOCH
        """The previous epoch, if its owner asked for the present one and may ask again (producer_epochs.py). Not
        stored."""
        self.pending: TransactionState | None = None
        """The state that is being stored; no other change is allowed meanwhile."""
        self.has_failed_fence = False
        """Whether the epoch was raised to fence its owner, and could not be stored: it is not raised again."""
        self.began_ms = 0
        """Liveness time at which the present or last transaction began."""

    def __repr__(self) -> str:
        entry = self.entry
        return (
            f"Transaction({self.transactional_id!r}, {entry.state.wire_name}, "
            f"producer {entry.producer_id} epoch {entry.producer_epoch})"
        )

    def check_nothing_pending(self) -> None:
        """Raise ConcurrentTransactions while a change is being stored."""
        if self.pending is not None:
            raise ConcurrentTransactions(f"{self.pending.wire_name} is being stored")

    def begin(self, state: TransactionState) -> None:
        """Make a change of state pending. Raises ValueError if the present state does not allow it: a bug in the
        caller."""
        if self.entry.state not in PREVIOUS[state]:
            raise ValueError(f"a transaction that is {self.entry.state.wire_name} cannot become {state.wire_name}")
        self.pending = state
