"""Which control batches and which data of transactions a pass may drop (KIP-98, KIP-534).

The first pass over the data of an aborted transaction drops it. The marker of a transaction may go once no data of the
transaction is left. A pass knows that because it begins at the start of the log: one CleanedTransactions follows it
over all groups, batch by batch in the order of the log. (Apache Kafka: CleanedTransactionMetadata.)
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
    """The transactions that a pass has met up to the present batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` has every aborted transaction with records in the batches to come, in any order, repetitions
        allowed."""
        self._not_begun = deque(sorted(set(aborted), key=attrgetter("first_offset")))
        self._ongoing: dict[int, AbortedTransaction] = {}
        """By producer id: aborted transactions that have begun and whose marker is still to come."""
        self._with_data: set[int] = set()
        """Producer ids of ongoing aborted transactions whose data the pass has met."""
        self._committed: set[int] = set()
        """Producer ids whose data the pass has met, not of an aborted transaction and without a marker so far."""
        self.still_indexed: list[AbortedTransaction] = []
        """Aborted transactions whose data this pass has met, so that the new transaction index must name them. The
        caller writes them to the index and clears the list."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take the next data batch; return whether it belongs to an aborted transaction."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, header: BatchHeader, batch: Buffer) -> bool:
        """Take the next control batch; return whether no data of its transaction is left. InvalidRecord if it is
        none."""
        self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True  # an earlier pass has emptied it
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
        while self._not_begun and self._not_begun[0].first_offset <= offset:
            transaction = self._not_begun.popleft()
            self._ongoing.setdefault(transaction.producer_id, transaction)
