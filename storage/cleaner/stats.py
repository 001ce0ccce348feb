"""What a pass did, and what the cleaner looks like from outside."""

from __future__ import annotations

from dataclasses import dataclass

NO_HORIZON = 2**63 - 1


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


@dataclass
class CleanerGauges:
    """Kafka's metrics of the cleaner, over the last pass of each thread."""

    max_buffer_utilization_percent: float = 0.0
    cleaner_recopy_percent: float = 0.0
    max_clean_time_secs: float = 0.0
    max_compaction_delay_secs: float = 0.0
    max_dirty_percent: float = 0.0

    def note_pass(self, report: PassReport) -> None:
        """The last pass of the only thread."""
        self.max_buffer_utilization_percent = 100 * report.map_utilization
        self.cleaner_recopy_percent = 100 * report.bytes_written / max(report.bytes_read, 1)
        self.max_clean_time_secs = report.seconds
