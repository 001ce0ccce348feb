"""All logs of a broker: one log directory, from its lock to the marker of a clean shutdown.

A disk that fails later fails the operations on the logs that it holds (`disk_errors` of `log.py`); the directory does
not go offline.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from threading import Lock

from ..protocol.errors import KafkaStorageError
from ..protocol.topics import TopicPartition
from ..protocol.uuids import random_uuid
from . import filenames, offset_checkpoint_file
from .background_work import BackgroundWork, Deletions
from .config_key import MAX_LONG
from .filenames import partition_directory
from .filesystem import FileSystem, make_directory_durable
from .filesystem import Lock as FileLock
from .flush import DiskState
from .leader_epochs import LeaderEpochs
from .log import PartitionLog
from .log_config import LogConfig
from .log_dir_files import (
    CorruptMetadata,
    LaterMetadata,
    MetaProperties,
    encode_partition_metadata,
    read_meta_properties,
    take_clean_shutdown,
    write_clean_shutdown,
    write_meta_properties,
    write_partition_metadata,
)
from .log_environment import LogEnvironment
from .offset_checkpoint_file import CorruptCheckpoint
from .producers.producer_state_manager import DEFAULT_EXPIRATION_MS, ProducerStateManager
from .recovery import LogLoader
from .retention import apply_retention
from .segment import Segment
from .segments import Segments

logger = logging.getLogger("kmini.storage")

_BYTES_FOR_A_THREAD = 1 << 20
"""Bytes to recover from which on a log is loaded in a thread of its own."""
_LOGS_FOR_THREADS = 32
"""Logs to close from which on threads close them."""
_CLOSING_THREADS = 16
"""Threads that close logs at the same time. They wait for the disk, and a journal of a file system writes what several
of them wait for in one go: with this many, 2,000 logs take a fifteenth of the time that one thread takes."""
_NOT_LOGS = ("__cluster_metadata-0", "remote-log-index-cache")
"""Directories of Apache Kafka beside its logs."""


class WrongLogDirectory(Exception):
    """The directory belongs to another broker or cluster, which the message names."""


class LogManager:
    """The logs of one log directory, which is locked while this is open. For the broker's loop, unless a method says
    otherwise."""

    logs: dict[TopicPartition, PartitionLog]
    """The logs that are online."""
    offline: dict[TopicPartition, OSError]
    """Partitions whose log could not be loaded because the disk refused, until the next start."""

    def __init__(
        self,
        environment: LogEnvironment,
        directory: str,
        lock: FileLock,
        meta: MetaProperties,
        config_of: Callable[[str], LogConfig],
    ) -> None:
        """Use `open`."""
        self.environment = environment
        self.filesystem = environment.filesystem
        self.directory = directory
        self.meta = meta
        self.logs = {}
        self.offline = {}
        self._config_of = config_of
        self.lock = lock
        self._offline_start_offsets: dict[TopicPartition, int] = {}
        self._maybe_in_checkpoint: set[TopicPartition] = set()
        """Partitions that log-start-offset-checkpoint may have an entry of, even if the log was deleted."""
        self._half_made: set[TopicPartition] = set()
        """Partitions whose `create` failed and whose directory could not be removed."""
        self._one_write_at_a_time = Lock()

    @classmethod
    def open(
        cls,
        filesystem: FileSystem,
        directory: str,
        *,
        node_id: int,
        cluster_id: str,
        config_of: Callable[[str], LogConfig],
        now_ms: Callable[[], int],
        recovery_threads: int = 2,
        producer_id_expiration_ms: int = DEFAULT_EXPIRATION_MS,
    ) -> LogManager:
        """Lock the directory, which is made if it is missing, and load every log in it. Blocks.

        `config_of` returns a topic's settings, and the defaults for an unknown topic. Raises LockHeld if another broker
        runs on the directory, WrongLogDirectory if it belongs to another broker, OSError if the disk refuses. Damaged
        data raises nothing: it is cut off, rebuilt or left out, and logged.
        """
        make_directory_durable(filesystem, directory)
        lock = filesystem.lock(os.path.join(directory, filenames.LOCK))
        try:
            meta = _check_owner(filesystem, directory, node_id, cluster_id)
            environment = LogEnvironment(filesystem, [], Deletions(filesystem), now_ms, producer_id_expiration_ms)
            manager = cls(environment, directory, lock, meta, config_of)
            manager.load(recovery_threads)
        except BaseException:
            lock.release()
            raise
        return manager

    def load(self, threads: int) -> None:
        """Load the logs, several at a time if they must be recovered, and queue the directories marked for deletion."""
        directories = dict(self._partition_directories())
        is_clean = take_clean_shutdown(self.filesystem, self.directory)
        recovery_points = self._read(filenames.RECOVERY_POINT_CHECKPOINT)
        cleaned = {} if is_clean else self._read(filenames.CLEANER_CHECKPOINT)  # no gap lies above a clean end
        start_offsets = self._read_start_offsets()
        self._maybe_in_checkpoint = set(start_offsets)
        configs = {topic: self._config_of(topic) for topic in {name.topic for name in directories}}

        def loader(topic_partition: TopicPartition) -> LogLoader:
            return LogLoader(
                self.environment,
                directories[topic_partition],
                topic_partition,
                configs[topic_partition.topic],
                is_clean=is_clean,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=start_offsets.get(topic_partition, 0),
                compacted_to=compacted_to(topic_partition),
            )

        def compacted_to(name: TopicPartition) -> int:
            """A pass over a log begins when the checkpoint has a recovery point above what it cleans. (Former versions,
            and Apache Kafka, have not waited for that.) Without an entry, a log may come from anywhere."""
            return max(recovery_points[name], cleaned.get(name, 0)) if name in recovery_points else MAX_LONG

        self._load_all(directories, loader, threads)
        for topic_partition in self.offline:
            self._offline_start_offsets[topic_partition] = start_offsets.get(topic_partition, 0)
        for topic_partition, offset in self._read(filenames.HIGH_WATERMARK_CHECKPOINT).items():
            if topic_partition in self.logs:
                self.logs[topic_partition].update_high_watermark(offset)

    def _load_all(
        self, names: Iterable[TopicPartition], loader: Callable[[TopicPartition], LogLoader], threads: int
    ) -> None:
        """Load logs one after the other, and in threads those of which much has to be recovered. (Of small logs two
        threads load fewer in a second than one does, because they wait for each other.)"""
        large: list[LogLoader] = []
        for topic_partition in names:
            try:
                opened = loader(topic_partition)
                if threads > 1 and opened.bytes_to_recover >= _BYTES_FOR_A_THREAD:
                    large.append(opened)
                else:
                    self.logs[topic_partition] = opened.finish()
            except OSError as error:
                self._take_offline(topic_partition, error)
        if large:
            from concurrent.futures import ThreadPoolExecutor  # imported here, because most starts do without

            with ThreadPoolExecutor(threads, "kmini-recovery") as executor:
                list(executor.map(self._finish, large))

    def _finish(self, loader: LogLoader) -> None:
        try:
            self.logs[loader.topic_partition] = loader.finish()
        except OSError as error:
            self._take_offline(loader.topic_partition, error)

    def _take_offline(self, topic_partition: TopicPartition, error: OSError) -> None:
        logger.error("%s cannot be loaded and stays offline: %s", topic_partition, error)
        self.offline[topic_partition] = error

    def _partition_directories(self) -> Iterator[tuple[TopicPartition, str]]:
        for name in self.filesystem.list_directories(self.directory):
            if name in _NOT_LOGS:
                continue
            path = filenames.path_in(self.directory, name)
            parsed = filenames.parse_partition_directory(name)
            if parsed is not None and parsed.mark == "delete":
                self.environment.deletions.add([path], self.environment.now_ms())
            elif parsed is None or parsed.mark or parsed.topic_partition is None:
                logger.warning("%s is no log of this broker; left alone", path)
            else:
                yield parsed.topic_partition, path

    def _read(self, name: str) -> dict[TopicPartition, int]:
        """Read a checkpoint; an empty one if it cannot be read, which costs time and no data."""
        try:
            return offset_checkpoint_file.read_offsets(self.filesystem, os.path.join(self.directory, name))
        except (CorruptCheckpoint, OSError) as error:
            logger.error("%s; doing without", error)
            return {}

    def _read_start_offsets(self) -> dict[TopicPartition, int]:
        """Read the log start offsets, under one of the two names. OSError if both files exist and cannot be read:
        deleted records would come back."""
        try:
            return offset_checkpoint_file.read_log_start_offsets(self.filesystem, self.directory)
        except (CorruptCheckpoint, OSError) as error:
            logger.error("%s; taking %s", error, filenames.LOG_BEGIN_OFFSET_CHECKPOINT)
        path = os.path.join(self.directory, filenames.LOG_BEGIN_OFFSET_CHECKPOINT)
        try:
            return offset_checkpoint_file.read_offsets(self.filesystem, path)
        except CorruptCheckpoint as error:
            logger.error("%s; logs start where their files do", error)
            return {}

    # Logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        return self.logs.get(topic_partition)

    def create(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig) -> PartitionLog:
        """Create the directory of a new partition and its empty log. KafkaStorageError if the disk refuses.

        The directory and `partition.metadata` come first, so that a directory without that file is a half-made one.
        The first flush syncs them: until then the broker can create the log again.
        """
        if topic_partition in self.logs:
            raise ValueError(f"{topic_partition} has a log")
        if topic_partition in self.offline:
            raise KafkaStorageError(f"{topic_partition} is offline: {self.offline[topic_partition]}")
        path = os.path.join(self.directory, partition_directory(topic_partition))
        try:
            if topic_partition in self._maybe_in_checkpoint:
                # A deleted topic is created again: the new log must not inherit the old log start offset.
                self.write_log_start_offsets(self.log_start_offsets())
            self.filesystem.make_directory(path)
            metadata = os.path.join(path, filenames.PARTITION_METADATA)
            with contextlib.closing(self.filesystem.open(metadata, create=True)) as file:
                if file.size:  # left by an attempt that failed
                    file.truncate(0)
                file.append(encode_partition_metadata(topic_id))
            log = create_log(self.environment, path, topic_partition, topic_id, config)
        except OSError as error:
            self._half_made.add(topic_partition)
            with contextlib.suppress(KafkaStorageError):
                self.remove_half_made(topic_partition)
            raise KafkaStorageError(f"{topic_partition}: {error}") from error
        self._half_made.discard(topic_partition)
        self.logs[topic_partition] = log
        return log

    def remove_half_made(self, topic_partition: TopicPartition) -> None:
        """Remove the directory that a failed `create` has left, if any: the next start would take it for a log.
        KafkaStorageError if the disk refuses."""
        if topic_partition in self._half_made:
            try:
                self.filesystem.remove_tree(os.path.join(self.directory, partition_directory(topic_partition)))
            except OSError as error:
                raise KafkaStorageError(f"{topic_partition}: {error}") from error
            self._half_made.discard(topic_partition)

    def sync_names(self) -> None:
        """Return when the names of the logs are on the disk: until then a power loss may bring a deleted log back.
        Blocks. KafkaStorageError if the disk refuses."""
        try:
            self.filesystem.sync_directory(self.directory)
        except OSError as error:
            raise KafkaStorageError(f"{self.directory}: {error}") from error

    def set_producer_id_expiration_ms(self, expiration_ms: int) -> None:
        """Set how long all logs, present and future, remember a producer (`producer.id.expiration.ms`)."""
        self.environment = self.environment._replace(producer_expiration_ms=expiration_ms)
        for log in self.logs.values():
            log.environment = self.environment
            log.producers.expiration_ms = expiration_ms

    def assign_topic_id(self, topic_partition: TopicPartition, topic_id: bytes) -> None:
        """Write the topic id of a log that has none. Blocks. KafkaStorageError if the disk refuses."""
        log = self.logs[topic_partition]
        try:
            write_partition_metadata(self.filesystem, log.directory, topic_id)
        except OSError as error:
            raise KafkaStorageError(f"{topic_partition}: {error}") from error
        log.topic_id = topic_id

    def delete(self, topic_partition: TopicPartition) -> None:
        """Delete a log: its directory is renamed now, and `delete_due_files` removes it later.

        The delay is the broker's default, because the topic is gone. KafkaStorageError if the disk refuses; the log
        stays then.
        """
        log = self.logs[topic_partition]
        name = filenames.deleted_partition_directory(topic_partition, random_uuid())
        target = os.path.join(self.directory, name)
        try:
            self.filesystem.rename(log.directory, target)
        except OSError as error:
            raise KafkaStorageError(f"{topic_partition}: {error}") from error
        log.abandon()
        del self.logs[topic_partition]
        delay_ms = self._config_of(topic_partition.topic).file_delete_delay_ms
        self.environment.deletions.add([target], self.environment.now_ms() + delay_ms)

    def remove(self, topic_partition: TopicPartition) -> None:
        """Remove a log and its directory at once, for a log that a crash left half-made. Blocks. OSError if the disk
        refuses."""
        log = self.logs.pop(topic_partition)
        log.abandon()
        self.filesystem.remove_tree(log.directory)

    # Background work, and work from time to time

    def take_background_work(self) -> list[BackgroundWork]:
        """Take the work that logs have left since the last call: `run` each in a thread, then `finish` it on the
        loop."""
        work = self.environment.background[:]
        self.environment.background.clear()
        return work

    def apply_retention(self, now_ms: int) -> list[TopicPartition]:
        """Apply retention to every log; return the partitions whose log start offset may have moved."""
        changed = []
        for topic_partition, log in self.logs.items():
            try:
                if apply_retention(log, now_ms):
                    changed.append(topic_partition)
            except KafkaStorageError as error:
                logger.error("retention: %s", error)
        return changed

    @property
    def next_deletion_ms(self) -> int | None:
        """When `delete_due_files` next has work; None if nothing waits."""
        return self.environment.deletions.next_due_ms

    def delete_due_files(self, now_ms: int) -> int:
        """Remove the files and directories whose delay has passed; return how many. Blocks; for any thread."""
        return self.environment.deletions.delete_due(now_ms)

    # Checkpoints: snapshots on the loop, which offset_checkpoint_file.write_offsets writes in a thread

    def recovery_points(self) -> dict[TopicPartition, int]:
        return {name: log.recovery_point for name, log in self.logs.items()}

    def high_watermarks(self) -> dict[TopicPartition, int]:
        return {name: log.high_watermark for name, log in self.logs.items()}

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """The log start offset of every log that does not start at 0, even if its first segment begins there.

        (Kafka leaves those out. Here a power loss that brings old segment files back must not bring records back.)
        """
        offsets = {name: log.log_start_offset for name, log in list(self.logs.items()) if log.log_start_offset}
        return {**self._offline_start_offsets, **offsets}

    def write_log_start_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write the offsets to the disk, under both names of the file. Blocks; for any thread. OSError if the disk
        refuses.

        Leaves out entries of logs that were deleted meanwhile, even if there is a new log of that name.
        """
        with self._one_write_at_a_time:
            self._maybe_in_checkpoint |= offsets.keys()  # first: a `create` from here on waits for this write
            current = self.log_start_offsets()
            valid = {name: offset for name, offset in offsets.items() if offset <= current.get(name, 0)}
            offset_checkpoint_file.write_log_start_offsets(self.filesystem, self.directory, valid)
            self._maybe_in_checkpoint = set(valid)

    # Closing

    def close(self, *, clean: bool = True) -> None:
        """Close all logs and unlock the directory. Blocks. No log may be used any more.

        With `clean`, flush everything first, and if that succeeds, mark the shutdown as clean: the next start then
        recovers nothing.
        """
        try:
            if clean and self._close_logs():
                self.filesystem.sync_directory(self.directory)  # the names of the logs
                write = partial(offset_checkpoint_file.write_offsets, self.filesystem)
                write(os.path.join(self.directory, filenames.RECOVERY_POINT_CHECKPOINT), self.recovery_points())
                write(os.path.join(self.directory, filenames.HIGH_WATERMARK_CHECKPOINT), self.high_watermarks())
                self.write_log_start_offsets(self.log_start_offsets())
                write_clean_shutdown(self.filesystem, self.directory)
        finally:
            for log in self.logs.values():
                log.segments.close()
            self.lock.release()

    def _close_logs(self) -> bool:
        """Close the logs, in threads if there are many; return whether all of them, offline ones included, are on the
        disk."""
        if len(self.logs) < _LOGS_FOR_THREADS:
            closed = [_close_log(log) for log in self.logs.values()]
        else:
            from concurrent.futures import ThreadPoolExecutor  # imported here, because most brokers have few logs

            with ThreadPoolExecutor(_CLOSING_THREADS, "kmini-closing") as executor:
                closed = list(executor.map(_close_log, self.logs.values()))
        return all(closed) and not self.offline


