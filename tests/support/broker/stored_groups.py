"""What is stored of groups in the partitions that a broker leads, read as a new coordinator does."""

from __future__ import annotations

from collections import deque

from kmini.broker.groups.group_loader import LoadedGroup
from kmini.broker.groups.group_store import GroupStore
from kmini.protocol.topics import CONSUMER_OFFSETS, TopicPartition


def stored_groups(store: GroupStore) -> dict[str, LoadedGroup]:
    """All of them, by id."""
    groups: dict[str, LoadedGroup] = {}
    for number in range(store.topic.partition_count):
        partition = store._replica_manager.partitions.get(TopicPartition(CONSUMER_OFFSETS, number))
        if partition is not None:
            deque(store.load(partition, groups.__setitem__), maxlen=0)
    return groups
