"""What a cluster consists of: brokers, and topics with the places of their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..broker import Broker

NO_LEADER = -1
"""In place of the leader of a partition that nobody leads."""


class PartitionState(NamedTuple):
    """Who holds a partition and who leads it."""

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
    """Those of `replicas` that are to come and to go, while the partition is being reassigned (KIP-455)."""

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


class BrokerRegistration(NamedTuple):
    """A live broker."""

    node_id: int
    rack: str | None = None
    host: Broker | None = None
    """Itself, in this process; None while it starts, when it looks for itself."""
