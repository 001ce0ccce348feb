"""Make a log directory of Apache Kafka from a data directory of kmini: the work of `kmini graduate`.

    OUT/meta.properties                     names cluster and node; written last: Kafka does not start without it
        bootstrap.checkpoint                the metadata that Kafka's controller begins with
        __cluster_metadata-0/…0.checkpoint  makes this node the quorum
        server.properties                   settings to start Kafka with
        .kafka_cleanshutdown                marks a clean shutdown: no log needs recovery
        <four offset checkpoints>
        orders-0/ …                         the logs

The data directory is not changed. A graduation that fails removes its output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from ..broker.controller.database import Stored
from ..broker.controller.topics import log_config
from ..broker.controller.topology import Topic
from ..broker.coordinators.internal_records import last_values
from ..broker.groups.group_loader import read_groups
from ..protocol.records.batch import NO_PRODUCER_ID
from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from ..protocol.uuids import random_uuid
from ..storage import filenames
from ..storage.background_work import Deletions
from ..storage.filenames import PRODUCER_SNAPSHOT, parse_segment_file, partition_directory, segment_path
from ..storage.filesystem import FileSystem, OsFileSystem, write_atomically
from ..storage.indexes.time_index import TimeIndex
from ..storage.log_config import LogConfig
from ..storage.log_dir_files import MetaProperties, write_clean_shutdown, write_meta_properties
from ..storage.log_environment import LogEnvironment
from ..storage.offset_checkpoint_file import write_offsets
from ..storage.producers.producer_snapshot import (
    SnapshotCorrupt,
    decode_snapshot,
)
from ..storage.recovery import load_log
from ..storage.retention import beyond_age
from .kafka_settings import ChangedSetting
from .metadata_log import BROKER_EPOCH, KafkaSettings, Node, metadata_records, quorum_records, settings_of
from .partition_files import CopiedFolder, Copier, remove_contents
from .server_properties import server_properties
from .snapshot_file import write_snapshot
from .source import Refused, Source, SourcePartition, opened

_BOOTSTRAP = "bootstrap.checkpoint"
_METADATA_LOG = "__cluster_metadata-0"
_FIRST_SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
SERVER_PROPERTIES = "server.properties"


class Progress(NamedTuple):
    """The progress of copying, in bytes of batches."""

    done: int
    total: int


class TopicReport(NamedTuple):
    """The result for one topic."""

    name: str
    partitions: int
    offsets: int
    """Number of offsets from the log start to the log end, over all partitions."""
    copied_bytes: int
    """Bytes of copied batches, converted segments included."""
    linked_bytes: int
    tombstones: int
    """Flagged tombstones whose value was removed."""
    expired: int
    """Offsets in segments that are older than `retention.ms`: Apache Kafka deletes them soon after its start."""


class Report(NamedTuple):
    """The result of a graduation."""

    out: str
    cluster_id: str
    node_id: int
    topics: list[TopicReport]
    groups: int
    committed_offsets: int
    """Committed offsets of all groups."""
    transactional_ids: int
    acls: int
    scram_credentials: int
    delegation_tokens: int
    """Those that were taken over: none where the settings have no `delegation.token.secret.key`."""
    quotas: int
    """Number of entities with quotas."""
    changed_settings: list[ChangedSetting]
    """Settings that cannot be kept."""
    open_transactions: list[TopicPartition]
    """Partitions with an open transaction."""
    from_followers: list[TopicPartition]
    """Partitions whose log is a follower's, because the leader's is missing."""
    left_behind: list[str]
    """Folders that belong to no topic."""


def graduate(
    data_dir: str,
    out: str,
    *,
    now_ms: int,
    link: bool = False,
    node_id: int | None = None,
    configured: Mapping[str, str] | None = None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> Report:
    """Make the directory `out`, which is empty or missing, from `data_dir`. Everything is on the disk when this
    returns. Blocks.

    With `link`, sealed segments are hard links. `configured` are the broker's settings, as in its server.properties, if
    Kafka shall have them. The new node's id is `node_id`, else that of `configured`, else 1. Raises Refused, whose
    message says what to do, and OSError.
    """
    filesystem = OsFileSystem(max_open_files=64)
    try:
        with opened(filesystem, data_dir) as source, _empty_directory(out, outside_of=data_dir):
            properties = server_properties(os.path.abspath(out), node_id, configured)
            node = Node(properties.node_id, random_uuid(), properties.controller_port)
            settings = settings_of(source.stored, node)
            folders = _copy(filesystem, source, out, link=link, on_progress=on_progress)
            producers = _Producers(filesystem, source)
            internal = internal_state(filesystem, out, source.partitions, now_ms)
            stored = source.stored
            if not (configured or {}).get("delegation.token.secret.key"):  # without it Kafka cannot read tokens
                stored = stored._replace(delegation_tokens={})
            _write_metadata(filesystem, source, stored, settings, node, out, producers.next_id, now_ms)
            path = os.path.join(out, SERVER_PROPERTIES)
            write_atomically(filesystem, path, properties.text.encode())
            if properties.holds_secrets:
                os.chmod(path, 0o600)
            _write_checkpoints(filesystem, source, out)
            write_clean_shutdown(filesystem, out, BROKER_EPOCH)
            filesystem.sync_directory(os.path.dirname(os.path.abspath(out)))
            write_meta_properties(filesystem, out, MetaProperties(node.id, source.stored.cluster_id, node.directory_id))
    finally:
        filesystem.close()
    return Report(
        out=out,
        cluster_id=stored.cluster_id,
        node_id=node.id,
        topics=list(_topic_reports(filesystem, source, folders, out, now_ms, properties.log_config)),
        groups=internal.groups,
        committed_offsets=internal.committed_offsets,
        transactional_ids=internal.transactional_ids,
        acls=len(stored.acls),
        scram_credentials=len(stored.scram_credentials),
        delegation_tokens=len(stored.delegation_tokens),
        quotas=len(stored.client_quotas),
        changed_settings=[*settings.changed, *properties.changed],
        open_transactions=producers.open_transactions,
        from_followers=[
            partition.topic_partition
            for partition in source.partitions
            if partition.replica.node_id != partition.state.leader
        ],
        left_behind=source.left_behind,
    )


@contextmanager
def _empty_directory(out: str, *, outside_of: str) -> Iterator[None]:
    """Make the directory; restore its former state after an exception."""
    if Path(out).resolve().is_relative_to(Path(outside_of).resolve()):
        raise Refused(f"{out} lies in {outside_of}, which is not changed: name a directory outside of it")
    if "," in os.path.abspath(out):
        raise Refused(f"{out} has a comma in its name, which Kafka would take for two directories")
    was_there = os.path.isdir(out)
    if was_there and os.listdir(out):
        raise Refused(f"{out} is not empty: name a directory that is, or that does not exist")
    if not was_there and os.path.lexists(out):
        raise Refused(f"{out} is no directory")
    os.makedirs(out, exist_ok=True)
    try:
        yield
    except BaseException:
        remove_contents(out)
        if not was_there:
            os.rmdir(out)
        raise


def _copy(
    filesystem: FileSystem, source: Source, out: str, *, link: bool, on_progress: Callable[[Progress], None]
) -> list[CopiedFolder]:
    """Copy the logs of all partitions."""
    total = sum(_log_bytes(filesystem, partition.replica.path) for partition in source.partitions)
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        on_progress(Progress(done, total))

    with Copier.open(filesystem, link=link, on_bytes=on_bytes) as copier:
        return [
            copier.copy_partition(
                partition.replica.path,
                os.path.join(out, partition_directory(partition.topic_partition)),
                converts=_has_tombstone_flag(partition.topic),
            )
            for partition in source.partitions
        ]


def _has_tombstone_flag(topic: Topic) -> bool:
    name = "kmini.tombstone.flag.enable"
    return name in topic.configs and bool(LogConfig.KEYS[name].parse(topic.configs[name]))


def _log_bytes(filesystem: FileSystem, folder: str) -> int:
    files = map(parse_segment_file, filesystem.list(folder))
    return sum(
        filesystem.size(segment_path(folder, *file))
        for file in files
        if file is not None and file.kind == filenames.LOG and not file.suffix
    )


class _Producers:
    """The producers in the logs."""

    def __init__(self, filesystem: FileSystem, source: Source) -> None:
        """Reads the newest producer snapshot of each partition; after a clean shutdown it is at the end of the log."""
        self.next_id = source.stored.next_producer_id
        """A producer id above all that were given out. The database has it, unless it was replaced by an older one."""
        self.open_transactions: list[TopicPartition] = []
        for partition in source.partitions:
            files = map(parse_segment_file, filesystem.list(partition.replica.path))
            snapshots = [file for file in files if file is not None and file.kind == PRODUCER_SNAPSHOT]
            if not snapshots:
                continue
            try:
                entries = decode_snapshot(filesystem.read(segment_path(partition.replica.path, *max(snapshots))))
            except SnapshotCorrupt:
                continue  # Kafka rebuilds it from the batches, as kmini does
            self.next_id = max(self.next_id, 1 + max((one.producer_id for one in entries), default=NO_PRODUCER_ID))
            if any(one.transaction_first_offset is not None for one in entries):
                self.open_transactions.append(partition.topic_partition)


def _write_metadata(
    filesystem: FileSystem,
    source: Source,
    stored: Stored,
    settings: KafkaSettings,
    node: Node,
    out: str,
    next_producer_id: int,
    now_ms: int,
) -> None:
    directory = os.path.join(out, _METADATA_LOG)
    filesystem.make_directory(directory)
    write_snapshot(
        filesystem,
        os.path.join(directory, _FIRST_SNAPSHOT),
        (),
        now_ms=now_ms,
        control_records=quorum_records(node),
        last_contained_log_timestamp_ms=now_ms,
    )
    filesystem.sync_directory(directory)
    path = os.path.join(out, _BOOTSTRAP)
    filesystem.open(path, create=True).close()
    os.chmod(path, 0o600)  # it holds credentials
    records = metadata_records(stored, source.partitions, settings, node, next_producer_id=next_producer_id)
    write_snapshot(filesystem, path, records, now_ms=now_ms)


def _write_checkpoints(filesystem: FileSystem, source: Source, out: str) -> None:
    """Write the offset checkpoints. With one replica everything is committed, so the high watermarks are the log
    ends."""
    replicas = {partition.topic_partition: partition.replica for partition in source.partitions}
    ends = {name: replica.log_end_offset for name, replica in replicas.items()}
    starts = {name: replica.log_start_offset for name, replica in replicas.items() if replica.log_start_offset}
    cleaned = {name: one.cleaned_offset for name, one in replicas.items() if one.cleaned_offset is not None}
    for name, offsets in (
        (filenames.RECOVERY_POINT_CHECKPOINT, ends),
        (filenames.HIGH_WATERMARK_CHECKPOINT, ends),
        (filenames.LOG_START_OFFSET_CHECKPOINT, starts),
        (filenames.CLEANER_CHECKPOINT, cleaned),
    ):
        write_offsets(filesystem, os.path.join(out, name), offsets)


class _NewSegment(NamedTuple):
    """A segment of a new log, as Kafka's retention looks at it."""

    base_offset: int
    next_offset: int
    size: int
    largest_timestamp: int


