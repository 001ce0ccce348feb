"""Truncation of a follower's log that does not continue its leader's (KIP-101, KIP-595).

| the leader's answer to a fetch                    | the follower's log                                               |
|---------------------------------------------------|------------------------------------------------------------------|
| a diverging epoch                                 | ends where the last epoch in common ends in both logs            |
| OFFSET_OUT_OF_RANGE, the leader's log ends before | ends where the leader's does                                     |
| OFFSET_OUT_OF_RANGE, the leader's starts after    | is emptied, and starts where the leader's does                   |
| a batch within which the follower's log ends      | is emptied, and starts with the batch (KIP-107)                  |
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from ...client.errors import check
from ...protocol.errors import OffsetOutOfRange
from ...protocol.messages.list_offsets import EARLIEST, LATEST
from ...protocol.records.batch import iter_batches

if TYPE_CHECKING:
    from ...protocol.messages.fetch import FetchResponse
    from ...storage.log import PartitionLog

log = logging.getLogger("kmini.replication")


class Truncate(Protocol):
    """Truncates the log to an offset; `fully` empties it, and it starts there. Raises KafkaStorageError."""

    def __call__(self, offset: int, *, fully: bool = False) -> Awaitable[None]: ...


async def truncate_to_leader(
    partition_log: PartitionLog,
    answer: FetchResponse.Topic.Partition,
    truncate: Truncate,
    leader_offset: Callable[[int], Awaitable[int]],
) -> None:
    """Make the log one that continues its leader's. `leader_offset` asks the leader where its log begins (EARLIEST) or
    ends (LATEST). Raises KafkaError."""
    if answer.error_code == OffsetOutOfRange.code:
        await _truncate_to_range(partition_log, truncate, leader_offset)
        return
    check(answer.error_code)
    assert answer.diverging_epoch is not None
    offset = end_of_common_epoch(partition_log, answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset)
    log.info("%s is cut back from %d to %d", partition_log.topic_partition, partition_log.log_end_offset, offset)
    await truncate(offset)


def end_of_common_epoch(partition_log: PartitionLog, epoch: int, end_offset: int) -> int:
    """The offset to truncate to: `epoch` is the last that both logs may have in common, and ends at `end_offset` in the
    leader's."""
    own_epoch, own_end = partition_log.leader_epochs.end_offset_for(epoch, partition_log.log_end_offset)
    offset = min(end_offset, partition_log.log_end_offset)
    return min(offset, own_end) if own_epoch >= 0 else offset


async def _truncate_to_range(
    partition_log: PartitionLog, truncate: Truncate, leader_offset: Callable[[int], Awaitable[int]]
) -> None:
    latest, earliest = await leader_offset(LATEST), await leader_offset(EARLIEST)
    if latest < partition_log.log_end_offset:
        await truncate(latest)
    elif earliest > partition_log.log_end_offset:
        log.info("%s starts anew at %d", partition_log.topic_partition, earliest)
        await truncate(earliest, fully=True)


def begin_with_batch(partition_log: PartitionLog, answer: FetchResponse.Topic.Partition) -> None:
    """Empty a log that ends within the first batch of an answer; it takes the batch as a whole (KIP-107).

    Does so if the log is empty, because it began anew where the leader's log starts; or if it has only records that the
    leader has deleted: it may have diverged from the leader's unnoticed.
    """
    end = partition_log.log_end_offset
    if answer.log_start_offset < end != partition_log.log_start_offset:
        return
    _, first = next(iter_batches(answer.records or b""), (0, None))
    if first is not None and first.base_offset < end < first.next_offset:
        partition_log.truncate_fully_and_start_at(first.base_offset)
