"""What the batches of a log say about its producers: as they are appended, and again when a log comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...protocol.records.batch import BatchHeader
from ..filesystem import Buffer
from ..indexes.transaction_index import AbortedTransaction
from ..segment import Segment
from .producer_state import Origin, ProducerStates, ProducerUpdate

logger = logging.getLogger("kmini.storage")


def add_batch(update: ProducerUpdate, header: BatchHeader, batch: Buffer, base_offset: int) -> None:
    """Let `update` check and note a batch that will lie (or lies) at `base_offset`: data, or the end of a transaction.

    Raises what `ProducerUpdate.add` and `add_marker` raise. Other control batches say nothing of producers.
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


def replay(producers: ProducerStates, segments: Iterable[Segment], upto: int) -> None:
    """Bring `producers` from their `end_offset`, where their snapshot was taken, to `upto`, where `segments` end.

    Transaction indexes stay as they are: they were flushed with their segments.
    """
    for segment in segments:
        if segment.next_offset > producers.end_offset:
            for _, header, batch in segment.batches(segment.position_of(producers.end_offset)):
                replay_batch(producers, header, batch)
    producers.end_offset = upto


def replay_batch(producers: ProducerStates, header: BatchHeader, batch: Buffer) -> list[AbortedTransaction]:
    """Let `producers` follow a batch of their own log; returns what belongs into the segment's transaction index."""
    producers.end_offset = header.next_offset
    if header.producer_id < 0:
        return []
    update = producers.prepare(Origin.REPLICATION)
    add_batch(update, header, batch, header.base_offset)
    return update.commit()


def take_snapshot(producers: ProducerStates) -> str | None:
    """The path of a new snapshot, to be synced; None if none is needed, or the disk has no room for it.

    Without it the next start replays more batches, and that is all.
    """
    try:
        return producers.take_snapshot()
    except OSError as error:
        logger.warning("%s: no producer snapshot at %d: %s", producers.directory, producers.end_offset, error)
        return None
