"""From the batches of a log to the state of its producers: at an append, and when a log is loaded."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...protocol.records.batch import BatchHeader
from ..filesystem import Buffer
from ..indexes.transaction_index import AbortedTransaction
from ..segment import Segment
from .producer_entry import CachedBatch, ProducerEntry
from .producer_state_manager import Origin, ProducerStateManager, ProducerUpdate

logger = logging.getLogger("kmini.storage")


def add_batch(update: ProducerUpdate, header: BatchHeader, batch: Buffer, base_offset: int) -> None:
    """Add a batch at `base_offset` to `update`: data, or the end of a transaction. Other control batches have no
    effect.

    Raises the errors of `ProducerUpdate.add` and `add_marker`.
    """
    if header.producer_id < 0:
        return
    if not header.is_control:
        update.add(header, base_offset)
        return
    from ...protocol.records.control import parse_end_transaction_marker  # transactions are rare

    marker = parse_end_transaction_marker(batch)
    if marker is not None:
        update.add_marker(
            header, is_abort=marker.is_abort, coordinator_epoch=marker.coordinator_epoch, base_offset=base_offset
        )


def prepare_append(
    producers: ProducerStateManager, header: BatchHeader, batch: Buffer, base_offset: int, origin: Origin
) -> tuple[ProducerEntry | ProducerUpdate | None, CachedBatch | None]:
    """Check a producer's batch before it is written at `base_offset`. Returns the change that
    `ProducerStateManager.commit` applies once it is written, and None; or None, and the remembered batch that it
    repeats: it is not written again. Raises the errors of `ProducerUpdate.add` and `add_marker`."""
    if origin is Origin.CLIENT:
        entry = producers.entry_after(header, base_offset)
        if entry is not None:
            return entry, None
        duplicate = producers.find_duplicate(header)
        if duplicate is not None:
            return None, duplicate
    update = producers.prepare(origin)
    add_batch(update, header, batch, base_offset)
    return update, None


def replay(producers: ProducerStateManager, segments: Iterable[Segment], upto: int) -> None:
    """Bring `producers` from their `end_offset`, the offset of their snapshot, to `upto`, where `segments` end.

    Transaction indexes stay as they are: they were flushed with their segments.
    """
    for segment in segments:
        if segment.next_offset > producers.end_offset:
            for _, header, batch in segment.batches(segment.position_of(producers.end_offset)):
                replay_batch(producers, header, batch)
    producers.end_offset = upto


def replay_batch(producers: ProducerStateManager, header: BatchHeader, batch: Buffer) -> list[AbortedTransaction]:
    """Apply a batch of the log to `producers`; return the new entries of the segment's transaction index."""
    producers.end_offset = header.next_offset
    if header.producer_id < 0:
        return []
    update = producers.prepare(Origin.REPLICATION)
    add_batch(update, header, batch, header.base_offset)
    return update.commit()


def take_snapshot(producers: ProducerStateManager, *, at_log_end: bool = False) -> str | None:
    """Write a snapshot; return its path, to be synced. None if none is needed, or if the disk has no room for it: the
    next start then replays more batches."""
    try:
        return producers.take_snapshot(at_log_end=at_log_end)
    except OSError as error:
        logger.warning("%s: no producer snapshot at %d: %s", producers.directory, producers.end_offset, error)
        return None
