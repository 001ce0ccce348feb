"""The report of a pass, and the cleaner's metrics."""

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
    """One pass over one log. The pass fills it while it runs."""

    first_dirty_offset: int = 0
    """Where the mapping of keys began."""
    end_offset: int = 0
    """The log is clean below this offset; the next pass begins here."""
    started_ms: int = 0
    """By the broker's clock. Delete horizons count from here."""
    is_horizon_pass: bool = False
    """Whether the log was clean and the pass ran because a delete horizon had passed."""

    keys: int = 0
    """Keys in the map: the distinct keys in the dirty part, as far as the map had room."""
    map_bytes: int = 0
    map_utilization: float = 0.0
    mapped_bytes: int = 0
    """Bytes of batches read to map their keys."""
    bytes_read: int = 0
    """Bytes of batches read to filter them."""
    bytes_written: int = 0
    segments_before: int = 0
    segments_after: int = 0

    records_read: int = 0
    superseded: int = 0
    """Records dropped because a later one has their key."""
    expired_tombstones: int = 0
    """Tombstones dropped because their delete horizon had passed."""
    aborted_records: int = 0
    """Records dropped with their aborted transactions."""
    keyless_records: int = 0
    """Records dropped because they have no key: no later record can supersede them."""
    removed_markers: int = 0
    """Control batches dropped because their delete horizon had passed."""
    tombstones_waiting: int = 0
    """Tombstones that stay until their delete horizon passes."""
    earliest_horizon_ms: int = NO_HORIZON
    """The earliest delete horizon of the tombstones and markers that stay; NO_HORIZON if none has one."""
    horizons_ms: Sequence[int] = ()
    """All delete horizons in the cleaned part, each once, in order. Only the last report of a compaction on request has
    them, because they cost another walk over every batch."""
    seconds: float = 0.0
    """Duration of the pass, sleeps of the throttle included."""

    @property
    def records_kept(self) -> int:
        return self.records_read - self.records_dropped

    @property
    def records_dropped(self) -> int:
        return self.superseded + self.expired_tombstones + self.aborted_records + self.keyless_records

    def note_horizon(self, horizon_ms: int) -> None:
        """Note the delete horizon of a batch that stays."""
        self.earliest_horizon_ms = min(self.earliest_horizon_ms, horizon_ms)

    def __str__(self) -> str:
        """The line in the broker's log."""
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
    """Kafka's metrics of the cleaner, over the last passes, as many as there are threads."""

    def __init__(self) -> None:
        self._reports: deque[PassReport] = deque(maxlen=1)

    def note(self, report: PassReport, threads: int) -> None:
        if self._reports.maxlen != threads:
            self._reports = deque(self._reports, maxlen=max(threads, 1))
        self._reports.append(report)

    @property
    def max_buffer_utilization_percent(self) -> float:
        """The utilization of the fullest map."""
        return 100 * max((report.map_utilization for report in self._reports), default=0.0)

    @property
    def recopy_percent(self) -> float:
        """Bytes written, as a percentage of the bytes read."""
        read = sum(report.bytes_read for report in self._reports)
        return 100 * sum(report.bytes_written for report in self._reports) / max(read, 1)

    @property
    def max_clean_time_secs(self) -> float:
        return max((report.seconds for report in self._reports), default=0.0)


class CleanerGauges(NamedTuple):
    """Kafka's gauges over all compacted logs, at one time."""

    max_compaction_delay_secs: float
    """Seconds by which the longest wait of a record exceeds `max.compaction.lag.ms` (KIP-354), whatever delays it: an
    open transaction, a pause, an uncleanable log."""
    max_dirty_percent: float
    uncleanable_partitions: int
    uncleanable_bytes: int
    """Cleanable bytes of the uncleanable logs; all bytes of a log that cannot be measured."""
