"""Audit a log directory in this process: log by log, file by file, bucket by bucket.

Memory is bounded whatever the size of the directory. It holds the headers of one log (some hundred bytes a file, and
its uncommitted transactions), the facts of one bucket (`audit_plan.BUCKET_ROWS`), the facts that wait to be spilled
(`buckets.SPILL_BYTES`), and the buffers of one file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter

from ..logs.log_dir import LogDir
from .assessment import Assessment, key_reports, ordered
from .audit_plan import BUCKET_ROWS, FolderPlan, LogContext, Scope, context_of, plan_audit, reread_plan
from .buckets import SPILL_BYTES, Buckets
from .report import AuditReport
from .segment_facts import WENT_AWAY, map_segment
from .segment_headers import FileHeaders, read_headers
from .supersession import reduce
from .tally import Tally
from .topic_policy import TopicPolicy

ATTEMPTS = 3
"""Times that a log is audited while a broker compacts it, so that files disappear during the audit."""
STALE_SECONDS = 2.0
"""Seconds after which the files of a log are listed again before they are read."""

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


def _ignored(_: int) -> None:
    """The default `on_bytes`: ignores progress."""


def audit_directory(
    log_dir: LogDir,
    scope: Scope,
    policies: Mapping[str, TopicPolicy],
    *,
    default: TopicPolicy | None = None,
    topics: Collection[tuple[str, Collection[int] | None]] = (),
    bucket_rows: int = BUCKET_ROWS,
    spill_bytes: int = SPILL_BYTES,
    on_bytes: Progress = _ignored,
) -> AuditReport:
    """Audit the logs in a directory, or those of these topics (and partitions), on one core.

    `policies` holds the promises of each topic; `default` is for topics that it does not name. A damaged file does not
    end the audit. A log whose files disappear meanwhile is audited again, up to `ATTEMPTS` times. OSError if the
    directory cannot be listed, or facts cannot be spilled.
    """
    began = perf_counter()
    scope = scope.with_secret()
    plans = plan_audit(log_dir, policies, default or TopicPolicy(), topics)
    results: dict[int, LogResult] = {}
    files = sum(len(plan.files) for plan in plans)
    for number, plan in enumerate(plans):
        for attempt in range(ATTEMPTS):
            if attempt or perf_counter() - began > STALE_SECONDS:
                plans[number] = plan = reread_plan(plan, files)
                files += len(plan.files)
            results[number] = audit_log(
                plan, scope, bucket_rows=bucket_rows, spill_bytes=spill_bytes, on_bytes=on_bytes
            )
            if all(problem != WENT_AWAY for _, problem in results[number][2].unread):
                break
    return report_of(log_dir, scope, plans, results, "local", perf_counter() - began)


LogResult = tuple[LogContext, Mapping[int, FileHeaders], Tally]
"""The context of a log, the headers of its files by number, and its tally."""


def is_read(plan: FolderPlan, scope: Scope) -> bool:
    """Whether the audit reads the records of this log."""
    return plan.is_compared or bool(scope.keys)


def audit_log(
    plan: FolderPlan,
    scope: Scope,
    *,
    bucket_rows: int = BUCKET_ROWS,
    spill_bytes: int = SPILL_BYTES,
    on_bytes: Progress = _ignored,
) -> LogResult:
    """Audit one log in this process."""
    headers = read_all_headers(plan)
    context = context_of(plan, headers, scope.now_ms, bucket_rows=bucket_rows)
    tally = Tally()
    if is_read(plan, scope):
        with Buckets(context.buckets, spill_bytes=spill_bytes) as buckets:
            for task in plan.files:
                for facts in map_segment(task, context, scope, tally):
                    buckets.add(facts)
                on_bytes(task.size_bytes)
            for table in buckets.tables():
                tally.add(reduce(table, context, scope))
    return context, headers, tally


def read_all_headers(plan: FolderPlan) -> dict[int, FileHeaders]:
    """Read the headers of the live files of a log whose records are compared. Unreadable files are missing."""
    headers = {}
    for file in plan.live_files if plan.is_compared else ():
        try:
            headers[file.number] = read_headers(file.path, file.base_offset)
        except OSError:
            continue  # `map_segment` reports it
    return headers


def report_of(
    log_dir: LogDir,
    scope: Scope,
    plans: Sequence[FolderPlan],
    results: Mapping[int, LogResult],
    engine: str,
    seconds: float,
) -> AuditReport:
    """Make the report of all logs."""
    assessments = []
    for plan in plans:
        context, headers, tally = results[plan.number]
        assessments.append(Assessment(plan, context, headers, tally, scope, is_read=is_read(plan, scope)))
    tallies = {number: tally for number, (_, _, tally) in results.items()}
    return AuditReport(
        path=log_dir.path,
        now_ms=scope.now_ms,
        grace_ms=scope.grace_ms,
        engine=engine,
        partitions=[assessment.report for assessment in assessments],
        findings=ordered(finding for assessment in assessments for finding in assessment.findings),
        keys=key_reports(scope, plans, tallies),
        notes=list(log_dir.problems),
        records=sum(tally.records for tally in tallies.values()),
        bytes_read=sum(tally.bytes_read for tally in tallies.values()),
        seconds=seconds,
    )
