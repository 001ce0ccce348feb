"""The first dirty offset of each log: `cleaner-offset-checkpoint`, in Kafka's format.

A pass that has succeeded raises the offset of its log, once its segments are on the disk under their final names;
truncation lowers it; removing the log removes it. An offset that is missing, or cannot be right, costs a pass over the
whole log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping

from ...protocol.topics import TopicPartition
from ..filenames import CLEANER_CHECKPOINT
from ..filesystem import FileSystem
from ..offset_checkpoint_file import CorruptCheckpoint, read_offsets, write_offsets

logger = logging.getLogger("kmini.storage.cleaner")


class CleanerCheckpoint:
    """The first dirty offset of every log that was ever cleaned. For the loop; any thread may call `write`, one at a
    time."""

    def __init__(self, filesystem: FileSystem, log_directory: str) -> None:
        """Read the file. One that cannot be read counts as empty, with an error in the broker's log."""
        self._filesystem = filesystem
        self._path = os.path.join(log_directory, CLEANER_CHECKPOINT)
        self._offsets: dict[TopicPartition, int] = {}
        self.is_corrected = False
        """Whether `correct` or `remove` has changed something since the last `snapshot`; then the file is to be written
        at once."""
        try:
            self._offsets = read_offsets(filesystem, self._path)
        except (CorruptCheckpoint, OSError) as error:
            logger.error("%s; every log counts as dirty", error)

    def get(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def set(self, partition: TopicPartition, first_dirty_offset: int) -> None:
        self._offsets[partition] = first_dirty_offset

    def correct(self, partition: TopicPartition, first_dirty_offset: int) -> None:
        """Replace an offset that cannot be right."""
        self._offsets[partition] = first_dirty_offset
        self.is_corrected = True

    def lower(self, partition: TopicPartition, offset: int) -> bool:
        """Note that the log was truncated to `offset`; return whether that lowered its entry."""
        if self._offsets.get(partition, 0) <= offset:
            return False
        self._offsets[partition] = offset
        return True

    def remove(self, partition: TopicPartition) -> None:
        """Take away the offset of a log that is gone: a later log of its name is dirty from its start."""
        if self._offsets.pop(partition, None) is not None:
            self.is_corrected = True

    def snapshot(self, known: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the entries to write, without those of partitions that are not `known` any more."""
        self.is_corrected = False
        return {partition: offset for partition, offset in self._offsets.items() if partition in known}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write a snapshot to the disk. Blocks. OSError if the disk refuses."""
        write_offsets(self._filesystem, self._path, offsets)
