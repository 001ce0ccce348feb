"""The state in the internal topics: it is reported, and reading it proves that Kafka will be able to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ..broker.coordinators.internal_records import last_values
from ..broker.groups.group_loader import read_groups
from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ..storage.background_work import Deletions
from ..storage.filenames import partition_directory
from ..storage.filesystem import FileSystem
from ..storage.log_config import LogConfig
from ..storage.log_environment import LogEnvironment
from ..storage.recovery import load_log
from .source import SourcePartition


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
