"""The parts of a cluster: brokers, and topics with the replicas of their partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from ...protocol.topics import TopicPartition
from ...storage.log_config import LogConfig
from ..settings.broker_config import BrokerConfig
from ..settings.dynamic_config import DynamicBrokerConfig

NO_LEADER = -1
"""The leader of a partition that has none."""


class PartitionState(NamedTuple):
    """The replicas and the leader of a partition."""

    replicas: tuple[int, ...]
    """Node ids; the first is the preferred leader."""
    isr: tuple[int, ...]
    """The replicas that are in sync, in the order in which they joined."""
    leader: int
    """NO_LEADER while there is none."""
    leader_epoch: int = 0
    """Raised by one with every election."""
    partition_epoch: int = 0
    """Raised by one with every change of leader, ISR or replicas."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """The `replicas` that are to come and to go, while the partition is being reassigned (KIP-455)."""

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)


class Topic(NamedTuple):
    """A topic as the cluster knows it. A change makes a new one."""

    name: str
    id: bytes
    partitions: tuple[PartitionState, ...]
    """By partition number."""
    configs: dict[str, str]
    """The topic's own settings, as they were given."""

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas)


class ReplicaHost(Protocol):
    """The replicas of one broker, as the controller's room uses them: `ReplicaManager`."""

    def partition_changed(self, topic: Topic, number: int) -> None:
        """The replicas, the ISR or the leader of a partition changed."""

    def broker_left(self, node_id: int) -> None:
        """Another broker is no longer live."""

    def host(self, topic_partition: TopicPartition, topic_id: bytes, config: LogConfig, state: PartitionState) -> None:
        """Hold a replica of a partition, with its folder created if it is missing. Raises InconsistentTopicId and
        KafkaStorageError."""

    def drop(self, topic_partition: TopicPartition) -> None:
        """Give up the replica of a partition and put its folder away. Raises KafkaStorageError."""

    def confirm_deletion(self, topic_ids: Collection[bytes]) -> None:
        """Tell the controller that the broker has no folder of these deleted topics any more."""

    def high_watermark(self, topic_partition: TopicPartition) -> int | None:
        """The high watermark of a partition that this broker leads; None for any other."""

    def update_topic_config(self, topic: Topic) -> None:
        """Put the settings of a topic in force."""


class BrokerHandle(Protocol):
    """A broker, as the controller's room and the other brokers use it."""

    @property
    def node_id(self) -> int: ...

    @property
    def config(self) -> DynamicBrokerConfig: ...

    @property
    def replica_manager(self) -> ReplicaHost: ...

    @property
    def is_cut_off(self) -> bool:
        """Whether the broker neither reaches the others nor is reached by them."""

    @property
    def address_for_brokers(self) -> tuple[str, int] | None:
        """Host and port where other brokers reach this one; None while it does not listen."""

    def connect(self, protocol: asyncio.Protocol) -> None:
        """Connect another broker of this process, without a socket. Raises ConnectionRefusedError."""

    def address_for(self, listener: str, host: str, *, is_mapped: bool) -> tuple[str, int] | None:
        """The address of this broker for a client that connected to the same listener of another broker, at `host`;
        None if this broker has no such listener."""

    def forget_topics(self, topic_ids: Mapping[str, bytes]) -> None:
        """Topics were deleted, given as ids by name: forget the committed offsets and transactions that name them."""

    def update_config(self, config: BrokerConfig) -> None:
        """Put other settings in force."""

    def update_quotas(self, entity: str) -> None:
        """Put the quotas in force that are stored for an entity, which is given by its key."""


class BrokerRegistration(NamedTuple):
    """A live broker."""

    node_id: int
    rack: str | None = None
    broker: BrokerHandle | None = None
    """The broker itself, in this process; None before it has started."""
