"""Delete horizons: the time from which on a tombstone, or the marker of a spent transaction, may be deleted (KIP-534).

Until then every reader that is at most `delete.retention.ms` behind sees it. A batch has one horizon, in place of its
base timestamp (attribute bit 6).

The first pass that keeps a tombstone of a batch gives the batch its horizon: now + `delete.retention.ms`. Later passes
leave it as it is. A marker gets its horizon from the first pass that finds no data of its transaction.

Batches of magic 0 and 1 have no place for a horizon. Their tombstones stay while their segment's file is younger than
that of the last clean segment, less `delete.retention.ms`.

Unlike in Apache Kafka, a batch gets its horizon only when the map reaches beyond its last offset. If the map is too
small for the dirty part, older values of its keys may still be there; the time to read the tombstone must not run out
before they are gone.

The sieve (`protocol/records/kernels/`) compares each tombstone with the horizon of its batch; schedule.py says when a
log is cleaned for its horizons alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.records.batch import MAGIC, BatchHeader
from ..segment import Segment
from .cleanable_log import CleanableLog


class DeleteHorizons:
    """The horizons in a pass over `log` that begins at `now_ms`."""

    def __init__(self, log: CleanableLog, now_ms: int) -> None:
        self._now_ms = now_ms
        self.new_ms = now_ms + log.config.delete_retention_ms
        """The horizon that the pass gives."""
        clean = [segment for segment in log.segments if segment.base_offset < log.first_dirty_offset]
        self._legacy_ms = clean[-1].modified_ms - log.config.delete_retention_ms if clean else 0

    def has_passed(self, header: BatchHeader) -> bool:
        """Whether the batch has a horizon and the pass begins at it or after."""
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def keeps_legacy_tombstones(self, segment: Segment) -> bool:
        """Whether tombstones of magic 0 and 1 in this segment stay."""
        return segment.modified_ms > self._legacy_ms

    def given_to(self, header: BatchHeader, latest_offset: int) -> int | None:
        """The horizon for a batch that keeps a tombstone, if the pass gives it one: it has none yet, and the map
        reaches, with `latest_offset`, to its end."""
        has_horizon = header.magic == MAGIC and header.has_delete_horizon
        return self.new_ms if not has_horizon and header.last_offset <= latest_offset else None


def delete_horizons(segments: Iterable[Segment]) -> list[int]:
    """Return the delete horizons in the batch headers of these sealed segments, each once, in order. Blocks.

    CorruptMessage if a segment is damaged.
    """
    headers = (header for segment in segments for _, header in segment.headers(0))
    return sorted({header.base_timestamp for header in headers if header.has_delete_horizon})
