"""Taking in partitions from another log directory, such as a copy of one of Apache Kafka, while the broker runs."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..protocol.topics import TopicPartition
from . import filenames
from .filesystem import FileSystem
from .log import PartitionLog
from .log_config import LogConfig
from .log_manager import LogManager
from .log_snapshots import copy
from .offset_checkpoint_file import read_log_start_offsets, read_offsets
from .recovery import load_log


def partitions_in(filesystem: FileSystem, directory: str) -> dict[TopicPartition, str]:
    """The partitions of a log directory, with the name of each one's folder. OSError if it cannot be read."""
    found = {}
    for name in filesystem.list_directories(directory):
        parsed = filenames.parse_partition_directory(name)
        if parsed is not None and not parsed.mark and parsed.topic_partition is not None:
            found[parsed.topic_partition] = name
    found.pop(TopicPartition("__cluster_metadata", 0), None)
    return found


def take_in(
    manager: LogManager, source: str, partitions: dict[TopicPartition, str], config_of: Callable[[str], LogConfig]
) -> dict[TopicPartition, PartitionLog]:
    """Copy these partitions of the log directory `source`, which `partitions_in` has found, into that of the manager,
    and load their logs: without recovery where `source` was shut down cleanly. The caller adds them to the manager.

    Nothing changes in `source`. Blocks; for any thread. Raises OSError, KafkaStorageError and CorruptCheckpoint, and
    leaves no copy then.
    """
    filesystem = manager.filesystem
    is_clean = filesystem.exists(os.path.join(source, filenames.CLEAN_SHUTDOWN))
    recovery_points = read_offsets(filesystem, os.path.join(source, filenames.RECOVERY_POINT_CHECKPOINT))
    start_offsets = read_log_start_offsets(filesystem, source)
    logs = {}
    try:
        for topic_partition, name in partitions.items():
            target = os.path.join(manager.directory, name)
            filesystem.make_directory(target)
            for file in filesystem.list(os.path.join(source, name)):
                copy(filesystem, os.path.join(source, name, file), os.path.join(target, file))
            logs[topic_partition] = log = load_log(
                manager.environment,
                target,
                topic_partition,
                config_of(topic_partition.topic),
                is_clean=is_clean,
                recovery_point=recovery_points.get(topic_partition, 0),
                log_start_offset=start_offsets.get(topic_partition, 0),
            )
            log.flush()  # recovery takes gaps between segments above the recovery point for losses
            log.update_high_watermark(log.log_end_offset)
    except BaseException:
        for log in logs.values():
            log.segments.close()
        for name in partitions.values():
            filesystem.remove_tree(os.path.join(manager.directory, name))
        raise
    return logs
