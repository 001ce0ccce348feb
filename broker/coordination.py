"""The coordinators of a broker: of groups, and of transactions.

A broker coordinates the groups and transactions that are stored in the partitions of the internal topics that it leads.
The coordinators load a partition when the broker becomes its leader, and unload it when the broker no longer is.
"""

from __future__ import annotations

from collections.abc import Callable

from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from .controller import topics
from .controller.topology import Topic
from .coordinators.loader import Loading
from .groups.group_coordinator import GroupCoordinator
from .groups.group_store import GroupStore
from .groups.transactional_offsets import TransactionalOffsets
from .replication.partition import Partition
from .replication.replica_manager import ReplicaManager
from .transactions.markers import MarkerWriter
from .transactions.transaction_coordinator import TransactionCoordinator, TransactionPeer
from .transactions.transaction_store import TransactionStore


class Coordination:
    """The coordinators, loaded and unloaded as leadership moves. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        peer: Callable[[int], TransactionPeer | None],
        transaction_version: Callable[[], int],
    ) -> None:
        """`peer` gives a broker of the cluster by node id, `transaction_version` the level of that feature."""
        self._replica_manager = replica_manager
        config, clock = replica_manager.config, replica_manager.clock
        group_store = GroupStore(replica_manager, self._create_topic)
        self.groups = GroupCoordinator(config.current, clock, group_store)
        self.transactional_offsets = TransactionalOffsets(self.groups, clock)
        self.marker_writer = MarkerWriter(replica_manager, group_store.topic, self.transactional_offsets)
        transaction_store = TransactionStore(replica_manager, self._create_topic, transaction_version)
        self.transactions = TransactionCoordinator(
            config, clock, replica_manager.controller, transaction_store, group_store.partition_of, peer
        )
        self.loading = Loading()
        self._is_active = False
        replica_manager.add_listener(self)

    def _create_topic(self, name: str) -> Topic:
        return topics.create_missing(self._replica_manager, name)

    def start(self) -> None:
        """Load every partition that the broker leads; from now on each that it comes to lead.

        Groups come first: the end of a transaction changes them.
        """
        self._is_active = True
        partitions = self._replica_manager.partitions
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            for partition in [one for one in partitions.values() if one.topic_partition.topic == name]:
                self.became_leader(partition)

    def resign(self) -> None:
        """Coordinate nothing any more, until `start`."""
        self._is_active = False
        self.loading.submit(self.groups.unload())
        self.transactions.unload()

    def became_leader(self, partition: Partition) -> None:
        topic = partition.topic_partition.topic
        if not self._is_active or topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            return
        self.resigned(partition.topic_partition)  # the broker may have led it in an epoch before
        if topic == CONSUMER_OFFSETS:
            self.loading.submit(self.groups.load(partition, self.transactional_offsets.group_loaded))
        else:
            self.loading.submit(self.transactions.load(partition))

    def resigned(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        if topic == CONSUMER_OFFSETS:
            self.loading.submit(self.groups.unload(number))
            self.transactional_offsets.unload(number)
        elif topic == TRANSACTION_STATE:
            self.transactions.unload(number)

    async def stop(self) -> None:
        """Let no group and no transaction change any more."""
        await self.transactions.stop()
        await self.groups.stop()
        await self.loading.idle()
