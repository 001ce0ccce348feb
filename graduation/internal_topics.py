"""What is in the internal topics: for the report, and to have read it once where Kafka will."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ..broker.coordinators.internal_records import LastValues, replayed
from ..broker.groups.loading import replay
from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from ..storage.background_work import Deletions
from ..storage.filenames import partition_directory
from ..storage.filesystem import FileSystem
from ..storage.log import LogEnvironment
from ..storage.log_config import LogConfig
from ..storage.recovery import load_log
from .source import Taken


class InternalState(NamedTuple):
    """What coordinators will find."""

    groups: int
    committed_offsets: int
    """Of all groups, one for each partition that a group has committed."""
    transactional_ids: int


def internal_state(filesystem: FileSystem, out: str, partitions: Iterable[Taken], now_ms: int) -> InternalState:
    """Read the logs of internal topics in the new directory. Holds what one partition of them holds."""
    environment = LogEnvironment(filesystem, [], Deletions(filesystem), lambda: now_ms)
    groups = offsets = transactional_ids = 0
    for taken in partitions:
        if taken.topic.name not in (CONSUMER_OFFSETS, TRANSACTION_STATE) or not taken.replica.log_end_offset:
            continue
        log = load_log(
            environment,
            os.path.join(out, partition_directory(taken.topic_partition)),
            taken.topic_partition,
            LogConfig(),
            is_clean=True,
            recovery_point=taken.replica.log_end_offset,
            log_start_offset=taken.replica.log_start_offset,
        )
        try:
            if taken.topic.name == CONSUMER_OFFSETS:
                loaded = replay(log)
                groups += len(loaded)
                offsets += sum(len(group.offsets) for group in loaded.values())
            else:
                latest = LastValues()
                deque(replayed(log, latest), maxlen=0)
                transactional_ids += len(latest.values)
        finally:
            log.segments.close()
    return InternalState(groups, offsets, transactional_ids)
