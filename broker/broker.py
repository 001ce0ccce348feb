"""A broker: its parts, how they start and stop, and which partitions it leads. Owned by one event loop."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from functools import partial

from ..protocol.errors import KafkaStorageError, NotLeaderOrFollower, UnknownTopicId, UnknownTopicOrPartition
from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition, is_internal
from ..storage import filenames, retention
from ..storage.background_work import BackgroundWork
from ..storage.filesystem import FileSystem, OsFileSystem
from ..storage.log import PartitionLog
from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from ..storage.offset_checkpoint_file import write_offsets
from .api.releases import NEWEST, RELEASES, Feature
from .clock import Clock
from .controller import elections, topics
from .controller.controller import BrokerRegistration, Controller, PartitionState, Topic
from .coordinators.loader import Loading
from .groups.group_coordinator import GroupCoordinator
from .groups.group_store import GroupStore
from .groups.transactional_offsets import TransactionalOffsets
from .handlers import HANDLERS
from .log_cleaner import LogCleaner
from .long_work import LongWork
from .metrics import Metrics
from .network.event_loop import descriptors_for_files
from .network.socket_server import Server
from .purgatory import Purgatory
from .replication.fetch_sessions import FetchSessions
from .replication.fetcher_manager import Replication
from .replication.partition import Partition
from .scheduler import Deferred, Naps, Periodic, SharedWrite, in_thread
from .security.inter_broker import inter_broker_listener
from .settings.broker_config import BrokerConfig
from .settings.config_changes import stored_config
from .transactions.transaction_coordinator import TransactionCoordinator

log = logging.getLogger("kmini.broker")

IDLE_FILE_MS = 60_000
"""A file that nobody read or wrote for so long, or twice so long, gives its descriptor back."""


class Broker:
    """One broker over `data_dir`: the controller's database, and the Kafka log directory `broker-<node id>` beside it.

    With `is_temporary` the data need not survive a loss of power, so neither logs nor database are synced.
    `cluster_id` names the cluster; without one a new cluster makes one up. A broker of several shares their
    `controller`; one by itself opens its own.
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
        controller: Controller | None = None,
    ) -> None:
        self.config = config
        self.data_dir = data_dir
        self.release = RELEASES.get(config.kmini_as_version or "")
        """The release of Apache Kafka that this broker passes for; None for all that it can."""
        self.clock = clock or Clock()
        self.filesystem = filesystem or OsFileSystem(max_open_files=descriptors_for_files(), synced=not is_temporary)
        self._cluster_id = cluster_id
        self.log_dir = os.path.join(data_dir, filenames.broker_directory(config.node_id))
        self.metrics = Metrics()
        self.purgatory = Purgatory(self.clock)
        self.fetch_sessions = FetchSessions(self, config.max_incremental_fetch_session_cache_slots, self.clock)
        self.long_work = LongWork()
        self.loading = Loading()
        self.partitions: dict[TopicPartition, Partition] = {}
        """The partitions that this broker leads."""
        self.replication = Replication(self)
        self.groups = GroupCoordinator(config, self.clock, GroupStore(self))
        self.transactional_offsets = TransactionalOffsets(self)
        self.transactions = TransactionCoordinator(self)
        self._shared_controller = controller
        self._is_member = self._comes_back = False
        self._coordinates = False
        """Whether what the internal topics held at the start has been loaded."""
        self.is_cut_off = False
        """Whether it neither reaches the other brokers nor is reached by them, nor hears of changes; clients do reach
        it. For tests of partitioned networks."""
        self.controller: Controller
        self.logs: LogManager
        self.server: Server
        self.cleaner: LogCleaner
        self.log_start_checkpoint: SharedWrite
        self._periodic: list[Periodic | Deferred] = []
        self._naps = Naps()
        self._high_watermarks: Deferred
        self._recovery_points: Deferred
        self._start_offsets: Deferred
        self._deletions: Deferred
        self._working: set[asyncio.Task[None]] = set()

    # --- life

    async def start(self, *, before_open: Callable[[], None] | None = None) -> None:
        """Recover what is on disk, then open the listeners: an open port means ready. Raises PortTaken, OSError,
        and ControllerError for a directory that is not kmini's.

        `before_open` is called when everything else is there: for topics that clients shall find.
        """
        began = time.perf_counter()
        self.controller = self._shared_controller or self._open_controller()
        try:
            self.config = stored_config(self.config, self.controller)
            await self._recover()
            self._schedule()
            self.cleaner = LogCleaner(self, self.changed)
            self.server = Server(self, HANDLERS)
            comes_back = self._shared_controller is not None and not self.controller.is_live(self.config.node_id)
            if comes_back:
                await self.server.start()
            self._join()
            await self.loading.idle()
            if before_open is not None:
                before_open()
            if not comes_back:
                await self.server.start()
            self.replication.start()
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

    def _join(self) -> None:
        """Be a part of the cluster from now on, with all that this broker leads and follows."""
        topics.reconcile(self)
        self._is_member = True
        self._register()
        self._coordinates = True
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):  # what transactions do to groups finds these loaded
            for topic_partition in [one for one in self.partitions if one.topic == name]:
                self._coordinate(topic_partition)

    def come_back(self) -> None:
        """Count as live from now on, see to every partition, and lead what nobody could lead without this broker."""
        self._comes_back = True
        self.replication.doubt()
        self._register()
        self.catch_up()
        self._comes_back = False

    def _register(self) -> None:
        registration = BrokerRegistration(self.config.node_id, self.config.broker_rack, self)
        elections.join(self.controller, registration, self.is_unclean_election_allowed)

    def catch_up(self) -> None:
        """See to every partition again: what has changed was not heard of."""
        for topic in list(self.controller.topics.values()):
            for number in range(len(topic.partitions)):
                self.partition_changed(topic, number)

    def resign(self) -> None:
        """Lead nothing any more, since others do: whoever waits here is told to look for them."""
        self._is_member = self._coordinates = False
        led = list(self.partitions)
        self.partitions.clear()
        for topic_partition in led:
            self.purgatory.check(topic_partition)
        self.loading.ask(self.groups.unload())
        self.transactions.unload()

    def _open_controller(self) -> Controller:
        controller = Controller.open(
            self.data_dir,
            node_ids=[self.config.node_id],
            cluster_id=self._cluster_id,
            filesystem=self.filesystem,
        )
        try:
            controller.begin_leader_epochs(controller.node_ids)
        except BaseException:
            controller.close()
            raise
        return controller

    async def _recover(self) -> None:
        """Open the logs. Whoever is cancelled meanwhile has them all the same, to be closed: nobody stops a thread."""
        opening = asyncio.ensure_future(in_thread(self._open_logs))
        try:
            await asyncio.wait([opening])
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                self.logs = opening.result()
            raise
        self.logs = opening.result()

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

    async def kill(self) -> None:
        """End as `kill -9` ends a process: connections break, and what the disk has is what there is."""
        await self.server.kill()
        await self._close(clean=False)
        log.info("node %d was killed", self.config.node_id)

    async def _abandon(self) -> None:
        """Undo a start that failed half-way; nothing was served, so nothing needs to be flushed."""
        if hasattr(self, "server"):
            await self.server.kill()
        if hasattr(self, "logs"):
            await self._close(clean=False)
        else:
            self._let_go_of_controller()

    async def _close(self, *, clean: bool) -> None:
        for periodic in self._periodic:
            periodic.cancel()
        self._periodic.clear()
        await self.replication.stop()
        await self.transactions.stop()
        await self.groups.stop()
        await self.loading.idle()
        if hasattr(self, "cleaner"):
            await self.cleaner.stop()
        await self.clock.settle()
        self.partitions.clear()
        while self._working:
            await asyncio.wait(self._working)
        await in_thread(partial(self.logs.close, clean=clean))
        self._let_go_of_controller()

    def _let_go_of_controller(self) -> None:
        if self._shared_controller is None:
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

    def host(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, state: PartitionState) -> None:
        """Hold a replica of a partition, whoever leads it: open its log, creating it if need be. Raises
        KafkaStorageError."""
        partition_log = self.logs.get(topic_partition)
        if partition_log is None:
            partition_log = self.logs.create(topic_partition, topic_id, config)
        self._serve(partition_log, state)
        self._naps.end()  # it may hold what expires
        self.purgatory.check(topic_partition.topic)

    def partition_changed(self, topic: Topic, number: int) -> None:
        """The replicas, the ISR or the leader of a partition are others now."""
        if not self._is_member or self.is_cut_off:
            return
        topic_partition, state = TopicPartition(topic.name, number), topic.partitions[number]
        partition_log = self.logs.get(topic_partition)
        if self.config.node_id not in state.replicas:
            if partition_log is not None:
                self.drop(topic_partition)
        elif partition_log is not None:
            self._serve(partition_log, state)
        else:
            try:
                self.host(topic_partition, topic.id, topics.log_config(topic, self.config.log_config), state)
            except KafkaStorageError as error:
                log.error("%s cannot be held: %s", topic_partition, error)

    def broker_left(self, node_id: int) -> None:
        """Wait for this broker no longer: it is live no more."""
        if self.is_cut_off:
            return
        for partition in list(self.partitions.values()):
            if partition.replicas.get(node_id) is not None:
                partition.follower_left(node_id)

    def _serve(self, partition_log: PartitionLog, state: PartitionState) -> None:
        """Lead or follow, as the controller says."""
        topic_partition = partition_log.topic_partition
        led = self.partitions.get(topic_partition)
        if state.leader != self.config.node_id:
            if self.partitions.pop(topic_partition, None) is not None:
                self._stop_coordinating(topic_partition)
            knows_log_start = led is not None and not self._comes_back
            self.replication.follow(partition_log, state.leader, state.leader_epoch, knows_log_start=knows_log_start)
        elif led is not None and led.leader_epoch == state.leader_epoch:
            led.update(state)
        else:
            self.replication.unfollow(topic_partition)
            partition = self.partitions[topic_partition] = Partition(self, partition_log, state)
            partition.become_leader()
            self._coordinate(topic_partition)
        self.purgatory.check(topic_partition)

    def _coordinate(self, topic_partition: TopicPartition) -> None:
        """A partition is led here from now on; if groups or transactions are kept in it, coordinate them."""
        topic, _ = topic_partition
        if is_internal(topic) and self._coordinates:
            self._stop_coordinating(topic_partition)  # it may have been led here in an epoch before
            partition = self.partitions[topic_partition]
            if topic == CONSUMER_OFFSETS:
                self.loading.ask(self.groups.load(partition, self.transactional_offsets.taken))
            elif topic == TRANSACTION_STATE:
                self.loading.ask(self.transactions.load(partition))

    def _stop_coordinating(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        if topic == CONSUMER_OFFSETS:
            self.loading.ask(self.groups.unload(number))
            self.transactional_offsets.unload(number)
        elif topic == TRANSACTION_STATE:
            self.transactions.unload(number)

    def drop(self, topic_partition: TopicPartition) -> None:
        """Stop leading a partition and put its folder away for deletion; requests that wait for it are answered."""
        if self.partitions.pop(topic_partition, None) is not None:
            self._stop_coordinating(topic_partition)
        self.replication.unfollow(topic_partition)
        if self.logs.get(topic_partition) is not None:
            self.cleaner.abort(topic_partition)
            self.logs.delete(topic_partition)
            self._ask_for_deletion()
        else:
            self.logs.remove_half_made(topic_partition)
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

    def peer(self, node_id: int) -> "Broker | None":
        """The broker of this number, if it is live and can be reached from here; that may be this one."""
        if node_id == self.config.node_id:
            return self
        registered = self.controller.broker(node_id)
        host = registered.host if registered is not None else None
        return None if host is None or host.is_cut_off or self.is_cut_off else host

    def is_unclean_election_allowed(self, topic: Topic) -> bool:
        """unclean.leader.election.enable, as it is in force for a topic."""
        return topics.log_config(topic, self.config.log_config).unclean_leader_election_enable

    @property
    def address_for_brokers(self) -> tuple[str, int] | None:
        """Where other brokers reach this one; None while it does not listen."""
        ours = self.server.listener(inter_broker_listener(self.config)) if hasattr(self, "server") else None
        return None if ours is None else (ours.host, ours.port)

    def address_for(self, listener: str, host: str) -> tuple[str, int] | None:
        """Where a client reaches this one that came to another one's listener of this name, at `host`; None if we have
        none such."""
        ours = self.server.listener(listener) if hasattr(self, "server") else None
        if ours is None:
            return None
        return ours.advertised or (host, ours.port)

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

    def changed(self, topic_partition: TopicPartition) -> None:
        """A partition's offsets moved: wake who waits for that, and see to what its log left to be done elsewhere."""
        self.purgatory.check(topic_partition)
        if self._naps:
            self._naps.end()
        if not self._high_watermarks.is_asked_for:
            self._ask_for_checkpoints()
        if not self.cleaner.will_look:
            self.cleaner.ask()
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
            every(
                "retention",
                self.apply_retention,
                interval_ms=config.log_retention_check_interval_ms,
                next_effect_ms=self._next_retention_ms,
                naps=self._naps,
            ),
            every(
                "expiry of producer ids",
                self._expire_producers,
                interval_ms=config.producer_id_expiration_check_interval_ms,
                next_effect_ms=self._next_producer_expiry_ms,
                naps=self._naps,
            ),
            Periodic(
                self.clock,
                "expiry of offsets",
                self.groups.expire_offsets,
                interval_ms=config.offsets_retention_check_interval_ms,
                next_effect_ms=self.groups.next_expiry_ms,
                naps=self._naps,
            ),
            Periodic(
                self.clock,
                "abort of transactions that take too long",
                self.transactions.abort_timed_out,
                interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                liveness=True,
                next_effect_ms=self.transactions.next_time_out_ms,
                naps=self._naps,
            ),
            Periodic(
                self.clock,
                "expiry of transactional ids",
                self.transactions.expire_ids,
                interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
                next_effect_ms=self.transactions.next_id_expiry_ms,
                naps=self._naps,
            ),
            Periodic(
                self.clock,
                "shrinking of the replicas in sync",
                self._shrink_isrs,
                interval_ms=max(config.replica_lag_time_max_ms // 2, 1),
                liveness=True,
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
                deleted = self.retain(partition)
            except KafkaStorageError as error:
                log.error("retention: %s", error)
                continue
            if deleted:
                await asyncio.sleep(0)

    def _next_retention_ms(self) -> int | None:
        times = (retention.next_retention_ms(partition.log) for partition in self.partitions.values())
        return min((time for time in times if time is not None), default=None)

    def settings_changed(self) -> None:
        """Whatever is done from time to time may have an effect sooner than it seemed."""
        self._naps.end()
        self.cleaner.ask()

    def retain(self, partition: Partition) -> bool:
        """Delete the segments of one partition whose time is over; says whether there were any. KafkaStorageError."""
        deleted = retention.apply_retention(partition.log, self.clock.now_ms())
        if deleted:
            self.changed(partition.topic_partition)
        return deleted > 0

    def roll(self, partition: Partition) -> None:
        """Seal the active segment of a partition, if it holds anything. KafkaStorageError."""
        partition.log.roll(self.clock.now_ms())
        self.changed(partition.topic_partition)

    async def _shrink_isrs(self) -> None:
        for partition in list(self.partitions.values()):
            if partition.replicas:
                partition.shrink_isr()

    async def _write_recovery_points(self) -> None:
        await self._write_checkpoint(filenames.RECOVERY_POINT_CHECKPOINT, self.logs.recovery_points)

    async def _write_high_watermarks(self) -> None:
        await self._write_checkpoint(filenames.HIGH_WATERMARK_CHECKPOINT, self.logs.high_watermarks)

    async def _write_checkpoint(self, name: str, snapshot: Callable[[], dict[TopicPartition, int]]) -> None:
        await in_thread(write_offsets, self.filesystem, os.path.join(self.log_dir, name), snapshot())

    async def _expire_producers(self) -> None:
        for partition_log in list(self.logs.logs.values()):
            partition_log.producers.expire(self.clock.now_ms())

    def _next_producer_expiry_ms(self) -> int | None:
        times = (partition_log.producers.next_expiry_ms() for partition_log in self.logs.logs.values())
        return min((time for time in times if time is not None), default=None)

    async def _delete_files(self) -> None:
        await in_thread(self.logs.delete_due_files, self.clock.now_ms())
        self._ask_for_deletion()

    async def _close_idle_files(self) -> None:
        """Whatever nobody read or wrote for a while costs no descriptor."""
        self.filesystem.close_idle()
