"""One partition as this broker serves it: its log, its high watermark, and its in-sync replicas (ISR) as the leader
keeps them."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from ...protocol.errors import (
    FencedLeaderEpoch,
    KafkaError,
    NotEnoughReplicas,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from ...protocol.messages.delete_records import HIGH_WATERMARK
from ...protocol.topics import TopicPartition
from ...storage.append_info import AppendInfo
from ...storage.deletion import delete_records_below
from ...storage.log import PartitionLog
from ...storage.producers.producer_state_manager import Origin
from ..clock import Clock
from ..controller import elections
from ..controller.controller import Controller
from ..controller.peers import Peers
from ..scheduler import do_in_thread
from ..settings.dynamic_config import DynamicBrokerConfig
from .in_sync_replicas import Replica, Replicas

if TYPE_CHECKING:
    from ...storage.deletion import AfterCheckpoint
    from ...storage.validation import ValidatedRecords
    from ..controller.topology import PartitionState
    from ..metrics import Metrics

log = logging.getLogger("kmini.replication")

NO_EPOCH = -1
"""In place of the leader epoch of a client that does not know one."""


def check_leader_epoch(epoch: int, current: int) -> None:
    """Refuse `epoch` unless it is the current one, or NO_EPOCH. Raises FencedLeaderEpoch, UnknownLeaderEpoch."""
    if epoch in (NO_EPOCH, current):
        return
    if epoch < current:
        raise FencedLeaderEpoch(f"leader epoch {epoch} ended; it is {current} now")
    raise UnknownLeaderEpoch(f"leader epoch {epoch} has not begun; it is {current}")


def check_topic_id(partition_log: PartitionLog, topic_id: bytes) -> None:
    """Raise UnknownTopicId unless the log is of the topic with this id. All brokers of a process share the controller.
    So one that is cut off is asked by ids that it cannot know, and may have the log of an earlier topic of the name."""
    if partition_log.topic_id != topic_id:
        raise UnknownTopicId("this broker, which is cut off, has an earlier topic of that name")


class PartitionHost(Protocol):
    """The broker of a partition, as the partition uses it: `ReplicaManager`."""

    node_id: int
    config: DynamicBrokerConfig
    clock: Clock
    controller: Controller
    peers: Peers
    metrics: "Metrics"

    def offsets_changed(self, topic_partition: TopicPartition) -> None:
        """Complete the operations that wait for a change of the partition's offsets, and do what follows from it: this
        is `LogMaintenance.offsets_changed`, which the broker assigns to its `ReplicaManager`."""

    def check_is_led_here(self, partition: "Partition") -> None:
        """Raise NotLeaderOrFollower, or UnknownTopicOrPartition, unless the broker still leads `partition`."""


class Partition:
    """The leader's view of a partition: its log, its followers, and what all of them have.

    The high watermark rises to the smallest log end offset of the replicas in sync, and of the caught-up ones that are
    about to join them; while fewer are in sync than `min.insync.replicas`, it stays. The low watermark is the smallest
    log start offset of the live replicas. Of a partition with one replica both are the log's own.
    """

    def __init__(self, host: PartitionHost, log: PartitionLog, state: "PartitionState") -> None:
        """`state` names the broker `host` as the leader."""
        self.log = log
        self.topic_partition = log.topic_partition
        self.state = state
        """As the controller has it."""
        self.leader_epoch = state.leader_epoch
        self.is_served = True
        """Whether the broker still leads it, in this epoch. Set to False once, by what ends that (`ReplicaManager`)."""
        self.replicas = Replicas(self._followers(host, state), state.isr, host.clock.liveness_ms())
        self._host = host
        self._epoch_start_offset = 0
        self._unreplicated: deque[tuple[int, Callable[[], None]]] | None = None
        """Callbacks of `when_replicated`, with the offset that each waits for, in the order of the log. None before the
        first one: an empty deque takes 600 bytes, and most partitions never have a callback."""

    @staticmethod
    def _followers(host: PartitionHost, state: "PartitionState") -> list[int]:
        return [node_id for node_id in state.replicas if node_id != host.node_id]

    def become_leader(self) -> None:
        """Start this leader epoch at the log end, before any append; what is in the only replica is committed."""
        self.log.assign_leader_epoch(self.leader_epoch)
        self._epoch_start_offset = self.log.log_end_offset
        self._advance_high_watermark()

    def update(self, state: "PartitionState") -> None:
        """The controller has changed the replicas or the ISR; the leader and its epoch stay."""
        is_live = self._host.controller.is_live
        died = [node_id for node_id in self.state.isr if node_id not in state.isr and not is_live(node_id)]
        self.state = state
        self.replicas.assign(self._followers(self._host, state), died=died)
        self._advance_high_watermark()
        self._host.offsets_changed(self.topic_partition)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours; -1 means that it has none.

        Raises FencedLeaderEpoch, UnknownLeaderEpoch (KIP-320).
        """
        check_leader_epoch(epoch, self.leader_epoch)

    def check_min_isr(self) -> None:
        """Raise NotEnoughReplicas where acks=-1 could not be honoured: fewer replicas in sync than
        `min.insync.replicas`.

        The effective minimum is never more than there are replicas, so one broker always suffices for one replica.
        """
        if self.is_under_min_isr:
            wanted = min(self.log.config.min_insync_replicas, len(self.state.replicas))
            raise NotEnoughReplicas(f"{len(self.state.isr)} of {wanted} replicas are in sync")

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than `min.insync.replicas` wants, and than there are."""
        in_sync = len(self.state.isr)
        return in_sync < self.log.config.min_insync_replicas and in_sync < len(self.state.replicas)

    def append(self, validated: "ValidatedRecords", now_ms: int, origin: Origin = Origin.CLIENT) -> AppendInfo:
        """Append as the leader, move the high watermark, and complete the operations that wait for either. Raises
        KafkaError, and NotLeaderOrFollower where another broker has become the leader since this was looked up."""
        host, log, followers = self._host, self.log, self.replicas.by_id
        if not self.is_served:
            host.check_is_led_here(self)
        if followers:
            self.replicas.leader_moves_on(log.log_end_offset, host.clock.liveness_ms())
        appended = log.append_as_leader(validated, self.leader_epoch, now_ms, origin)
        if followers:
            self._advance_high_watermark()
        else:
            self._raise_high_watermark(log.log_end_offset)
        if host.clock.move is not None:
            host.clock.move.note_append(self.topic_partition)
        host.offsets_changed(self.topic_partition)
        return appended

    async def flush(self) -> None:
        """Put the log on the disk as far as it goes now, before any answer (flush.messages). Raises
        KafkaStorageError."""
        await do_in_thread(self.log.flush_work())

    def delete_records(self, offset: int, after_checkpoint: "AfterCheckpoint") -> int:
        """Delete the records below `offset` (-1: the high watermark), in the order of storage/deletion.py; return the
        offset meant.

        An offset at or below the log start offset changes nothing. Raises PolicyViolation on a topic that is only
        compacted, and OffsetOutOfRange for an offset above the high watermark or below -1 (KIP-107, step 3).
        """
        if self.log.config.is_compacted and not self.log.config.is_deletable:
            raise PolicyViolation("cleanup.policy is compact only: its records are deleted by key")
        target = self.log.high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= target <= self.log.high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is not between 0 and the high watermark {self.log.high_watermark}")
        if delete_records_below(self.log, target, after_checkpoint):
            self._host.offsets_changed(self.topic_partition)
        return target

    # --- followers

    def when_replicated(self, offset: int, callback: "Callable[[], None]") -> None:
        """Call `callback` once the high watermark is beyond `offset`, which may be at once; callbacks are called in the
        order of this method's calls. If the leader epoch ends before, `callback` is never called.

        It runs before requests that wait for the same offset are answered, and must be quick.
        """
        if self._unreplicated or self.log.high_watermark <= offset:
            if self._unreplicated is None:
                self._unreplicated = deque()
            self._unreplicated.append((offset, callback))
        else:
            callback()

    @property
    def has_caught_up(self) -> bool:
        """Whether the high watermark has reached what there was when this leader was elected."""
        return self.log.high_watermark >= self._epoch_start_offset

    @property
    def has_settled(self) -> bool:
        """Whether every replica in sync has all that this leader was elected with. Then no clean election can lose any
        of it. That is so once the high watermark covers it; where fewer replicas are in sync than
        `min.insync.replicas`, the high watermark stands still, and the replicas themselves tell."""
        if self.has_caught_up:
            return True
        in_sync = (replica for replica in self.replicas if replica.node_id in self.state.isr)
        return all(replica.log_end_offset >= self._epoch_start_offset for replica in in_sync)

    def _advance_high_watermark(self) -> bool:
        """Raise it to what every replica in sync has, and those that are about to join them. Frozen while fewer are in
        sync than `min.insync.replicas`: nothing may be shown that one more failure could take back."""
        end, followers = self.log.log_end_offset, self.replicas.by_id
        if followers:
            isr = self.state.isr
            if self.is_under_min_isr:
                return False
            for replica in followers.values():
                if replica.log_end_offset < end and (replica.node_id in isr or self._is_about_to_join(replica)):
                    end = replica.log_end_offset
        return self._raise_high_watermark(end)

    def _raise_high_watermark(self, offset: int) -> bool:
        has_moved = self.log.update_high_watermark(offset)
        while self._unreplicated and self._unreplicated[0][0] < self.log.high_watermark:
            self._unreplicated.popleft()[1]()
        return has_moved

    def _is_about_to_join(self, replica: Replica) -> bool:
        now_ms, max_lag_ms = self._host.clock.liveness_ms(), self._host.config.current.replica_lag_time_max_ms
        return self._host.controller.is_live(replica.node_id) and replica.is_caught_up(
            self.log.log_end_offset, now_ms, max_lag_ms
        )

    def follower_fetched(self, node_id: int, offset: int, log_start_offset: int) -> None:
        """A follower asks for what is from `offset` on, and tells where its log starts: it has what lies between."""
        replica = self.replicas.by_id.get(node_id)
        if replica is None:
            return
        started_at, ended_at = replica.log_start_offset, replica.log_end_offset
        replica.fetched(offset, log_start_offset, self.log.log_end_offset, self._host.clock.liveness_ms())
        log = self.log
        if (
            node_id not in self.state.isr
            and replica.may_join(log.high_watermark, self._epoch_start_offset, log.log_start_offset)
            and self._host.controller.is_live(node_id)
        ):
            self._alter_isr((*self.state.isr, node_id))
        has_moved = self._advance_high_watermark()
        if has_moved or log_start_offset != started_at or offset < ended_at:
            self._host.offsets_changed(self.topic_partition)

    def follower_left(self, node_id: int) -> None:
        """A follower is no longer live; the controller may or may not have changed the ISR."""
        self.replicas.forget(node_id)
        self._advance_high_watermark()
        self._host.offsets_changed(self.topic_partition)

    def shrink_isr(self) -> None:
        """Leave out the followers that have not kept up (replica.lag.time.max.ms)."""
        now_ms, max_lag_ms = self._host.clock.liveness_ms(), self._host.config.current.replica_lag_time_max_ms
        if lagging := self.replicas.lagging(self.state.isr, self.log.log_end_offset, now_ms, max_lag_ms):
            self._alter_isr(tuple(node_id for node_id in self.state.isr if node_id not in lagging))

    def next_shrink_ms(self) -> int | None:
        """When `shrink_isr` can have an effect, by the clock of liveness; None as long as nothing changes."""
        max_lag_ms = self._host.config.current.replica_lag_time_max_ms
        return self.replicas.next_lag_ms(self.state.isr, self.log.log_end_offset, max_lag_ms)

    def _alter_isr(self, isr: tuple[int, ...]) -> None:
        """Have the controller change the ISR; `update` follows before this returns."""
        if self._host.peers.is_cut_off:
            return
        grows, metrics = len(isr) > len(self.state.isr), self._host.metrics
        try:
            elections.alter_isr(self._host.controller, self.topic_partition, self.leader_epoch, isr)
        except KafkaError as error:  # the next fetch, or the next look, tries again
            metrics.failed_isr_updates += 1
            log.error("the replicas in sync of %s cannot be changed: %s", self.topic_partition, error.message)
        else:
            metrics.isr_expands += grows
            metrics.isr_shrinks += not grows

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset among the live replicas: below it the data is gone everywhere (KIP-107)."""
        return min(self.replica_log_start_offsets())

    def replica_log_start_offsets(self) -> Iterator[int]:
        """The log start offset of every replica that is live or may lead; -1 of one that has not told its own."""
        yield self.log.log_start_offset
        for replica in self.replicas:
            # A leader that is cut off does not learn of deaths, and must not take itself for the last replica. While
            # the cluster stops, none is live, and those in sync will be when it has started again.
            if (
                self._host.peers.is_cut_off
                or replica.node_id in self.state.isr
                or self._host.controller.is_live(replica.node_id)
            ):
                yield replica.log_start_offset
