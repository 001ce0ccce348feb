"""The plan of an audit: the files of each log, and the context that is needed to judge one of them.

All of it is small, and is sent to the processes that read the files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...storage.filenames import CLEANER_CHECKPOINT
from ...storage.filesystem import OsFileSystem
from ...storage.offset_checkpoint_file import CorruptCheckpoint, read_offsets
from ..logs.log_dir import LIVE, LogDir, PartitionFolder
from .segment_headers import FileHeaders
from .topic_policy import TopicPolicy
from .transaction_outcomes import NO_TRANSACTIONS, TransactionOutcomes, outcomes_of

GRACE_MS = 120_000
"""Milliseconds by which a bound may be exceeded without a violation: the cleaner's back-off (15 s),
`file.delete.delay.ms` (60 s, while deleted files are only renamed), and a pass."""

BUCKET_ROWS = 1_000_000
"""Facts of one bucket; about 160 bytes each while they are compared."""


class Scope(NamedTuple):
    """The parameters of an audit."""

    now_ms: int
    grace_ms: int = GRACE_MS
    keys: tuple[bytes, ...] = ()
    """Keys that no record may have."""
    secret: bytes = b""
    """Secret of the key hashes, 16 bytes, so that keys with equal hashes cannot be chosen; empty: the audit draws
    one."""

    def with_secret(self) -> Scope:
        return self if self.secret else self._replace(secret=os.urandom(16))


class SegmentTask(NamedTuple):
    """A segment file to be read."""

    number: int
    """Number among all files of the audit."""
    folder: int
    """Number of its log."""
    path: str
    base_offset: int
    state: str
    """See `SegmentFile.state`."""
    is_last: bool
    """The last file of a log in use: a broker may be writing to it."""
    size_bytes: int
    modified_ms: int
    changed_ms: int
    """Time of the last change of its name or content, in ms since the epoch."""

    @property
    def is_live(self) -> bool:
        return self.state == LIVE


class FolderPlan(NamedTuple):
    """A log to be audited."""

    number: int
    folder: PartitionFolder
    policy: TopicPolicy
    checkpoint: int | None
    """The cleaner's checkpoint of this log: the first dirty offset; None without one."""
    changed_ms: int
    """Time of the last change of the folder, in ms since the epoch."""
    files: tuple[SegmentTask, ...]

    @property
    def is_compared(self) -> bool:
        """Whether records of the same key are compared: a log in use, of a compacted topic."""
        return self.policy.is_compacted and not self.folder.mark

    @property
    def live_files(self) -> list[SegmentTask]:
        return [file for file in self.files if file.is_live]


class LogContext(NamedTuple):
    """The properties of a log that are needed to judge a part of it."""

    policy: TopicPolicy
    is_compared: bool
    first_dirty_offset: int = 0
    end_offset: int = 0
    """The offset at which a cleaning pass would end now."""
    log_start_offset: int = 0
    outcomes: TransactionOutcomes = NO_TRANSACTIONS
    buckets: int = 1
    """Number of buckets that the facts are divided into, by the hash of the key."""


def plan_audit(
    log_dir: LogDir,
    policies: Mapping[str, TopicPolicy],
    default: TopicPolicy,
    topics: Collection[tuple[str, Collection[int] | None]] = (),
) -> list[FolderPlan]:
    """Plan the audit of the logs in a directory, or of these topics and partitions, with all their files."""
    selected = dict(topics)
    plans: list[FolderPlan] = []
    checkpoints: dict[str, Mapping[TopicPartition, int]] = {}
    count = 0
    for folder in log_dir.partitions(selected or None):
        partitions = selected.get(folder.topic)
        if partitions is not None and folder.partition not in partitions:
            continue
        directory = os.path.dirname(folder.path)
        if directory not in checkpoints:
            checkpoints[directory] = _checkpoint(directory, log_dir.problems)
        policy = policies.get(folder.topic, default)
        plan = _plan(folder, len(plans), count, policy, checkpoints[directory])
        if plan is not None:
            plans.append(plan)
            count += len(plan.files)
    return plans


