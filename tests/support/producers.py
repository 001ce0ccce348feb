"""Batches of producers, and a partition that appends them one at a time."""

from __future__ import annotations

from kmini.protocol.records.batch import BatchHeader
from kmini.storage.filesystem.memory_filesystem import MemoryFileSystem
from kmini.storage.indexes.transaction_index import AbortedTransaction
from kmini.storage.producers.producer_entry import CachedBatch
from kmini.storage.producers.producer_state_manager import Origin, ProducerStateManager, ProducerUpdate


def batch(
    offset: int,
    sequence: int,
    *,
    count: int = 1,
    producer_id: int = 7,
    epoch: int = 0,
    timestamp: int = 1000,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=100,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=0x10 * transactional + 0x20 * control,
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


class Partition:
    """A log's end offset and its producers: appends one batch at a time, as the log does."""

    def __init__(self, filesystem: MemoryFileSystem) -> None:
        self.states = ProducerStateManager(filesystem, "d")
        self.offset = 0

    def append(
        self,
        sequence: int,
        *,
        count: int = 1,
        epoch: int = 0,
        producer_id: int = 7,
        origin: Origin = Origin.CLIENT,
        transactional: bool = False,
        timestamp: int = 1000,
    ) -> CachedBatch | None:
        """The batch that this one repeats, if it does."""
        header = batch(
            0,
            sequence,
            count=count,
            epoch=epoch,
            producer_id=producer_id,
            transactional=transactional,
            timestamp=timestamp,
        )
        duplicate = self.states.find_duplicate(header)
        if duplicate is not None:
            return duplicate
        update = self.states.prepare(origin)
        update.add(header, self.offset)
        self.advance(update, count)
        return None

    def end_transaction(
        self,
        *,
        is_abort: bool = False,
        producer_id: int = 7,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        timestamp: int = 1000,
        origin: Origin = Origin.COORDINATOR,
    ) -> list[AbortedTransaction]:
        header = batch(self.offset, -1, producer_id=producer_id, epoch=epoch, control=True, timestamp=timestamp)
        update = self.states.prepare(origin)
        update.add_marker(header, is_abort=is_abort, coordinator_epoch=coordinator_epoch)
        return self.advance(update, 1)

    def advance(self, update: ProducerUpdate, count: int) -> list[AbortedTransaction]:
        self.offset += count
        aborted = update.commit()
        self.states.end_offset = self.offset
        return aborted
