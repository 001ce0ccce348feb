"""The topics of the cluster, as consumer groups see them, and the hash by which they notice a change (KIP-1101)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from .metadata_hash import group_hash, topic_hash

if TYPE_CHECKING:
    from ...controller.topology import BrokerRegistration, Topic


class Metadata(Protocol):
    """The controller, as this room uses it."""

    topic_changes: int
    """Raised with every change of a topic."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...

    def topic(self, name: str) -> Topic | None: ...

    def topic_by_id(self, topic_id: bytes) -> Topic | None: ...

    def broker(self, node_id: int) -> BrokerRegistration | None: ...


class Catalog:
    """The topics by name, and their hashes, which are kept."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._hashes: dict[bytes, tuple[tuple[tuple[str, ...], ...], int]] = {}
        """By topic id, the racks of the replicas of each partition, and the hash."""

    @property
    def version(self) -> int:
        """The version of the metadata: it changes with every change of a topic."""
        return self._metadata.topic_changes

    @property
    def names(self) -> Collection[str]:
        """The names of all topics."""
        return self._metadata.topics

    def id_of(self, name: str) -> bytes | None:
        """The id of a topic; None if there is no such topic."""
        topic = self._metadata.topic(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: bytes) -> str | None:
        """The name of a topic; None if there is no such topic."""
        topic = self._metadata.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, topic_id: bytes) -> int:
        """How many partitions a topic has; 0 if there is no such topic."""
        topic = self._metadata.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def ids(self, names: Iterable[str]) -> frozenset[bytes]:
        """The ids of those topics that exist."""
        return frozenset(topic_id for name in names if (topic_id := self.id_of(name)) is not None)

    def hash_of(self, names: Iterable[str]) -> int:
        """The hash of those topics that exist: their ids, names, partitions, and the racks of their replicas."""
        topics = (self._metadata.topic(name) for name in names)
        return group_hash({topic.name: self._hash(topic) for topic in topics if topic is not None})

    def _hash(self, topic: Topic) -> int:
        racks = tuple(tuple(self._racks(partition.replicas)) for partition in topic.partitions)
        known = self._hashes.get(topic.id)
        if known is None or known[0] != racks:
            if len(self._hashes) > 2 * len(self._metadata.topics):  # most are of topics that are gone
                self._hashes.clear()
            known = self._hashes[topic.id] = racks, topic_hash(topic.id, topic.name, racks)
        return known[1]

    def _racks(self, replicas: Iterable[int]) -> Iterable[str]:
        for node_id in replicas:
            broker = self._metadata.broker(node_id)
            if broker is not None and broker.rack is not None:
                yield broker.rack
