"""What a pass did, and what the cleaner looks like from outside."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..config_key import MAX_LONG

NO_HORIZON = MAX_LONG
"""In place of the earliest delete horizon, in milliseconds, of a log without any."""


@dataclass
class PassReport:
    """One pass over one log. Grows while the pass runs; complete when it has ended."""

    first_dirty_offset: int = 0
    """Where it began to map keys."""
    end_offset: int = 0
    """Up to here the log is clean now: the next pass begins there."""
    started_ms: int = 0
    """By the broker's clock. Delete horizons are counted from here."""
    is_horizon_pass: bool = False
    """Nothing was dirty; it ran because a delete horizon had passed."""

    keys: int = 0
    """Distinct keys in the dirty part, as far as the map had room."""
    map_bytes: int = 0
    map_utilization: float = 0.0
    mapped_bytes: int = 0
    """Bytes of batches read to map keys."""
    bytes_read: int = 0
    """Bytes of batches read to filter them."""
    bytes_written: int = 0
    segments_before: int = 0
    segments_after: int = 0

    records_read: int = 0
    superseded: int = 0
    """Records that had a later one with their key."""
    expired_tombstones: int = 0
    """Tombstones whose delete horizon had passed."""
    aborted_records: int = 0
    """Records of aborted transactions."""
    keyless_records: int = 0
    """Records without a key: nothing can ever be said of them, so they go."""
    removed_markers: int = 0
    """Control batches whose delete horizon had passed."""
    tombstones_waiting: int = 0
    """Tombstones that stay, for now."""
    earliest_horizon_ms: int = NO_HORIZON
    """When the first of the tombstones and markers that wait may go; NO_HORIZON if none waits that has one."""
    horizons_ms: Sequence[int] = ()
    """All such times in the cleaned part, each once, in order. Told by the last report of a compaction that was asked
    for: it costs another look at every batch, which passes in the background do without."""
    seconds: float = 0.0
    """By a stopwatch; waiting for the throttle included."""

    @property
    def records_kept(self) -> int:
        return self.records_read - self.records_dropped

    @property
    def records_dropped(self) -> int:
        return self.superseded + self.expired_tombstones + self.aborted_records + self.keyless_records

    def note_horizon(self, horizon_ms: int) -> None:
        """Something that stays has this delete horizon."""
        self.earliest_horizon_ms = min(self.earliest_horizon_ms, horizon_ms)

    def __str__(self) -> str:
        """As in the broker's log."""
        megabytes = self.bytes_read / 1_048_576
        rate = megabytes / self.seconds if self.seconds else 0.0
        return (
            f"cleaned offsets {self.first_dirty_offset}..{self.end_offset}:"
            f" {self.segments_before} segments to {self.segments_after},"
            f" {self.records_read} records ({megabytes:.1f} MB) to {self.records_kept}"
            f" ({self.bytes_written / 1_048_576:.1f} MB) in {self.seconds:.1f} s ({rate:.1f} MB/s);"
            f" dropped {self.superseded} superseded, {self.expired_tombstones} tombstones,"
            f" {self.aborted_records} aborted, {self.keyless_records} without key, {self.removed_markers} markers"
        )


class LastPasses:
    """Kafka's metrics of what the cleaner has done: over the last passes, as many as there are threads."""

    def __init__(self) -> None:
        self._reports: deque[PassReport] = deque(maxlen=1)

    def note(self, report: PassReport, threads: int) -> None:
        if self._reports.maxlen != threads:
            self._reports = deque(self._reports, maxlen=max(threads, 1))
        self._reports.append(report)

    @property
    def max_buffer_utilization_percent(self) -> float:
        """How full the fullest map was."""
        return 100 * max((report.map_utilization for report in self._reports), default=0.0)

    @property
    def recopy_percent(self) -> float:
        """Of the bytes that were read, those that were written again."""
        read = sum(report.bytes_read for report in self._reports)
        return 100 * sum(report.bytes_written for report in self._reports) / max(read, 1)

    @property
    def max_clean_time_secs(self) -> float:
        return max((report.seconds for report in self._reports), default=0.0)


class Standing(NamedTuple):
    """How it stands with all compacted logs at one time."""

    max_compaction_delay_secs: float
    """For how long the record that waits longest has been waiting beyond `max.compaction.lag.ms` (KIP-354), whatever it
    is that it waits for: an open transaction, a pause, an uncleanable log."""
    max_dirty_percent: float
    uncleanable_partitions: int
    uncleanable_bytes: int
    """What could be cleaned of them; all of a log that cannot even be looked at."""
