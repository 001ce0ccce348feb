"""The source of a graduation: a data directory without a running broker. It is read, and not changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NamedTuple

from ..broker.controller.database import ControllerError, Stored, read_database
from ..broker.controller.topology import PartitionState, Topic
from ..protocol.topics import TopicPartition
from ..storage import filenames
from ..storage.data_directory import find_foreign
from ..storage.filesystem import FileSystem, LockHeld
from ..storage.log_dir_files import CorruptMetadata, read_meta_properties, read_partition_metadata
from ..storage.offset_checkpoint_file import CorruptCheckpoint, read_epochs, read_log_start_offsets, read_offsets


class Refused(Exception):
    """The directory cannot be graduated; the message gives the reason and the remedy in one sentence."""


class LogDirectory(NamedTuple):
    """The log directory of one broker, as its checkpoints describe it."""

    node_id: int
    path: str
    log_start_offsets: Mapping[TopicPartition, int]
    log_end_offsets: Mapping[TopicPartition, int]
    """The recovery points: the log ends after a clean shutdown."""
    cleaned_offsets: Mapping[TopicPartition, int]


class Replica(NamedTuple):
    """The log that is selected for a partition."""

    node_id: int
    path: str
    log_start_offset: int
    log_end_offset: int
    cleaned_offset: int | None
    """The first dirty offset; None if the log was never compacted."""
    last_epoch: int
    """The latest leader epoch of its batches; -1 without one."""


class SourcePartition(NamedTuple):
    """A partition and the replica that is selected for it."""

    topic: Topic
    number: int
    replica: Replica

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.number)

    @property
    def state(self) -> PartitionState:
        return self.topic.partitions[self.number]


class Source(NamedTuple):
    """A locked data directory: no broker can start on it meanwhile."""

    path: str
    stored: Stored
    partitions: list[SourcePartition]
    """Partitions by topic and number."""
    left_behind: list[str]
    """Folders that belong to no topic."""


@contextmanager
def opened(filesystem: FileSystem, data_dir: str) -> Iterator[Source]:
    """Lock a data directory and read its metadata. Raises Refused, and OSError if the disk refuses."""
    if not filesystem.exists(os.path.join(data_dir, filenames.DATABASE)):
        foreign = find_foreign(filesystem, data_dir)
        found = foreign.found if foreign else f"{data_dir} holds no {filenames.DATABASE}"
        raise Refused(f"{found}: name the data directory that a kmini ran on")
    names = filesystem.list(data_dir)
    paths = {
        node_id: os.path.join(data_dir, name)
        for name in names
        if (node_id := filenames.parse_broker_directory(name)) is not None
    }
    if not paths:
        raise Refused(f"{data_dir} holds no broker's log directory: no broker has run on it yet")
    with ExitStack() as held:
        for path in paths.values():
            try:
                lock = filesystem.lock(os.path.join(path, filenames.LOCK))
            except LockHeld:
                raise Refused(f"a broker is running on {data_dir}: stop it first, with Ctrl-C or SIGTERM") from None
            held.callback(lock.release)
        for path in paths.values():
            if not filesystem.exists(os.path.join(path, filenames.CLEAN_SHUTDOWN)):
                serve = f"kmini serve --data-dir {data_dir}" + (f" --brokers {len(paths)}" if len(paths) > 1 else "")
                raise Refused(
                    f"{path} was not closed in order: let kmini recover it ({serve}), stop that with Ctrl-C or "
                    "SIGTERM, and try again"
                )
        try:
            stored = read_database(filesystem, os.path.join(data_dir, filenames.DATABASE))
        except ControllerError as error:
            raise Refused(str(error)) from error
        directories = {node_id: _read_log_directory(filesystem, node_id, path) for node_id, path in paths.items()}
        _check_owner(filesystem, directories.values(), stored.cluster_id)
        partitions = [
            SourcePartition(topic, number, _replica(filesystem, directories, topic, number))
            for topic in sorted(stored.topics)
            for number in range(len(topic.partitions))
        ]
        left_behind = list(_folders_without_topic(filesystem, directories.values(), stored))
        yield Source(data_dir, stored, partitions, left_behind)


def _read_log_directory(filesystem: FileSystem, node_id: int, path: str) -> LogDirectory:
    def offsets(name: str) -> Mapping[TopicPartition, int]:
        return read_offsets(filesystem, os.path.join(path, name))

    try:
        return LogDirectory(
            node_id,
            path,
            read_log_start_offsets(filesystem, path),
            offsets(filenames.RECOVERY_POINT_CHECKPOINT),
            offsets(filenames.CLEANER_CHECKPOINT),
        )
    except CorruptCheckpoint as error:
        raise Refused(f"{error}; let kmini start and stop once on it, which writes its checkpoints anew") from error


def _check_owner(filesystem: FileSystem, directories: Iterable[LogDirectory], cluster_id: str) -> None:
    for directory in directories:
        try:
            meta = read_meta_properties(filesystem, directory.path)
        except CorruptMetadata as error:
            raise Refused(str(error)) from error
        if meta is None or (meta.node_id, meta.cluster_id) != (directory.node_id, cluster_id):
            raise Refused(f"{directory.path} is not the log directory of broker {directory.node_id} of this cluster")


def _replica(filesystem: FileSystem, directories: Mapping[int, LogDirectory], topic: Topic, number: int) -> Replica:
    """Select the most complete replica: the leader's; else, of those in the ISR, or of all, the one with the longest
    log."""
    state = topic.partitions[number]
    found = {
        node_id: replica
        for node_id in state.replicas
        if node_id in directories and (replica := _log_of(filesystem, directories[node_id], topic, number)) is not None
    }
    in_sync = [node_id for node_id in state.isr if node_id in found]
    if state.leader in found:
        return found[state.leader]
    if not found:
        where = ", ".join(f"broker-{node_id}" for node_id in state.replicas)
        raise Refused(
            f"{topic.name}-{number} has no log in {where}: delete the topic, or bring the folder back, and try again"
        )
    return max((found[node_id] for node_id in in_sync or found), key=lambda one: (one.last_epoch, one.log_end_offset))


def _log_of(filesystem: FileSystem, directory: LogDirectory, topic: Topic, number: int) -> Replica | None:
    """A broker's replica of a partition; None without a folder of this topic."""
    topic_partition = TopicPartition(topic.name, number)
    path = os.path.join(directory.path, filenames.partition_directory(topic_partition))
    if not filesystem.is_directory(path):
        return None
    try:
        if read_partition_metadata(filesystem, path) != topic.id:
            return None
        epochs = read_epochs(filesystem, os.path.join(path, filenames.LEADER_EPOCH_CHECKPOINT))
    except (CorruptMetadata, CorruptCheckpoint) as error:
        raise Refused(f"{error}; let kmini start and stop once on it") from error
    return Replica(
        directory.node_id,
        path,
        directory.log_start_offsets.get(topic_partition, 0),
        directory.log_end_offsets.get(topic_partition, 0),
        directory.cleaned_offsets.get(topic_partition),
        epochs[-1][0] if epochs else -1,
    )


def _folders_without_topic(
    filesystem: FileSystem, directories: Iterable[LogDirectory], stored: Stored
) -> Iterator[str]:
    ids = {topic.name: topic.id for topic in stored.topics}
    for directory in directories:
        for name in filesystem.list(directory.path):
            path = os.path.join(directory.path, name)
            parsed = filenames.parse_partition_directory(name)
            if not filesystem.is_directory(path) or (parsed is not None and parsed.mark == "delete"):
                continue
            topic_id = None
            with suppress(CorruptMetadata):
                topic_id = read_partition_metadata(filesystem, path)
            log = None if parsed is None or parsed.mark else parsed.topic_partition
            if log is None or ids.get(log.topic, b"") != topic_id:
                yield path
