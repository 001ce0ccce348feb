"""The state of one producer in a partition, with its last batches, by which a batch that it sends again is recognised.

A batch that repeats one of the last five is not written again: its answer is that of the first time (KIP-98).
`producer_state_manager.py` checks batches for anything else: their epochs, and gaps of sequence numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, decrement_sequence

MAX_CACHED_BATCHES = 5
"""Batches of a producer that a log remembers, as in Apache Kafka."""


class CachedBatch(NamedTuple):
    """A remembered batch: enough to recognise a repetition, and to answer it as the first time."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    """The batch's largest timestamp: the log append time where the topic uses that."""

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)


class ProducerEntry(NamedTuple):
    """The state of one producer id in a partition. Immutable: a change makes a new one."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    coordinator_epoch: int = NO_PRODUCER_EPOCH
    """Epoch of the transaction coordinator that wrote the last marker: an older one is fenced."""
    last_timestamp: int = NO_TIMESTAMP
    """Record time, not arrival time, of the last batch or marker. Expiry counts from it."""
    transaction_first_offset: int | None = None
    """First offset of the open transaction in this partition; None if none is open."""
    batches: tuple[CachedBatch, ...] = ()
    """The last five of this epoch, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def with_batch(
        self,
        epoch: int,
        last_sequence: int,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        transaction_first_offset: int | None,
    ) -> ProducerEntry:
        """The state after another batch of data. A new epoch forgets the batches of the one before."""
        kept = self.batches[1 - MAX_CACHED_BATCHES :] if epoch == self.epoch else ()
        batch = tuple.__new__(CachedBatch, (last_sequence, last_offset, offset_delta, timestamp))  # cheap (COSTS.md)
        return tuple.__new__(
            ProducerEntry,
            (self.producer_id, epoch, self.coordinator_epoch, timestamp, transaction_first_offset, (*kept, batch)),
        )

    def find_duplicate(self, header: BatchHeader) -> CachedBatch | None:
        """Return the remembered batch that this one repeats: same epoch, first and last sequence."""
        if header.producer_epoch != self.epoch or header.base_sequence == self.last_sequence + 1:
            return None  # the second is the common case: the next batch
        last = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == header.base_sequence:
                return batch
        return None