def reread_plan(plan: FolderPlan, first_file: int) -> FolderPlan:
    """Plan the same log again with its current files, numbered from `first_file`; without files if the log is gone."""
    problems: list[str] = []
    checkpoints = _checkpoint(os.path.dirname(plan.folder.path), problems)
    try:
        (folder,) = LogDir(plan.folder.path).partitions()
        found = _plan(folder, plan.number, first_file, plan.policy, checkpoints)
    except (OSError, ValueError):
        found = None
    return plan._replace(files=()) if found is None else found


def _plan(
    folder: PartitionFolder,
    number: int,
    first_file: int,
    policy: TopicPolicy,
    checkpoints: Mapping[TopicPartition, int],
) -> FolderPlan | None:
    """Plan one log; None if its folder is gone."""
    files: list[SegmentTask] = []
    last = max((segment.base_offset for segment in folder.live_segments), default=-1)
    for segment in folder.segments:
        is_last = segment.state == LIVE and segment.base_offset == last and not folder.mark
        try:
            status = os.stat(segment.path)
            size, modified_ms, changed_ms = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        except OSError:
            if segment.state != LIVE:
                continue  # it was deleted, as planned
            size = modified_ms = changed_ms = 0  # the map step reports it
        where = (first_file + len(files), number, segment.path, segment.base_offset, segment.state)
        files.append(SegmentTask(*where, is_last, size, modified_ms // 1_000_000, changed_ms // 1_000_000))
    try:
        changed_ms = os.stat(folder.path).st_ctime_ns // 1_000_000
    except OSError:
        return None
    checkpoint = None if folder.mark else checkpoints.get(folder.topic_partition)
    return FolderPlan(number, folder, policy, checkpoint, changed_ms, tuple(files))


def _checkpoint(directory: str, problems: list[str]) -> Mapping[TopicPartition, int]:
    try:
        return read_offsets(OsFileSystem(), os.path.join(directory, CLEANER_CHECKPOINT))
    except CorruptCheckpoint as error:
        problems.append(f"{error}; every log counts as dirty")
    except OSError as error:
        problems.append(f"{error.filename}: cannot be read: {error.strerror or error}; every log counts as dirty")
    return {}


def context_of(
    plan: FolderPlan, headers: Mapping[int, FileHeaders], now_ms: int, *, bucket_rows: int = BUCKET_ROWS
) -> LogContext:
    """Make the context of a log from the headers of its live files, by number. Unreadable files may be missing."""
    if not plan.is_compared:
        return LogContext(plan.policy, False)
    known = [(file, headers[file.number]) for file in plan.live_files if file.number in headers]
    outcomes = outcomes_of(event for _, each in known for event in each.events)
    log_end_offset = known[-1][1].next_offset if known else 0
    start, checkpoint = plan.folder.log_start_offset, plan.checkpoint
    first_dirty = checkpoint if checkpoint is not None and start <= checkpoint <= log_end_offset else start
    records = sum(max(each.records, 0) for _, each in known)
    return LogContext(
        policy=plan.policy,
        is_compared=True,
        first_dirty_offset=first_dirty,
        end_offset=_end_offset(plan.policy, known, first_dirty, outcomes.first_open_offset, now_ms),
        log_start_offset=start,
        outcomes=outcomes,
        buckets=-(-records // bucket_rows) or 1,
    )


def _end_offset(
    policy: TopicPolicy, known: list[tuple[SegmentTask, FileHeaders]], first_dirty: int, stable: int, now_ms: int
) -> int:
    """The end of a cleaning pass as in `storage/cleaner/dirtiness.py`, without the high watermark: the checkpointed one
    is some seconds old."""
    for number, (file, headers) in enumerate(known):
        following = known[number + 1][0].base_offset if number + 1 < len(known) else None
        is_young = (
            policy.min_compaction_lag_ms > 0
            and headers.next_offset > first_dirty
            and _largest_timestamp(file, headers) > now_ms - policy.min_compaction_lag_ms
        )
        if following is None or following > stable or is_young:
            return file.base_offset
    return 0


def _largest_timestamp(file: SegmentTask, headers: FileHeaders) -> int:
    return headers.largest_timestamp if headers.largest_timestamp >= 0 else file.modified_ms