def _close_log(log: PartitionLog) -> bool:
    """Close a log; return whether it is on the disk as a whole."""
    try:
        log.close()
    except KafkaStorageError as error:
        logger.error("not closed cleanly, and so recovered at the next start: %s", error)
        return False
    return True


def _check_owner(filesystem: FileSystem, directory: str, node_id: int, cluster_id: str) -> MetaProperties:
    """Return the entries of meta.properties if the directory is this broker's; write them if they are missing or
    damaged."""
    try:
        meta = read_meta_properties(filesystem, directory)
    except LaterMetadata as error:
        raise WrongLogDirectory(f"{error}: start the program that wrote it, or upgrade kmini") from error
    except CorruptMetadata as error:
        logger.error("%s; writing it anew", error)
        meta = None
    if meta is None:
        meta = MetaProperties(node_id, cluster_id, random_uuid())
        write_meta_properties(filesystem, directory, meta)
    if meta.node_id != node_id:
        raise WrongLogDirectory(
            f"{directory} is the log directory of node {meta.node_id}, not of node {node_id}: rename it to "
            f"{filenames.broker_directory(meta.node_id)}, and set node.id to {meta.node_id} to serve it"
        )
    if meta.cluster_id and meta.cluster_id != cluster_id:
        raise WrongLogDirectory(
            f"{directory} belongs to the cluster {meta.cluster_id}, not to {cluster_id}: move it to a data directory "
            "of its own"
        )
    return meta


# --- creating a log


def create_log(
    environment: LogEnvironment, directory: str, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig
) -> PartitionLog:
    """Create the empty log of a new partition in its directory, which exists. OSError if the disk refuses."""
    filesystem, now_ms = environment.filesystem, environment.now_ms
    segment = Segment(filesystem, directory, 0, config, now_ms(), create=True)
    return PartitionLog(
        environment,
        directory,
        topic_partition,
        topic_id,
        config,
        segments=Segments(filesystem, environment.deletions, directory, [segment]),
        leader_epochs=LeaderEpochs(),
        producers=ProducerStateManager(filesystem, directory, expiration_ms=environment.producer_expiration_ms),
        log_start_offset=0,
        log_end_offset=0,
        disk=DiskState(filesystem, directory, now_ms),
    )
