"""How far each log is clean: `cleaner-offset-checkpoint`, in Kafka's format.

The offset of a log is raised by a pass that has ended well, once what it wrote is on the disk under its final names;
lowered by truncation; removed with the log. One that is missing, or cannot be right, costs a pass over the whole log.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from threading import Lock

from ...protocol.topics import TopicPartition
from ..filenames import CLEANER_CHECKPOINT
from ..filesystem import FileSystem
from ..offset_checkpoint_file import CorruptCheckpoint, read_offsets, write_offsets

logger = logging.getLogger("kmini.storage.cleaner")


class CleanerCheckpoint:
    """The first dirty offset of every log that was ever cleaned. For the loop; `write` is for any thread."""

    def __init__(self, filesystem: FileSystem, log_directory: str) -> None:
        """Reads the file; one that cannot be read counts as empty, and is said so in the broker's log."""
        self._filesystem = filesystem
        self._path = os.path.join(log_directory, CLEANER_CHECKPOINT)
        self._one_write_at_a_time = Lock()
        self._offsets: dict[TopicPartition, int] = {}
        self.is_corrected = False
        """An offset that could not be right was replaced since the last `snapshot`: to be written at once."""
        try:
            self._offsets = read_offsets(filesystem, self._path)
        except (CorruptCheckpoint, OSError) as error:
            logger.error("%s; every log counts as dirty", error)

    def get(self, partition: TopicPartition) -> int | None:
        return self._offsets.get(partition)

    def set(self, partition: TopicPartition, first_dirty_offset: int) -> None:
        self._offsets[partition] = first_dirty_offset

    def correct(self, partition: TopicPartition, first_dirty_offset: int) -> None:
        """The offset cannot be right; this one can."""
        self._offsets[partition] = first_dirty_offset
        self.is_corrected = True

    def lower(self, partition: TopicPartition, offset: int) -> bool:
        """The log was cut at `offset`, and goes on from there with what is not clean; says whether that counts."""
        if self._offsets.get(partition, 0) <= offset:
            return False
        self._offsets[partition] = offset
        return True

    def remove(self, partition: TopicPartition) -> None:
        self._offsets.pop(partition, None)

    def snapshot(self, known: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What to write: entries of partitions that are gone fall out of the file."""
        self.is_corrected = False
        return {partition: offset for partition, offset in self._offsets.items() if partition in known}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Put a snapshot on the disk. Blocks. OSError if the disk refuses."""
        with self._one_write_at_a_time:
            write_offsets(self._filesystem, self._path, offsets)