def _expired_offsets(
    filesystem: FileSystem, partition: SourcePartition, folder: str, now_ms: int, defaults: LogConfig
) -> int:
    """The offsets in the first segments of a new log whose records are all older than `retention.ms`. A segment is as
    old as the last entry of its time index, else as its file."""
    config = log_config(partition.topic, defaults)
    if not config.is_deletable:
        return 0
    files = filter(None, map(parse_segment_file, filesystem.list(folder)))
    bases = sorted(file.base_offset for file in files if file.kind == filenames.LOG)
    start, end = partition.replica.log_start_offset, partition.replica.log_end_offset
    segments = []
    for base, following in zip(bases, [*bases[1:], end], strict=True):
        path = segment_path(folder, base, filenames.LOG)
        newest_ms = TimeIndex(filesystem, segment_path(folder, base, filenames.TIME_INDEX), base).last_entry.timestamp
        if newest_ms < 0:
            newest_ms = filesystem.modified_ms(path)
        segments.append(_NewSegment(base, following, filesystem.size(path), newest_ms))
    count = beyond_age(segments, config.retention_ms, end, now_ms)
    return segments[count - 1].next_offset - start if count else 0


def _topic_reports(
    filesystem: FileSystem,
    source: Source,
    folders: list[CopiedFolder],
    out: str,
    now_ms: int,
    defaults: LogConfig,
) -> Iterator[TopicReport]:
    pairs: Iterator[tuple[SourcePartition, CopiedFolder]] = zip(source.partitions, folders, strict=True)
    for name, group in groupby(pairs, key=lambda pair: pair[0].topic.name):
        pairs_of_topic = list(group)
        yield TopicReport(
            name,
            len(pairs_of_topic),
            sum(
                partition.replica.log_end_offset - partition.replica.log_start_offset for partition, _ in pairs_of_topic
            ),
            sum(folder.copied_bytes + folder.converted_bytes for _, folder in pairs_of_topic),
            sum(folder.linked_bytes for _, folder in pairs_of_topic),
            sum(folder.tombstones for _, folder in pairs_of_topic),
            sum(
                _expired_offsets(
                    filesystem,
                    partition,
                    os.path.join(out, partition_directory(partition.topic_partition)),
                    now_ms,
                    defaults,
                )
                for partition, _ in pairs_of_topic
            ),
        )


