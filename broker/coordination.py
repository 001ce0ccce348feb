"""Which groups and transactions a broker coordinates: those kept in the partitions of the internal topics that it
leads.

The coordinators load a partition when the broker becomes its leader, and unload it when the broker no longer is.
"""

from __future__ import annotations

from ..protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE, TopicPartition
from .coordinators.loader import Loading
from .groups.group_coordinator import GroupCoordinator
from .groups.transactional_offsets import TransactionalOffsets
from .replication.partition import Partition
from .replication.replica_manager import ReplicaManager
from .transactions.transaction_coordinator import TransactionCoordinator


class Coordination:
    """Loads and unloads coordinators as leadership moves. Belongs to the broker's loop."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        loading: Loading,
        groups: GroupCoordinator,
        transactional_offsets: TransactionalOffsets,
        transactions: TransactionCoordinator,
    ) -> None:
        self._replica_manager = replica_manager
        self._loading = loading
        self._groups = groups
        self._transactional_offsets = transactional_offsets
        self._transactions = transactions
        self._is_active = False
        replica_manager.add_listener(self)

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
        self._loading.ask(self._groups.unload())
        self._transactions.unload()

    def became_leader(self, partition: Partition) -> None:
        topic = partition.topic_partition.topic
        if not self._is_active or topic not in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            return
        self.resigned(partition.topic_partition)  # the broker may have led it in an epoch before
        if topic == CONSUMER_OFFSETS:
            self._loading.ask(self._groups.load(partition, self._transactional_offsets.taken))
        else:
            self._loading.ask(self._transactions.load(partition))

    def resigned(self, topic_partition: TopicPartition) -> None:
        topic, number = topic_partition
        if topic == CONSUMER_OFFSETS:
            self._loading.ask(self._groups.unload(number))
            self._transactional_offsets.unload(number)
        elif topic == TRANSACTION_STATE:
            self._transactions.unload(number)

    async def stop(self) -> None:
        """Let no group and no transaction change any more."""
        await self._transactions.stop()
        await self._groups.stop()
        await self._loading.idle()
