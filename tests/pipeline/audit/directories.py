"""Shared by the tests of audits: directories to audit, written by a broker, and a function that audits one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kmini import Broker
from kmini.pipeline.audit.audit_plan import Scope
from kmini.pipeline.audit.local_audit import audit_directory
from kmini.pipeline.audit.report import AuditReport, Finding, Kind, PartitionReport
from kmini.pipeline.audit.topic_policy import TopicPolicy
from kmini.pipeline.logs.log_dir import LogDir
from kmini.storage.log_config import LogConfig

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

PROFILES: dict[str, str | int] = {
    "cleanup.policy": "compact",
    "max.compaction.lag.ms": DAY_MS,
    "delete.retention.ms": DAY_MS,
    "min.cleanable.dirty.ratio": "1.0",
}
"""A topic whose old values must be gone after a day."""

WITHOUT_CLEANER = {"log.cleaner.enable": False}
SECRET = bytes(range(16))


def policy(configs: dict[str, str | int] | None = None, **others: str | int) -> TopicPolicy:
    texts = {key: str(value) for key, value in ((PROFILES if configs is None else configs) | others).items()}
    return TopicPolicy.of(LogConfig.parse(texts))


def audited(
    broker: Broker | Path, *, now_ms: int | None = None, keys: Iterable[bytes] = (), **options: Any
) -> AuditReport:
    """An audit of all topics as if they were PROFILES, unless `policies` says otherwise; now, by the broker's clock."""
    if isinstance(broker, Broker):
        now_ms = broker.clock.now_ms() if now_ms is None else now_ms
        path = str(broker.data_dir)
    else:
        path = str(broker)
    assert now_ms is not None
    scope = Scope(now_ms, keys=tuple(keys), secret=SECRET)
    policies = options.pop("policies", {})
    return audit_directory(LogDir(path), scope, policies, default=options.pop("default", policy()), **options)


def of_kind(report: AuditReport, kind: Kind) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind is kind]


def violated(report: AuditReport) -> set[Kind]:
    return {finding.kind for finding in report.violations}


def only(report: AuditReport, topic: str) -> PartitionReport:
    (partition,) = (one for one in report.partitions if one.topic == topic)
    return partition


def folder(broker: Broker, topic: str = "profiles", partition: int = 0) -> Path:
    return Path(broker.data_dir or "") / "broker-1" / f"{topic}-{partition}"


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def copy_back(source: Path, path: Path, suffix: str = ".deleted") -> Path:
    """Put a copy of a segment file that was kept beside a log, with a suffix."""
    target = path / (source.name + suffix)
    shutil.copyfile(source, target)
    return target


def sizes(path: Path) -> int:
    return sum(os.path.getsize(file) for file in path.rglob("*.log*"))
