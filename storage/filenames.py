"""Every name below a data directory. This module formats and parses all of them.

    DATA_DIR/kmini.db                       topics, ids, configs (broker/controller/database.py)
    DATA_DIR/.lock
    DATA_DIR/.init-done.json                files of an init directory that were run (cli/init_directory.py)
    DATA_DIR/broker-1/                      a Kafka log directory
        .lock  .kafka_cleanshutdown  meta.properties  <four offset checkpoints>
        orders-0/                           a partition's log; the partition is after the last dash
            00000000000000000042.log        a segment whose first offset is 42, or would be
        orders-0.<32 hex>-delete/           a log that is to be deleted

Parsing is strict: a parser returns None for a name that does not have exactly one of these forms.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from ..protocol.topics import TopicPartition

DATABASE = "kmini.db"
LOCK = ".lock"
INIT_DONE = ".init-done.json"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
"""Kafka's name of the file."""
LOG_BEGIN_OFFSET_CHECKPOINT = "log-begin-offset-checkpoint"
"""The name of the same file in KIP-107. Both are written."""
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
TEMPORARY = ".tmp"
"""Suffix of a file that `write_atomically` is writing."""

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
TRANSACTION_INDEX = ".txnindex"
PRODUCER_SNAPSHOT = ".snapshot"
SEGMENT_KINDS = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)
"""The files of a segment. A producer snapshot has a base offset as well, but need not belong to a segment."""

DELETED = ".deleted"
"""Suffix of a file that is removed after `file.delete.delay.ms`."""
CLEANED = ".cleaned"
"""Suffix of a file that the cleaner is writing; worthless after a crash."""
SWAP = ".swap"
"""Suffix of a complete file that is about to replace its sources; a start after a crash finishes that."""

_OF_OPERATING_SYSTEMS = frozenset(
    {"lost+found", "System Volume Information", "$RECYCLE.BIN", "Thumbs.db", "desktop.ini", "@eaDir"}
)
_MAX_NAME = 255
_OFFSET_DIGITS = 20
_SEGMENT_FILE_ENDS = {
    kind + suffix: (kind, suffix)
    for kind in (*SEGMENT_KINDS, PRODUCER_SNAPSHOT)
    for suffix in (DELETED, CLEANED, SWAP, "")
}
"""Kind and suffix of a segment's file, by what follows the digits in its name."""
_PARTITION_DIRECTORY = r"(?a)(.+)-(\d{1,10})(?:\.([0-9a-f]{32})-(delete|future|stray))?"
_MARKED_DIRECTORY = r"(?a)(.+)\.([0-9a-f]{32})-(delete|stray)"
_BROKER_DIRECTORY = r"(?a)broker-(\d{1,10})"


class SegmentFile(NamedTuple):
    """A parsed file name such as 00000000000000000042.timeindex.swap."""

    base_offset: int
    kind: str
    """One of SEGMENT_KINDS, or PRODUCER_SNAPSHOT."""
    suffix: str = ""
    """DELETED, CLEANED, SWAP or nothing."""


class PartitionDirectory(NamedTuple):
    """A parsed directory name such as orders-0 or orders-0.1f…-delete."""

    topic_partition: TopicPartition | None
    """None if a long topic name was cut so far that the partition is lost (marked directories only)."""
    mark: str = ""
    """"delete", "future", "stray" or nothing."""
    unique: str = ""


@lru_cache(maxsize=64)  # the partitions of a start have files of the same names, which take no memory twice
def segment_file(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:020d}{kind}{suffix}"


def path_in(directory: str, name: str) -> str:
    """Return the path of a name in a directory that does not end with a separator. (`os.path.join` takes ten times as
    long, and a start needs several paths for each of thousands of partitions.)"""
    return f"{directory}{os.sep}{name}"


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    return path_in(directory, segment_file(base_offset, kind, suffix))


@lru_cache(maxsize=64)  # the partitions of a start have files of the same names
def parse_segment_file(name: str) -> SegmentFile | None:
    digits, end = name[:_OFFSET_DIGITS], _SEGMENT_FILE_ENDS.get(name[_OFFSET_DIGITS:])
    if end is None or not (digits.isascii() and digits.isdigit()):
        return None
    return SegmentFile(int(digits), *end)


def partition_directory(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def deleted_partition_directory(topic_partition: TopicPartition, unique: bytes) -> str:
    """Return the name of a log marked for deletion. `unique` is 16 random bytes: a topic may be deleted more than once.

    The topic is cut if the name would be longer than a file system allows, as in Kafka.
    """
    end = f"-{topic_partition.partition}.{unique.hex()}-delete"
    return topic_partition.topic[: _MAX_NAME - len(end)] + end


def parse_partition_directory(name: str) -> PartitionDirectory | None:
    match = re.fullmatch(_PARTITION_DIRECTORY, name)
    if match is not None and int(match[2]) <= 0x7FFFFFFF:
        return PartitionDirectory(TopicPartition(intern(match[1]), int(match[2])), match[4] or "", match[3] or "")
    match = re.fullmatch(_MARKED_DIRECTORY, name)
    return None if match is None else PartitionDirectory(None, match[3], match[2])


def is_harmless(name: str) -> bool:
    """Whether a directory that has this entry may count as empty: a hidden file, an entry that operating systems make
    in every volume, or a file that kmini or SQLite kept beside a `kmini.db` that is gone."""
    return name.startswith((".", DATABASE)) or name in _OF_OPERATING_SYSTEMS


def broker_directory(broker_id: int) -> str:
    return f"broker-{broker_id}"


def parse_broker_directory(name: str) -> int | None:
    match = re.fullmatch(_BROKER_DIRECTORY, name)
    return None if match is None else int(match[1])
