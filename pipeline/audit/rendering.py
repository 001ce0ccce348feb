"""The report of an audit as rows of tables, and as Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from .assessment import duration
from .report import AuditReport, Finding, PartitionReport, text_of

Row = Sequence[object]

LOG_COLUMNS = (
    "topic",
    "partitions",
    "size",
    "records",
    "bound",
    "uncompacted for",
    "dirty ratio",
    "dead values for",
    "dead",
    "a pass frees",
    "violations",
)
FINDING_COLUMNS = ("", "what", "where", "detail")
KEY_COLUMNS = ("key", "status", "values", "tombstones", "proven", "files")


def by_topic(partitions: Iterable[PartitionReport]) -> dict[str, list[PartitionReport]]:
    """Group the logs by topic, in order; a folder outside any log is grouped by its name."""
    topics: dict[str, list[PartitionReport]] = {}
    for report in partitions:
        topics.setdefault(f"{report.topic} ({report.mark})" if report.mark else report.topic, []).append(report)
    return topics


def log_rows(report: AuditReport, *, each_partition: bool = False) -> list[Row]:
    """Make a row for each topic or partition. For several logs, times and ratios are the worst ones."""
    if each_partition:
        return [
            _log_row(f"{one.name} ({one.mark})" if one.mark else one.name, [one], report) for one in report.partitions
        ]
    return [_log_row(topic, logs, report) for topic, logs in by_topic(report.partitions).items()]


def _log_row(name: str, logs: list[PartitionReport], report: AuditReport) -> Row:
    is_compared = any(log.is_compacted and not log.mark for log in logs)
    waiting = min((log.uncompacted_since_ms for log in logs if log.uncompacted_since_ms is not None), default=None)
    dead = min((log.oldest_dead_since_ms for log in logs if log.oldest_dead_since_ms is not None), default=None)
    bound = logs[0].bound_ms
    records = sum(log.records for log in logs)
    violations = sum(log.violations for log in logs)
    if not is_compared:
        return (name, len(logs), _size(logs), records if logs[0].is_read else None, *(None,) * 6, violations)
    return (
        *(name, len(logs), _size(logs), records),
        None if bound is None else duration(bound),
        None if waiting is None else duration(report.now_ms - waiting),
        f"{max(log.dirty_ratio or 0 for log in logs):.2f}",
        None if dead is None else duration(report.now_ms - dead),
        size_text(sum(log.dead_bytes for log in logs)),
        size_text(sum(log.freeable_bytes for log in logs)),
        violations,
    )


def _size(logs: list[PartitionReport]) -> str:
    return size_text(sum(log.size_bytes for log in logs))


def finding_rows(report: AuditReport, findings: Iterable[Finding]) -> list[Row]:
    """Make a row for each finding; file names start from the audited directory."""
    return [
        (
            "violation" if finding.is_violation else "note",
            finding.kind.value,
            location_text(report, finding),
            finding.detail,
        )
        for finding in findings
    ]


def location_text(report: AuditReport, finding: Finding) -> str:
    """File and position of a finding, from the audited directory."""
    path = os.path.relpath(finding.path, report.path)
    return path if finding.position is None else f"{path}:{finding.position}"


def key_rows(report: AuditReport) -> list[Row]:
    return [
        (
            *(text_of(key.key), key.status.value, key.values, key.tombstones, "yes" if key.is_proven else "no"),
            [os.path.relpath(path, report.path) for path in key.files] or None,
        )
        for key in report.keys
    ]


def summary(report: AuditReport) -> str:
    """Summarize the report in one line."""
    violations = len(report.violations)
    found = "clean" if not violations else f"{violations} violation{'' if violations == 1 else 's'}"
    rate = report.records / report.seconds if report.seconds else 0
    return (
        f"{report.path}: {found}; {report.records:,} records in {size_text(report.bytes_read)} read in"
        f" {report.seconds:.1f} s ({report.engine}, {rate:,.0f} records/s)"
    )


def size_text(count: int) -> str:
    """A number of bytes as text: 12 B, 3.4 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


_TIME = pa.timestamp("ms", "UTC")
_LIST = pa.list_(pa.int64())

PARTITIONS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("topic", "path", "mark")),
        ("partition", pa.int32()),
        *((name, pa.bool_()) for name in ("is_compacted", "is_read")),
        ("dirty_ratio", pa.float64()),
        *((name, _TIME) for name in ("uncompacted_since_ms", "oldest_dead_written_ms", "oldest_dead_since_ms")),
        ("earliest_horizon_ms", _TIME),
        *((name, _LIST) for name in ("uncompacted_by_age", "dead_by_age")),
        *(
            (name, pa.int64())
            for name in (
                *("bound_ms", "segments", "size_bytes", "records", "log_start_offset", "first_dirty_offset"),
                *("end_offset", "clean_bytes", "cleanable_bytes", "uncompacted_records", "compaction_delay_ms"),
                *("dead_records", "dead_bytes", "oldest_dead_offset", "freeable_records", "freeable_bytes"),
                *("tombstones", "flagged_values", "below_start_records", "below_start_bytes"),
                *("left_over_files", "left_over_bytes", "damages", "violations"),
            )
        ),
    ]
)
FINDINGS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "topic", "path", "key", "detail")),
        ("is_violation", pa.bool_()),
        ("partition", pa.int32()),
        *((name, pa.int64()) for name in ("offset", "position", "overdue_ms", "records", "size_bytes")),
        *((name, _TIME) for name in ("written_ms", "since_ms")),
    ]
)
KEYS_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("status", pa.string()),
        ("is_proven", pa.bool_()),
        *((name, pa.int64()) for name in ("values", "tombstones")),
        ("files", pa.list_(pa.string())),
    ]
)


def write_parquet(report: AuditReport, folder: str) -> None:
    """Write `partitions.parquet`, `findings.parquet` and `keys.parquet` to a folder, which is created if missing. The
    metadata of each file names the audited directory and the time of the audit. OSError if the disk refuses."""
    os.makedirs(folder, exist_ok=True)
    tables = {
        "partitions": ([vars(one) for one in report.partitions], PARTITIONS_SCHEMA),
        "findings": ([{**one._asdict(), "kind": one.kind.value} for one in report.findings], FINDINGS_SCHEMA),
        "keys": ([{**vars(one), "status": one.status.value} for one in report.keys], KEYS_SCHEMA),
    }
    about = {
        "kmini.audit.path": report.path,
        "kmini.audit.now_ms": str(report.now_ms),
        "kmini.audit.grace_ms": str(report.grace_ms),
    }
    for name, (rows, schema) in tables.items():
        table = pa.Table.from_pylist(rows, schema=schema.with_metadata(about))
        pq.write_table(table, os.path.join(folder, f"{name}.parquet"))
