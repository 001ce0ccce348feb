"""Which control batches and which data of transactions a cleaning may drop (KIP-98, KIP-534).

Data of an aborted transaction goes with the first pass that meets it. The marker that aborted or committed a
transaction may go once nothing of the transaction is left; whether anything is, a pass sees on its way from the start
of the log: so one of these goes along, over all groups of a pass, batch by batch in the order of the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from operator import attrgetter

from ...protocol.records.batch import BatchHeader
from ...protocol.records.batch_records import decode_records
from ...protocol.records.control import ControlType, control_type
from ..filesystem import Buffer
from ..indexes.transaction_index import AbortedTransaction


class CleanedTransactions:
    """What a pass has seen of the transactions up to where it is."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: all that have records in what will be met, in whatever order, repetitions allowed."""
        self._coming = deque(sorted(set(aborted), key=attrgetter("first_offset")))
        self._ongoing: dict[int, AbortedTransaction] = {}
        """By producer: aborted transactions that have begun and whose marker was not met."""
        self._with_data: set[int] = set()
        """Producers among them of whose transaction data was met."""
        self._committed: set[int] = set()
        """Producers of whose committed transaction data was met, and no marker yet."""
        self.still_indexed: list[AbortedTransaction] = []
        """Aborted transactions whose data was still met in this pass, so that the transaction index must name them once
        more. Whoever writes that takes them from here."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """A data batch is next: whether it is part of what was undone."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """A control batch is next: whether nothing is left of what it decides about. InvalidRecord if it is none."""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True  # an earlier cleaning has emptied it
        kind = control_type(decode_records(batch, 0, header)[0].key)
        if kind == ControlType.ABORT:
            transaction = self._ongoing.pop(header.producer_id, None)
            if transaction is None or header.producer_id not in self._with_data:
                return True
            self._with_data.discard(header.producer_id)
            self.still_indexed.append(transaction)
            return False
        if kind == ControlType.COMMIT:
            had_data = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_data
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0].first_offset <= offset:
            transaction = self._coming.popleft()
            self._ongoing.setdefault(transaction.producer_id, transaction)
