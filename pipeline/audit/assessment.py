"""Judge the tally of a log against the bound and the horizons, and make the report and the findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from .audit_plan import FolderPlan, LogContext, Scope, SegmentTask
from .report import Finding, KeyReport, KeyStatus, Kind, PartitionReport, text_of
from .segment_facts import WENT_AWAY
from .segment_headers import FileHeaders
from .tally import ABORTED, DELETED, MARKER, SUPERSEDED, TOMBSTONE, Example, Tally

TORN = "torn tail"
"""Begin of the problem text of a file that ends within a batch."""
_CUT_OFF = "is cut off"

_DIED = {SUPERSEDED: "superseded", DELETED: "deleted", ABORTED: "aborted"}


class Assessment:
    """The `report` and the `findings` of one log."""

    def __init__(
        self,
        plan: FolderPlan,
        context: LogContext,
        headers: Mapping[int, FileHeaders],
        tally: Tally,
        scope: Scope,
        *,
        is_read: bool,
    ) -> None:
        self._plan = plan
        self._context = context
        self._headers = headers
        self._tally = tally
        self._scope = scope
        self._files = {file.number: file for file in plan.files}
        self.report = self._report(is_read)
        self.findings = list(self._findings())
        self.report.violations = sum(finding.is_violation for finding in self.findings)

    # --- numbers

    def _report(self, is_read: bool) -> PartitionReport:
        plan, tally, folder = self._plan, self._tally, self._plan.folder
        apart = [file for file in plan.files if not file.is_live or folder.mark in ("delete", "stray")]
        report = PartitionReport(
            topic=folder.topic,
            partition=folder.partition,
            path=folder.path,
            mark=folder.mark,
            is_compacted=plan.policy.is_compacted,
            is_read=is_read,
            bound_ms=plan.policy.bound_ms if plan.policy.is_compacted else None,
            segments=len(plan.files),
            size_bytes=sum(file.size_bytes for file in plan.files),
            records=tally.records,
            log_start_offset=folder.log_start_offset,
            left_over_files=len(apart),
            left_over_bytes=sum(file.size_bytes for file in apart),
            damages=tally.damage_counts.total() + len(tally.unread),
        )
        if plan.is_compared:
            self._add_dirtiness(report)
            self._add_tally(report)
        return report

    def _add_dirtiness(self, report: PartitionReport) -> None:
        """Compute the dirtiness as `storage/cleaner/dirtiness.py` does."""
        first_dirty, end_offset = self._context.first_dirty_offset, self._context.end_offset
        report.first_dirty_offset, report.end_offset = first_dirty, end_offset
        earliest: int | None = None
        for file in self._plan.live_files:
            headers = self._headers.get(file.number)
            if headers is None:
                continue
            is_dirty = headers.next_offset > first_dirty
            if is_dirty and headers.batches and headers.first_timestamp >= 0:
                earliest = min(headers.first_timestamp, earliest if earliest is not None else headers.first_timestamp)
            if file.base_offset < end_offset:
                report.clean_bytes += 0 if is_dirty else file.size_bytes
                report.cleanable_bytes += file.size_bytes if is_dirty else 0
        total = report.clean_bytes + report.cleanable_bytes
        report.dirty_ratio = report.cleanable_bytes / total if total else 0.0
        report.uncompacted_since_ms = earliest
        if earliest is not None and self._plan.policy.bound_ms is not None:
            report.compaction_delay_ms = max(self._scope.now_ms - earliest - self._plan.policy.bound_ms, 0)

    def _add_tally(self, report: PartitionReport) -> None:
        tally = self._tally
        report.add_totals(tally)
        if tally.oldest_dead is not None:
            report.oldest_dead_since_ms, _, report.oldest_dead_offset, report.oldest_dead_written_ms = tally.oldest_dead
        report.uncompacted_by_age = tally.uncompacted.tolist()
        report.dead_by_age = tally.dead.tolist()

    # --- findings

    def _findings(self) -> Iterator[Finding]:
        yield from self._dead_values()
        if self.report.compaction_delay_ms > self._scope.grace_ms:
            yield self._uncompacted()
        yield from self._past_horizons()
        yield from self._below_start()
        yield from self._left_over()
        yield from self._keys()
        yield from self._damages()

    def _dead_values(self) -> Iterator[Finding]:
        bound = self._plan.policy.bound_ms
        for kind in (SUPERSEDED, DELETED, ABORTED):
            if bound is not None and kind in self._tally.oldest:
                oldest = self._tally.oldest[kind]
                overdue = self._scope.now_ms - oldest.since_ms - bound
                what = f"{_DIED[kind]} {moment(oldest.since_ms)}, is past the bound of {duration(bound)}"
                yield self._late(Kind(kind), "value", oldest, what, overdue)

    def _past_horizons(self) -> Iterator[Finding]:
        for kind in (TOMBSTONE, MARKER):
            if kind in self._tally.oldest:
                oldest = self._tally.oldest[kind]
                what = f"is past its delete horizon of {moment(oldest.since_ms)}"
                yield self._late(Kind(kind), kind, oldest, what, self._scope.now_ms - oldest.since_ms)

    def _late(self, kind: Kind, noun: str, oldest: Example, what: str, overdue_ms: int) -> Finding:
        count = self._tally.late[kind.value]
        detail = f"the {noun} of offset {oldest.offset}, written {moment(oldest.written_ms)}, {what}"
        detail += f" by {duration(overdue_ms)}" + (f"; {count - 1} more are late" if count > 1 else "")
        return self._finding(
            *(kind, self._files[oldest.file].path, detail),
            offset=oldest.offset,
            written_ms=oldest.written_ms,
            since_ms=oldest.since_ms,
            overdue_ms=overdue_ms,
            records=count,
            size_bytes=self._tally.late_bytes[kind.value],
        )

    def _uncompacted(self) -> Finding:
        report = self.report
        assert report.uncompacted_since_ms is not None
        assert report.bound_ms is not None
        detail = (
            f"records from {moment(report.uncompacted_since_ms)} on, from offset {report.first_dirty_offset}, have not"
            f" been compacted; the bound of {duration(report.bound_ms)} is exceeded by"
            f" {duration(report.compaction_delay_ms)}"
        )
        return self._finding(
            *(Kind.UNCOMPACTED, report.path, detail),
            offset=report.first_dirty_offset,
            since_ms=report.uncompacted_since_ms,
            overdue_ms=report.compaction_delay_ms,
            records=report.uncompacted_records,
        )

    def _below_start(self) -> Iterator[Finding]:
        start = self._plan.folder.log_start_offset
        for file in () if self._plan.folder.mark else self._plan.live_files:
            if file.base_offset < start and file.size_bytes:
                detail = (
                    f"records below the log start offset {start}, deleted for readers, may still be in this file: it"
                    " goes when all of it is below"
                )
                yield self._finding(Kind.BELOW_START, file.path, detail, is_violation=False, offset=file.base_offset)

    def _left_over(self) -> Iterator[Finding]:
        """Find files outside the log that should be gone."""
        plan, now_ms, grace_ms = self._plan, self._scope.now_ms, self._scope.grace_ms
        delay_ms = plan.policy.file_delete_delay_ms
        is_doomed = plan.folder.mark in ("delete", "stray")
        for file in plan.files:
            if (file.is_live and not is_doomed) or not file.size_bytes:
                continue
            since_ms = max(file.changed_ms, plan.changed_ms) if is_doomed else file.changed_ms
            overdue = now_ms - since_ms - delay_ms
            what = f"in a folder marked {plan.folder.mark}" if is_doomed else f"a {file.state} file"
            detail = f"{what}, no part of a log since {moment(since_ms)}, is still there"
            if orphans := self._tally.orphans[file.number]:
                detail += f"; it holds {_times(orphans, 'value')} that the log has no longer"
            yield self._finding(
                *(Kind.LEFT_OVER, file.path, detail),
                is_violation=overdue > grace_ms,
                since_ms=since_ms,
                overdue_ms=max(overdue, 0),
                size_bytes=file.size_bytes,
            )

    def _keys(self) -> Iterator[Finding]:
        tally = self._tally
        for (number, file, is_tombstone), count in sorted(tally.match_counts.items()):
            first = min(
                (m for m in tally.matches if (m.key, m.file, m.is_tombstone) == (number, file, is_tombstone)),
                key=lambda match: match.offset,
                default=None,
            )
            key = text_of(self._scope.keys[number])
            where = "" if first is None else f", the first at offset {first.offset} (byte {first.position})"
            if is_tombstone:
                detail = f"{_times(count, 'tombstone')} of the key {key}{where}"
                if first is not None and first.value_bytes >= 0:
                    detail += f", with a value of {first.value_bytes} bytes"
                if first is not None and first.horizon_ms >= 0:
                    detail += f", may go from {moment(first.horizon_ms)} on"
            else:
                detail = f"{_times(count, 'value')} of the key {key}{where}"
            yield self._finding(
                *(Kind.ERASED_KEY, self._files[file].path, detail),
                is_violation=not is_tombstone,
                offset=None if first is None else first.offset,
                position=None if first is None else first.position,
                key=key,
                written_ms=None if first is None else first.written_ms,
                records=count,
            )

    def _damages(self) -> Iterator[Finding]:
        for damage in self._tally.damages:
            file = self._files[damage.file]
            is_being_written = _is_tail(file, damage.problem)
            detail = damage.problem
            if is_being_written:
                detail += "; a broker may just be writing it"
            for number in damage.key_numbers:
                key = text_of(self._scope.keys[number])
                found = f"the bytes of the key {key} lie in a part that cannot be read: {damage.problem}"
                yield self._finding(Kind.ERASED_KEY, file.path, found, position=damage.position, key=key)
            yield self._finding(
                *(Kind.DAMAGED, file.path, detail),
                is_violation=not is_being_written,
                position=damage.position,
                size_bytes=damage.size_bytes,
            )
        for number, count in self._tally.damage_counts.items():
            if (left := count - sum(damage.file == number for damage in self._tally.damages)) > 0:
                yield self._finding(Kind.DAMAGED, self._files[number].path, f"{left} more places are damaged")
        for number, problem in self._tally.unread:
            path = self._files[number].path
            yield self._finding(Kind.DAMAGED, path, problem, is_violation=problem != WENT_AWAY)
        if self._scope.keys:
            for number in sorted({*self._tally.damage_counts, *(number for number, _ in self._tally.unread)}):
                detail = "not all of it could be searched for the keys: that they are gone is not proven"
                yield self._finding(Kind.UNPROVEN, self._files[number].path, detail)

    def _finding(
        self,
        kind: Kind,
        path: str,
        detail: str,
        *,
        is_violation: bool = True,
        offset: int | None = None,
        position: int | None = None,
        key: str | None = None,
        written_ms: int | None = None,
        since_ms: int | None = None,
        overdue_ms: int | None = None,
        records: int = 1,
        size_bytes: int = 0,
    ) -> Finding:
        folder = self._plan.folder
        return Finding(
            *(kind, is_violation, folder.topic, folder.partition, path, offset, position, key),
            *(written_ms, since_ms, overdue_ms, records, size_bytes, detail),
        )


def _is_tail(file: SegmentTask, problem: str) -> bool:
    """Whether this may be the tail of a file that a broker is writing."""
    return file.is_last and (TORN in problem or _CUT_OFF in problem)


def key_reports(scope: Scope, plans: Sequence[FolderPlan], tallies: Mapping[int, Tally]) -> list[KeyReport]:
    """Report each requested key over all logs."""
    paths = {file.number: file.path for plan in plans for file in plan.files}
    is_proven = not any(tally.damage_counts or tally.unread for tally in tallies.values())
    reports = []
    for number, key in enumerate(scope.keys):
        values = tombstones = 0
        files: set[str] = set()
        for tally in tallies.values():
            for (which, file, is_tombstone), count in tally.match_counts.items():
                if which == number:
                    files.add(paths[file])
                    values += 0 if is_tombstone else count
                    tombstones += count if is_tombstone else 0
            files.update(paths[damage.file] for damage in tally.damages if number in damage.key_numbers)
        status = KeyStatus.LEFT if values else KeyStatus.TOMBSTONE if tombstones else KeyStatus.GONE
        reports.append(KeyReport(key, status, is_proven, values, tombstones, sorted(files)))
    return reports


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings: violations first; by kind, the longest overdue first."""
    kinds = list(Kind)
    return sorted(
        findings,
        key=lambda each: (
            not each.is_violation,
            kinds.index(each.kind),
            -(each.overdue_ms or 0),
            each.path,
            each.offset or 0,
        ),
    )


def _times(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def moment(timestamp_ms: int) -> str:
    """A time as ISO 8601 in UTC; a number if it is beyond the calendar."""
    try:
        when = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def duration(milliseconds: int) -> str:
    """A duration in its two largest units: 3d 4h, 5m 2s, 20ms."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
    left, parts = abs(milliseconds), []
    for name, size in units:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{name}")
        if len(parts) == 2 or (parts and not count):
            break
    return ("-" if milliseconds < 0 else "") + (" ".join(parts) or "0ms")
