"""One partition as this broker serves it: its log, and what being its leader means."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..protocol.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from ..protocol.topics import TopicPartition
from ..storage.log import AppendInfo, PartitionLog
from ..storage.producer_state import Origin
from .background import in_thread

if TYPE_CHECKING:
    from ..storage.validation import ValidatedRecords

NO_EPOCH = -1
"""In place of the leader epoch of a client that does not know one."""

HIGH_WATERMARK = -1
"""The offset that stands for the high watermark in a DeleteRecords request."""


class Partition:
    """The leader's view of a partition.

    With one broker the log is its only replica, so the high watermark is the log end offset after every append and the
    low watermark is the log start offset; the rules are written for any number of replicas, and replication adds to
    `replica_log_start_offsets`.
    """

    def __init__(self, log: PartitionLog, leader_epoch: int, on_change: Callable[[TopicPartition], None]) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.topic_partition = log.topic_partition
        self.replica_count = 1
        self.in_sync_count = 1
        self._on_change = on_change

    def become_leader(self) -> None:
        """Start this leader epoch at the log end, before any append; everything in the only replica is committed."""
        self.log.assign_leader_epoch(self.leader_epoch)
        self.log.update_high_watermark(self.log.log_end_offset)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours; -1 means that it has none.

        Raises FencedLeaderEpoch, UnknownLeaderEpoch (KIP-320).
        """
        if epoch in (NO_EPOCH, self.leader_epoch):
            return
        if epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"leader epoch {epoch} ended; it is {self.leader_epoch} now")
        raise UnknownLeaderEpoch(f"leader epoch {epoch} has not begun; it is {self.leader_epoch}")

    def check_min_isr(self) -> None:
        """Raise NotEnoughReplicas where acks=-1 could not be honoured: fewer replicas in sync than
        `min.insync.replicas`.

        The effective minimum is never more than there are replicas, so one broker always suffices for one replica.
        """
        needed = min(self.log.config.min_insync_replicas, self.replica_count)
        if self.in_sync_count < needed:
            raise NotEnoughReplicas(f"{self.in_sync_count} of {needed} replicas are in sync")

    def append(self, validated: "ValidatedRecords", now_ms: int, origin: Origin = Origin.CLIENT) -> AppendInfo:
        """Append as the leader, move the high watermark, and wake whoever waits for either. Raises KafkaError."""
        appended = self.log.append_as_leader(validated, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        self.log.update_high_watermark(self.log.log_end_offset)
        self._on_change(self.topic_partition)
        return appended

    async def flush(self) -> None:
        """Put the log on the disk as far as it goes now, before anyone is told (flush.messages). Raises
        KafkaStorageError."""
        work = self.log.flush_work()
        await in_thread(work.run)
        work.finish()

    def delete_records(self, offset: int) -> int:
        """Raise the log start offset to `offset` (-1: the high watermark) and drop the segments below it; return the
        offset meant.

        An offset at or below the log start offset changes nothing. Raises PolicyViolation on a topic that is only
        compacted, and OffsetOutOfRange for an offset above the high watermark or below -1 (KIP-107, step 3).
        """
        if self.log.config.is_compacted and not self.log.config.is_deletable:
            raise PolicyViolation("cleanup.policy is compact only: its records are deleted by key")
        target = self.log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= self.log.high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is not between 0 and the high watermark {self.log.high_watermark}")
        if self.log.raise_log_start_offset(target):
            self.log.delete_segments_below_log_start()
            self._on_change(self.topic_partition)
        return target

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset among the live replicas: below it the data is gone everywhere."""
        return min(self.replica_log_start_offsets())

    def replica_log_start_offsets(self) -> Iterator[int]:
        """The log start offset of every live replica, in the ISR or not."""
        yield self.log.log_start_offset