# --- what groups and transactions have stored


class InternalState(NamedTuple):
    """The state that Kafka's coordinators will load."""

    groups: int
    committed_offsets: int
    """Committed offsets of all groups; one for each partition."""
    transactional_ids: int


def internal_state(
    filesystem: FileSystem, out: str, partitions: Iterable[SourcePartition], now_ms: int
) -> InternalState:
    """Read the logs of internal topics in the new directory, one partition at a time."""
    environment = LogEnvironment(filesystem, [], Deletions(filesystem), lambda: now_ms)
    groups = offsets = transactional_ids = 0
    for partition in partitions:
        if partition.topic.name not in (CONSUMER_OFFSETS, TRANSACTION_STATE) or not partition.replica.log_end_offset:
            continue
        log = load_log(
            environment,
            os.path.join(out, partition_directory(partition.topic_partition)),
            partition.topic_partition,
            LogConfig(),
            is_clean=True,
            recovery_point=partition.replica.log_end_offset,
            log_start_offset=partition.replica.log_start_offset,
        )
        try:
            if partition.topic.name == CONSUMER_OFFSETS:
                loaded = read_groups(log)
                groups += len(loaded)
                offsets += sum(len(group.offsets) for group in loaded.values())
            else:
                transactional_ids += len(last_values(log))
        finally:
            log.segments.close()
    return InternalState(groups, offsets, transactional_ids)
