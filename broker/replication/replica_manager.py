"""The replicas of one broker: which partitions it leads and which it follows, as the controller says.

A partition of which the broker has a replica has its log here. The broker serves it as the leader (`partition.py`), or
fetches from the leader (`fetcher_manager.py`). A change of leadership is told to the listeners: the coordinators load
and unload the groups and transactions that a partition holds. `resign` tells no listener, because the broker that stops
unloads its coordinators itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterator
from typing import Protocol

from ...protocol.errors import (
    InconsistentTopicId,
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID, format_uuid
from ...storage import retention
from ...storage.log import PartitionLog
from ...storage.log_config import LogConfig
from ...storage.log_manager import LogManager
from ..clock import Clock
from ..controller.controller import Controller
from ..controller.peers import Peers
from ..controller.topics import log_config
from ..controller.topology import PartitionState, Topic
from ..log_cleaner import LogCleaner
from ..log_maintenance import LogMaintenance
from ..metrics import Metrics
from ..purgatory import Purgatory
from ..settings.dynamic_config import DynamicBrokerConfig
from .fetcher_manager import FetcherManager, FollowedPartition
from .partition import Partition

log = logging.getLogger("kmini.broker")


class LeadershipListener(Protocol):
    """Learns which partitions the broker leads."""

    def became_leader(self, partition: Partition) -> None:
        """The broker leads the partition from now on, in a new leader epoch."""

    def resigned(self, topic_partition: TopicPartition) -> None:
        """The broker no longer leads the partition."""


class ReplicaManager:
    """The partitions of which one broker has a replica. Belongs to the broker's loop."""

    def __init__(
        self,
        node_id: int,
        config: DynamicBrokerConfig,
        clock: Clock,
        controller: Controller,
        peers: Peers,
        logs: LogManager,
        maintenance: LogMaintenance,
        cleaner: LogCleaner,
        purgatory: Purgatory,
        metrics: Metrics,
    ) -> None:
        self.node_id = node_id
        self.config = config
        self.clock = clock
        self.controller = controller
        self.peers = peers
        self.logs = logs
        self.purgatory = purgatory
        self.metrics = metrics
        self.fetcher_manager = FetcherManager(config, clock, controller, peers, cleaner, maintenance, metrics)
        self.partitions: dict[TopicPartition, Partition] = {}
        """The partitions that this broker leads. One that leaves the table is no longer `Partition.is_served`."""
        self.tells_high_watermarks = False
        """Whether followers are told of a new high watermark at once, and not with their next records, because a test
        waits for it."""
        self.offsets_changed = maintenance.offsets_changed
        """To be called when the offsets of a partition changed: completes waiting operations and schedules
        checkpoints, flushes and file deletions (`LogMaintenance.offsets_changed`)."""
        self._maintenance = maintenance
        self._cleaner = cleaner
        self._listeners: list[LeadershipListener] = []
        self._is_member = self._is_rejoining = False

    def add_listener(self, listener: LeadershipListener) -> None:
        """Tell `listener` of every change of leadership from now on, except by `resign`."""
        self._listeners.append(listener)

    # --- membership

    def join(self) -> None:
        """Follow the controller's changes from now on."""
        self._is_member = True

    @contextlib.contextmanager
    def rejoining(self) -> Iterator[None]:
        """The broker becomes live again. Inside this context it takes into account that topics may have been deleted
        without its knowledge, and DeleteRecords may have deleted records of partitions that it led before."""
        self.drop_deleted()
        self._is_rejoining = True
        self.fetcher_manager.forget_log_starts()
        try:
            yield
        finally:
            self._is_rejoining = False

    def catch_up(self) -> None:
        """Bring every partition to the controller's state: changes may have been missed."""
        for topic in list(self.controller.topics.values()):
            for number in range(len(topic.partitions)):
                self.partition_changed(topic, number)

    def drop_deleted(self) -> set[TopicPartition]:
        """Give up what is left of deleted topics, of whose names there may be others by now. Returns the partitions
        whose folders could not be put away."""
        deleted = self.controller.deleted_topics(self.node_id)
        gone, kept = set(deleted), set()
        for topic_partition, partition_log in list(self.logs.logs.items()):
            if partition_log.topic_id != ZERO_UUID:
                of = {partition_log.topic_id} & deleted.keys()
            else:  # it was lost with the power, before the first flush; until now nothing else had this name here
                of = {topic_id for topic_id, name in deleted.items() if name == topic_partition.topic}
            if of:
                try:
                    self.drop(topic_partition)
                except KafkaError as error:  # the next start tries again
                    log.error("the folder of the deleted %s cannot be put away: %s", topic_partition, error)
                    gone -= of
                    kept.add(topic_partition)
        self.confirm_deletion(gone)
        return kept

    def resign(self) -> None:
        """Lead no partition any more; operations that wait for one fail with NOT_LEADER_OR_FOLLOWER. The listeners are
        not told."""
        self._is_member = False
        led = list(self.partitions)
        self.lead_nothing()
        for topic_partition in led:
            self.purgatory.check(topic_partition)

    def lead_nothing(self) -> None:
        """Lead no partition any more, and tell neither the listeners nor what waits."""
        for partition in self.partitions.values():
            partition.is_served = False
        self.partitions.clear()

    def partition_changed(self, topic: Topic, number: int) -> None:
        """The replicas, the ISR or the leader of a partition changed."""
        if not self._is_member or self.peers.is_cut_off:
            return
        topic_partition, state = TopicPartition(topic.name, number), topic.partitions[number]
        partition_log = self.logs.get(topic_partition)
        if self.node_id not in state.replicas:
            if partition_log is not None:
                self.drop(topic_partition)
        elif partition_log is not None and partition_log.topic_id == topic.id:
            self._serve(partition_log, state)
        else:
            try:
                self.host(topic_partition, topic.id, log_config(topic, self.config.current.log_config), state)
            except KafkaError as error:
                log.error("%s cannot be held: %s", topic_partition, error)

    def broker_left(self, node_id: int) -> None:
        """A broker is no longer live: the partitions led here no longer wait for its replicas."""
        if self.peers.is_cut_off:
            return
        for partition in list(self.partitions.values()):
            if partition.replicas.get(node_id) is not None:
                partition.follower_left(node_id)

    # --- replicas

    def host(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, state: PartitionState) -> None:
        """Hold a replica of a partition, as its leader or as a follower: open its log, creating it if it is missing.
        Raises KafkaStorageError, and InconsistentTopicId for a folder of another topic of that name."""
        partition_log = self.logs.get(topic_partition)
        if partition_log is None:
            partition_log = self.logs.create(topic_partition, topic_id, config)
        elif partition_log.topic_id == ZERO_UUID:
            self.logs.assign_topic_id(topic_partition, topic_id)
        elif partition_log.topic_id != topic_id:
            other = format_uuid(partition_log.topic_id)
            raise InconsistentTopicId(f"its folder belongs to another topic of that name, {other}")
        self._serve(partition_log, state)
        self._maintenance.paused_tasks.resume()  # the log may hold expired records
        self.purgatory.check(topic_partition.topic)

    def _serve(self, partition_log: PartitionLog, state: PartitionState) -> None:
        """Lead or follow, as the controller says."""
        topic_partition = partition_log.topic_partition
        led = self.partitions.get(topic_partition)
        if state.leader != self.node_id:
            self._stop_leading(topic_partition)
            knows_log_start = led is not None and not self._is_rejoining
            self.fetcher_manager.follow(
                partition_log, state.leader, state.leader_epoch, knows_log_start=knows_log_start
            )
        elif led is not None and led.leader_epoch == state.leader_epoch:
            led.update(state)
        else:
            self.fetcher_manager.unfollow(topic_partition)
            if led is not None:
                led.is_served = False
            partition = self.partitions[topic_partition] = Partition(self, partition_log, state)
            partition.become_leader()
            self._maintenance.paused_tasks.resume()  # its followers may lag
            for listener in self._listeners:
                listener.became_leader(partition)
        self.purgatory.check(topic_partition)

    def _stop_leading(self, topic_partition: TopicPartition) -> None:
        led = self.partitions.pop(topic_partition, None)
        if led is not None:
            led.is_served = False
            for listener in self._listeners:
                listener.resigned(topic_partition)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Give up the replica of a partition and put its folder away for deletion; operations that wait for the
        partition are completed. Raises KafkaStorageError."""
        self._stop_leading(topic_partition)
        self.fetcher_manager.unfollow(topic_partition)
        if self.logs.get(topic_partition) is not None:
            self._cleaner.forget(topic_partition)
            self.logs.delete(topic_partition)
            self._maintenance.ask_for_deletion()
        else:
            self.logs.remove_half_made(topic_partition)
        self.purgatory.check(topic_partition)

    def confirm_deletion(self, topic_ids: Collection[bytes]) -> None:
        """Tell the controller that the broker has no folder of these deleted topics any more, once that is on the disk.
        If the disk fails, the next start tries again."""
        if topic_ids:
            try:
                self.logs.sync_names()
                self.controller.gone_from(self.node_id, topic_ids)
            except KafkaError as error:
                log.error("deleted topics are remembered until the next start: %s", error.message)

    # --- settings

    def update_topic_config(self, topic: Topic) -> None:
        """Give the logs of a topic its settings as they are now."""
        config = log_config(topic, self.config.current.log_config)
        for number in range(len(topic.partitions)):
            partition_log = self.logs.get(TopicPartition(topic.name, number))
            if partition_log is not None:
                partition_log.config = config
                if not config.is_compacted:
                    self._cleaner.abort(partition_log.topic_partition)
        self.settings_changed()

    def settings_changed(self) -> None:
        """The tasks that skip their runs, and the cleaner, may have something to do sooner than before."""
        self._maintenance.paused_tasks.resume()
        self._cleaner.ask()

    # --- partitions that are led here

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The high watermark of a partition that this broker leads; None for any other."""
        partition = self.partitions.get(topic_partition)
        return None if partition is None else partition.log.high_watermark

    def leader_of(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if this broker leads it. Raises UnknownTopicOrPartition or NotLeaderOrFollower."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            self.check_partition_exists(topic_partition)
            raise NotLeaderOrFollower(f"{topic_partition} is not led by node {self.node_id}")
        return partition

    def check_partition_exists(self, topic_partition: TopicPartition) -> None:
        """Raise UnknownTopicOrPartition unless the cluster has the partition, wherever it is led."""
        if topic_partition in self.partitions:
            return
        topic = self.controller.topic(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"there is no partition {topic_partition}")

    def topic_name(self, topic_id: bytes) -> str:
        """The name of the topic with this id. Raises UnknownTopicId."""
        topic = self.controller.topic_by_id(topic_id)
        if topic is None:
            raise UnknownTopicId("there is no topic of this id")
        return topic.name

    def check_is_led_here(self, partition: Partition) -> None:
        """Raise NotLeaderOrFollower, or UnknownTopicOrPartition, unless `partition`, looked up earlier, is still the
        one this broker leads."""
        if not partition.is_served:
            self.check_partition_exists(partition.topic_partition)
            raise NotLeaderOrFollower(f"{partition.topic_partition} moved while the request was worked on")

    def retain(self, partition: Partition) -> bool:
        """Delete the segments of one partition that retention deletes; return whether there were any. Raises
        KafkaStorageError."""
        deleted = retention.apply_retention(partition.log, self.clock.now_ms())
        if deleted:
            self.offsets_changed(partition.topic_partition)
        return deleted > 0

    def roll(self, replica: Partition | FollowedPartition) -> None:
        """Seal the active segment of a partition that is led or followed here, if it holds anything. Raises
        KafkaStorageError."""
        replica.log.roll(self.clock.now_ms())
        self.offsets_changed(replica.topic_partition)

    async def shrink_isrs(self) -> None:
        """Shrink the ISR of each partition by its lagging followers (replica.lag.time.max.ms)."""
        for partition in list(self.partitions.values()):
            if partition.replicas:
                partition.shrink_isr()

    def next_shrink_ms(self) -> int | None:
        """When `shrink_isrs` can have an effect, by the clock of liveness; None as long as nothing changes."""
        times = (partition.next_shrink_ms() for partition in self.partitions.values() if partition.replicas)
        return min((time for time in times if time is not None), default=None)
