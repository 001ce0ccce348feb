"""Damage that a loss of power leaves in the files of a broker: a batch that is half written, indexes that are gone.

Crash tests in memory lose every byte that was not synced (`storage/filesystem/memory_nodes.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from kmini.storage.filenames import LOG, OFFSET_INDEX, TIME_INDEX, parse_partition_directory, parse_segment_file
from kmini.storage.log_file import read_headers
from kmini.storage.log_manager import LogManager


class CrashDamage(NamedTuple):
    """The topics whose files a crash damages."""

    torn: str | None = None
    """The topic whose last batch is half written, in every partition that has one."""
    unindexed: str | None = None
    """The topic whose index files are gone."""

    def apply(self, logs: LogManager) -> None:
        """Damage the files of a broker that runs no more. Raises OSError."""
        filesystem = logs.filesystem
        if self.torn is not None:
            for directory, names in _directories(logs, self.torn):
                last = max(name for name in names if name.endswith(LOG))
                with closing(filesystem.open(os.path.join(directory, last))) as log:
                    batches = list(read_headers(log))
                    if batches:
                        position, header = batches[-1]
                        log.truncate(position + header.size // 2)
        if self.unindexed is not None:
            for directory, names in _directories(logs, self.unindexed):
                for name in names:
                    if name.endswith((OFFSET_INDEX, TIME_INDEX)):
                        filesystem.remove(os.path.join(directory, name))


def _directories(logs: LogManager, topic: str) -> Iterator[tuple[str, list[str]]]:
    """The directories of a topic's partitions, each with the names of its segments' files."""
    for name in logs.filesystem.list(logs.directory):
        parsed = parse_partition_directory(name)
        if parsed is None or parsed.mark or parsed.topic_partition is None or parsed.topic_partition.topic != topic:
            continue
        directory = os.path.join(logs.directory, name)
        files = [file for file in logs.filesystem.list(directory) if parse_segment_file(file) is not None]
        yield directory, files
