"""The logs in a log directory of kmini or Apache Kafka, running or stopped. Reads only; needs no Spark and no broker.

A broker may be running: files appear, change their suffixes and disappear. A file that is gone when it is read is left
out. The checkpoints are read before the folders are listed, so they are never newer than the segments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from typing import NamedTuple, TypeVar

from ...protocol.topics import TopicPartition
from ...storage import filenames
from ...storage.filenames import parse_broker_directory, parse_partition_directory, parse_segment_file
from ...storage.filesystem import OsFileSystem
from ...storage.log_dir_files import CorruptMetadata, read_partition_metadata
from ...storage.offset_checkpoint_file import CorruptCheckpoint, read_log_start_offsets, read_offsets

LIVE, DELETED, CLEANED, SWAP = "live", "deleted", "cleaned", "swap"

_STATES = {"": LIVE, filenames.DELETED: DELETED, filenames.CLEANED: CLEANED, filenames.SWAP: SWAP}

T = TypeVar("T")


class SegmentFile(NamedTuple):
    """A file of records."""

    path: str
    base_offset: int
    state: str
    """LIVE: a part of the log. Other states are outside the log: DELETED files will be removed, the cleaner is writing
    CLEANED files, and SWAP files are complete and about to replace live ones."""
    size_bytes: int
    inode: int
    """Identifies the file when its name changes."""
    end_offset: int | None = None
    """Base offset of the next live segment; None for the last segment and for files that are not live."""


class PartitionFolder(NamedTuple):
    """The log of one partition on one broker."""

    path: str
    topic: str
    partition: int
    """-1 if the folder's name was shortened so far that the number is lost (in a folder with a mark)."""
    mark: str
    """Empty for a log in use; else `delete` (its topic is gone), `future` (it moves to another log directory) or
    `stray` (it belongs to no topic)."""
    topic_id: bytes | None
    """None if the log is older than topic ids, or its metadata is missing."""
    log_start_offset: int
    """Records below it are deleted, although files may still hold them."""
    high_watermark: int | None
    """The last checkpointed high watermark: written every few seconds and when the broker stops. None without a
    checkpoint."""
    recovery_point: int
    """Records below it are on the disk, with their indexes."""
    segments: tuple[SegmentFile, ...]
    """Files in all states, by base offset."""

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def live_segments(self) -> tuple[SegmentFile, ...]:
        return tuple(segment for segment in self.segments if segment.state == LIVE)


class NoLogDirectory(ValueError):
    """The directory holds no logs, so an empty result would not mean that all records were deleted. The message names
    its contents."""


class LogDir:
    """The folders of logs below a path: a log directory, kmini's data directory (with a `broker-N` for each broker), or
    one folder of a log.

    FileNotFoundError or NotADirectoryError if the path is no directory, NoLogDirectory if it holds no logs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        names = os.listdir(self.path)
        brokers = [name for name in names if parse_broker_directory(name) is not None]
        brokers = [name for name in brokers if os.path.isdir(os.path.join(self.path, name))]
        if not brokers and not any(map(_belongs_to_logs, names)):
            found = f"it holds {', '.join(sorted(names)[:3])}" if names else "it is empty"
            raise NoLogDirectory(
                f"{self.path} is no directory of logs: {found}; a data directory of kmini, a log directory of Apache "
                "Kafka, or the folder of a partition was expected"
            )
        self._lone_folder = not brokers and any(parse_segment_file(name) is not None for name in names)
        if self._lone_folder:
            self.log_directories = [os.path.dirname(self.path)]
        else:
            self.log_directories = sorted(os.path.join(self.path, name) for name in brokers) or [self.path]
        """The log directories below the path, or the parent of a lone folder."""
        self.problems: list[str] = []
        """Problems of the last call with checkpoints and other small files, with their names. An unreadable file counts
        as missing."""
        self._filesystem = OsFileSystem()

    def partitions(self, topics: Collection[str] | None = None) -> list[PartitionFolder]:
        """List the logs of these topics, or all, ordered by name; replicas of one partition are ordered by log
        directory.

        A data directory of several brokers has one log for each replica.
        """
        self.problems = []
        found = [folder for directory in self.log_directories for folder in self._folders(directory, topics)]
        return sorted(found, key=lambda folder: (folder.topic, folder.partition, folder.path))

    def _folders(self, directory: str, topics: Collection[str] | None) -> Iterator[PartitionFolder]:
        checkpoints = [self._offsets(directory, name) for name in _CHECKPOINTS]
        for name in [os.path.basename(self.path)] if self._lone_folder else sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            parsed = parse_partition_directory(name)
            if parsed is None and self._lone_folder:
                parsed = filenames.PartitionDirectory(TopicPartition(name, -1))
            if parsed is None or not os.path.isdir(path):
                continue
            lost = TopicPartition(name.rpartition(".")[0], -1)
            topic_partition = parsed.topic_partition or lost
            if topics is not None and topic_partition.topic not in topics:
                continue
            try:
                segments = list_segments(path)
                topic_id = self._read(lambda path=path: read_partition_metadata(self._filesystem, path))  # type: ignore[misc]
            except FileNotFoundError:
                continue  # the folder disappeared meanwhile
            starts, watermarks, recovery_points = (None if parsed.mark else found for found in checkpoints)
            first = next((segment.base_offset for segment in segments if segment.state == LIVE), 0)
            yield PartitionFolder(
                path=path,
                topic=topic_partition.topic,
                partition=topic_partition.partition,
                mark=parsed.mark,
                topic_id=topic_id,
                log_start_offset=max(first, (starts or {}).get(topic_partition, 0)),
                high_watermark=(watermarks or {}).get(topic_partition),
                recovery_point=(recovery_points or {}).get(topic_partition, 0),
                segments=segments,
            )

    def _offsets(self, directory: str, name: str) -> dict[TopicPartition, int] | None:
        path = os.path.join(directory, name)
        if name == filenames.LOG_START_OFFSET_CHECKPOINT:
            return self._read(lambda: read_log_start_offsets(self._filesystem, directory))
        return self._read(lambda: read_offsets(self._filesystem, path))

    def _read(self, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except (CorruptCheckpoint, CorruptMetadata) as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{error.filename}: cannot be read: {error.strerror or error}")
        return None


_CHECKPOINTS = (
    filenames.LOG_START_OFFSET_CHECKPOINT,
    filenames.HIGH_WATERMARK_CHECKPOINT,
    filenames.RECOVERY_POINT_CHECKPOINT,
)


def _belongs_to_logs(name: str) -> bool:
    """Whether a file of this name shows that a directory has logs, is one, or will have some."""
    if name in (filenames.DATABASE, filenames.META_PROPERTIES):
        return True
    return parse_partition_directory(name) is not None or parse_segment_file(name) is not None


def list_segments(folder: str) -> tuple[SegmentFile, ...]:
    """List the files of records in a folder."""
    segments = []
    with os.scandir(folder) as entries:
        for entry in entries:
            parsed = parse_segment_file(entry.name)
            if parsed is None or parsed.kind != filenames.LOG:
                continue
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            state = _STATES[parsed.suffix]
            segments.append(SegmentFile(entry.path, parsed.base_offset, state, status.st_size, status.st_ino))
    segments.sort(key=lambda segment: (segment.base_offset, segment.state))
    bases = [segment.base_offset for segment in segments if segment.state == LIVE]
    ends = dict(pairwise(bases))
    return tuple(
        segment._replace(end_offset=ends.get(segment.base_offset)) if segment.state == LIVE else segment
        for segment in segments
    )
