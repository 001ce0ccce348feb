"""The report of an audit: logs, violations, and requested keys."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Kind(str, enum.Enum):
    """The kind of a finding."""

    SUPERSEDED = "superseded"
    """A value whose key has had a later value for longer than the bound."""
    DELETED = "deleted"
    """A value whose key has had a tombstone for longer than the bound."""
    ABORTED = "aborted"
    """A value whose transaction was aborted longer ago than the bound."""
    UNCOMPACTED = "uncompacted"
    """Records that have waited for their compaction longer than the bound, dead or not."""
    TOMBSTONE = "tombstone"
    """A tombstone past its delete horizon."""
    MARKER = "marker"
    """A transaction marker past its delete horizon."""
    BELOW_START = "below-start"
    """Deleted records (DeleteRecords, retention) in a file that is deleted as a whole later. Never a violation."""
    LEFT_OVER = "left-over"
    """A file that is no part of a log, past `file.delete.delay.ms`."""
    ERASED_KEY = "erased-key"
    """A value of a requested key."""
    DAMAGED = "damaged"
    """A part of a file that could not be read."""
    UNPROVEN = "unproven"
    """A file that could not be searched for keys, or only in part."""


class Finding(NamedTuple):
    """A violation, or another fact that a reader should know."""

    kind: Kind
    is_violation: bool
    topic: str
    partition: int
    path: str
    """The file, or the folder of the log."""
    offset: int | None
    position: int | None
    """Byte of the file."""
    key: str | None
    """The requested key, as text."""
    written_ms: int | None
    since_ms: int | None
    """Time of the value's death, of the horizon, or since when records wait."""
    overdue_ms: int | None
    """Milliseconds by which a bound or horizon is exceeded; grace is not subtracted."""
    records: int
    """Number of records; the one named here is the oldest."""
    size_bytes: int
    detail: str
    """The finding in words."""


@dataclass(kw_only=True)
class RecordTotals:
    """Counts of the records of one log: a part of a log has them in its `Tally`, the whole log in its report.

    Sizes are those of decompressed records. Control records are not counted.
    """

    uncompacted_records: int = 0
    """Records in the dirty part."""
    dead_records: int = 0
    """Superseded, deleted and aborted records."""
    dead_bytes: int = 0
    freeable_records: int = 0
    """Records that a cleaning pass would drop now, control records included."""
    freeable_bytes: int = 0
    tombstones: int = 0
    flagged_values: int = 0
    """Tombstones with a value (KIP-87); `tombstones` includes them."""
    earliest_horizon_ms: int | None = None
    """Earliest delete horizon of a tombstone or a transaction marker; None without one."""
    below_start_records: int = 0
    """Records below the log start offset that share a file with records above it."""
    below_start_bytes: int = 0

    def add_totals(self, other: RecordTotals) -> None:
        """Add the totals of another part of the same log."""
        for name in _SUMMED_TOTALS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.earliest_horizon_ms is not None:
            self.note_horizon(other.earliest_horizon_ms)

    def note_horizon(self, horizon_ms: int) -> None:
        """Lower `earliest_horizon_ms` to `horizon_ms`."""
        if self.earliest_horizon_ms is None or horizon_ms < self.earliest_horizon_ms:
            self.earliest_horizon_ms = horizon_ms


_TOTALS = tuple(total.name for total in dataclasses.fields(RecordTotals))
_SUMMED_TOTALS = tuple(name for name in _TOTALS if name != "earliest_horizon_ms")


@dataclass(kw_only=True)
class PartitionReport(RecordTotals):
    """The report of one log. Times are ms since the epoch; file sizes are bytes on the disk."""

    topic: str
    partition: int
    path: str
    mark: str
    """Empty, `delete`, `future` or `stray` (`PartitionFolder.mark`)."""
    is_compacted: bool
    is_read: bool
    """Whether the audit read the records."""
    bound_ms: int | None
    """`max.compaction.lag.ms`; None without one."""
    segments: int
    """Number of files, left-over ones included."""
    size_bytes: int
    records: int = 0
    log_start_offset: int = 0
    first_dirty_offset: int | None = None
    end_offset: int | None = None
    """The offset at which a cleaning pass would end now."""
    clean_bytes: int = 0
    cleanable_bytes: int = 0
    dirty_ratio: float | None = None
    uncompacted_since_ms: int | None = None
    """Time of the first record in the dirty part, as the cleaner estimates it: from the first record of each file."""
    compaction_delay_ms: int = 0
    """By how much `uncompacted_since_ms` exceeds the bound: Kafka's metric max-compaction-delay-secs."""
    oldest_dead_offset: int | None = None
    oldest_dead_written_ms: int | None = None
    oldest_dead_since_ms: int | None = None
    """Time of death of the value that has been dead for longest."""
    left_over_files: int = 0
    left_over_bytes: int = 0
    damages: int = 0
    violations: int = 0
    uncompacted_by_age: list[int] = field(default_factory=list)
    """Bytes by age, in the bins of `tally.bins_of`."""
    dead_by_age: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}" if self.partition >= 0 else self.topic


class KeyStatus(str, enum.Enum):
    LEFT = "left"
    """A value is left."""
    TOMBSTONE = "tombstone"
    """Only tombstones are left."""
    GONE = "gone"


@dataclass
class KeyReport:
    """The report of one requested key."""

    key: bytes
    status: KeyStatus
    is_proven: bool
    """Whether everything was read; otherwise the key may be in an unread part."""
    values: int = 0
    tombstones: int = 0
    files: list[str] = field(default_factory=list)
    """Files with a record of the key."""


@dataclass
class AuditReport:
    """The report of an audit."""

    path: str
    now_ms: int
    grace_ms: int
    engine: str
    """`local` or `spark`."""
    partitions: list[PartitionReport]
    findings: list[Finding]
    """Violations first; of each kind, the longest overdue first."""
    keys: list[KeyReport]
    notes: list[str]
    """Further notes, for example about unreadable checkpoints."""
    records: int
    """Number of records read."""
    bytes_read: int
    seconds: float

    @property
    def violations(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.is_violation]

    @property
    def is_clean(self) -> bool:
        return not self.violations

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON takes it; keys are texts of `text_of`."""
        whole = dataclasses.asdict(self)
        whole["findings"] = [finding._asdict() for finding in self.findings]
        for key in whole["keys"]:
            key["key"] = text_of(key["key"])
        whole["partitions"] = [  # the topic comes first
            {name: one[name] for name in sorted(one, key=lambda name: name in _TOTALS)} for one in whole["partitions"]
        ]
        return {"is_clean": self.is_clean, "violations": len(self.violations), **whole}


def text_of(key: bytes) -> str:
    """A key as text: UTF-8, or `0x…` if it is not UTF-8 or not printable."""
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return "0x" + key.hex()
    return text if text.isprintable() else "0x" + key.hex()
