"""Transactions of a partition that are being verified with their coordinator before their first append (KIP-890)."""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.errors import OutOfOrderSequenceNumber
from ...protocol.records.batch import BatchHeader


class Verification(NamedTuple):
    """The beginning of a transaction that is being verified, or was and has not been appended."""

    epoch: int
    """The highest epoch of its producer that was verified."""
    lowest_sequence: int
    """The lowest first sequence of the batches with that epoch."""
    raises_epoch: bool
    """Whether the first of them came by the second version of transactions."""
    began_ms: int
    """Log time."""


class Verifications:
    """The verifications of one partition, by producer id."""

    def __init__(self) -> None:
        self._by_producer: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_producer)

    def begin(self, producer_id: int, epoch: int, sequence: int, now_ms: int, *, raises_epoch: bool) -> None:
        """A batch with this epoch and first sequence is being verified."""
        known = self._by_producer.get(producer_id)
        if known is None:
            self._by_producer[producer_id] = Verification(epoch, sequence, raises_epoch, now_ms)
        elif epoch > known.epoch or (epoch == known.epoch and sequence < known.lowest_sequence):
            self._by_producer[producer_id] = known._replace(epoch=epoch, lowest_sequence=sequence)

    def check_sequence(self, header: BatchHeader, *, is_known: bool) -> None:
        """Raise OutOfOrderSequenceNumber for a batch of a client that cannot be the first one of its transaction.
        `is_known` says whether the partition remembers batches of the producer."""
        verification = self._by_producer.get(header.producer_id)
        if verification is None:
            return
        sequence = header.base_sequence
        begins_with_0 = verification.raises_epoch and not is_known
        if sequence > verification.lowest_sequence or (begins_with_0 and sequence != 0):
            raise OutOfOrderSequenceNumber(
                f"producer {header.producer_id} begins a transaction with sequence {sequence}"
                f" instead of {0 if begins_with_0 else verification.lowest_sequence}"
            )

    def appended(self, producer_id: int, epoch: int, *, is_marker: bool) -> None:
        """A batch of a transaction, or its end, was appended. The end has the epoch of the next transaction with the
        second version of transactions: if that one is being verified, it stays so."""
        verification = self._by_producer.get(producer_id)
        if verification is None or (is_marker and verification.raises_epoch and epoch == verification.epoch):
            return
        del self._by_producer[producer_id]

    def oldest_ms(self) -> int | None:
        """When the oldest one began."""
        return min((known.began_ms for known in self._by_producer.values()), default=None)

    def expire(self, limit_ms: int) -> None:
        """Forget what began at `limit_ms` or before."""
        for producer_id in [one for one, known in self._by_producer.items() if known.began_ms <= limit_ms]:
            del self._by_producer[producer_id]
