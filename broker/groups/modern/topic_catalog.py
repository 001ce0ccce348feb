"""The topics of the cluster, as consumer groups see them, and the hash by which they notice a change (KIP-1101)."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

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


# --- the hash of topics


_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")
_HALVES = struct.Struct(">qq")
_START = b"\0"


def topic_hash(topic_id: bytes, name: str, racks: Sequence[Sequence[str]]) -> int:
    """The hash of a topic, an int64, with the racks of the replicas of each partition: XXH3 over all of them."""
    halves = _HALVES.unpack(topic_id)
    parts = [_START, *map(_INT64.pack, halves), _text(name), _INT32.pack(len(racks))]
    for number, of_replicas in enumerate(racks):
        parts.append(_INT32.pack(number))
        parts += map(_sized_text, sorted(of_replicas))
    return _xxh3(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash of a group, an int64, from those of its topics by name; 0 without topics."""
    if not hashes:
        return 0
    return _xxh3(b"".join(_INT64.pack(hashes[name]) for name in sorted(hashes)))


def _text(text: str) -> bytes:
    """UTF-16 units, then their number."""
    units = text.encode("utf-16-le")
    return units + _INT32.pack(len(units) // 2)


def _sized_text(text: str) -> bytes:
    """The number of UTF-16 units, then what `_text` gives."""
    units = _text(text)
    return units[-_INT32.size :] + units


def _xxh3(data: bytes) -> int:
    from xxhash import xxh3_64_intdigest  # most brokers have no such group

    digest = xxh3_64_intdigest(data)
    return digest - (1 << 64) if digest >= 1 << 63 else digest
