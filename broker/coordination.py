"""The coordinators of a broker: of groups, of transactions, and of the states of share groups.

A broker coordinates the groups, transactions and states that are stored in the partitions of the internal topics that
it leads. The coordinators load a partition when the broker becomes its leader, and unload it when the broker no longer
is. Each is imported and made when the first request or partition needs it: a broker starts sooner without.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ..protocol.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, TopicPartition
from .controller import topics
from .controller.topology import Topic
from .coordinators.loader import Loading
from .replication.partition import Partition
from .replication.replica_manager import ReplicaManager
from .scheduler import PausedTasks, Periodic

if TYPE_CHECKING:
    from .coordinators.coordinator_topic import CoordinatorTopic
    from .groups.group_coordinator import GroupCoordinator
    from .groups.transactional_offsets import TransactionalOffsets
    from .settings.group_config import GroupConfigs
    from .share_fetch.share_partition_manager import SharePartitionManager
    from .share_fetch.share_sessions import ShareSessions
    from .share_state.persister import Persister, SharePeer
    from .share_state.share_coordinator import ShareCoordinator
    from .transactions.markers import MarkerWriter
    from .transactions.transaction_coordinator import TransactionCoordinator, TransactionPeer

    class Peer(TransactionPeer, SharePeer, Protocol):
        """A broker of the cluster, as the coordinators use it."""


COORDINATED = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
"""The topics of the coordinators, in the order in which they are loaded: the end of a transaction changes groups."""

TRANSACTIONS = ("transactions", "")
"""The key of the purgatory that is checked when a transaction has changed."""


def key_of_group(group_id: str) -> tuple[str, str]:
    """The key of the purgatory that is checked when the state of a group, or its committed offsets, have changed."""
    return ("group", group_id)


class Coordination:
    """The coordinators, loaded and unloaded as leadership moves. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        peer: Callable[[int], Peer | None],
        transaction_version: Callable[[], int],
        paused_tasks: PausedTasks,
    ) -> None:
        """`peer` gives a broker of the cluster by node id, `transaction_version` the level of that feature. Periodic
        tasks of the coordinators join the `paused_tasks` while they can have no effect."""
        self._replica_manager = replica_manager
        self._peer = peer
        self._transaction_version = transaction_version
        self._group_config = replica_manager.config.current
        self._every = partial(Periodic, replica_manager.clock, paused_tasks=paused_tasks)
        self._tasks: list[Periodic] = []
        self._group_configs: GroupConfigs | None = None
        self._groups: GroupCoordinator | None = None
        self._transactional_offsets: TransactionalOffsets | None = None
        self._transactions: TransactionCoordinator | None = None
        self._marker_writer: MarkerWriter | None = None
        self._share_coordinator: ShareCoordinator | None = None
        self._share_state_topic: CoordinatorTopic | None = None
        self._persister: Persister | None = None
        self._share_partitions: SharePartitionManager | None = None
        self._share_sessions: ShareSessions | None = None
        self.loading = Loading()
        self._is_active = False
        replica_manager.add_listener(self)

    # --- the coordinators

    @property
    def group_configs(self) -> GroupConfigs:
        """The settings in force for each group."""
        if self._group_configs is None:
            from .settings.group_config import GroupConfigs

            manager = self._replica_manager
            self._group_configs = GroupConfigs(manager.config, manager.controller.group_configs)
        return self._group_configs

    @property
    def groups(self) -> GroupCoordinator:
        """The coordinator of groups."""
        if self._groups is None:
            from .groups.group_coordinator import GroupCoordinator
            from .groups.group_store import GroupStore

            store = GroupStore(self._replica_manager, self._create_topic)
            manager = self._replica_manager
            self._groups = GroupCoordinator(
                self._group_config,
                manager.clock,
                store,
                manager.controller,
                self.group_configs.of,
                self._group_changed,
                lambda: self.persister,
            )
            self._run_group_tasks(self._groups)
        return self._groups

    @property
    def transactional_offsets(self) -> TransactionalOffsets:
        """Offsets that open transactions commit."""
        if self._transactional_offsets is None:
            from .groups.transactional_offsets import TransactionalOffsets

            self._transactional_offsets = TransactionalOffsets(self.groups)
        return self._transactional_offsets

    @property
    def transactions(self) -> TransactionCoordinator:
        """The coordinator of transactions."""
        if self._transactions is None:
            from .transactions.transaction_coordinator import TransactionCoordinator
            from .transactions.transaction_store import TransactionStore

            manager = self._replica_manager
            store = TransactionStore(manager, self._create_topic, self._transaction_version)
            self._transactions = TransactionCoordinator(
                manager.config,
                manager.clock,
                manager.controller,
                store,
                self.groups.store.partition_of,
                self._peer,
                partial(manager.purgatory.check, TRANSACTIONS),
            )
            self._run_transaction_tasks(self._transactions)
        return self._transactions

    @property
    def marker_writer(self) -> MarkerWriter:
        """Ends transactions in the partitions that this broker leads."""
        if self._marker_writer is None:
            from .transactions.markers import MarkerWriter

            topic = self.groups.store.topic
            self._marker_writer = MarkerWriter(self._replica_manager, topic, self.transactional_offsets)
        return self._marker_writer

    @property
    def share_state_topic(self) -> CoordinatorTopic:
        """The topic of the states of share partitions."""
        if self._share_state_topic is None:
            from .coordinators.coordinator_topic import CoordinatorTopic

            self._share_state_topic = CoordinatorTopic(SHARE_GROUP_STATE, self._replica_manager, self._create_topic)
        return self._share_state_topic

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The coordinator of the states of share partitions."""
        if self._share_coordinator is None:
            from .share_state.share_coordinator import ShareCoordinator

            manager = self._replica_manager
            self._share_coordinator = ShareCoordinator(
                manager.config, manager.clock, manager.controller, self.share_state_topic
            )
            self._tasks.append(
                self._every(
                    "deletion of old states of share groups",
                    self._share_coordinator.prune,
                    interval_ms=manager.config.current.share_coordinator_state_topic_prune_interval_ms,
                    next_effect_ms=self._share_coordinator.next_prune_ms,
                )
            )
        return self._share_coordinator

    @property
    def persister(self) -> Persister:
        """How this broker reaches the states of share partitions, whichever broker coordinates them."""
        if self._persister is None:
            from .share_state.persister import Persister

            self._persister = Persister(self.share_state_topic, self._replica_manager.clock, self._peer)
        return self._persister

    @property
    def share_partitions(self) -> SharePartitionManager:
        """The share partitions that this broker leads."""
        if self._share_partitions is None:
            from .share_fetch.share_partition_manager import SharePartitionManager

            self._share_partitions = SharePartitionManager(self._replica_manager, self.persister, self.group_configs.of)
        return self._share_partitions

    @property
    def share_sessions(self) -> ShareSessions:
        """The share sessions of this broker."""
        if self._share_sessions is None:
            from .share_fetch.share_sessions import ShareSessions

            self._share_sessions = ShareSessions(self.share_partitions)
        return self._share_sessions

    def _group_changed(self, group_id: str) -> None:
        self._replica_manager.purgatory.check(key_of_group(group_id))

    def _create_topic(self, name: str) -> Topic:
        return topics.create_missing(self._replica_manager, name)

    def _run_group_tasks(self, groups: GroupCoordinator) -> None:
        config = self._replica_manager.config.current
        self._tasks.append(
            self._every(
                "expiry of offsets",
                groups.expire_offsets,
                interval_ms=config.offsets_retention_check_interval_ms,
                next_effect_ms=groups.next_expiry_ms,
            )
        )

    def _run_transaction_tasks(self, transactions: TransactionCoordinator) -> None:
        config = self._replica_manager.config.current
        self._tasks += [
            self._every(
                "abort of transactions that take too long",
                transactions.time_outs.abort_timed_out,
                interval_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
                liveness=True,
                next_effect_ms=transactions.time_outs.next_time_out_ms,
            ),
            self._every(
                "expiry of transactional ids",
                transactions.time_outs.expire_ids,
                interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
                next_effect_ms=transactions.time_outs.next_id_expiry_ms,
            ),
        ]

    # --- leadership

    def start(self) -> None:
        """Load every partition that the broker leads; from now on each that it comes to lead."""
        self._is_active = True
        partitions = self._replica_manager.partitions
        for name in COORDINATED:
            for partition in [one for one in partitions.values() if one.topic_partition.topic == name]:
                self.became_leader(partition)

    def resign(self) -> None:
        """Coordinate nothing any more, until `start`."""
        self._is_active = False
        if self._groups is not None:
            self.loading.submit(self._groups.unload())
        if self._transactions is not None:
            self._transactions.unload()
        if self._share_coordinator is not None:
            self._share_coordinator.unload()

    def became_leader(self, partition: Partition) -> None:
        topic = partition.topic_partition.topic
        if not self._is_active or topic not in COORDINATED:
            return
        self.resigned(partition.topic_partition)  # the broker may have led it in an epoch before
        if topic == CONSUMER_OFFSETS:
            self.loading.submit(self.groups.load(partition, self.transactional_offsets.group_loaded))
        elif topic == TRANSACTION_STATE:
            self.loading.submit(self.transactions.load(partition))
        else:
            self.loading.submit(self.share_coordinator.load(partition))

    def resigned(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        if topic == CONSUMER_OFFSETS and self._groups is not None:
            self.loading.submit(self._groups.unload(number))
            self.transactional_offsets.unload(number)
        elif topic == TRANSACTION_STATE and self._transactions is not None:
            self._transactions.unload(number)
        elif topic == SHARE_GROUP_STATE and self._share_coordinator is not None:
            self._share_coordinator.unload(number)

    def forget_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Topics were deleted, given as ids by name: forget the committed offsets and transactions that name them."""
        if self._groups is not None:
            self._groups.forget_topics(topic_ids)
        if self._transactions is not None:
            self._transactions.forget_topics(topic_ids)
        if self._share_coordinator is not None:
            self._share_coordinator.forget_topics(topic_ids.values())

    async def stop(self) -> None:
        """Let no group and no transaction change any more."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        if self._persister is not None:
            self._persister.close()
        if self._share_partitions is not None:
            await self._share_partitions.stop()
        if self._transactions is not None:
            await self._transactions.stop()
        if self._groups is not None:
            await self._groups.stop()
        if self._share_coordinator is not None:
            await self._share_coordinator.stop()
        await self.loading.idle()
