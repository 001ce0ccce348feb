"""A broker: its parts, how they start and stop, and which partitions it leads. Owned by one event loop."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from functools import partial

from ..protocol.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from ..protocol.topics import TopicPartition
from ..storage import filenames
from ..storage.background import BackgroundWork
from ..storage.checkpoints import write_offsets
from ..storage.config import LogConfig
from ..storage.filesystem import FileSystem, OsFileSystem
from ..storage.manager import LogManager
from . import topics
from .background import Deferred, Periodic, SharedWrite, in_thread
from .cleaning import LogCleaner
from .clock import Clock
from .config import BrokerConfig
from .config_changes import stored_config
from .controller import Controller
from .event_loop import descriptors_for_files
from .fetch_sessions import FetchSessions
from .groups.coordinator import GroupCoordinator
from .groups.store import GroupStore
from .groups.transactions import TransactionalOffsets
from .long_work import LongWork
from .metrics import Metrics
from .partition import Partition
from .purgatory import Purgatory
from .releases import NEWEST, RELEASES, Feature
from .server import Server
from .transactions.coordinator import TransactionCoordinator

log = logging.getLogger("kmini.broker")

IDLE_FILE_MS = 60_000
"""A file that nobody read or wrote for so long, or twice so long, gives its descriptor back."""


class Broker:
    """One broker over `data_dir`: the controller's database, and the Kafka log directory `broker-<node id>` beside it.

    With `is_temporary` nobody will come back to `data_dir` after a loss of power, and the database is not synced.
    `cluster_id` names the cluster; without one a new cluster makes one up.
    `start` and everything after it belong to the running event loop; what blocks runs in threads, on input that does
    not change.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str,
        *,
        clock: Clock | None = None,
        filesystem: FileSystem | None = None,
        is_temporary: bool = False,
        cluster_id: str = "",
    ) -> None:
        self.config = config
        self.data_dir = data_dir
        self.release = RELEASES.get(config.kmini_as_version or "")
        """The release of Apache Kafka that this broker passes for; None for all that it can."""
        self.clock = clock or Clock()
        self.filesystem = filesystem or OsFileSystem(max_open_files=descriptors_for_files())
        self._is_temporary = is_temporary
        self._cluster_id = cluster_id
        self.log_dir = os.path.join(data_dir, f"broker-{config.node_id}")
        self.metrics = Metrics()
        self.purgatory = Purgatory(self.clock)
        self.fetch_sessions = FetchSessions(self, config.max_incremental_fetch_session_cache_slots, self.clock)
        self.long_work = LongWork()
        self.partitions: dict[TopicPartition, Partition] = {}
        """The partitions that this broker leads."""
        self.groups = GroupCoordinator(config, self.clock, GroupStore(self))
        self.transactional_offsets = TransactionalOffsets(self)
        self.transactions = TransactionCoordinator(self)
        self.controller: Controller
        self.logs: LogManager
        self.server: Server
        self.cleaner: LogCleaner
        self.log_start_checkpoint: SharedWrite
        self._periodic: list[Periodic | Deferred] = []
        self._high_watermarks: Deferred
        self._recovery_points: Deferred
        self._start_offsets: Deferred
        self._deletions: Deferred
        self._working: set[asyncio.Task[None]] = set()

    # --- life

    async def start(self, *, before_open: Callable[[], None] | None = None) -> None:
        """Recover what is on disk, then open the listeners: an open port means ready. Raises PortTaken, OSError.

        `before_open` is called when everything else is there: for topics that clients shall find.
        """
        began = time.perf_counter()
        os.makedirs(self.data_dir, exist_ok=True)
        self.controller = Controller.open(
            self.data_dir,
            node_id=self.config.node_id,
            rack=self.config.broker_rack,
            synced=not self._is_temporary,
            cluster_id=self._cluster_id,
        )
        try:
            self.config = stored_config(self.config, self.controller)
            self.logs = await in_thread(self._open_logs)
            self._schedule()
            self.cleaner = LogCleaner(self, self._changed)
            topics.reconcile(self)
            self.groups.load(self.groups.store.load())
            self.transactional_offsets.load()
            self.transactions.load()
            if before_open is not None:
                before_open()
            self.server = Server(self)
            await self.server.start()
            self.cleaner.ask()
        except BaseException:
            await self._abandon()
            raise
        log.info(
            "node %d started in %.0f ms: %s, %d partitions",
            self.config.node_id,
            (time.perf_counter() - began) * 1000,
            self.address,
            len(self.partitions),
        )

    def _open_logs(self) -> LogManager:
        return LogManager.open(
            self.filesystem,
            self.log_dir,
            node_id=self.config.node_id,
            cluster_id=self.controller.cluster_id,
            config_of=self._log_config,
            now_ms=self.clock.now_ms,
            recovery_threads=self.config.num_recovery_threads_per_data_dir,
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
        )

    def _log_config(self, topic: str) -> LogConfig:
        """The settings of a topic's logs; of one that the database does not know, the defaults."""
        return topics.log_config(self.controller.topic(topic), self.config.log_config)

    async def stop(self) -> None:
        """Answer what is being worked on, hang up, and leave the data directory as a clean shutdown does."""
        await self.server.stop()
        await self._close(clean=True)
        log.info("node %d stopped", self.config.node_id)

    async def _abandon(self) -> None:
        """Undo a start that failed half-way; nothing was served, so nothing needs to be flushed."""
        if hasattr(self, "logs"):
            await self._close(clean=False)
        else:
            self.controller.close()

    async def _close(self, *, clean: bool) -> None:
        for periodic in self._periodic:
            periodic.cancel()
        self._periodic.clear()
        await self.transactions.stop()
        await self.groups.stop()
        if hasattr(self, "cleaner"):
            await self.cleaner.stop()
        await self.clock.settle()
        self.partitions.clear()
        while self._working:
            await asyncio.wait(self._working)
        await in_thread(partial(self.logs.close, clean=clean))
        self.controller.close()

    @property
    def features(self) -> list[Feature]:
        """The cluster's features, each at the level that is in force."""
        levels = self.controller.feature_levels
        return [
            feature._replace(
                level=min(max(levels.get(feature.name, feature.level), feature.min_level), feature.max_level)
            )
            for feature in (self.release or NEWEST).features
        ]

    @property
    def address(self) -> str:
        """host:port of the first listener, as a client on this machine would say it."""
        return self.server.listeners[0].address

    # --- partitions

    def host(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, leader_epoch: int) -> None:
        """Lead a partition: open its log, creating it if need be. Raises KafkaStorageError."""
        partition_log = self.logs.get(topic_partition) or self.logs.create(topic_partition, topic_id, config)
        partition = Partition(partition_log, leader_epoch, self._changed)
        partition.become_leader()
        self.partitions[topic_partition] = partition
        self.purgatory.check(topic_partition.topic)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop leading a partition and put its folder away for deletion; whoever waits for it is answered."""
        self.partitions.pop(topic_partition, None)
        if self.logs.get(topic_partition) is not None:
            self.logs.delete(topic_partition)
            self._ask_for_deletion()
        self.purgatory.check(topic_partition)

    def leader_of(self, topic_partition: TopicPartition) -> Partition:
        """The partition, if this broker leads it. Raises UnknownTopicOrPartition or NotLeaderOrFollower."""
        partition = self.partitions.get(topic_partition)
        if partition is None:
            self.check_partition_exists(topic_partition)
            raise NotLeaderOrFollower(f"{topic_partition} is not led by node {self.config.node_id}")
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

    def is_led_here(self, partition: Partition) -> bool:
        """Whether `partition`, found earlier, is still the one this broker leads."""
        return self.partitions.get(partition.topic_partition) is partition

    def check_is_led_here(self, partition: Partition) -> None:
        """Raise NotLeaderOrFollower, or UnknownTopicOrPartition, if it is not led here any more."""
        if not self.is_led_here(partition):
            self.check_partition_exists(partition.topic_partition)
            raise NotLeaderOrFollower(f"{partition.topic_partition} moved while the request was worked on")

    def _changed(self, topic_partition: TopicPartition) -> None:
        """A partition's offsets moved: wake who waits for that, and see to what its log left to be done elsewhere."""
        self.purgatory.check(topic_partition)
        if not self._high_watermarks.is_asked_for:
            self._ask_for_checkpoints()
        if self.logs.environment.background:
            for work in self.logs.take_background_work():
                task = asyncio.ensure_future(self._do(work))
                self._working.add(task)
                task.add_done_callback(self._working.discard)
        if self.logs.environment.deletions:
            self._ask_for_deletion()

    def _ask_for_checkpoints(self) -> None:
        config = self.config
        self._high_watermarks.ask(config.replica_high_watermark_checkpoint_interval_ms)
        self._recovery_points.ask(config.log_flush_offset_checkpoint_interval_ms)
        self._start_offsets.ask(config.log_flush_start_offset_checkpoint_interval_ms)
        self.cleaner.ask()

    def _ask_for_deletion(self) -> None:
        due_ms = self.logs.next_deletion_ms
        if due_ms is not None:
            self._deletions.ask(max(due_ms - self.clock.now_ms(), 0))

    async def _do(self, work: BackgroundWork) -> None:
        await in_thread(work.run)
        try:
            work.finish()
        except KafkaStorageError as error:
            log.error("%s", error)

    # --- what happens without being asked

    def _schedule(self) -> None:
        config = self.config
        self.log_start_checkpoint = SharedWrite(self.logs.log_start_offsets, self.logs.write_log_start_offsets)
        every = partial(Periodic, self.clock, delay_ms=config.log_initial_task_delay_ms)
        later = partial(Deferred, self.clock)
        self._high_watermarks = later("the high watermark checkpoint", self._write_high_watermarks)
        self._recovery_points = later("the recovery point checkpoint", self._write_recovery_points)
        self._start_offsets = later("the log start offset checkpoint", self.log_start_checkpoint.written)
        self._deletions = later("the deletion of files", self._delete_files)
        self._periodic = [
            self._high_watermarks,
            self._recovery_points,
            self._start_offsets,
            self._deletions,
            every("retention", self.apply_retention, interval_ms=config.log_retention_check_interval_ms),
            every(
                "expiry of producer ids",
                self._expire_producers,
                interval_ms=config.producer_id_expiration_check_interval_ms,
            ),
            Periodic(
                self.clock,
                "expiry of offsets",
                self.groups.expire_offsets,
                interval_ms=config.offsets_retention_check_interval_ms,
            ),
            Periodic(
                self.clock,
                "abort of transactions that take too long",
                self.transactions.abort_timed_out,
                interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                liveness=True,
            ),
            Periodic(
                self.clock,
                "expiry of transactional ids",
                self.transactions.expire_ids,
                interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
            Periodic(
                self.clock, "closing of idle files", self._close_idle_files, interval_ms=IDLE_FILE_MS, liveness=True
            ),
        ]
        self._ask_for_deletion()

    async def apply_retention(self) -> None:
        """Delete the segments that are too old, too many, or below the log start offset."""
        for partition in list(self.partitions.values()):
            if not self.cleaner.may_touch(partition.topic_partition):
                continue  # a pass reads its segments; the next round will do
            try:
                deleted = partition.log.apply_retention(self.clock.now_ms())
            except KafkaStorageError as error:
                log.error("retention: %s", error)
                continue
            if deleted:
                self._changed(partition.topic_partition)
                await asyncio.sleep(0)

    async def _write_recovery_points(self) -> None:
        await self._write_checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, self.logs.recovery_points)

    async def _write_high_watermarks(self) -> None:
        await self._write_checkpoint(filenames.HIGH_WATERMARK_CHECKPOINT, self.logs.high_watermarks)

    async def _write_checkpoint(self, name: str, snapshot: Callable[[], dict[TopicPartition, int]]) -> None:
        await in_thread(write_offsets, self.filesystem, os.path.join(self.log_dir, name), snapshot())

    async def _expire_producers(self) -> None:
        for partition in list(self.partitions.values()):
            partition.log.producers.expire(self.clock.now_ms())

    async def _delete_files(self) -> None:
        await in_thread(self.logs.delete_due_files, self.clock.now_ms())
        self._ask_for_deletion()

    async def _close_idle_files(self) -> None:
        """Whatever nobody read or wrote for a while costs no descriptor."""
        self.filesystem.close_idle()
