"""What is to be audited: the files of each log, and what whoever looks at one of them must know of its log.

All of it is small, and is sent to where the files are read.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...storage.checkpoint_files import CorruptCheckpoint, read_offsets
from ...storage.filenames import CLEANER_CHECKPOINT
from ...storage.filesystem import OsFileSystem
from ..logs.log_dir import LIVE, LogDir, PartitionFolder
from .segment_headers import FileHeaders
from .topic_policy import TopicPolicy
from .transaction_outcomes import NO_FATES, Fates, fates_of

GRACE_MS = 120_000
"""What a bound may be exceeded by without being a violation: the back-off of the cleaner (15 s), the time for which
files that are to be deleted are only renamed (`file.delete.delay.ms`, 60 s), and a pass."""

BUCKET_ROWS = 1_000_000
"""Facts that are held at a time; some 160 bytes each while they are compared."""


class Scope(NamedTuple):
    """What the audit as a whole asks."""

    now_ms: int
    grace_ms: int = GRACE_MS
    keys: tuple[bytes, ...] = ()
    """Keys that must not be there."""
    secret: bytes = b""
    """Of the hashes of keys: 16 bytes, so that nobody can choose keys of one hash; empty: drawn anew by the audit."""

    def with_secret(self) -> Scope:
        return self if self.secret else self._replace(secret=os.urandom(16))


class SegmentTask(NamedTuple):
    """A file of records to be read."""

    number: int
    """Among all files of the audit."""
    folder: int
    """The number of the log it is in."""
    path: str
    base_offset: int
    state: str
    """See `SegmentFile.state`."""
    is_last: bool
    """The last one of a log in use: a broker may be writing to it."""
    size_bytes: int
    modified_ms: int
    changed_ms: int
    """When its name or content last changed."""

    @property
    def is_live(self) -> bool:
        return self.state == LIVE


class FolderPlan(NamedTuple):
    """A log to be audited."""

    number: int
    folder: PartitionFolder
    policy: TopicPolicy
    checkpoint: int | None
    """Up to where the cleaner has been, as it says; None if it was never there."""
    changed_ms: int
    """When the folder was last renamed, or a file came or went."""
    files: tuple[SegmentTask, ...]

    @property
    def is_compared(self) -> bool:
        """Its records are held against each other: a log in use, of a compacted topic."""
        return self.policy.is_compacted and not self.folder.mark

    @property
    def live_files(self) -> list[SegmentTask]:
        return [file for file in self.files if file.is_live]


class LogContext(NamedTuple):
    """What must be known of a log to judge a part of it."""

    policy: TopicPolicy
    is_compared: bool
    first_dirty_offset: int = 0
    end_offset: int = 0
    """Where a pass that began now would end."""
    log_start_offset: int = 0
    fates: Fates = NO_FATES
    buckets: int = 1
    """Into so many the facts are divided, by the hash of the key."""


def plan_audit(
    log_dir: LogDir,
    policies: Mapping[str, TopicPolicy],
    default: TopicPolicy,
    topics: Collection[tuple[str, Collection[int] | None]] = (),
) -> list[FolderPlan]:
    """The logs in a directory, or those of these topics and their partitions, with all their files."""
    wanted = dict(topics)
    plans: list[FolderPlan] = []
    checkpoints: dict[str, Mapping[TopicPartition, int]] = {}
    count = 0
    for folder in log_dir.partitions(wanted or None):
        partitions = wanted.get(folder.topic)
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


def looked_at_again(plan: FolderPlan, first_file: int) -> FolderPlan:
    """The same log as it is now, its files numbered from `first_file` on; without files if it is there no more."""
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
    """None if the folder has gone."""
    files: list[SegmentTask] = []
    last = max((segment.base_offset for segment in folder.live_segments), default=-1)
    for segment in folder.segments:
        is_last = segment.state == LIVE and segment.base_offset == last and not folder.mark
        try:
            status = os.stat(segment.path)
            size, modified_ms, changed_ms = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        except OSError:
            if segment.state != LIVE:
                continue  # it has gone, which is what it was there for
            size = modified_ms = changed_ms = 0  # whoever reads it says so
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
    """From the headers of the log's live files, by number. (Those that could not be read may be missing.)"""
    if not plan.is_compared:
        return LogContext(plan.policy, False)
    known = [(file, headers[file.number]) for file in plan.live_files if file.number in headers]
    fates = fates_of(event for _, each in known for event in each.events)
    log_end_offset = known[-1][1].next_offset if known else 0
    start, checkpoint = plan.folder.log_start_offset, plan.checkpoint
    first_dirty = checkpoint if checkpoint is not None and start <= checkpoint <= log_end_offset else start
    records = sum(max(each.records, 0) for _, each in known)
    return LogContext(
        policy=plan.policy,
        is_compared=True,
        first_dirty_offset=first_dirty,
        end_offset=_end_offset(plan.policy, known, first_dirty, fates.first_open_offset, now_ms),
        log_start_offset=start,
        fates=fates,
        buckets=-(-records // bucket_rows) or 1,
    )


def _end_offset(
    policy: TopicPolicy, known: list[tuple[SegmentTask, FileHeaders]], first_dirty: int, stable: int, now_ms: int
) -> int:
    """As the cleaner has it (`storage/cleaner/dirtiness.py`), but for the high watermark: what the broker wrote down
    of it is some seconds old."""
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
